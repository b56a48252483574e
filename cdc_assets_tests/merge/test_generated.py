"""The generated logs of the reference, through Kafka, Spark and Iceberg: the same tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from cdc_assets.changes import reference_keyless
from cdc_assets.changes.reference import fold
from cdc_assets.errors import TerminalError
from cdc_assets.log.hours import HourWindow, hour_of
from cdc_assets.merge.multiset import MissingRowError
from cdc_assets_tests.pipeline import Pipeline
from cdc_assets_tests.toy import cuts
from cdc_assets_tests.toy.actions import Log, keyless_logs, logs
from cdc_assets_tests.toy.connector import changes_of
from cdc_assets_tests.toy.cuts import Merge
from cdc_assets_tests.toy.debezium import messages

pytestmark = [pytest.mark.stack, pytest.mark.property]

Make = Callable[..., Pipeline]
TABLE = "public.t"
HOURS = tuple(
    hour_of(datetime.now(UTC) - timedelta(hours=ago)) for ago in (3, 2)
)  # closed ones, so that each replay reads a part of the log
ACTIONS = 16
BATCHES = 3


def cases(count: int) -> Callable[..., Any]:
    """So many, the same in every run; small enough as they are, so none is made smaller."""
    return settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def whole(log: Log) -> bool:
    """Kafka has offsets without a record only inside of transactions of its own."""
    return bool(log.records) and not any(record.is_gap for record in log.records)


@pytest.mark.parametrize("deletes", ["hard", "soft"])
def test_tables_with_a_key(pipeline: Make, deletes: str) -> None:
    @cases(16)
    @given(logs(ACTIONS).filter(whole))
    def run(log: Log) -> None:
        Run(pipeline, log, deletes).keyed()

    run()


def test_tables_without_a_key(pipeline: Make) -> None:
    @cases(8)
    @given(keyless_logs(ACTIONS).filter(whole))
    def run(log: Log) -> None:
        Run(pipeline, log, "hard").keyless()

    run()


class Run:
    """One log on its way."""

    def __init__(self, pipeline: Make, log: Log, deletes: str) -> None:
        columns = {name: "bigint" if name == "n" else "string" for name in log.shape.columns}
        configured = {name: columns[name] for name in columns if name not in log.shape.key}
        self.log = log
        self.soft = deletes == "soft"
        self.pipeline = pipeline(tables={TABLE: {"columns": configured, "deletes": deletes}})
        self.partitions = log.settings.partitions
        self.pipeline.create_topic(TABLE, self.partitions)
        half = len(log.records) // 2
        self.sent = list(zip(log.records, messages(log.records), strict=True))
        self.hours = [HOURS[number >= half] for number in range(len(self.sent))]
        self.there: Mapping[int, int] = {}

    def keyed(self) -> None:
        for number, step in enumerate(self.steps()):
            if isinstance(step, Merge):
                self.produce(step.to)
                self.merge()
            else:
                self.replay(HOURS[number % 2])
            known = changes_of(cuts.between(self.log.records, {}, self.there))
            table = fold(known, self.log.shape, soft=self.soft)
            expected = {key: (dict(image.values), image.deleted) for key, image in table.items()}
            assert self.rows() == expected, f"after step {number}:\n{self.log.describe()}"
        self.replay(HOURS[0])
        assert self.rows() == expected, f"replayed:\n{self.log.describe()}"

    def keyless(self) -> None:
        for number, step in enumerate(self.steps()):
            assert isinstance(step, Merge)
            self.produce(step.to)
            try:
                self.merge()
            except MissingRowError:
                continue
            known = changes_of(cuts.between(self.log.records, {}, self.there))
            expected = reference_keyless.fold(known)
            found = Counter(tuple(sorted(row.items())) for row in self.pipeline.rows(TABLE))
            assert found == +expected, f"after step {number}:\n{self.log.describe()}"

    def steps(self) -> list[cuts.Step]:
        """The last few, so that the last reads to the end."""
        return list(self.log.steps[-BATCHES:])

    def produce(self, to: Mapping[int, int]) -> None:
        """What lies below these offsets and is not there yet."""
        new = [
            replace(message, timestamp_ms=int(hour.start.timestamp() * 1000) + 1)
            for (record, message), hour in zip(self.sent, self.hours, strict=True)
            if self.there.get(record.partition, 0) <= record.offset < to.get(record.partition, 0)
        ]
        needed = max((message.partition for message in new), default=0) + 1
        if needed > self.partitions:
            self.pipeline.add_partitions(TABLE, needed)
            self.partitions = needed
        self.pipeline.produce(TABLE, new)
        self.there = dict(to)

    def merge(self) -> None:
        try:
            self.pipeline.merge(TABLE)
        except TerminalError as error:
            # Nothing tells the columns of a table before its first row.
            if "no columns" not in error.what:
                raise

    def replay(self, hour: HourWindow) -> None:
        target = self.pipeline.entry(TABLE).target
        if self.pipeline.lake.state(target) is None:
            return
        list(self.pipeline.replicator().replay(self.pipeline.entry(TABLE), [hour], run_id="again"))

    def rows(self) -> dict[tuple[object, ...], tuple[dict[str, object], bool]]:
        """By key: the row, and whether it is marked as deleted."""
        target = self.pipeline.entry(TABLE).target
        if self.pipeline.lake.state(target) is None:
            return {}
        found = self.pipeline.spark().table(f"lake.{target}").collect()
        columns = self.log.shape.columns
        rows = {
            tuple(row[name] for name in self.log.shape.key): (
                {name: row[name] if name in row else None for name in columns},
                bool(self.soft and row["_cdc_deleted"]),
            )
            for row in found
        }
        assert len(rows) == len(found), "a key is there twice"
        return rows
