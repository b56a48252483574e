"""What a run says of records that it leaves unread, and of the first error of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import dagster as dg
import pytest

from cdc_assets.changes.latency import LatencyHistogram
from cdc_assets.changes.offsets import OffsetRange, OffsetVector
from cdc_assets.changes.renamed import RenamedTable
from cdc_assets.changes.slo import SloWindow
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TerminalError, UnreachableError
from cdc_assets.log.hours import HourWindow, hour_of
from cdc_assets.merge import BatchResult, Waiting
from cdc_assets.merge import renamed as merge_renamed
from cdc_assets.operate.failure_book import FailureBook
from cdc_assets.operate.survey import TableSurvey
from cdc_assets.orchestration.assets import table_asset
from cdc_assets.orchestration.keys import SPARK, TAG_MODE, TAIL, table_key
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.orchestration.table_run import batches as batches_module
from cdc_assets.orchestration.table_run import run as run_module
from cdc_assets.orchestration.table_run import step as step_module
from cdc_assets.registry import Registry, TableEntry
from cdc_assets.schema.types import TableSchema
from cdc_assets_tests.world import NOW, entry_of, write_config

COMMITTED, END = OffsetVector.of({0: 3}), OffsetVector.of({0: 8})


def batch_of(entry: TableEntry, end: OffsetVector = COMMITTED) -> BatchResult:
    return BatchResult(
        table=entry.table, target=entry.target, topic=entry.topic,
        ranges=(OffsetRange(0, 0, end.get(0)),), start=OffsetVector(), end=end,
        hour=hour_of(NOW), snapshot_id=7, attempt_id="a", records=3, inserted=3, updated=0,
        deleted=0, rejected=0, stale=0, latency=LatencyHistogram(),
        slo=SloWindow(), lag_records=0, row_count=None, file_count=None,
        schema=TableSchema((), ()), plan_text="", replay=False, duration_seconds=1.0,
        steps={},
    )  # fmt: skip


def waiting_of(entry: TableEntry) -> Waiting:
    return Waiting(
        entry.table, entry.topic, "1", "its end", "look", NOW, NOW + timedelta(hours=1), 5,
        {entry.topic: END},
    )  # fmt: skip


@dataclass
class Kafka:
    """A topic that ends at `END`, of a broker that may be away."""

    is_away: bool = False
    asked: int = 0

    def watermarks(self, topics: list[str]) -> dict[str, SimpleNamespace]:
        self.asked += 1
        if self.is_away:
            what = "no answer"
            raise UnreachableError(what, where="kafka", remedy="look")
        return {topic: SimpleNamespace(begin=OffsetVector(), end=END) for topic in topics}

    def first_unread(self, at: dict[str, OffsetVector]) -> dict[str, object]:
        return dict.fromkeys(at, NOW - timedelta(seconds=90))


@dataclass
class Step:
    """A table's step, as far as a turn needs one."""

    config: ReplicationConfig
    entry: TableEntry
    kafka: Kafka = field(default_factory=Kafka)
    said: list[str] = field(default_factory=list[str])
    ended: int = 0
    rested: list[bool] = field(default_factory=list[bool])
    intention = step_module.Intention.TAIL
    on_batch = None
    windows = (hour_of(NOW),)
    name = "t"
    slot: Any = field(
        default_factory=lambda: SimpleNamespace(session=None, connections=None, discoveries=[])
    )

    @property
    def services(self) -> Any:
        registry = SimpleNamespace(load=lambda: Registry.of([self.entry]))
        return SimpleNamespace(
            config=self.config, log=self.kafka, clock=lambda: NOW, registry=registry
        )

    @property
    def context(self) -> Any:
        log = SimpleNamespace(info=self.said.append, warning=self.said.append)
        return SimpleNamespace(log=log, run=SimpleNamespace(run_id="r"), log_event=self.said.append)

    @property
    def scheduler(self) -> Any:
        return self

    @property
    def readings(self) -> Any:
        return SimpleNamespace(end=lambda _entry, end: end)

    def is_alone(self, _: str) -> bool:
        return True

    def is_over(self, _: HourWindow) -> bool:
        return False

    def end(self) -> None:
        self.ended += 1

    def wait_idle(self, _name: str, topics: set[str], due_in: Any) -> None:
        """The run looks once more, and is over."""
        self.rested.append(due_in(dict.fromkeys(topics, END), 0.0) is not None)


class Record:
    """A table's wait."""

    waiting: Waiting | None = None
    hold: object = None

    def wait(self, waiting: Waiting) -> None:
        self.waiting = waiting
        self.hold = SimpleNamespace(has_moved=lambda _: False, stops_at=NOW + timedelta(1),
                                    log_end=waiting.log_end)  # fmt: skip

    def settle(self) -> Iterator[dg.AssetObservation]:
        yield from ()


class Checks:
    """Checks that have been yielded."""

    are_yielded = True

    def once(self) -> Iterator[dg.AssetCheckResult]:
        yield from ()


@pytest.fixture
def step(tmp_path: Path) -> Step:
    config = write_config(tmp_path)
    return Step(config, entry_of("orders", config))


def begins_with(found: object) -> Any:
    def begin(*_: object) -> Iterator[object]:
        yield from ()
        return found

    return begin


def survey_of(step: Step) -> TableSurvey:
    return TableSurvey(step.entry, None, None, None, None)


def turns_of(step: Step, drain: object, record: Record) -> run_module.TurnByTurn:
    return run_module.TurnByTurn(*cast("Any", (step, drain, record, Checks())))


def ends_of(generator: Any) -> tuple[list[object], object]:
    """The events of a generator, and its value."""
    events = list[object]()
    while True:
        try:
            events.append(next(generator))
        except StopIteration as ended:
            return events, ended.value


@pytest.mark.unit
@pytest.mark.parametrize("is_away", [False, True], ids=["Kafka answers", "Kafka is away"])
def test_a_table_that_waits_says_at_the_runs_end_what_is_unread(
    step: Step, monkeypatch: pytest.MonkeyPatch, is_away: bool
) -> None:
    record = Record()

    def batches(_: object) -> Iterator[BatchResult]:
        yield batch_of(step.entry)
        record.wait(waiting_of(step.entry))

    monkeypatch.setattr(run_module, "begin", begins_with(survey_of(step)))
    turns = turns_of(step, SimpleNamespace(batches=batches), record)
    ends_of(turns.catch_up({}))
    assert turns.wait_idle() is None
    assert step.rested == [False], "it goes on waiting"
    step.kafka.is_away = is_away
    said = turns.result().metadata or {}
    numbers = {name: value for name, value in said.items() if name.startswith("lag_")}
    assert numbers == ({} if is_away else {"lag_changes": 5, "lag_seconds": 90.0})


@pytest.mark.unit
def test_a_table_that_has_caught_up_asks_nobody_at_the_runs_end(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    drain = SimpleNamespace(batches=lambda _: iter([batch_of(step.entry, END)]))
    monkeypatch.setattr(run_module, "begin", begins_with(survey_of(step)))
    turns = turns_of(step, drain, Record())
    ends_of(turns.catch_up({}))
    turns.wait_idle()
    asked = step.kafka.asked
    assert (turns.result().metadata or {})["lag_changes"] == 0
    assert step.kafka.asked == asked


@pytest.mark.unit
def test_a_run_goes_on_while_the_rest_of_a_renamed_table_waits(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Record()
    record.wait(waiting_of(step.entry))
    turns = turns_of(step, None, record)
    monkeypatch.setattr(run_module, "begin", begins_with(batches_module.RenameOutcome.WAITS))
    assert ends_of(turns.catch_up({})) == ([], False)
    assert not step.ended

    monkeypatch.setattr(run_module, "begin", begins_with(batches_module.RenameOutcome.DONE))
    monkeypatch.setattr(run_module, "quiet_result", lambda *_: "the result")
    assert ends_of(turns.catch_up({})) == (["the result"], True)
    assert step.ended == 1, "the tables are no longer those that were loaded"


@pytest.mark.unit
@pytest.mark.parametrize("waits", [True, False])
def test_what_was_merged_under_the_former_name_is_told_of_it(
    step: Step, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    old, told, record = entry_of("former", step.config), list[TableEntry](), Record()
    after = waiting_of(old) if waits else RenamedTable("public", "orders", "o", "f", COMMITTED)

    class Followed:
        def __init__(self, *_: object, **__: object) -> None: ...

        def former(self, *_: object) -> object:
            return SimpleNamespace(entry=old)

        def follow(self, *_: object) -> Iterator[object]:
            yield from (batch_of(old), after)

    def among_rows(_: object, entry: TableEntry, __: object) -> tuple[object, ...]:
        told.append(entry)
        return ()

    book = SimpleNamespace(clear=lambda _: None)
    registry = SimpleNamespace(load=lambda: Registry.of([old]), rename=lambda *_: None)
    services = SimpleNamespace(
        config=step.config, log=step.kafka, clock=lambda: NOW, registry=registry, failures=book
    )
    monkeypatch.setattr(Step, "services", services)
    monkeypatch.setattr(merge_renamed, "Renames", Followed)
    monkeypatch.setattr(batches_module, "_require_free", lambda *_: None)
    monkeypatch.setattr("cdc_assets.orchestration.table_run.report.among_rows", among_rows)
    events, outcome = ends_of(batches_module.follow_rename(cast("Any", step), cast("Any", record)))
    assert outcome is (
        batches_module.RenameOutcome.WAITS if waits else batches_module.RenameOutcome.DONE
    )
    assert told == [old]
    assert step.said[0].startswith(f"{old.table}: merged 3 records")
    (event,) = events
    assert isinstance(event, dg.AssetMaterialization)
    assert event.asset_key == table_key(step.config, old)
    assert event.metadata["lag_changes"].value == 5


@pytest.mark.unit
def test_the_first_error_stays_the_tables_whatever_its_lag_comes_to(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch before the error is told last, and for its lag Kafka is asked."""

    def batches(_: object) -> Iterator[BatchResult]:
        yield batch_of(step.entry)
        what = "the first error"
        raise TerminalError(what, where="here", remedy="mend it")

    monkeypatch.setattr(run_module, "begin", begins_with(survey_of(step)))
    step.kafka.is_away = True
    drain = SimpleNamespace(batches=batches)
    turn = run_module.OneTurn(*cast("Any", (step, drain, None, Record(), Checks())))
    events = turn.events()
    event = next(events)
    assert isinstance(event, dg.AssetMaterialization)
    assert event.metadata["records"].value == 3, "it was published"
    assert "lag_changes" not in event.metadata
    with pytest.raises(TerminalError, match="the first error"):
        next(events)
    assert "its lag is unknown" in step.said[-1]


@pytest.mark.slow
def test_the_first_error_stays_the_tables_if_it_cannot_be_recorded(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first(*_: object, **__: object) -> NoReturn:
        what = "the first error"
        raise TerminalError(what, where="here", remedy="mend it")

    def second(*_: object, **__: object) -> NoReturn:
        raise RuntimeError

    monkeypatch.setattr(step_module, "survey", first)
    monkeypatch.setattr(FailureBook, "record", second)
    config = write_config(tmp_path)
    result = dg.materialize(
        [table_asset(config, entry_of("orders", config))], instance=instance,
        resources={SPARK: spark_resource(config)}, partition_key=hour_of(NOW).key,
        tags={TAG_MODE: TAIL}, raise_on_error=False,
    )  # fmt: skip
    (failed,) = result.get_step_failure_events()
    assert "the first error" in dg.serialize_value(failed)
