from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from cdc_assets.desired import Directive, DirectiveNote
from cdc_assets.log.hours import hour_of
from cdc_assets.operate.failures import FailureKind
from cdc_assets.operate.status import read_status
from cdc_assets.orchestration import build_definitions
from cdc_assets.orchestration.assets import default_spec, hourly_partitions
from cdc_assets.orchestration.instance import limit_pools
from cdc_assets.orchestration.keys import TAG_BACKLOG, TAG_MODE, TAG_TABLE, table_key
from cdc_assets.orchestration.mount import Mount
from cdc_assets.orchestration.sensors import discover_sensor, replicate_sensor, slo_sensor
from cdc_assets.registry import Registry, TableEntry
from cdc_assets_tests.faults import faults
from cdc_assets_tests.lake_view import open_catalog
from cdc_assets_tests.world import NOW, World, registry_of, write_config

HOUR = timedelta(hours=1)
COLUMNS = "dagster/column_schema"


def tick(
    sensor: dg.SensorDefinition, instance: dg.DagsterInstance, cursor: str | None = None
) -> dg.SensorResult:
    result = sensor(dg.build_sensor_context(instance=instance, cursor=cursor))
    assert isinstance(result, dg.SensorResult)
    return result


def skipped(result: dg.SensorResult) -> str:
    return (result.skip_reason.skip_message if result.skip_reason else None) or ""


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("make", [discover_sensor, replicate_sensor, slo_sensor])
def test_a_tick_without_kafka_is_skipped_and_names_it(
    make: Callable[..., dg.SensorDefinition],
    tmp_path: Path,
    instance_in_memory: dg.DagsterInstance,
) -> None:
    config = write_config(tmp_path, kafka="127.0.0.1:1")

    result = tick(make(config, registry_of(config, "orders")), instance_in_memory, cursor="{}")
    assert "Kafka" in skipped(result)
    assert "127.0.0.1:1" in skipped(result)
    assert not result.run_requests
    assert result.cursor == "{}"


@pytest.mark.unit
def test_the_first_table_is_looked_for_more_often(tmp_path: Path) -> None:
    config = write_config(tmp_path, kafka="127.0.0.1:1")
    first, later = (discover_sensor(config, registry_of(config, *names)) for names in ((), ("t",)))
    assert first.minimum_interval_seconds == 5
    assert later.minimum_interval_seconds == 15


@pytest.mark.slow
def test_only_pools_that_nobody_has_limited_are_limited_to_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "dagster.yaml").write_text("concurrency: {pools: {default_limit: 5}}")
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        storage = instance.event_log_storage
        storage.set_concurrency_slots("mine", 3)
        storage.initialize_concurrency_limit_to_default("by_default")
        limit_pools(instance, {"mine", "by_default", "new"})
        found = {each.name: each.limit for each in storage.get_pool_limits()}
        assert found == {"mine": 3, "by_default": 1, "new": 1}


@pytest.mark.stack
class TestDiscover:
    def test_new_topics_are_registered_and_observed(
        self, world: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CDC_ASSETS_WEBSERVER", "http://127.0.0.1:1")
        topic = world.topic("orders", partitions=2)
        world.produce(topic, [NOW, NOW], partition=1)

        result = tick(discover_sensor(world.config, Registry()), instance)
        assert [str(table) for table in world.services.registry.load().tables] == [
            "shop.public.orders"
        ]
        (event,) = result.asset_events
        assert event.asset_key == dg.AssetKey(["kafka", topic])
        assert event.metadata["offsets"].value == 2
        limits = {each.name: each.limit for each in instance.event_log_storage.get_pool_limits()}
        assert limits == {"merge_shop__public__orders": 1}

    def test_a_reload_that_failed_is_tried_again_though_nothing_is_new(
        self, world: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CDC_ASSETS_WEBSERVER", "http://127.0.0.1:1")
        world.topic("orders")
        sensor = discover_sensor(world.config, Registry())

        for _ in range(2):
            said = skipped(tick(sensor, instance))
            assert "Waiting to load shop.public.orders" in said
            assert "http://127.0.0.1:1/graphql" in said

    def test_nothing_is_reloaded_once_the_definitions_have_the_table(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        world.topic("orders")
        loaded = world.discover()

        result = tick(discover_sensor(world.config, loaded), instance)
        assert skipped(result) == "No new topics; 1 tables."
        assert not result.asset_events

    @pytest.mark.parametrize(
        ("times", "first"),
        [
            ([], "2026-03-04-12:00"),
            ([NOW - 30 * HOUR, NOW - 40 * HOUR, NOW], "2026-03-03-06:00"),
            ([NOW - 5000 * HOUR, NOW], "2026-02-25-12:00"),
            ([NOW + 5000 * HOUR, NOW], "2026-03-04-12:00"),
        ],
        ids=["no record", "the first record", "months ago", "in the future"],
    )
    def test_hours_begin_with_the_first_tables_and_stay_for_later_ones(
        self, world: World, instance: dg.DagsterInstance, times: list[datetime], first: str
    ) -> None:
        world.topic("empty")
        world.produce(world.topic("orders", partitions=2), times, partition=1)
        begins = {each.hours_from for each in world.discover()}
        assert [hour_of(each).key for each in begins] == [first]
        world.produce(world.topic("later"), [NOW - 160 * HOUR, NOW])
        world.now = NOW + 48 * HOUR
        loaded = world.discover()
        assert ({each.hours_from for each in loaded}, len(loaded)) == (begins, 3)
        hours = {
            r.partition_key for r in tick(replicate(world, loaded), instance).run_requests or ()
        }
        assert first in hours, "older records are of the first hour"


def replicate(world: World, loaded: Registry) -> dg.SensorDefinition:
    return replicate_sensor(world.config, loaded, clock=lambda: world.now)


def promise(world: World, loaded: Registry) -> dg.SensorDefinition:
    return slo_sensor(world.config, loaded, clock=lambda: world.now)


@pytest.mark.stack
class TestReplicate:
    def test_tables_of_the_same_hour_share_a_run(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        for table in ("items", "orders"):
            world.produce(world.topic(table), [NOW])
        loaded = world.discover()

        (request,) = [*(tick(replicate(world, loaded), instance).run_requests or ())]
        assert request.partition_key == "2026-03-04-12:00"
        assert [key.path[-1] for key in request.asset_selection or ()] == ["items", "orders"]
        assert request.run_key is None
        assert request.tags[TAG_TABLE] == "shop.public.items shop.public.orders"
        assert request.tags[TAG_MODE] == "tail"

    def test_a_table_goes_on_in_the_hour_of_its_first_unread_offset(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        topic = world.topic("orders")
        world.produce(topic, [NOW - 3 * HOUR, NOW - 2 * HOUR, NOW])
        loaded = world.discover()
        (entry,) = loaded
        world.publish(entry.target, {0: 0}, {0: 1})

        (request,) = [*(tick(replicate(world, loaded), instance).run_requests or ())]
        assert request.partition_key == "2026-03-04-10:00"

    def test_an_out_of_order_timestamp_does_not_stop_the_table(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        """The unread record is of 9 o'clock, but the log's hours put its offset into 11."""
        topic = world.topic("orders")
        world.produce(topic, [NOW - 3 * HOUR, NOW - HOUR, NOW - 3 * HOUR, NOW])
        loaded = world.discover()
        (entry,) = loaded
        world.publish(entry.target, {0: 0}, {0: 2})

        (request,) = [*(tick(replicate(world, loaded), instance).run_requests or ())]
        assert request.partition_key == "2026-03-04-11:00"

    def test_a_timestamp_in_the_future_is_read_in_the_current_hour(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        world.produce(world.topic("orders"), [NOW + 9 * HOUR])

        (request,) = [*(tick(replicate(world, world.discover()), instance).run_requests or ())]
        assert request.partition_key == "2026-03-04-12:00"

    def test_a_table_that_is_read_to_the_end_gets_no_run(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        world.produce(world.topic("orders"), [NOW, NOW])
        loaded = world.discover()
        (entry,) = loaded
        world.publish(entry.target, {0: 0}, {0: 2})

        result = tick(replicate(world, loaded), instance)
        assert not result.run_requests
        assert "read to the end" in skipped(result)

    @pytest.mark.parametrize(
        "status", [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED], ids=str
    )
    def test_a_table_is_left_out_while_an_unfinished_run_has_it(
        self, world: World, instance: dg.DagsterInstance, status: dg.DagsterRunStatus
    ) -> None:
        for table in ("items", "orders"):
            world.produce(world.topic(table), [NOW])
        loaded = world.discover()
        add_run(world, instance, loaded, "items", status)

        (request,) = [*(tick(replicate(world, loaded), instance).run_requests or ())]
        assert [key.path[-1] for key in request.asset_selection or ()] == ["orders"]

    def test_a_failed_run_does_not_stop_the_table(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        world.produce(world.topic("orders"), [NOW])
        loaded = world.discover()
        add_run(world, instance, loaded, "orders", dg.DagsterRunStatus.FAILURE)

        assert tick(replicate(world, loaded), instance).run_requests

    @pytest.mark.parametrize(
        ("kind", "seconds"), [(FailureKind.TRANSIENT, 10), (FailureKind.TERMINAL, 60)], ids=str
    )
    def test_a_failing_table_waits_for_its_back_off(
        self, world: World, instance: dg.DagsterInstance, kind: FailureKind, seconds: int
    ) -> None:
        world.produce(world.topic("orders"), [NOW])
        loaded = world.discover()
        (entry,) = loaded
        world.services.failures.record(entry.table, kind, "it broke", NOW)

        world.now = NOW + timedelta(seconds=seconds - 1)
        assert "failing: shop.public.orders again at" in skipped(
            tick(replicate(world, loaded), instance)
        )
        world.now = NOW + timedelta(seconds=seconds)
        assert tick(replicate(world, loaded), instance).run_requests

    def test_a_paused_table_gets_no_run_until_it_is_resumed(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        for table in ("items", "orders"):
            world.produce(world.topic(table), [NOW])
        loaded = world.discover()
        orders = next(each.table for each in loaded if each.table.name == "orders")
        world.services.desired.put(orders, Directive.PAUSED, DirectiveNote(NOW))

        (request,) = [*(tick(replicate(world, loaded), instance).run_requests or ())]
        assert [key.path[-1] for key in request.asset_selection or ()] == ["items"]
        items = next(each for each in loaded if each.table.name == "items")
        world.publish(items.target, {0: 0}, {0: 1})
        said = skipped(tick(replicate(world, loaded), instance))
        assert "paused or dropped: shop.public.orders" in said
        world.services.desired.remove(orders, Directive.PAUSED)
        (request,) = [*(tick(replicate(world, loaded), instance).run_requests or ())]
        assert "shop.public.orders" in request.tags[TAG_TABLE]

    def test_a_table_that_has_stopped_gets_a_run_only_to_be_probed(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        world.produce(world.topic("orders"), [NOW])
        loaded = world.discover()
        (entry,) = loaded
        for minute in range(6):
            world.services.failures.record(
                entry.table, FailureKind.TRANSIENT, "no answer", NOW + timedelta(minutes=minute),
                give_up_after=timedelta(minutes=5),
            )  # fmt: skip
        world.now = NOW + timedelta(minutes=30)
        result = tick(replicate(world, loaded), instance)
        assert not result.run_requests
        assert "stopped, and probed once an hour or resumed: shop.public.orders" in skipped(result)
        slo = evaluations(tick(promise(world, loaded), instance))["replication_slo"]
        assert slo.severity is dg.AssetCheckSeverity.ERROR
        assert "stopped: it failed 6 times since 2026-03-04 12:30:00Z" in (slo.description or "")
        world.now = NOW + timedelta(minutes=96)
        assert tick(replicate(world, loaded), instance).run_requests, "its probe is due"
        world.now = NOW + timedelta(minutes=30)
        world.services.failures.clear(entry.table)
        assert tick(replicate(world, loaded), instance).run_requests

    def test_a_backlog_gets_a_run_of_its_own(
        self, world: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("cdc_assets.orchestration.planning.BACKLOG_CHANGES", 5)
        world.produce(world.topic("items"), [NOW] * 6)
        world.produce(world.topic("orders"), [NOW])

        small, big = [*(tick(replicate(world, world.discover()), instance).run_requests or ())]
        assert [key.path[-1] for key in small.asset_selection or ()] == ["orders"]
        assert [key.path[-1] for key in big.asset_selection or ()] == ["items"]
        assert TAG_BACKLOG in big.tags
        assert TAG_BACKLOG not in small.tags


def add_run(
    world: World,
    instance: dg.DagsterInstance,
    loaded: Registry,
    table: str,
    status: dg.DagsterRunStatus,
) -> dg.DagsterRun:
    definitions = build_definitions(world.config, loaded)
    key = dg.AssetKey(["shop", "public", table])
    job = definitions.resolve_implicit_global_asset_job_def()
    run = instance.create_run_for_job(
        job, asset_selection=frozenset([key]), tags={TAG_MODE: "tail"}
    )
    event = {
        dg.DagsterRunStatus.STARTING: dg.DagsterEventType.RUN_STARTING,
        dg.DagsterRunStatus.STARTED: dg.DagsterEventType.RUN_START,
        dg.DagsterRunStatus.FAILURE: dg.DagsterEventType.RUN_FAILURE,
    }[status]
    instance.report_dagster_event(dg.DagsterEvent(event.value, run.job_name), run.run_id)
    return run


CHECKS = 3
"""Of each table."""


@pytest.mark.stack
class TestReplicationSlo:
    def test_a_comment_of_the_source_becomes_the_assets_description(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        """From the next load of definitions on, without a look at the lake."""
        world.produce(world.topic("orders"), [NOW])
        loaded = world.discover()
        (entry,) = loaded
        world.publish(entry.target, {0: 0}, {0: 1})
        table = open_catalog(world.config).load_table((entry.target.namespace, entry.target.name))
        for comment, kept in (
            ("What people *buy*", "What people *buy*"),
            ("x" * 5_000, "x" * 1_000),
        ):
            with table.transaction() as change:
                change.set_properties(comment=comment)
            sensor = promise(world, loaded)
            with faults() as seen:
                tick(sensor, instance)
                tick(sensor, instance)
            assert seen.seen["registry: replace"] == 1, "it is written once"
            (known,) = world.services.registry.load()
            assert default_spec(world.config, known).description == (
                f"{kept}\n\n{default_spec(world.config, entry).description}"
            )

    def test_checks_of_all_tables_are_written_without_a_run(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        world.produce(world.topic("orders"), [NOW])
        loaded = world.discover()
        (entry,) = loaded
        world.publish(entry.target, {0: 0}, {0: 1})

        checks = evaluations(tick(promise(world, loaded), instance))
        assert checks["offsets_contiguous"].passed
        slo = checks["replication_slo"]
        assert slo.passed
        assert slo.metadata["percent_within"].value == 100.0
        assert slo.metadata["changes"].value == 1
        assert slo.metadata["lag_changes"].value == 0
        assert slo.metadata["error_budget_left"].value == 1.0
        assert slo.metadata["merged_every_seconds"].value == 6.0
        assert "merged every 6 s: runs.every_seconds" in (slo.description or "")

    def test_changes_that_wait_too_long_break_the_promise(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        world.produce(world.topic("orders"), [NOW - timedelta(minutes=6)] * 3)

        slo = evaluations(tick(promise(world, world.discover()), instance))["replication_slo"]
        assert not slo.passed
        assert slo.severity is dg.AssetCheckSeverity.ERROR
        assert slo.metadata["changes_late"].value == 3
        assert slo.metadata["lag_seconds"].value == 360.0

    def test_a_table_that_stopped_is_red_at_once(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        world.topic("orders")
        loaded = world.discover()
        (entry,) = loaded
        world.services.failures.record(entry.table, FailureKind.TERMINAL, "no key", NOW)

        slo = evaluations(tick(promise(world, loaded), instance))["replication_slo"]
        assert not slo.passed
        assert slo.severity is dg.AssetCheckSeverity.ERROR
        assert "failing: no key" in (slo.description or "")

    def test_a_check_has_the_state_since_when_and_why(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        world.produce(world.topic("orders"), [NOW - timedelta(minutes=6)] * 3)
        loaded = world.discover()
        (entry,) = loaded

        def told() -> tuple[object, object, object]:
            metadata = evaluations(tick(promise(world, loaded), instance))[
                "replication_slo"
            ].metadata
            since = metadata.get("state_since")
            words = (metadata["state"].value, metadata["state_why"].value)
            return words[0], since and since.value, words[1]

        world.publish(entry.target, {0: 0}, {0: 2})
        late = (NOW - timedelta(minutes=1)).timestamp()
        assert told() == ("LAGGING", late, "the oldest of 1 unread records is older than 300 s")
        world.publish(entry.target, {0: 2}, {0: 3})
        world.now += timedelta(minutes=1)
        assert told() == ("REPLICATING", world.now.timestamp(), "all is merged")
        begun = world.now
        world.now += timedelta(minutes=1)
        assert told() == ("REPLICATING", begun.timestamp(), "all is merged")
        wanted = DirectiveNote(NOW, "cdc-assets rebuild")
        world.services.desired.put(entry.table, Directive.REBUILD, wanted)
        state, since, why = told()
        assert (state, since) == ("REBUILDING", NOW.timestamp())
        assert "it is being rebuilt since 2026-03-04 12:30:00Z by cdc-assets rebuild" in str(why)

    def test_a_paused_table_is_not_red_and_says_what_waits(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        world.produce(world.topic("orders"), [NOW - timedelta(minutes=6)] * 3)
        loaded = world.discover()
        (entry,) = loaded
        wanted = DirectiveNote(NOW - HOUR, "pause_tables", "index is rebuilt")
        world.services.failures.record(entry.table, FailureKind.TERMINAL, "no key", NOW)
        world.services.desired.put(entry.table, Directive.PAUSED, wanted)

        slo = evaluations(tick(promise(world, loaded), instance))["replication_slo"]
        assert slo.passed
        assert (slo.description or "").startswith(
            "paused since 2026-03-04 11:30:00Z by pause_tables: index is rebuilt → cdc-assets "
            "resume --table shop.public.orders; 3 changes wait, the oldest for 6 min"
        )
        world.services.desired.remove(entry.table, Directive.PAUSED)
        slo = evaluations(tick(promise(world, loaded), instance))["replication_slo"]
        assert not slo.passed, "what was held back counts again"

    def test_a_paused_table_stays_fresh_though_nothing_is_merged(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        world.produce(world.topic("orders"), [NOW - timedelta(minutes=6)] * 3)
        loaded = world.discover()
        (entry,) = loaded
        world.publish(entry.target, {0: 0}, {0: 1})
        world.services.desired.put(
            entry.table, Directive.PAUSED, DirectiveNote(NOW - HOUR, why="moving")
        )
        sensor, cursor, counts = promise(world, loaded), None, list[int]()
        for minutes in (0, 1, 30, 31, 90, 91):
            world.now = NOW + timedelta(minutes=minutes)
            result = tick(sensor, instance, cursor)
            cursor = result.cursor
            events = [e for e in result.asset_events if isinstance(e, dg.AssetMaterialization)]
            held = [each for each in events if each.partition is None]
            assert {each.partition for each in events} <= {None, hour_of(NOW - HOUR).key}, (
                "the hour of what waits was not merged"
            )
            assert all("paused since" in str(each.description) for each in held)
            counts.append(len(held))
        assert counts == [1, 0, 1, 0, 1, 0], "once in each hour"
        (status,) = json.loads(read_status(world.services, [entry]).to_json())["tables"]
        assert status["condition"]["since"] == (NOW - HOUR).isoformat()
        world.services.desired.remove(entry.table, Directive.PAUSED)
        world.publish(entry.target, {0: 1}, {0: 3})
        result = tick(sensor, instance, cursor)
        held = [e for e in result.asset_events if isinstance(e, dg.AssetMaterialization)]
        assert not [each for each in held if each.partition is None]
        (status,) = json.loads(read_status(world.services, [entry]).to_json())["tables"]
        assert status["condition"]["state"] == "REPLICATING"
        assert status["condition"]["since"] == world.now.isoformat()

    def test_changes_that_will_be_lost_are_told_in_time_with_the_hour(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        """By the real clock: Kafka may delete what is older than it keeps it."""
        world.now = datetime.now(UTC)
        topic = world.topic("orders", retention_ms=str(2 * 3_600_000))
        world.produce(topic, [world.now - timedelta(minutes=50)] * 4)
        loaded = world.discover()
        (entry,) = loaded
        world.publish(entry.target, {0: 0}, {0: 1})
        world.services.desired.put(entry.table, Directive.PAUSED, DirectiveNote(world.now))
        sensor = promise(world, loaded)

        first = tick(sensor, instance)
        assert evaluations(first)["replication_slo"].passed, "there is more than an hour left"
        assert observed(first) == []
        world.now += timedelta(minutes=20)
        second = tick(sensor, instance, first.cursor)
        slo = evaluations(second)["replication_slo"]
        assert (slo.passed, slo.severity) == (False, dg.AssetCheckSeverity.WARN)
        lost_from = world.now + timedelta(minutes=50)
        said = f"from {lost_from:%Y-%m-%d %H:%M}Z on changes that wait will be lost (retention.ms)"
        assert (slo.description or "").startswith(said)
        assert "paused since" in (slo.description or "")
        told = slo.metadata["changes_lost_from"].value
        assert abs(float(str(told)) - lost_from.timestamp()) < 1
        assert [said in each for each in observed(second)] == [True]
        status = json.loads(read_status(world.services, [entry]).to_json())["tables"][0]
        assert status["retention"]["by"] == "retention.ms"
        assert status["retention"]["is_near"] is True
        third = tick(sensor, instance, second.cursor)
        assert observed(third) == [], "once"

        world.lose(topic, 3)
        slo = evaluations(tick(sensor, instance, third.cursor))["replication_slo"]
        assert (slo.passed, slo.severity) == (False, dg.AssetCheckSeverity.ERROR)
        assert "retention has overtaken it: 2 changes are lost" in (slo.description or "")
        world.services.desired.remove(entry.table, Directive.PAUSED)
        world.publish(entry.target, {0: 1}, {0: 4})
        last = tick(sensor, instance, third.cursor)
        assert observed(last) == ["what waits is no longer about to be lost"]

    def test_a_hole_between_publishes_is_found(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        world.produce(world.topic("orders"), [NOW] * 9)
        loaded = world.discover()
        (entry,) = loaded
        world.publish(entry.target, {0: 0}, {0: 2})
        world.publish(entry.target, {0: 4}, {0: 9})

        check = evaluations(tick(promise(world, loaded), instance))["offsets_contiguous"]
        assert not check.passed
        assert check.metadata["gaps"].value == 1
        assert "starts at 4" in (check.description or "")
        assert "ended at 2" in (check.description or "")

    def test_an_outcome_is_written_again_only_when_it_changes_or_is_old(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        world.topic("orders")
        sensor = promise(world, world.discover())

        first = tick(sensor, instance)
        assert len(first.asset_events) == CHECKS
        world.now = NOW + timedelta(minutes=1)
        assert not tick(sensor, instance, first.cursor).asset_events
        world.now = NOW + timedelta(minutes=15)
        assert not tick(sensor, instance, first.cursor).asset_events
        world.now = NOW + timedelta(hours=1)
        assert len(tick(sensor, instance, first.cursor).asset_events) == CHECKS

    def test_hours_that_are_over_and_read_are_closed_before_the_checks(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        world.produce(world.topic("orders"), [NOW - 2 * HOUR])
        loaded = world.discover()
        (entry,) = loaded
        world.publish(entry.target, {0: 0}, {0: 1})
        sensor = promise(world, loaded)

        first = tick(sensor, instance)
        assert kinds(first) == ["AssetMaterialization"] * 2 + ["AssetCheckEvaluation"] * CHECKS
        assert closed(first) == ["2026-03-04-10:00", "2026-03-04-11:00"], "of the first record on"
        world.now = NOW + 3 * HOUR
        later = tick(sensor, instance, first.cursor)
        assert closed(later) == [f"2026-03-04-{hour}:00" for hour in (12, 13, 14, 15)]
        said = [each.metadata["hour_closed"].value for each in made(later)]
        assert said == [True, True, True, False], "the present hour is opened"
        described = [each.partition for each in made(later) if COLUMNS in each.metadata]
        assert described == ["2026-03-04-14:00", "2026-03-04-15:00"]
        assert closed(tick(sensor, instance, later.cursor)) == []

    def test_all_hours_since_the_first_are_closed_some_at_each_tick(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        world.produce(world.topic("orders"), [NOW - 3 * 24 * HOUR])
        world.produce(world.topic("items"), [NOW])
        loaded = world.discover()
        for entry in loaded:
            world.publish(entry.target, {0: 0}, {0: 1})
        sensor, cursor, hours = promise(world, loaded), None, list[str]()
        for _ in range(3):
            result = tick(sensor, instance, cursor)
            cursor = result.cursor
            hours += [f"{e.asset_key.path[-1]} {e.partition}" for e in made(result)]
            for event in made(result):
                instance.report_runless_asset_event(event)
        wanted = [hour_of(NOW - HOUR * back).key for back in range(72, 0, -1)]
        for table in ("items", "orders"):
            assert [e.split()[1] for e in hours if e.startswith(table)] == wanted

        lost = tick(sensor, instance)
        assert closed(lost) == ["2026-03-04-11:00"] * 2, "the cursor was lost, the events are there"

    @pytest.mark.parametrize(
        ("off", "hours"), [(6, range(6)), (48, range(48)), (60, range(12, 60))], ids=str
    )
    def test_what_was_not_closed_while_the_sensor_was_off_is_closed_though_its_cursor_is_lost(
        self, world: World, instance: dg.DagsterInstance, off: int, hours: range
    ) -> None:
        loaded = merged(world, instance, NOW - 2 * HOUR)
        world.now = NOW + off * HOUR

        result = tick(promise(world, loaded), instance)
        wanted = [hour_of(NOW + hour * HOUR).key for hour in (*hours, off)]
        assert closed(result) == wanted, "the last one is opened"

    def test_hours_that_were_wiped_are_closed_again_once_the_cursor_is_reset(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        """Even if the sensor has closed others since."""
        loaded = merged(world, instance, NOW - 2 * HOUR)
        instance.wipe_assets([table_key(world.config, entry) for entry in loaded])
        world.now = NOW + HOUR
        before = json.dumps({"hours": {"shop/public/orders": "2026-03-04-11:00"}})
        later = report(instance, tick(promise(world, loaded), instance, before))
        assert closed(later) == ["2026-03-04-12:00", "2026-03-04-13:00"]

        wiped = closed(tick(promise(world, loaded), instance))
        assert wiped == [f"2026-03-04-{hour}:00" for hour in (10, 11, 12, 13)]

    def test_an_asset_with_another_key_has_all_hours_closed(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        loaded = merged(world, instance, NOW - 2 * HOUR)
        first = tick(promise(world, loaded), instance)

        mounted = world.config.mounted(Mount(lambda config, entry: dg.AssetSpec("other")))
        moved = slo_sensor(mounted, loaded, clock=lambda: world.now)
        second = tick(moved, instance, first.cursor)
        assert {each.asset_key for each in made(second)} == {dg.AssetKey("other")}
        assert closed(second) == ["2026-03-04-10:00", "2026-03-04-11:00"]

    def test_a_cursor_of_an_earlier_version_is_gone_on_with(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        """It noted hours by the tables' names. A backfill has replaced what closed the hours."""
        loaded = merged(world, instance, NOW - 2 * HOUR)
        key = table_key(world.config, loaded.entries[0])
        for hour in ("2026-03-04-10:00", "2026-03-04-11:00"):
            instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=hour))
        hours = {"shop.public.orders": "2026-03-04-11:00", "shop.public.orders:open": "x"}
        former = json.dumps({"checks": {}, "hours": hours})

        first = tick(promise(world, loaded), instance, former)
        assert closed(first) == []
        noted = json.loads(first.cursor or "")["hours"]
        assert set(noted) == {"shop/public/orders", "shop/public/orders:open"}
        instance.wipe_assets([key])
        assert len(closed(tick(promise(world, loaded), instance, former))) == 2, "as by another key"

    def test_eager_assets_run_once_no_hour_of_their_tables_is_missing(
        self, world: World, instance_in_memory: dg.DagsterInstance
    ) -> None:
        """Plain ``eager()`` of an asset without partitions, which depends on all hours."""
        instance = instance_in_memory
        for table in ("items", "orders"):
            world.produce(world.topic(table), [NOW - 5 * HOUR])
        loaded = world.discover()
        for entry in loaded:
            world.publish(entry.target, {0: 0}, {0: 1})
        keys = [table_key(world.config, entry) for entry in loaded]

        @dg.asset(deps=keys, automation_condition=dg.AutomationCondition.eager())
        def report() -> None: ...

        made_of = build_definitions(world.config, loaded)
        defs = dg.Definitions.merge(made_of, dg.Definitions(assets=[report]))
        sensor, cursor, ticked = promise(world, loaded), list[str | None](), list[object]()

        def is_asked_for() -> bool:
            result = dg.evaluate_automation_conditions(
                defs, instance=instance, evaluation_time=world.now,
                cursor=ticked[-1] if ticked else None,  # pyright: ignore[reportArgumentType]
            )  # fmt: skip
            ticked.append(result.cursor)
            return bool(result.get_num_requested(report.key))

        def merges(*entries: TableEntry) -> None:
            for entry in entries:
                key, all_hours = table_key(world.config, entry), hourly_partitions(entry.hours_from)

                @dg.asset(key=key, partitions_def=all_hours)
                def merged() -> None: ...

                hour = hour_of(world.now).key
                assert dg.materialize([merged], instance=instance, partition_key=hour).success

        def closes() -> None:
            result = tick(sensor, instance, cursor[-1] if cursor else None)
            cursor.append(result.cursor)
            for event in made(result):
                instance.report_runless_asset_event(event)

        assert not is_asked_for()
        merges(*loaded)
        assert not is_asked_for(), "the idle hours before are missing"
        closes()
        assert is_asked_for()
        assert not is_asked_for(), "once"
        world.now = NOW + HOUR
        merges(loaded.entries[0])
        assert not is_asked_for(), "nobody has opened the present hour of the other table"
        closes()
        assert is_asked_for()
        assert not is_asked_for(), "once"
        merges(loaded.entries[0])
        assert is_asked_for(), "a change within the hour"

    @pytest.mark.parametrize(
        ("limit", "first", "second"),
        [
            ("CLOSED_AT_ONCE", ["items 11", "items 12"], ["items 13", "orders 11"]),
            (
                "COLUMNS_AT_ONCE",
                ["items 11", "items 12", "items 13"],
                ["orders 11", "orders 12", "orders 13"],
            ),
        ],
    )
    def test_a_tick_closes_only_so_many_hours_and_the_next_one_goes_on(
        self, world: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch,
        limit: str, first: list[str], second: list[str],
    ) -> None:  # fmt: skip
        for table in ("items", "orders"):
            world.produce(world.topic(table), [NOW - 3 * HOUR])
        loaded = world.discover()
        for entry in loaded:
            world.publish(entry.target, {0: 0}, {0: 1})
        before = {f"shop/public/{table}": "2026-03-04-10:00" for table in ("items", "orders")}
        sensor, cursor = promise(world, loaded), json.dumps({"hours": before})
        world.now = NOW + 2 * HOUR

        monkeypatch.setattr(f"cdc_assets.orchestration.sensors.slo.{limit}", 2)
        for hours in (first, second):
            result = tick(sensor, instance, cursor)
            events = made(result)
            assert [f"{e.asset_key.path[-1]} {(e.partition or '')[-5:-3]}" for e in events] == hours
            described = {e.partition for e in events if COLUMNS in e.metadata}
            assert described <= {"2026-03-04-13:00"}
            cursor = result.cursor

    def test_an_hour_with_unread_changes_stays_open(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        world.produce(world.topic("orders"), [NOW - 2 * HOUR, NOW - HOUR])
        loaded = world.discover()
        (entry,) = loaded
        world.publish(entry.target, {0: 0}, {0: 1})

        assert closed(tick(promise(world, loaded), instance)) == []

    def test_tables_whose_publishes_a_tick_has_no_time_to_read_are_left_to_the_next_ones(
        self, world: World, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for table in ("items", "orders", "people"):
            world.produce(world.topic(table), [NOW - HOUR])
        loaded = world.discover()
        for entry in loaded:
            world.publish(entry.target, {0: 0}, {0: 1})
        monkeypatch.setattr("cdc_assets.orchestration.sensors.slo.READING", timedelta(0))
        sensor, cursor, judged, left = promise(world, loaded), None, list[str](), list[str]()
        for number in range(3):
            world.now = NOW + number * timedelta(minutes=1)
            result = tick(sensor, instance, cursor)
            cursor = result.cursor
            judged += dict.fromkeys(
                each.asset_key.path[-1]
                for each in result.asset_events
                if isinstance(each, dg.AssetCheckEvaluation)
            )
            left.append(str(result.skip_reason))
        assert sorted(judged) == ["items", "orders", "people"], "each once, by one tick each"
        assert ["2 of them" in left[0], "1 of them" in left[1], "of them" in left[2]] == [
            True, True, False,
        ]  # fmt: skip

    def test_tables_that_have_not_changed_are_not_read_again(
        self, world: World, instance: dg.DagsterInstance
    ) -> None:
        for table in ("items", "orders"):
            world.produce(world.topic(table), [NOW])
        loaded = world.discover()
        for entry in loaded:
            world.publish(entry.target, {0: 0}, {0: 1})
        sensor = promise(world, loaded)
        with faults() as first:
            cursor = tick(sensor, instance).cursor
        with faults() as second:
            tick(sensor, instance, cursor)
        assert first.seen["lake: load table"] > 0
        assert second.seen["lake: load table"] == 0

    def test_a_lost_cursor_does_no_harm(self, world: World, instance: dg.DagsterInstance) -> None:
        world.topic("orders")
        sensor = promise(world, world.discover())

        once, again = tick(sensor, instance), tick(sensor, instance)
        assert len(once.asset_events) == len(again.asset_events) == CHECKS
        assert json.loads(again.cursor or "") == json.loads(once.cursor or "")


def evaluations(result: dg.SensorResult) -> dict[str, dg.AssetCheckEvaluation]:
    return {
        event.check_name: event
        for event in result.asset_events
        if isinstance(event, dg.AssetCheckEvaluation)
    }


def observed(result: dg.SensorResult) -> list[str]:
    found = [each for each in result.asset_events if isinstance(each, dg.AssetObservation)]
    return [each.description or "" for each in found]


def kinds(result: dg.SensorResult) -> list[str]:
    return [type(event).__name__ for event in result.asset_events]


def merged(world: World, instance: dg.DagsterInstance, first: datetime) -> Registry:
    """A table that is merged, and whose hours are closed."""
    world.produce(world.topic("orders"), [first])
    loaded = world.discover()
    (entry,) = loaded
    world.publish(entry.target, {0: 0}, {0: 1})
    assert closed(report(instance, tick(promise(world, loaded), instance)))
    return loaded


def report(instance: dg.DagsterInstance, result: dg.SensorResult) -> dg.SensorResult:
    """As the daemon does."""
    for event in made(result):
        instance.report_runless_asset_event(event)
    return result


def made(result: dg.SensorResult) -> list[dg.AssetMaterialization]:
    return [each for each in result.asset_events if isinstance(each, dg.AssetMaterialization)]


def closed(result: dg.SensorResult) -> list[str | None]:
    return [
        event.partition
        for event in result.asset_events
        if isinstance(event, dg.AssetMaterialization)
    ]
