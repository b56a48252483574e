"""What Spark finds in a batch is what `cdc_assets.changes.restarts` finds, record by record."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.position import Scheme
from cdc_assets.changes.restarts import (
    COMMIT_NUMBERS,
    LEEWAY_MS,
    Commit,
    MergedState,
    NumberingPlace,
    Restart,
    witness,
)
from cdc_assets.decode import SETTINGS
from cdc_assets.merge.fold.summary import read_through
from cdc_assets.merge.guards.restarts.contradictions import PriorFacts, in_order, restart_of
from cdc_assets.merge.guards.restarts.watch import state_before
from cdc_assets.merge.intake.observe import BatchObserver, OptionalFigures
from cdc_assets_tests.decode.records import decoded
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.spark

PARTITIONS = 4


class Case:
    """Records of some partitions, what was merged before, and restarts that are accepted."""

    def __init__(self, seed: int, scheme: Scheme) -> None:
        self.rng = random.Random(seed)
        self.scheme = scheme
        self.records = {p: self._records() for p in range(self.rng.randint(1, PARTITIONS))}
        known = [p for p in self.records if self.rng.random() < 0.7]
        self.seen = MergedState(
            highest={p: self._commit() for p in known},
            newest_ms={p: self._time() for p in known if self.rng.random() < 0.8},
            highest_of_all=self._commit() if self.rng.random() < 0.5 else None,
            newest_of_all_ms=self._time() if self.rng.random() < 0.5 else None,
            truncated=self._commit() if self.rng.random() < 0.3 else None,
            keys_stay=self.rng.random() < 0.7,
            apart_ms=self.rng.choice([0, 1000]),
        )
        self.pending = {
            p: Restart(0, 0, self._commit(), self._time(), self._commit(), self._time())
            for p in self.records
            if self.rng.random() < 0.5
        }

    def _commit(self) -> Commit:
        return tuple(self.rng.randrange(9) for _ in range(COMMIT_NUMBERS[self.scheme]))

    def _time(self) -> int:
        return self.rng.choice([0, 500, 1001, 2500, 60_500, 61_001, 120_000, 900_000])

    def _records(self) -> list[NumberingPlace]:
        return [self._record(offset) for offset in range(self.rng.randint(1, 8))]

    def _record(self, offset: int) -> NumberingPlace:
        floats = self.rng.random() < 0.2
        return NumberingPlace(
            offset,
            self._commit() if self.rng.random() < 0.9 else None,
            self._time() if self.rng.random() < 0.9 else None,
            may_witness=not floats and self.rng.random() < 0.7,
            floats=floats,
            is_overtaken=floats and self.rng.random() < 0.5,
            is_truncate=not floats and self.rng.random() < 0.2,
        )

    def rows(self) -> list[tuple[object, ...]]:
        """Those that have a position, in no order."""
        rows: list[tuple[object, ...]] = [
            (p, each.offset, *each.commit, *each[2:6], self._op(each))
            for p, records in self.records.items()
            for each in records
            if each.commit is not None
        ]
        self.rng.shuffle(rows)
        return rows

    @staticmethod
    def _op(record: NumberingPlace) -> str:
        return "t" if record.is_truncate else "u"

    def frame(self, session: SparkSession, partition: int) -> DataFrame:
        """All records of a partition, as one task reads them."""
        rows = [
            (partition, each.offset, *self._numbers(each), each.source_ms, each.may_witness,
             each.floats, self._op(each))
            for each in self.records[partition]
        ]  # fmt: skip
        columns = "partition int, offset bigint, n0 bigint, n1 bigint, told_ms bigint"
        flags = "may_witness boolean, floats boolean, op string"
        frame = session.createDataFrame(rows, f"{columns}, {flags}")
        return frame.repartition(1).sortWithinPartitions("offset")

    @staticmethod
    def _numbers(record: NumberingPlace) -> tuple[int | None, int | None]:
        numbers = record.commit or (None, None)
        return numbers[0], numbers[1] if len(numbers) > 1 else 0

    def expected(self) -> Mapping[int, tuple[Restart | None, int | None]]:
        found: dict[int, tuple[Restart | None, int | None]] = {}
        for p, records in self.records.items():
            pending = self.pending.get(p)
            begins = [each.offset for each in records if pending and pending.has_begun(each)]
            found[p] = (witness(p, records, self.seen), min(begins, default=None))
        return {p: each for p, each in found.items() if each != (None, None)}


@profiles.in_soak
@pytest.mark.parametrize("scheme", [Scheme.POSTGRES, Scheme.SQLSERVER])
def test_what_spark_finds_is_what_the_rule_finds(spark: Session, scheme: Scheme) -> None:
    found_any = 0
    for seed in range(60):
        case = Case(seed, scheme)
        known = PriorFacts(PARTITIONS, scheme, case.seen, case.pending)
        numbers = ", ".join(f"{name} bigint" for name in known.names)
        columns = f"partition int, offset bigint, {numbers}, told_ms bigint"
        flags = "may_witness boolean, floats boolean, is_overtaken boolean, op string"
        frame = spark().createDataFrame(case.rows(), f"{columns}, {flags}")
        found = {
            row["partition"]: (
                restart_of(row["partition"], row["witness"]) if row["witness"] else None,
                row["begin"],
            )
            for row in in_order(frame, known).collect()
        }
        assert found == case.expected(), f"seed {seed}"
        found_any += any(each is not None for each, _ in found.values())
    assert found_any > 20


@pytest.mark.parametrize("scheme", [Scheme.POSTGRES, Scheme.SQLSERVER])
def test_the_pass_that_folds_misses_no_witness(spark: Session, scheme: Scheme) -> None:
    session, told = spark(), {True: 0, False: 0}
    for seed in range(25):
        case = Case(seed, scheme)
        seen = replace(case.seen, apart_ms=LEEWAY_MS)
        before = state_before(scheme, seen, None, {})
        for partition, records in case.records.items():
            found = are_suspicious(session, case.frame(session, partition), before)
            is_one = witness(partition, records, seen) is not None
            is_examined_anyway = any(each.is_truncate for each in records)
            assert is_examined_anyway or found or not is_one, f"seed {seed}"
            is_certain = not (is_examined_anyway or any(each.floats for each in records))
            assert not is_certain or is_one == found, f"seed {seed}"
            told[found] += 1
    assert min(told.values()) > 10


def test_the_pass_that_folds_misses_no_begin_of_an_accepted_restart(spark: Session) -> None:
    session, told = spark(), 0
    for seed in range(25):
        case = Case(seed, Scheme.POSTGRES)
        before = state_before(Scheme.POSTGRES, MergedState(), None, case.pending)
        for partition, (_, begin) in case.expected().items():
            found = are_suspicious(session, case.frame(session, partition), before)
            assert found or begin is None, f"seed {seed}"
            told += begin is not None
    assert told > 10


def test_records_in_their_order_need_no_second_look(spark: Session) -> None:
    session, before = (
        spark(),
        state_before(Scheme.POSTGRES, MergedState(apart_ms=LEEWAY_MS), None, {}),
    )
    many = 100_000
    records = session.range(0, many, numPartitions=1).selectExpr(
        "0 AS partition", "id AS offset", "id div 3 AS n0", "0L AS n1", "id * 10 AS told_ms",
        "true AS may_witness", "false AS floats", "'u' AS op",
    )  # fmt: skip
    assert not are_suspicious(session, records, before)
    is_last = F.col("offset") == many - 1
    redelivered = records.withColumn("n0", F.when(is_last, 7).otherwise(F.col("n0")))
    assert not are_suspicious(session, redelivered, before)
    is_late = F.when(is_last, LEEWAY_MS + 1).otherwise(0)
    back = redelivered.withColumn("told_ms", F.col("told_ms") + is_late)
    assert are_suspicious(session, back, before)
    assert are_suspicious(session, records.repartition(2, "n0"), before), "by two tasks"
    assert not are_suspicious(session, records.repartition(2, "partition"), before), "by one"


def are_suspicious(session: SparkSession, records: DataFrame, before: Mapping[str, object]) -> bool:
    """As a batch tells that has read these records, in the order that they have."""
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    observer = BatchObserver((), datetime.now(UTC), OptionalFigures(before=before))
    found = observer.figures(read_through(observer.attach(decoded(records))))
    assert found is not None
    return found.signs["suspicious"]
