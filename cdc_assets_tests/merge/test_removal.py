"""`drop` and `reset`: what the lake has of a table goes, however often that is interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from cdc_assets.changes.names import Shard
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.renamed import RenamedTable
from cdc_assets.desired import NOTHING, Removal
from cdc_assets.errors import CdcError
from cdc_assets.lake.side import side_name
from cdc_assets.operate.services import Services
from cdc_assets.operations.command import AnyOperation
from cdc_assets.operations.drop.operation import DROP, RESET, DropOptions, ResetOptions
from cdc_assets.operations.drop.removal import remains
from cdc_assets.operations.operation import Progress
from cdc_assets.operations.options import Options
from cdc_assets.operations.session import Host, TableSession
from cdc_assets.operations.steering import RESUME, ResumeOptions
from cdc_assets.registry import TableEntry
from cdc_assets_tests.faults import Death, Fault, How, faults
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE, Make, names, start
from cdc_assets_tests.operated import Steered, rebuild_of, steered
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack


def made(id_: int, name: str | None, lsn: int, op: str = "c") -> Message:
    return event(op, {"id": id_, "name": name}, lsn, commit=lsn - 1)


@dataclass
class Operator:
    """A person with a table that has rows, a remembered delete, a quarantine and a rebuild."""

    table: Pipeline

    def __post_init__(self) -> None:
        self.services = Services(self.table.config)
        self.entry = self.table.entry(TABLE)
        self.told: list[str] = []
        self.waited: list[Removal] = []

    def _wait(self, entry: TableEntry) -> Iterator[str]:
        desired = self.services.desired.of(entry.table)
        assert desired.held is not None, "nothing new is begun from here on"
        self.waited.append(desired.held.removal)
        yield from ()

    def _steered(
        self, operation: AnyOperation, options: Options, entry: TableEntry | None = None
    ) -> Steered:
        def say(progress: Progress) -> None:
            self.told.append(progress.words)

        host = Host("7", self.table.spark, wait_for_runs=self._wait, job="a test")
        session = TableSession(self.services, [entry or self.entry], host)
        return steered(operation, options, session, say)

    def drop(self, *, lake: bool = True, dry_run: bool = False) -> Steered:
        return self._steered(DROP, DropOptions(lake=lake, dry_run=dry_run, why="it is tried"))

    def reset(self, entry: TableEntry | None = None) -> Steered:
        return self._steered(RESET, ResetOptions(why="it is tried"), entry)

    def resume(self) -> Steered:
        return self._steered(RESUME, ResumeOptions())

    def begin_rebuild(self) -> None:
        rebuild = rebuild_of(self.table.config, self.table.spark, self.entry, "test")
        standing = rebuild.tables.standing()
        rebuild.begin(standing, from_now=False)
        list(rebuild.fill(standing))

    def left(self) -> list[str]:
        """What the catalog has of the table."""
        stem = self.entry.target
        beside = replace(stem, name=f"{stem.name}__rebuild1")
        there = (stem, side_name(stem), beside, side_name(beside))
        return [str(each) for each in there if self.services.lake.exists(each)]

    def quarantined(self) -> int:
        return remains(self.services, self.entry).quarantined


@pytest.fixture
def operator(pipeline: Make) -> Operator:
    rows = [made(1, "a", 10), made(2, "b", 20), made(3, "c", 30)]
    table = start(pipeline, *rows, bad_records="quarantine")
    table.produce(TABLE, [made(2, None, 40, "d"), Message(b"{}", b'{"op": "?"}')])
    table.merge(TABLE)
    return Operator(table)


@profiles.in_soak
def test_a_dropped_table_stays_in_the_lake_unless_that_is_asked_for(operator: Operator) -> None:
    (done,) = operator.drop(lake=False).done
    assert "the lake keeps" in done["did"]
    dropped = operator.services.desired.of(operator.entry.table).dropped
    assert dropped is not None
    assert (dropped.by, dropped.why, dropped.removal) == ("a test 7", "it is tried", Removal.NONE)
    assert names(operator.table) == {1: "a", 3: "c"}
    assert not operator.drop(lake=False).done[0]["changed"]
    assert operator.resume().done[0]["changed"]
    assert operator.services.desired.of(operator.entry.table) == NOTHING


def test_what_is_dropped_from_the_lake_is_told_and_begins_again_once_it_is_resumed(
    operator: Operator,
) -> None:
    operator.begin_rebuild()
    assert len(operator.left()) == 4
    (would,) = operator.drop(dry_run=True).done
    assert "would be dropped" in would["did"]
    assert "1 records from the quarantine" in would["did"]
    assert operator.services.desired.of(operator.entry.table) == NOTHING
    operator.told.clear()

    (done,) = operator.drop().done
    assert operator.waited == [Removal.NONE], "before anything is removed"
    (told,) = operator.told
    for name in (str(operator.entry.target), str(side_name(operator.entry.target)), "__rebuild1"):
        assert name in told
        assert name in done["did"]
    assert operator.left() == []
    assert operator.quarantined() == 0
    assert not operator.drop().done[0]["changed"]

    assert operator.resume().done[0]["changed"]
    operator.table.merge(TABLE)
    assert names(operator.table) == {1: "a", 3: "c"}
    assert operator.quarantined() == 1, "its record is refused again"


STEPS = (
    ("desired: write", 1), ("desired: write", 2), ("spark: remove from quarantine", 1),
    ("catalog: drop table", 1), ("catalog: drop table", 2), ("failures: clear", 1),
    ("desired: remove", 2),
)  # fmt: skip


@pytest.mark.timeout(1800)
def test_a_reset_may_be_killed_at_each_step_and_run_again(operator: Operator) -> None:
    """`make soak` does so in all ways at each step; here it dies between two tables."""
    for point, nth in STEPS if profiles.is_soak() else STEPS[4:5]:
        for how in How if profiles.is_soak() else [How.DEATH]:
            with faults(Fault(point, how, nth)) as hook:
                try:
                    operator.reset()
                except (CdcError, Death, Exception):
                    assert hook.happened
            held = operator.services.desired.of(operator.entry.table).reset
            if held is not None and held.removal is Removal.BEGUN:
                assert operator.resume().failed, "half of it may be gone"
            steered = operator.reset()
            assert not steered.failed, f"{point} {how}"
            assert operator.left() == []
            assert operator.services.desired.of(operator.entry.table) == NOTHING
            operator.table.merge(TABLE)
            assert names(operator.table) == {1: "a", 3: "c"}, f"{point} {how}"


@profiles.in_soak
def test_a_table_is_not_reset_whose_log_has_lost_its_beginning(operator: Operator) -> None:
    operator.table.expire(TABLE, 2)
    (why,) = operator.reset().failed
    assert "the log has lost its beginning, offsets 0: [0, 2)" in why
    assert f"cdc-assets rebuild {operator.entry.table} --from-snapshot" in why
    assert names(operator.table) == {1: "a", 3: "c"}
    assert operator.services.desired.of(operator.entry.table) == NOTHING


@profiles.in_soak
def test_what_cannot_begin_again_by_itself_is_refused(operator: Operator) -> None:
    renamed = RenamedTable("public", "u", operator.entry.topic, "before", OffsetVector())
    with refused(operator, replace(operator.entry, renamed=renamed)) as why:
        assert "since it was renamed at its source" in why
    with refused(operator, replace(operator.entry, topic="nothing")) as why:
        assert "its topic is not there" in why
    with refused(operator, replace(operator.entry, shard=Shard("shard", "a"))) as why:
        assert "rows of other tables are in" in why


@contextmanager
def refused(operator: Operator, entry: TableEntry) -> Iterator[str]:
    (why,) = operator.reset(entry).failed
    yield why
    assert operator.services.desired.of(operator.entry.table) == NOTHING
    assert names(operator.table) == {1: "a", 3: "c"}
