"""`cdc-assets replicate` says that it ends after its batch, and does; a second signal ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE
from cdc_assets_tests.pipeline import Pipeline
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, profiles.in_soak]

RECORDS = 600


class Command:
    """`cdc-assets replicate` in a process of its own, and what it prints."""

    def __init__(self, made: Pipeline, log: Path) -> None:
        self._log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cdc_assets.cli", "replicate", "--until-caught-up"],
                env={**os.environ, "CDC_ASSETS_CONFIG": str(made.config.path)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    @property
    def words(self) -> str:
        return self._log.read_text(errors="replace")

    def has_said(self, words: str) -> None:
        until(lambda: words in self.words, f"{words}; {self.words}", within_seconds=120)


def test_replicate_ends_after_its_batch_and_at_once_if_told_again(
    pipeline: Callable[..., Pipeline], tmp_path: Path
) -> None:
    made = pipeline(tables={TABLE: {"primary_key": ["id"]}}, batch={"max_records": 10})
    made.create_topic(TABLE)
    rows = [event("c", {"id": n, "name": "x"}, n + 10, commit=n + 9) for n in range(RECORDS)]
    made.produce(TABLE, rows)
    (entry,) = made.discovered().registry

    def committed() -> int:
        state = made.lake.state(entry.target)
        return state.published.offsets.as_dict().get(0, 0) if state and state.published else 0

    def publishes_after(at: int, command: Command) -> None:
        until(lambda: committed() > at, f"a batch; {command.words}", within_seconds=240)

    polite = Command(made, tmp_path / "polite")
    publishes_after(0, polite)
    polite.process.send_signal(signal.SIGTERM)
    polite.has_said("ends after the batch at work")
    assert polite.process.wait(60) not in {0, 130}
    assert "ended: what was published counts" in polite.words
    after = committed()
    assert 0 < after < RECORDS

    hasty = Command(made, tmp_path / "hasty")
    publishes_after(after, hasty)
    for _ in range(2):
        hasty.process.send_signal(signal.SIGINT)
        hasty.has_said("ends after the batch at work")
    assert hasty.process.wait(10) == 130
    assert "ended at once" in hasty.words

    assert made.merge(TABLE)
    assert len(made.by_key(TABLE)) == RECORDS
