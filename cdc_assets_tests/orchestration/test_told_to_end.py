"""A command that is told to end says how, and does: a process of its own, with real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_assets_tests.waiting import until

pytestmark = pytest.mark.slow

PROGRAM = """
import pathlib, sys, time
import dagster as dg
from cdc_assets.orchestration.side_by_side import materialize

folder = pathlib.Path(sys.argv[1])

@dg.asset
def batch() -> None:
    (folder / "begun").touch()
    while not (folder / "enough").exists():
        time.sleep(0.05)
    (folder / "published").touch()

with dg.DagsterInstance.ephemeral() as instance:
    materialize([batch], instance=instance, resources={})
"""


@pytest.fixture
def command(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (tmp_path / "log").open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path)],
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            env={**os.environ, "DAGSTER_HOME": ""},
        )  # fmt: skip
    try:
        until((tmp_path / "begun").exists, "the batch has begun", within_seconds=120)
        yield process
    finally:
        process.kill()
        process.wait()


def says(folder: Path, words: str) -> None:
    until(lambda: words in (folder / "log").read_text(), words, within_seconds=60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda each: each.name)
def test_it_ends_after_the_batch(
    tmp_path: Path, command: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    command.send_signal(number)
    says(tmp_path, "ends after the batch at work (batch)")
    assert command.poll() is None
    (tmp_path / "enough").touch()
    assert command.wait(60) not in {0, 130}
    says(tmp_path, "ended: what was published counts")
    assert (tmp_path / "published").exists()


def test_a_second_signal_ends_it_at_once(tmp_path: Path, command: subprocess.Popen[bytes]) -> None:
    for _ in range(2):
        command.send_signal(signal.SIGTERM)
        says(tmp_path, "ends after the batch at work (batch)")
    assert command.wait(10) == 130
    says(tmp_path, "ended at once")
    assert not (tmp_path / "published").exists()
