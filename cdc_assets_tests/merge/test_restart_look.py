"""What Spark finds in a batch is what `cdc_assets.changes.restarts` finds, record by record."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import reduce

import pytest
from pyspark.sql import DataFrame
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
from cdc_assets.merge.fold.restarts import course
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

    def tasks(self) -> list[list[tuple[object, ...]]]:
        """All records as tasks see them: a part of one partition each, in order."""
        tasks: list[list[tuple[object, ...]]] = []
        for p, records in self.records.items():
            rows = [
                (p, each.offset, *(each.commit or self._no_commit), each.told_ms, each.may_witness,
                 each.floats, self._op(each), True)
                for each in records
            ]  # fmt: skip
            cut = self.rng.randint(0, len(rows))
            tasks += filter(None, [rows[:cut], rows[cut:]])
        self.rng.shuffle(tasks)
        return tasks

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
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    names = ["commit", "n1"][:numbers]
    columns = f"partition int, offset bigint, {', '.join(f'{each} bigint' for each in names)}"
    flags = "told_ms bigint, may_witness boolean, floats boolean, op string, counts boolean"
    told: dict[bool, int] = {True: 0, False: 0}
    for seed in range(25):
        case = Case(seed, scheme)
        parts = [session.createDataFrame(each, f"{columns}, {flags}") for each in case.tasks()]
        got = reduce(DataFrame.unionByName, parts).agg(course(numbers).alias("found"))
        found = {row["partition"]: row for row in got.collect()[0]["found"]}
        assert found.keys() == case.records.keys()
        for partition, records in case.records.items():
            times = [r.told_ms for r in records if r.told_ms is not None and not r.is_truncate]
            assert found[partition]["newest_ms"] == max(times, default=None)
            is_one = witness(partition, records, Seen(apart_ms=LEEWAY_MS)) is not None
            may_be_one = found[partition]["goes_back"]
            is_looked_at = any(each.is_truncate for each in records)
            assert is_looked_at or may_be_one or not is_one, f"seed {seed}"
            told[may_be_one] += 1
    assert min(told.values()) > 20


def test_records_in_their_order_need_no_second_look(spark: Session) -> None:
    session = spark()
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    records = session.range(0, 100_000, numPartitions=4).selectExpr(
        "0 AS partition", "id AS offset", "id div 3 AS commit", "id * 10 AS told_ms",
        "true AS may_witness", "false AS floats", "'u' AS op", "true AS counts",
    )  # fmt: skip
    (found,) = records.agg(course(1).alias("found")).collect()[0]["found"]
    assert found.asDict() == {"partition": 0, "newest_ms": 999_990, "goes_back": False}
    again = records.unionByName(records.where("offset = 7").withColumn("offset", F.lit(100_000)))
    redelivered = again.agg(course(1).alias("found")).collect()[0]["found"]
    assert not redelivered[0]["goes_back"]
    back = again.withColumn(
        "told_ms", F.col("offset") * 10 + F.when(F.col("offset") == 100_000, 20_000).otherwise(0)
    )
    assert back.agg(course(1).alias("found")).collect()[0]["found"][0]["goes_back"]
