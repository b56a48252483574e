"""Which lake tables get a run of maintenance, and who leaves whom alone. Without Spark or Kafka."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from cdc_assets.changes.names import LakeName
from cdc_assets.config import ReplicationConfig
from cdc_assets.config.maintenance import MaintenanceConfig
from cdc_assets.errors import UnreachableError
from cdc_assets.operations.maintain import by_target, upkeep_of
from cdc_assets.orchestration import build_definitions
from cdc_assets.orchestration.hand_over import must_hand_over
from cdc_assets.orchestration.keys import (
    MAINTENANCE,
    REPLAY,
    TAG_BACKLOG,
    TAG_MODE,
    TAG_PROCESS,
    TAG_TABLE,
    TAIL,
    maintenance_key,
    maintenance_op,
    table_key,
)
from cdc_assets.orchestration.sensors import maintain_sensor
from cdc_assets.orchestration.sensors.maintain import (
    MaintenanceCursor,
    TableVisits,
    is_worth_a_look,
)
from cdc_assets.orchestration.sensors.replicate import busy_tables
from cdc_assets.registry import Registry
from cdc_assets_tests.command import run_command
from cdc_assets_tests.configuration import NOWHERE, beside, source
from cdc_assets_tests.world import World, registry_of, write_config

pytestmark = pytest.mark.slow

MINUTE = 60.0
CODE = RepositoryPythonOrigin("python", ModuleCodePointer("nowhere", "defs"))
DAY = 86_400.0


@dataclass
class Desk:
    """A lake with tables, and the sensor as time passes."""

    folder: Path
    instance: dg.DagsterInstance
    cursor: str | None = None
    passed: timedelta = field(default_factory=timedelta)

    def __post_init__(self) -> None:
        self.world = World(self.folder, NOWHERE)

    @property
    def config(self) -> ReplicationConfig:
        return self.world.config

    def make(self, *tables: str, files: int = 12) -> Registry:
        made = registry_of(self.config, *tables)
        for entry in made:
            self.append(entry.target, files)
        return made

    def append(self, target: LakeName, files: int) -> None:
        for n in range(files):
            self.world.publish(target, {0: n}, {0: n + 1})

    def tick(self, loaded: Registry) -> dg.SensorResult:
        sensor = maintain_sensor(self.config, loaded, lambda: datetime.now(UTC) + self.passed)
        result = sensor(dg.build_sensor_context(instance=self.instance, cursor=self.cursor))
        assert isinstance(result, dg.SensorResult)
        self.cursor = result.cursor if result.cursor is not None else self.cursor
        return result

    def asked(self, loaded: Registry) -> list[str]:
        requests = self.tick(loaded).run_requests or []
        return [key.path[-1] for each in requests for key in each.asset_selection or ()]


@pytest.fixture
def desk(tmp_path: Path, instance_in_memory: dg.DagsterInstance) -> Desk:
    return Desk(tmp_path, instance_in_memory)


def test_a_table_with_many_small_files_gets_a_run(desk: Desk) -> None:
    loaded = desk.make("orders")
    (request,) = desk.tick(loaded).run_requests or ()
    target = loaded.get(next(iter(loaded)).table).target
    assert request.asset_selection == [maintenance_key(desk.config, target)]
    assert request.tags[TAG_MODE] == MAINTENANCE
    assert request.tags[TAG_TABLE] == "shop.public.orders"
    assert request.run_config == {
        "ops": {maintenance_op(desk.config, target): {"config": {"orphans": False, "turn": 0}}}
    }


def test_one_with_few_does_not(desk: Desk) -> None:
    assert desk.asked(desk.make("orders", files=9)) == []
    assert desk.asked(registry_of(desk.config, "not_made_yet")) == []


def test_a_table_has_a_run_once_in_a_while(desk: Desk) -> None:
    loaded = desk.make("orders")
    (entry,) = loaded
    assert desk.asked(loaded) == ["orders"]
    desk.append(entry.target, 1)
    desk.passed = timedelta(minutes=9)
    assert desk.asked(loaded) == []
    desk.passed = timedelta(minutes=11)
    assert desk.asked(loaded) == ["orders"]


def test_files_are_removed_once_a_day_with_what_else_is_due(desk: Desk) -> None:
    loaded = desk.make("orders", files=1)
    (entry,) = loaded
    assert desk.asked(loaded) == []
    desk.append(entry.target, 1)
    desk.passed = timedelta(hours=23)
    assert desk.asked(loaded) == []
    desk.append(entry.target, 1)
    desk.passed = timedelta(hours=25)
    (request,) = desk.tick(loaded).run_requests or ()
    assert request.run_config["ops"][maintenance_op(desk.config, entry.target)] == {
        "config": {"orphans": True, "turn": 0}
    }


def test_snapshots_are_looked_at_when_they_may_go(desk: Desk) -> None:
    rare = {"tiny_files": 30}
    desk.world.config = write_config(desk.folder, prefix=desk.world.prefix, maintenance=rare)
    loaded = desk.make("orders", files=12)
    assert desk.asked(loaded) == []
    desk.passed = timedelta(minutes=31)
    assert desk.asked(loaded) == []  # two of them may go, which is not worth a run
    desk.passed = timedelta(hours=24, minutes=31)
    assert desk.asked(loaded) == ["orders"]


def test_a_run_has_few_tables_and_there_is_one_at_a_time(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_assets.orchestration.sensors.maintain.TABLES_AT_ONCE", 2)
    names = ["t0", "t1", "t2", "t3"]
    loaded = desk.make(*names)
    assert desk.asked(loaded) == names[:2]
    run = desk.instance.create_run_for_job(
        _job(), tags={TAG_MODE: MAINTENANCE}, status=dg.DagsterRunStatus.STARTED
    )
    assert desk.asked(loaded) == []
    desk.instance.report_run_canceled(run)
    assert desk.asked(loaded) == names[2:]


def test_each_table_has_its_turn_however_little_time_there_is(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are written to all the time, and each tick has time for one look."""
    monkeypatch.setattr("cdc_assets.orchestration.sensors.maintain.LOOK_SECONDS", 0.0)
    names = ["t0", "t1", "t2"]
    loaded, had = desk.make(*names, files=12), list[str]()
    for minutes in range(0, 44, 11):
        desk.passed = timedelta(minutes=minutes)
        for entry in loaded:
            desk.append(entry.target, 1)
        had += desk.asked(loaded)
    assert had == [*names, names[0]]


def test_a_table_that_cannot_be_read_keeps_no_other_out(desk: Desk) -> None:
    loaded = desk.make("broken", "orders")
    for each in desk.folder.rglob("broken/metadata/snap-*.avro"):
        each.unlink()
    assert desk.asked(loaded) == ["orders"]
    assert "shop_public.broken" in (desk.cursor or ""), "it is remembered"
    desk.append([*loaded][1].target, 1)
    desk.passed = timedelta(minutes=11)
    assert desk.asked(loaded) == ["orders"]


def test_switched_off_it_looks_at_nothing(desk: Desk) -> None:
    loaded = desk.make("items", "orders")
    sources = {
        "shop": source(
            "shop",
            maintenance={"enabled": False},
            tables={"public.orders": {"maintenance": {"enabled": True}}},
        )
    }
    desk.world.config = beside(desk.config, "some", sources=sources)
    assert desk.asked(loaded) == ["orders"]


def test_a_table_that_is_looked_after_is_busy(desk: Desk) -> None:
    loaded = registry_of(desk.config, "items", "orders")
    orders = next(entry for entry in loaded if entry.table.name == "orders")
    run = dg.DagsterRun(
        job_name="x",
        run_id="1",
        asset_selection=frozenset({maintenance_key(desk.config, orders.target)}),
    )
    assert busy_tables(desk.config, [run], list(loaded)) == {orders.table}


@pytest.mark.parametrize(
    ("tables", "expected"), [("shop.public.orders", True), ("shop.b.c", False)]
)
def test_a_run_that_stays_gives_way_to_upkeep_by_hand(
    instance_in_memory: dg.DagsterInstance, tables: str, expected: bool
) -> None:
    started = dg.DagsterRunStatus.STARTED
    tail = instance_in_memory.create_run_for_job(
        _job(), tags={TAG_MODE: TAIL, TAG_TABLE: "shop.public.items shop.public.orders"},
        status=started,
    )  # fmt: skip
    assert not must_hand_over(instance_in_memory, tail)
    instance_in_memory.create_run_for_job(
        _job(), tags={TAG_MODE: MAINTENANCE, TAG_PROCESS: "p", TAG_TABLE: tables}, status=started
    )
    assert must_hand_over(instance_in_memory, tail) == expected


def test_the_cursor_is_read_as_it_was_written() -> None:
    memory = MaintenanceCursor()
    memory.see("a.b", 7, 100.0).looked = 101.0
    assert MaintenanceCursor.of(memory.to_cursor()) == memory
    assert memory.see("a.b", 7, 200.0).since == 100.0
    assert memory.see("a.b", 8, 300.0).since == 300.0
    assert MaintenanceCursor.of(None) == MaintenanceCursor()


@pytest.mark.parametrize(
    ("seen", "minutes", "expected"),
    [
        (TableVisits(1, MINUTE), 16, True),
        (TableVisits(1, 0.0, looked=10 * MINUTE), 16, False),
        (TableVisits(1, 0.0, looked=5 * MINUTE), 19, False),
        (TableVisits(1, 0.0, looked=10 * MINUTE), 21, True),
        (TableVisits(1, 0.0, looked=31 * MINUTE), 12 * 60, False),
        (TableVisits(1, 0.0, looked=31 * MINUTE), 24 * 60 + 31, True),
        (TableVisits(1, 0.0, looked=DAY + 31 * MINUTE), 100_000, False),
        (TableVisits(1, 20 * MINUTE, looked=10 * MINUTE), 26, True),
        (TableVisits(1, 20 * MINUTE, looked=10 * MINUTE, asked=17 * MINUTE), 26, False),
    ],
)
def test_when_a_table_is_looked_at(seen: TableVisits, minutes: float, expected: bool) -> None:
    assert is_worth_a_look(seen, MaintenanceConfig(), minutes * MINUTE) == expected


def test_tables_of_one_lake_table_are_one(desk: Desk) -> None:
    loaded = list(registry_of(desk.config, "items", "orders"))
    assert by_target(loaded) == [(loaded[0],), (loaded[1],)]


def test_what_is_needed_is_printed_without_doing_it(desk: Desk) -> None:
    loaded = desk.make("orders")
    for entry in loaded:
        desk.world.services.registry.add([entry])
    done = run_command(desk.folder, "maintain", "--dry-run", config=desk.config.path)
    assert (done.returncode, done.stderr) == (0, "")
    said = " ".join(done.stdout.split())
    assert "shop_public.orders: compact (12 files" in said
    assert "12 small in a partition" in said


def test_assets_of_upkeep_share_the_pool_of_their_table(desk: Desk) -> None:
    loaded = registry_of(desk.config, "orders")
    (entry,) = loaded
    graph = build_definitions(desk.config, loaded).get_repository_def().asset_graph
    mine, merge = (
        graph.get(maintenance_key(desk.config, entry.target)),
        graph.get(table_key(desk.config, entry)),
    )
    assert mine.pools == merge.pools
    assert mine.parent_keys == {table_key(desk.config, entry)}


def _job() -> dg.JobDefinition:
    @dg.op
    def nothing() -> None: ...

    @dg.job
    def idle() -> None:
        nothing()

    return idle


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({TAG_MODE: TAIL}, ["items", "orders"]),
        ({TAG_MODE: TAIL, TAG_BACKLOG: "true"}, ["items"]),
        ({TAG_MODE: REPLAY}, ["items"]),
    ],
)
def test_tables_of_runs_that_may_take_long_are_left_out(
    desk: Desk, tags: dict[str, str], expected: list[str]
) -> None:
    """A run for them would be queued, and keep the others' tables from being merged."""
    loaded = desk.make("items", "orders")
    desk.instance.create_run_for_job(
        _job(), tags={**tags, TAG_TABLE: "shop.public.orders"}, status=dg.DagsterRunStatus.STARTED
    )
    assert desk.asked(loaded) == expected


def test_a_run_that_is_queued_for_long_is_cancelled(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, cancelled = desk.make("orders"), list[str]()
    origin = ManagedGrpcPythonEnvCodeLocationOrigin(LoadableTargetOrigin(module_name="nowhere"))
    run = dg.DagsterRun(
        job_name="idle",
        status=dg.DagsterRunStatus.QUEUED,
        tags={TAG_MODE: MAINTENANCE},
        remote_job_origin=RemoteRepositoryOrigin(origin, "repository").get_job_origin("idle"),
        job_code_origin=JobPythonOrigin("idle", CODE),
    )
    desk.instance.add_run(run)
    monkeypatch.setattr(desk.instance.run_coordinator, "cancel_run", cancelled.append)
    desk.passed = timedelta(minutes=4)
    assert (desk.asked(loaded), cancelled) == ([], [])
    desk.passed = timedelta(minutes=6)
    assert (desk.asked(loaded), cancelled) == ([], [run.run_id])


def test_what_a_run_has_left_is_asked_for_again_though_nothing_else_happens(desk: Desk) -> None:
    loaded, asked = desk.make("orders"), list[int]()
    for minutes in range(0, 90, 5):
        desk.passed = timedelta(minutes=minutes)
        asked += [minutes] if desk.asked(loaded) else []
    assert asked == [0, 10, 30, 70], "twice as long after each run that has changed nothing"


def test_a_clock_that_was_ahead_once_holds_nothing_up(desk: Desk) -> None:
    loaded = desk.make("orders", files=9)
    desk.passed = timedelta(days=366)
    assert desk.asked(loaded) == []
    desk.passed = timedelta()
    desk.append(next(iter(loaded)).target, 30)
    assert desk.asked(loaded) == ["orders"]


def test_after_a_part_that_does_not_answer_nothing_more_is_tried(desk: Desk) -> None:
    """The session may be lost: the next task would fail by it, and the next table."""
    loaded, asked = desk.make("orders"), list[str]()

    def session() -> Any:
        asked.append("session")
        raise UnreachableError("Spark is away", where="sc://x")

    upkeep = upkeep_of(
        desk.config, tuple(loaded), desk.world.services.lake, session,
        lambda: datetime.now(UTC) + timedelta(days=2),
    )  # fmt: skip
    (needs,) = upkeep.needs()
    assert len(needs.tasks) >= 2
    with pytest.raises(UnreachableError):
        list(upkeep.carry_out(orphans=True))
    assert asked == ["session"]
