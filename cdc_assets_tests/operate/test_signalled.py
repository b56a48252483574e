"""Which signal is sent when, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.log.notices import Phase, TableSnapshot
from cdc_assets.log.signalling import Signal, SignalEnds
from cdc_assets.operations.maintain import no_session
from cdc_assets.operations.resnapshot import connector_snapshot
from cdc_assets.operations.resnapshot.connector_snapshot import (
    SnapshotAction,
    SnapshotChange,
    SnapshotStep,
    next_step,
    signals_for,
)
from cdc_assets.operations.resnapshot.notes import ResnapshotBook, SignalNote
from cdc_assets.operations.resnapshot.signal_resnapshot import SignalReport
from cdc_assets_tests.operated import session_of
from cdc_assets_tests.world import entry_of, write_config

pytestmark = pytest.mark.unit

ORDERS = TableName("shop", "public", "orders")
RUNNING = TableSnapshot("shop", "public.orders", Phase.RUNNING)
PAUSED = replace(RUNNING, phase=Phase.PAUSED)
BESIDE = replace(PAUSED, waiting=("public.items",))
NOTE = SignalNote(
    "one",
    datetime(2026, 3, 4, 12, tzinfo=UTC),
    "topic-id",
    OffsetVector.of({0: 5, 1: 7}),
    SignalEnds(3, OffsetVector.of({0: 9})),
)


@pytest.mark.parametrize(
    ("asked", "shown", "is_sent", "step"),
    [
        (None, Phase.UNKNOWN, False, SnapshotStep.SEND),
        (None, Phase.DONE, False, SnapshotStep.SEND),
        (None, Phase.RUNNING, False, SnapshotStep.FOLLOW),
        (None, Phase.PAUSED, False, SnapshotStep.FOLLOW),
        (Phase.UNKNOWN, Phase.UNKNOWN, False, SnapshotStep.SEND),
        (Phase.UNKNOWN, Phase.DONE, True, SnapshotStep.FOLLOW),
        (Phase.RUNNING, Phase.RUNNING, True, SnapshotStep.FOLLOW),
        (Phase.PAUSED, Phase.PAUSED, True, SnapshotStep.FOLLOW),
        (Phase.DONE, Phase.DONE, True, SnapshotStep.FINISH),
        (Phase.DONE, Phase.RUNNING, True, SnapshotStep.FINISH),
        (Phase.STOPPED, Phase.STOPPED, True, SnapshotStep.SEND),
        (Phase.FAILED, Phase.FAILED, True, SnapshotStep.SEND),
        (Phase.STOPPED, Phase.RUNNING, True, SnapshotStep.FOLLOW),
    ],
)
def test_what_is_under_way_is_joined_and_not_asked_for_again(
    asked: Phase | None, shown: Phase, is_sent: bool, step: SnapshotStep
) -> None:
    assert next_step(asked, shown, is_sent=is_sent) is step


@pytest.mark.parametrize(
    ("action", "snapshot", "types"),
    [
        (SnapshotAction.PAUSE, RUNNING, ["pause-snapshot"]),
        (SnapshotAction.PAUSE, PAUSED, []),
        (SnapshotAction.RESUME, PAUSED, ["resume-snapshot"]),
        (SnapshotAction.RESUME, RUNNING, []),
        (SnapshotAction.STOP, RUNNING, ["stop-snapshot", "resume-snapshot"]),
        (SnapshotAction.STOP, PAUSED, ["stop-snapshot", "resume-snapshot"]),
        (SnapshotAction.STOP, BESIDE, ["stop-snapshot", "resume-snapshot", "pause-snapshot"]),
        (SnapshotAction.STOP, replace(RUNNING, phase=Phase.DONE), []),
        (SnapshotAction.PAUSE, replace(RUNNING, phase=Phase.UNKNOWN), []),
    ],
)
def test_what_is_sent(action: SnapshotAction, snapshot: TableSnapshot, types: list[str]) -> None:
    signals = signals_for(action, snapshot, numbers())
    assert [each.type for each in signals] == types
    assert len({each.id for each in signals}) == len(signals)
    stopped = [each.collections for each in signals if each.type == "stop-snapshot"]
    assert stopped == ([("public.orders",)] if "stop-snapshot" in types else [])


class Answering:
    """A connector that answers each signal by these notices."""

    def __init__(self, *phases: Phase) -> None:
        self.phases = phases
        self.channel = SimpleNamespace(connector="shop")

    def send(self, signals: Sequence[Signal]) -> None:
        assert signals

    def notices(self, at: OffsetVector) -> tuple[list[Phase], OffsetVector]:
        return [*self.phases], at


@pytest.mark.parametrize("action", SnapshotAction)
@pytest.mark.parametrize("end", [Phase.DONE, Phase.FAILED, Phase.STOPPED])
def test_a_snapshot_that_ends_otherwise_is_not_said_to_be_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: SnapshotAction, end: Phase
) -> None:
    monkeypatch.setattr(TableSnapshot, "after", lambda was, phase: replace(was, phase=phase))
    monkeypatch.setattr(connector_snapshot, "_POLL_SECONDS", 0)
    config = write_config(tmp_path)
    session = session_of(config, entry_of("orders", config), no_session)
    snapshot = PAUSED if action is SnapshotAction.RESUME else RUNNING
    signals = signals_for(action, snapshot, numbers())
    answering: Any = Answering(end)
    change = SnapshotChange(session, action, answering, snapshot, OffsetVector(), signals)
    is_changed, words = change.carried_out()
    if action is SnapshotAction.STOP and end is Phase.STOPPED:
        assert (is_changed, words.startswith("stopped")) == (True, True)
    else:
        assert (is_changed, words) == (
            False,
            f"its snapshot had ended before the signal came: {end}",
        )


def numbers() -> Callable[[], str]:
    ids = count()
    return lambda: str(next(ids))


@pytest.mark.parametrize("root", ["", "memory://"])
def test_what_is_kept_of_a_signal_is_found_again_beside_what_is_kept_of_reading(
    tmp_path: Path, root: str
) -> None:
    book = ResnapshotBook.of_registry(f"{root}{tmp_path}/registry.json")
    assert book.load_signal(ORDERS) is None
    book.keep_signal(ORDERS, NOTE)
    assert book.load(ORDERS) is None
    assert ResnapshotBook(book.url).load_signal(ORDERS) == NOTE
    assert book.forget_signal(ORDERS)
    assert not book.forget_signal(ORDERS)


@pytest.mark.parametrize(
    ("report", "is_whole", "words"),
    [
        (SignalReport(ORDERS, 7, unshown=0), True, "each row of the lake was shown by it"),
        (SignalReport(ORDERS, 7, unshown=3, put=2, removed=2), True, "2 of them removed"),
        (SignalReport(ORDERS, 7, unshown=3, left=3, why="no database"), False, "3 of them are as"),
        (SignalReport(ORDERS, 7, why="another one"), False, "were not looked for: another one"),
    ],
    ids=["all shown", "removed", "left", "not looked for"],
)
def test_a_report_is_whole_only_if_each_row_is_what_the_source_has(
    report: SignalReport, is_whole: bool, words: str
) -> None:
    assert report.is_whole is is_whole
    assert report.to_dict()["whole"] is is_whole
    assert words in " ".join(report.words())
