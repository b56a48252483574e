from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import dagster as dg
import pytest
from cdc_assets_devstack.spark_server import SparkEndpoint

from cdc_assets.config import ReplicationConfig
from cdc_assets.desired import DesiredBook, Directive, DirectiveNote
from cdc_assets.effects import Moment, hooked
from cdc_assets.log.hours import HOUR, HourWindow, hour_of
from cdc_assets.operate.failures import FailureKind
from cdc_assets.operate.services import Services
from cdc_assets.orchestration.assets import default_spec, table_asset
from cdc_assets.orchestration.keys import SPARK, TAG_MODE, TAIL
from cdc_assets.orchestration.merge_commands import RANGE_END, RANGE_START
from cdc_assets.orchestration.mount import Mount
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.orchestration.table_run.step import YIELD_SECONDS
from cdc_assets.orchestration.translator import Translator
from cdc_assets.registry import TableEntry
from cdc_assets_tests.faults import Fault, How, faults
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import roomy_hour

pytestmark = pytest.mark.stack

TABLES = {
    f"public.{name}": {"primary_key": ["id"], "columns": {"id": "bigint", "name": "string"}}
    for name in ("items", "orders")
}


class Tables(Pipeline):
    """A pipeline whose batches are merged by Dagster runs."""

    position = 0

    def change(self, table: str, op: str, id_: int, at: datetime, name: str = "x") -> None:
        """One Debezium event, and its record's timestamp."""
        self.position += 8
        millis = int(at.timestamp() * 1000)
        row = {"id": id_, "name": name}
        value = {
            "before": row if op == "d" else None,
            "after": None if op == "d" else row,
            "source": {
                "connector": "postgresql", "db": "shop", "schema": "public", "table": table,
                "lsn": self.position, "sequence": json.dumps([None, str(self.position)]),
                "ts_ms": millis, "ts_us": millis * 1000, "snapshot": "false", "txId": self.position,
            },
            "op": op,
            "ts_ms": millis,
        }  # fmt: skip
        key = json.dumps({"id": id_}).encode()
        message = Message(key, json.dumps(value).encode(), timestamp_ms=millis)
        self.produce(f"public.{table}", [message])

    def run(
        self, instance: dg.DagsterInstance, *tables: str, hour: HourWindow | None = None,
        tags: dict[str, str] | None = None,
    ) -> dg.ExecuteInProcessResult:  # fmt: skip
        assets = [table_asset(self.config, self.entry(f"public.{table}")) for table in tables]
        return dg.materialize(
            assets, instance=instance, partition_key=hour.key if hour else None,
            resources={SPARK: spark_resource(self.config)}, tags=tags, raise_on_error=False,
        )  # fmt: skip

    def tail(
        self, instance: dg.DagsterInstance, *tables: str, hour: HourWindow
    ) -> dg.ExecuteInProcessResult:
        return self.run(instance, *tables, hour=hour, tags={TAG_MODE: TAIL})

    def replay(
        self, instance: dg.DagsterInstance, table: str, first: HourWindow, last: HourWindow
    ) -> dg.ExecuteInProcessResult:
        return self.run(
            instance, table,
            tags={"dagster/backfill": "b", RANGE_START: first.key, RANGE_END: last.key},
        )  # fmt: skip


def no_session() -> NoReturn:
    """In the place of a session for what must not need one."""
    msg = "runs open sessions of their own"
    raise AssertionError(msg)


@pytest.fixture
def tables(
    stack_config: ReplicationConfig,
    kafka_bootstrap: str,
    spark_endpoint: SparkEndpoint,
    tmp_path: Path,
) -> Tables:
    assert kafka_bootstrap
    assert spark_endpoint

    return Tables(
        stack_config, no_session, tmp_path, {"tables": TABLES, "batch": {"max_records": 3}}
    )


NOW = datetime.now(UTC)
THIS_HOUR, EARLIER = hour_of(NOW), hour_of(NOW - 3 * HOUR)


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each test, not of the whole session: that one may take longer than the SLO allows."""
    this_hour, now = roomy_hour(), datetime.now(UTC)
    of_the_test = {"NOW": now, "THIS_HOUR": this_hour, "EARLIER": hour_of(now - 3 * HOUR)}
    for name, value in of_the_test.items():
        monkeypatch.setattr(sys.modules[__name__], name, value)


def materializations(
    result: dg.ExecuteInProcessResult, table: str = "orders"
) -> list[dg.AssetMaterialization]:
    return [
        event.step_materialization_data.materialization
        for event in result.all_events
        if event.is_step_materialization and event.asset_key and event.asset_key.path[-1] == table
    ]


def remembered(tables: Tables) -> dict[str, FailureKind]:
    book = Services(tables.config).failures.load()
    return {table.name: each.kind for table, each in book.items() if table.source == tables.prefix}


def numbers(result: dg.ExecuteInProcessResult, name: str) -> list[object]:
    return [each.metadata[name].value for each in materializations(result)]


def test_each_batch_is_one_materialization_with_its_numbers(
    tables: Tables, instance: dg.DagsterInstance
) -> None:
    tables.create_topic("public.orders")
    for n in range(1, 8):
        tables.change("orders", "c", n, NOW - timedelta(seconds=10))

    result = tables.tail(instance, "orders", hour=THIS_HOUR)
    assert result.success
    assert numbers(result, "records") == [3, 3, 1]
    assert numbers(result, "rows_inserted") == [3, 3, 1]
    assert numbers(result, "lag_changes") == [4, 1, 0]
    assert len(tables.rows("public.orders")) == 7
    last = materializations(result)[-1]
    assert last.partition == THIS_HOUR.key
    assert last.metadata["latency_p50_seconds"].value >= 10
    assert last.metadata["duration_seconds"].value > 0
    assert any(name.startswith("step_") for name in last.metadata)
    (offsets,) = last.metadata["offsets"].records
    assert offsets.data == {"partition": 0, "start": 6, "end": 7, "offsets": 1}
    assert last.tags["dagster/data_version"] == last.metadata["snapshot_id"].value
    schema = last.metadata["dagster/column_schema"].schema
    assert [column.name for column in schema.columns][:2] == ["id", "name"]
    lineage = last.metadata["dagster/column_lineage"].column_lineage
    (origin,) = lineage.deps_by_column["name"]
    assert (origin.asset_key.path[-1], origin.column_name) == ("orders", "name")
    checks = {each.check_name: each.passed for each in result.get_asset_check_evaluations()}
    told = {"offsets_contiguous": True, "replication_slo": True, "schema_in_sync": True}
    assert checks == told


@pytest.mark.parametrize(
    "point",
    [
        "dagster: event",
        *(pytest.param(each, marks=in_soak) for each in ("failures: clear", "failures: write")),
    ],
)
def test_what_was_published_stays_whatever_becomes_of_telling_it(
    tables: Tables, instance: dg.DagsterInstance, point: str
) -> None:
    tables.create_topic("public.orders")
    for n in range(1, 8):
        tables.change("orders", "c", n, NOW)
    broken = Fault("spark: publish rows", How.BEFORE)
    with faults(broken if point == "failures: write" else Fault(point, How.BEFORE),
                Fault(point, How.BEFORE, nth=2)):  # fmt: skip
        tables.tail(instance, "orders", hour=THIS_HOUR)
    assert tables.tail(instance, "orders", hour=THIS_HOUR).success
    assert len(tables.rows("public.orders")) == 7
    assert remembered(tables) == {}


def test_a_run_that_finds_nothing_says_so(tables: Tables, instance: dg.DagsterInstance) -> None:
    tables.create_topic("public.orders")
    tables.change("orders", "c", 1, NOW)
    tables.tail(instance, "orders", hour=THIS_HOUR)

    again = tables.tail(instance, "orders", hour=THIS_HOUR)
    assert again.success
    assert numbers(again, "records") == [0]


def test_a_run_without_an_hour_merges_what_is_new(
    tables: Tables, instance: dg.DagsterInstance
) -> None:
    """Dagster refuses none: a project's sensor may start one. It is no failure of the table."""
    tables.create_topic("public.orders")
    tables.change("orders", "c", 1, NOW)

    result = tables.run(instance, "orders")
    assert result.success
    merged = [(each.partition, each.metadata["records"].value) for each in materializations(result)]
    assert merged == [(THIS_HOUR.key, 1), (None, 0)]


def test_a_backlog_is_merged_hour_by_hour_in_one_run(
    tables: Tables, instance: dg.DagsterInstance
) -> None:
    tables.create_topic("public.orders")
    for n, hours_ago in enumerate((3, 3, 2, 0)):
        tables.change("orders", "c", n, NOW - hours_ago * HOUR)

    result = tables.tail(instance, "orders", hour=EARLIER)
    batches = [
        (each.partition, each.metadata["records"].value) for each in materializations(result)
    ]
    assert batches == [
        (EARLIER.key, 2),
        (EARLIER.next().key, 1),
        (THIS_HOUR.key, 1),
        (EARLIER.key, 0),
    ]
    assert len(tables.rows("public.orders")) == 4


def test_replayed_hours_change_nothing_though_rows_were_deleted_since(
    tables: Tables, instance: dg.DagsterInstance
) -> None:
    tables.create_topic("public.orders")
    for n in (1, 2, 3):
        tables.change("orders", "c", n, NOW - 3 * HOUR, name="old")
    tables.change("orders", "u", 1, NOW, name="new")
    tables.change("orders", "d", 2, NOW)
    tables.tail(instance, "orders", hour=EARLIER)
    before = tables.by_key("public.orders")
    assert set(before) == {1, 3}
    committed = tables.lake.state(tables.entry("public.orders").target).published.offsets

    result = tables.replay(instance, "orders", EARLIER, EARLIER.next())
    assert result.success
    assert tables.by_key("public.orders") == before
    after = tables.lake.state(tables.entry("public.orders").target).published.offsets
    assert after == committed
    events = {each.partition: each.metadata["records"].value for each in materializations(result)}
    assert events == {EARLIER.key: 3, EARLIER.next().key: 0}


@pytest.mark.parametrize("asks", ["tail", "backfill", "by hand"])
def test_no_first_batch_is_merged_unassessed_whoever_asks(
    tables: Tables, instance: dg.DagsterInstance, asks: str
) -> None:
    tables.create_topic("public.orders", **{"cleanup.policy": "compact"})
    tables.change("orders", "c", 1, NOW)
    match asks:
        case "tail":
            result = tables.tail(instance, "orders", hour=THIS_HOUR)
        case "backfill":
            result = tables.replay(instance, "orders", EARLIER, THIS_HOUR)
        case _:
            result = tables.run(instance, "orders", hour=THIS_HOUR)
    (event,) = result.get_step_failure_events()
    assert "is compacted" in event.step_failure_data.user_failure_data.description
    assert tables.lake.state(tables.entry("public.orders").target) is None
    assert remembered(tables) == {"orders": FailureKind.TERMINAL}


def test_a_topic_without_debezium_records_fails_and_the_other_table_goes_on(
    tables: Tables, instance: dg.DagsterInstance
) -> None:
    tables.create_topic("public.items")
    tables.create_topic("public.orders")
    tables.produce("public.items", [Message(b"k", b"secret, and no JSON")])
    tables.change("orders", "c", 1, NOW)

    result = tables.tail(instance, "items", "orders", hour=THIS_HOUR)
    assert not result.success
    assert len(tables.rows("public.orders")) == 1
    (event,) = result.get_step_failure_events()
    failure = event.step_failure_data.user_failure_data
    assert "offset=0" in failure.description
    assert failure.metadata["kind"].value == "terminal"
    assert "secret" not in str(event)
    assert remembered(tables) == {"items": FailureKind.TERMINAL}


def test_a_table_that_goes_right_again_is_no_longer_failing(
    tables: Tables, instance: dg.DagsterInstance
) -> None:
    tables.create_topic("public.orders")
    tables.change("orders", "c", 1, NOW)
    services = Services(tables.config)
    table = tables.entry("public.orders").table
    services.failures.record(table, FailureKind.TRANSIENT, "Spark was away", NOW)

    assert tables.tail(instance, "orders", hour=THIS_HOUR).success
    assert remembered(tables) == {}


def test_a_paused_table_keeps_its_place_whoever_asks(
    tables: Tables, instance: dg.DagsterInstance
) -> None:
    for table in ("items", "orders"):
        tables.create_topic(f"public.{table}")
        tables.change(table, "c", 1, NOW)
    assert tables.tail(instance, "items", "orders", hour=THIS_HOUR).success
    for table in ("items", "orders"):
        tables.change(table, "c", 2, NOW)
    desired = Services(tables.config).desired
    orders = tables.entry("public.orders")
    desired.put(
        orders.table, Directive.PAUSED, DirectiveNote(NOW, "cdc-assets pause", "index is rebuilt")
    )
    before = tables.lake.state(orders.target)

    run = tables.tail(instance, "items", "orders", hour=THIS_HOUR)
    assert run.success, "a run that was queued before lets it go"
    assert numbers(run, "records") == [0]
    assert len(tables.rows("public.items")) == 2
    asked = {
        "by hand": tables.run(instance, "orders", hour=THIS_HOUR),
        "backfill": tables.replay(instance, "orders", THIS_HOUR, THIS_HOUR),
    }
    for who, result in asked.items():
        assert not result.success, who
        (event,) = result.get_step_failure_events()
        said = event.step_failure_data.user_failure_data.description
        assert "paused since" in said
        assert "by cdc-assets pause: index is rebuilt" in said
        assert f"cdc-assets resume --table {orders.table}" in said
    assert remembered(tables) == {}, "that is no failure of the table"
    after = tables.lake.state(orders.target)
    assert before is not None
    assert after is not None
    assert after.snapshot_id == before.snapshot_id

    desired.remove(orders.table, Directive.PAUSED)
    assert tables.tail(instance, "orders", hour=THIS_HOUR).success
    assert len(tables.rows("public.orders")) == 2


def three_batches(tables: Tables) -> tuple[DesiredBook, TableEntry]:
    """Seven changes of ``orders``, of which a batch has three; the wishes, and the table."""
    tables.create_topic("public.orders")
    for n in range(1, 8):
        tables.change("orders", "c", n, NOW)
    return Services(tables.config).desired, tables.entry("public.orders")


def test_a_run_waits_for_another_writer_and_ends_its_turn_when_one_asks(
    tables: Tables, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_assets.orchestration.table_run.step.LOOK_SECONDS", 0.0)
    desired, orders = three_batches(tables)
    asked, waited, sleep = list[bool](), list[float](), time.sleep

    def asks_amid(point: str, moment: Moment) -> None:
        if point == "spark: publish rows" and moment is Moment.BEFORE:
            asked.append(desired.of(orders.table).yields is not None)
            ends = datetime.now(UTC) + timedelta(hours=1)
            desired.put(orders.table, Directive.YIELDS, DirectiveNote(NOW, until=ends))

    def is_done_while_it_waits(seconds: float) -> None:
        if seconds == YIELD_SECONDS:
            waited.append(seconds)
            desired.remove(orders.table, Directive.YIELDS)
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", is_done_while_it_waits)
    with hooked(asks_amid):
        assert tables.tail(instance, "orders", hour=THIS_HOUR).success
        assert len(tables.rows("public.orders")) == 3, "the batch that had begun is published"
        assert not waited
        assert tables.tail(instance, "orders", hour=THIS_HOUR).success
    desired.remove(orders.table, Directive.YIELDS)
    assert waited
    assert asked == [False, False], "it has waited until nobody asked any more"
    assert len(tables.rows("public.orders")) == 6


@in_soak
def test_a_long_turn_ends_before_its_next_batch_once_its_table_is_paused(
    tables: Tables, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_assets.orchestration.table_run.step.LOOK_SECONDS", 0.0)
    desired, orders = three_batches(tables)

    def pause_amid(point: str, moment: Moment) -> None:
        if point == "spark: publish rows" and moment is Moment.BEFORE:
            desired.put(orders.table, Directive.PAUSED, DirectiveNote(NOW))

    with hooked(pause_amid):
        assert tables.tail(instance, "orders", hour=THIS_HOUR).success
    assert len(tables.rows("public.orders")) == 3, "the batch that had begun is published"
    desired.remove(orders.table, Directive.PAUSED)
    assert tables.tail(instance, "orders", hour=THIS_HOUR).success
    assert len(tables.rows("public.orders")) == 7


class Traced(Translator):
    """Adds to each event of a merge, and sees its begin and its end."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def execute(self, context: dg.AssetExecutionContext, events: Iterator[Any]) -> Iterator[Any]:
        self.seen.append(f"begins {context.asset_key.path[-1]}")
        for each in events:
            is_last = isinstance(each, dg.MaterializeResult)
            yield each._replace(metadata={**each.metadata, "ours": 1}) if is_last else each
        self.seen.append("ends")


def test_a_project_may_do_something_before_and_after_a_table_is_merged(
    tables: Tables, instance_in_memory: dg.DagsterInstance
) -> None:
    tables.create_topic("public.orders")
    tables.change("orders", "c", 1, NOW)
    traced = Traced()

    def spec_of(config: ReplicationConfig, entry: TableEntry) -> dg.AssetSpec:
        return default_spec(config, entry)

    mounted = tables.config.mounted(Mount(spec_of, traced.execute))
    done = dg.materialize(
        [table_asset(mounted, tables.entry("public.orders"))], instance=instance_in_memory,
        partition_key=THIS_HOUR.key, tags={TAG_MODE: TAIL},
        resources={SPARK: spark_resource(mounted)},
    )  # fmt: skip
    assert traced.seen == ["begins orders", "ends"]
    assert numbers(done, "ours") == [1]
    assert len(tables.rows("public.orders")) == 1
