"""Merging hours again that were merged before leaves every table as it is.

The events are Debezium's own. They are copied to a topic where they lie in four different
hours, as if they had been written then: what an hour inserted, a later one deletes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache

import dagster as dg
import pytest
from cdc_assets_devstack.stack import LocalStack
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from cdc_assets.config import ReplicationConfig
from cdc_assets.log.hours import HOUR, HourWindow, hour_of
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.lake_view import read_rows
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated, write_config
from cdc_assets_tests.stack.side import side_of
from cdc_assets_tests.toy.profiles import in_soak

pytestmark = [pytest.mark.stack, in_soak]

TABLE = "visits"
CREATE = (
    "CREATE TABLE visits "
    "(id bigint PRIMARY KEY, place text, paid numeric(8,2), seen_at timestamptz DEFAULT now())"
)
PHASES = (
    "INSERT INTO visits SELECT n, 'place ' || n % 5, n / 4.0 FROM generate_series(1, 300) AS n",
    "UPDATE visits SET place = 'elsewhere', paid = NULL WHERE id % 3 = 0",
    "DELETE FROM visits WHERE id % 4 = 0",
    "INSERT INTO visits SELECT n, 'back', 0 FROM generate_series(4, 40, 8) AS n",
)


@pytest.fixture(scope="module")
def past(
    stack: LocalStack, stack_config: ReplicationConfig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replicated]:
    """A table whose changes lie in four hours, all merged."""
    dsn = new_database(stack, "present", CREATE)
    with replicated(stack, stack_config, "present", dsn) as present:
        database = {"kind": "postgres", "dsn": {"env": "PRESENT_DSN"}}
        config = write_config(stack_config, "past", database=database)
        copied = Replicated(stack, config, "past", side_of(dsn), tmp_path_factory.mktemp("past"))
        copy = Copy(present, copied)
        for phase, hour in zip(PHASES, hours(), strict=True):
            present.execute(phase)
            present.wait_until_delivered()
            copy.all_new(hour)
        copied.replicate()
        yield copied
        copied.close()


@cache
def hours() -> list[HourWindow]:
    """Four that are over; the same for all tests, should an hour begin meanwhile."""
    now = datetime.now(UTC)
    return [hour_of(now - HOUR * back) for back in (5, 4, 3, 2)]


def by_command(past: Replicated, first: HourWindow, last: HourWindow) -> None:
    table = past.entry(TABLE).table
    past.run("replay", "--table", str(table), "--from", first.key, "--to", last.key)


def by_dagster(past: Replicated, first: HourWindow, last: HourWindow) -> None:
    with past.log.open("ab") as out:
        subprocess.run(
            [
                *(sys.executable, "-m", "dagster", "asset", "materialize"),
                *("-m", "cdc_assets.definitions", "--select", f"key:past/public/{TABLE}"),
                *("--partition-range", f"{first.key}...{last.key}"),
            ],
            env=past.env, stdout=out, stderr=out, check=True, timeout=240,
        )  # fmt: skip


def by_dagster_all(past: Replicated, first: HourWindow, _: HourWindow) -> None:
    """All partitions, as the page's backfill asks for them: they begin with the first record."""
    (start,) = {each.hours_from for each in RegistryFile(past.config.registry).load()}
    assert start == first.start
    by_dagster(past, first, hour_of(datetime.now(UTC)))


@pytest.mark.parametrize(
    ("replay", "first", "last"),
    [(by_command, 0, 1), (by_dagster, 0, 3), (by_dagster_all, 0, 3)],
    ids=["oldest hours by command", "hours with changes by dagster", "all hours by dagster"],
)
def test_replaying_hours_changes_nothing_though_rows_were_deleted_after_them(
    past: Replicated,
    replay: Callable[[Replicated, HourWindow, HourWindow], None],
    first: int,
    last: int,
) -> None:
    span = hours()[first], hours()[last]
    assert past.differences(TABLE) == []
    before, merged = content(past), past.publishes(TABLE)[-1].offsets
    events = materializations(past, span[0])

    replay(past, *span)

    assert content(past) == before
    assert past.differences(TABLE) == []
    assert past.publishes(TABLE)[-1].offsets == merged
    past.require_tiled(TABLE)
    again = materializations(past, span[0])
    assert len(again) == len(events) + 1, "the hour was not replayed"
    assert again[0].metadata["replay"].value is True
    assert again[0].metadata["rows_inserted"].value == 300


def test_the_hours_are_merged_one_by_one(past: Replicated) -> None:
    """Else a replay of the first hours would be a replay of everything."""
    for hour, count in zip(
        hours(), ("rows_inserted", "rows_updated", "rows_deleted"), strict=False
    ):
        merged = materializations(past, hour)[-1].metadata
        assert merged[count].value > 0
        assert merged["records"].value == merged[count].value


def content(past: Replicated) -> list[dict[str, object]]:
    rows = read_rows(past.config, past.entry(TABLE).target)
    return sorted(rows, key=lambda row: str(row["id"]))


def materializations(past: Replicated, hour: HourWindow) -> list[dg.AssetMaterialization]:
    """Of an hour's partition, newest first."""
    wanted = dg.AssetRecordsFilter(
        asset_key=dg.AssetKey(["past", "public", TABLE]), asset_partitions=[hour.key]
    )
    with dg.DagsterInstance.from_config(str(past.instance)) as instance:
        records = instance.fetch_materializations(wanted, limit=100).records
    return [each.asset_materialization for each in records if each.asset_materialization]


class Copy:
    """Copies what is new in one table's topic to another's, with other timestamps."""

    def __init__(self, source: Replicated, target: Replicated) -> None:
        self._topics = source.entry(TABLE).topic, target.entry(TABLE).topic
        self._log = KafkaLog(source.config.kafka.librdkafka())
        servers = {"bootstrap.servers": source.config.kafka.bootstrap_servers}
        self._consumer = Consumer({**servers, "group.id": "copy", "enable.auto.commit": False})
        self._producer = Producer({**servers, "enable.idempotence": True})
        self._done: dict[int, int] = {}
        self._admin = AdminClient(servers)

    def all_new(self, hour: HourWindow) -> None:
        source, target = self._topics
        end = self._log.watermarks([source])[source].end.as_dict()
        if not self._done:
            made = self._admin.create_topics([NewTopic(target, len(end), 1)])
            made[target].result(30)
        milliseconds = int(hour.start.timestamp() * 1000)
        for partition, last in end.items():
            start = self._done.get(partition, 0)
            self._consumer.assign([TopicPartition(source, partition, start)])
            for _ in range(last - start):
                message = self._consumer.poll(30)
                assert message is not None
                assert message.error() is None
                self._producer.produce(
                    target, message.value(), message.key(), partition, timestamp=milliseconds
                )
            self._done[partition] = last
        assert self._producer.flush(30) == 0
