"""A table that waits for the end of a transaction: what runs, sensors, checks and commands do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from cdc_assets_devstack.spark_server import SparkEndpoint

from cdc_assets.config import ReplicationConfig
from cdc_assets.log.hours import hour_of
from cdc_assets.operate.failures import Failure, FailureKind
from cdc_assets.operate.seen_states import Condition
from cdc_assets.operate.services import Services
from cdc_assets.operate.status import read_status
from cdc_assets.orchestration.assets import table_asset
from cdc_assets.orchestration.keys import SPARK, TAG_MODE, TAIL
from cdc_assets.orchestration.merge_commands import Selection, run_replicate
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.orchestration.sensors import replicate_sensor, slo_sensor
from cdc_assets.registry import Registry, RegistryFile
from cdc_assets_tests.merge.events import event, transaction_end
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

TABLE = "public.t"
ENDS = "transaction"


def change(transaction: int, place: int) -> Message:
    """A change whose source time is now, as the SLO looks at it."""
    lsn = transaction * 100 + place
    made = event("c", {"id": lsn, "n": transaction}, lsn, commit=transaction * 100, order=place)
    value = json.loads(made.value or b"{}")
    value["source"]["ts_ms"] = int(datetime.now(UTC).timestamp() * 1000)
    return Message(made.key, json.dumps(value).encode())


class Source(Pipeline):
    """One table, whose connector died amid its second transaction."""

    after = timedelta()
    """How much time has passed since, by the clock of everybody who looks."""

    def die(self) -> None:
        self.died = datetime.now(UTC)
        self.create_topic(TABLE)
        self.create_topic(ENDS)
        self.produce(TABLE, [change(1, 1), change(2, 1), change(2, 2)])
        self.produce(ENDS, [transaction_end(100, 199, 1)])
        RegistryFile(self.config.registry).add([self.entry(TABLE)])

    def come_back(self) -> None:
        self.produce(ENDS, [transaction_end(200, 299, 2)])

    def now(self) -> datetime:
        return self.died + self.after

    def services(self) -> Services:
        return Services(self.config, self.now)

    def run(self, instance: dg.DagsterInstance, patch: pytest.MonkeyPatch) -> bool:
        """What a run of the sensor does; whether it succeeds.

        Dagster knows the hours that have begun by its own clock.
        """
        patch.setattr("cdc_assets.operate.services.utc_now", self.now)
        for module in ("table_run.step", "scheduler"):
            name = f"cdc_assets.orchestration.{module}.Services"
            patch.setattr(name, lambda _: self.services())
        result = dg.materialize(
            [table_asset(self.config, self.entry(TABLE))], instance=instance,
            partition_key=hour_of(datetime.now(UTC)).key,
            resources={SPARK: spark_resource(self.config)},
            tags={TAG_MODE: TAIL}, raise_on_error=False,
        )  # fmt: skip
        return result.success

    def tick(self, instance: dg.DagsterInstance) -> dg.SensorResult:
        sensor = replicate_sensor(self.config, Registry.of([self.entry(TABLE)]), self.now)
        result = sensor(dg.build_sensor_context(instance=instance))
        assert isinstance(result, dg.SensorResult)
        return result

    def checks(self, instance: dg.DagsterInstance) -> dict[str, dg.AssetCheckEvaluation]:
        sensor = slo_sensor(self.config, Registry.of([self.entry(TABLE)]), self.now)
        result = sensor(dg.build_sensor_context(instance=instance))
        assert isinstance(result, dg.SensorResult)
        events = (each for each in result.asset_events)
        return {e.check_name: e for e in events if isinstance(e, dg.AssetCheckEvaluation)}

    def held(self) -> Failure | None:
        return self.services().failures.load().get(self.entry(TABLE).table)

    def condition(self) -> Condition:
        (only,) = read_status(self.services(), [self.entry(TABLE)]).tables
        return only.condition


@pytest.fixture
def source(
    stack_config: ReplicationConfig, kafka_bootstrap: str, spark_endpoint: SparkEndpoint,
    tmp_path: Path,
) -> Iterator[Source]:  # fmt: skip
    assert kafka_bootstrap
    assert spark_endpoint

    def unused() -> None:
        msg = "runs open sessions of their own"
        raise AssertionError(msg)

    made = Source(stack_config, unused, tmp_path)
    made.die()
    yield made
    RegistryFile(made.config.registry).remove([made.entry(TABLE).table])
    made.services().failures.clear(made.entry(TABLE).table)


def test_a_run_that_waits_succeeds_and_is_not_started_again_until_the_log_has_moved(
    source: Source, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert source.run(instance, monkeypatch)
    held = source.held()
    assert held is not None
    assert held.kind is FailureKind.WAITING
    assert "transaction 200 is not complete in the topic" in held.message
    assert source.topic(ENDS) in held.message
    assert "2 offsets wait" in held.message
    assert source.condition() is Condition.WAITING
    for _ in range(3):
        assert not source.tick(instance).run_requests
    said = source.tick(instance).skip_reason
    assert "waiting for the end of a transaction" in str(said)

    source.after = held.retry_at - source.died
    assert source.tick(instance).run_requests, "the interval is over"
    source.after = timedelta()
    source.come_back()
    assert source.tick(instance).run_requests, "the transaction topic has moved"
    assert source.run(instance, monkeypatch)
    assert source.held() is None
    assert source.condition() is Condition.REPLICATING
    assert len(source.rows(TABLE)) == 3


@profiles.in_soak
def test_intervals_grow_while_the_log_stands_still(
    source: Source, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = 0
    end, seconds = timedelta(minutes=14), 5
    while source.after < end:
        if source.tick(instance).run_requests:
            assert source.run(instance, monkeypatch)
            started += 1
        source.after += timedelta(seconds=seconds)
    assert 3 <= started <= 8, "of 168 ticks"


def test_the_checks_say_what_is_waited_for(
    source: Source, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.run(instance, monkeypatch)
    slo = source.checks(instance)["replication_slo"]
    assert slo.passed, "nothing is late so far"
    assert "waiting: transaction 200 is not complete" in (slo.description or "")
    assert slo.metadata["waiting_for_transaction"].value == "200"


def test_a_table_that_waited_too_long_has_stalled_and_goes_on_by_itself(
    source: Source, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.run(instance, monkeypatch)
    source.after = timedelta(minutes=16)
    assert source.tick(instance).run_requests, "the wait is over"
    assert not source.run(instance, monkeypatch)
    held = source.held()
    assert held is not None
    assert held.kind is FailureKind.STALLED
    assert held.needs_person
    assert source.condition() is Condition.FAILING
    slo = source.checks(instance)["replication_slo"]
    assert not slo.passed
    assert slo.severity is dg.AssetCheckSeverity.ERROR
    assert "waited for too long" in (slo.description or "")
    assert not source.tick(instance).run_requests
    assert len(source.rows(TABLE)) == 1

    source.come_back()
    assert source.tick(instance).run_requests
    assert source.run(instance, monkeypatch)
    assert source.held() is None
    assert len(source.rows(TABLE)) == 3


@profiles.in_soak
def test_the_command_ends_and_says_what_is_missing(source: Source) -> None:
    selection = Selection(table=str(source.entry(TABLE).table), until_caught_up=True)
    failed = run_replicate(source.config, selection)
    assert list(failed) == [source.entry(TABLE).table]
    (message,) = failed.values()
    assert "waiting: transaction 200 is not complete in the topic" in message
    assert len(source.rows(TABLE)) == 1

    source.come_back()
    assert run_replicate(source.config, selection) == {}
    assert len(source.rows(TABLE)) == 3
