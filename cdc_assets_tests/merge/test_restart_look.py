"""What Spark finds in a batch is what `cdc_assets.changes.restarts` finds, record by record."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.position import Scheme
from cdc_assets.changes.restarts import (
    COMMIT_NUMBERS,
    LEEWAY_MS,
    Commit,
    Placed,
    Restart,
    Seen,
    witness,
)
from cdc_assets.decode import SETTINGS
from cdc_assets.merge.fold.contradictions import Known, in_order, restart_of
from cdc_assets.merge.fold.restarts import goes_back
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
        self.seen = Seen(
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

    def _records(self) -> list[Placed]:
        return [self._record(offset) for offset in range(self.rng.randint(1, 8))]

    def _record(self, offset: int) -> Placed:
        floats = self.rng.random() < 0.2
        return Placed(
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
    def _op(record: Placed) -> str:
        return "t" if record.is_truncate else "u"

    def read(self) -> list[tuple[object, ...]]:
        """All records as one task reads them."""
        return [
            (p, each.offset, *(each.commit or self._no_commit), each.told_ms, each.may_witness,
             each.floats, self._op(each))
            for p, records in self.records.items()
            for each in records
        ]  # fmt: skip

    @property
    def _no_commit(self) -> tuple[None, ...]:
        return (None,) * COMMIT_NUMBERS[self.scheme]

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
        known = Known(PARTITIONS, scheme, case.seen, case.pending)
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
    session, numbers = spark(), COMMIT_NUMBERS[scheme]
    define(session)
    names = ", ".join(f"{name} bigint" for name in ("n0", "n1")[:numbers])
    columns = f"partition int, offset bigint, {names}, told_ms bigint"
    flags = "may_witness boolean, floats boolean, op string"
    told = {True: 0, False: 0}
    for seed in range(25):
        case = Case(seed, scheme)
        frame = session.createDataFrame(case.read(), f"{columns}, {flags}").coalesce(1)
        found = partitions_that_go_back(frame, numbers)
        for partition, records in case.records.items():
            is_one = witness(partition, records, Seen(apart_ms=LEEWAY_MS)) is not None
            is_examined_anyway = any(each.is_truncate for each in records)
            assert is_examined_anyway or partition in found or not is_one, f"seed {seed}"
            is_certain = not (is_examined_anyway or any(each.floats for each in records))
            assert not is_certain or is_one == (partition in found), f"seed {seed}"
            told[partition in found] += 1
    assert min(told.values()) > 10


def test_records_in_their_order_need_no_second_look(spark: Session) -> None:
    session = spark()
    define(session)
    many = 100_000
    records = session.range(0, many, numPartitions=1).selectExpr(
        "0 AS partition", "id AS offset", "id div 3 AS n0", "id * 10 AS told_ms",
        "true AS may_witness", "false AS floats", "'u' AS op",
    )  # fmt: skip
    assert partitions_that_go_back(records, 1) == set()
    is_last = F.col("offset") == many - 1
    redelivered = records.withColumn("n0", F.when(is_last, 7).otherwise(F.col("n0")))
    assert partitions_that_go_back(redelivered, 1) == set()
    is_late = F.when(is_last, LEEWAY_MS + 1).otherwise(0)
    back = redelivered.withColumn("told_ms", F.col("told_ms") + is_late)
    assert partitions_that_go_back(back, 1) == {0}


def define(session: SparkSession) -> None:
    for name, value in SETTINGS.items():
        session.conf.set(name, value)


def partitions_that_go_back(records: DataFrame, numbers: int) -> set[int]:
    flagged = records.withColumn("reject", F.lit(None).cast("string")).select(
        "partition", goes_back(numbers, F.lit(True)).alias("goes_back")
    )
    return {row["partition"] for row in flagged.where("goes_back").distinct().collect()}
