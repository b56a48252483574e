"""Generated logs of the reference, through Kafka, Spark and Iceberg: the same tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import RejectedRecordError, TerminalError
from cdc_assets.merge.apply.multiset import MissingRowError
from cdc_assets.merge.apply.refusals import INCOMPLETE
from cdc_assets.merge.intake import read
from cdc_assets.merge.statements import sql
from cdc_assets.schema.file_layout import DeleteMode
from cdc_assets_tests.changes.test_inverse import by_time
from cdc_assets_tests.merge.one_table import TABLE
from cdc_assets_tests.model import keyless
from cdc_assets_tests.model.change import Change
from cdc_assets_tests.model.reference import Rules, fold
from cdc_assets_tests.pipeline import Pipeline, Session
from cdc_assets_tests.toy import cuts, profiles
from cdc_assets_tests.toy.actions import Log
from cdc_assets_tests.toy.busy import busy_log
from cdc_assets_tests.toy.connector import changes_of
from cdc_assets_tests.toy.cuts import Merge, Replay
from cdc_assets_tests.toy.debezium import messages
from cdc_assets_tests.toy.reading import fault, keyless_fault

Cases = Mapping[str, Future[None]]
Matches = Callable[[Mapping[str, Any]], bool]
BATCHES = 2
SHARDS = ("s1.t", "s2.t")
if profiles.is_soak():
    HARD = SOFT = (2, 3, 6, 7, 9, 10, 13, 15, 18, 21, 23, 31, 32, 35, 37, 39)
    KEYLESS = tuple(range(8))
    SHARDED = [(deletes, seed) for deletes in ("hard", "soft") for seed in HARD]
else:
    HARD, SOFT, KEYLESS = (10,), (), (1,)
    SHARDED = [("hard", 21)]
ALL_ROWS = "all rows"
WHERE: Mapping[str, Matches] = {
    ALL_ROWS: lambda row: True,
    "n >= 1": lambda row: row["n"] is not None and row["n"] >= 1,
    "NOT (n = 1) AND n IN (0, 1, 2)": lambda row: row["n"] in {0, 2},
    "note IS NULL OR note LIKE 'LARGE_'": lambda row: row["note"] is None or len(row["note"]) > 1,
}
"""Conditions on rows, and the same in Python."""
CONDITIONS = [each for each in WHERE if each != ALL_ROWS]
if profiles.is_soak():
    CHOSEN = [(where, seed) for where in CONDITIONS for seed in HARD]
    CHOSEN_EVENTS = [(where, seed) for where in CONDITIONS for seed in KEYLESS]
else:
    CHOSEN = [(CONDITIONS[0], 10), (CONDITIONS[2], 21)]
    CHOSEN_EVENTS = [(CONDITIONS[0], 1)]
"""Among them logs that come out wrong if deletes or truncates are forgotten: few do."""
BROKEN = {
    "order by time": Rules(order=by_time),
    "newest image instead of the column fold": Rules(column_fold=False),
    "forgotten deletes": Rules(remember_deletes=False),
    "forgotten truncates": Rules(remember_truncates=False),
}


@pytest.mark.property
@pytest.mark.parametrize("rule", BROKEN)
def test_the_logs_tell_a_broken_rule(rule: str) -> None:
    """What is right in all of them is not right by chance."""
    logs = [
        busy_log(seed, batches=BATCHES) for seed in {*HARD, *SOFT, *(seed for _, seed in SHARDED)}
    ]
    assert sum(fault(log, BROKEN[rule]) is not None for log in logs) >= 1


@pytest.mark.property
def test_the_logs_tell_events_that_are_counted_twice() -> None:
    logs = [busy_log(seed, batches=BATCHES, keyless=True) for seed in KEYLESS]
    assert sum(keyless_fault(log, remember_events=False) is not None for log in logs) >= 1


@pytest.fixture(scope="module")
def cases(
    request: pytest.FixtureRequest,
    stack_config: ReplicationConfig,
    kafka_bootstrap: str,
    spark: Session,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cases]:
    """All chosen cases by the names of their tests, two at work: one leaves a core idle."""
    assert kafka_bootstrap

    def run(item: pytest.Function) -> None:
        folder = tmp_path_factory.mktemp("case")
        drawn = cast("Mapping[str, Any]", item.callspec.params)
        seed, deletes, where = drawn["seed"], drawn.get("deletes"), drawn.get("where", ALL_ROWS)
        whole = drawn.get("whole", False)
        log = busy_log(seed, batches=BATCHES, keyless=deletes is None, whole=whole)
        tables = drawn.get("tables", (TABLE,))
        said = source_of(log, tables, deletes or "hard", where)
        pipeline = Pipeline(stack_config, spark, folder, said)
        of = Chosen(where, may_lack=deletes is not None and not whole)
        runs = [Run(pipeline, log, table, of, soft=deletes == "soft") for table in tables]
        in_turn(runs) if deletes else runs[0].keyless()

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        # Small batches are read by one task elsewhere, and kept by a checkpoint.
        patch.setattr(read, "ONE_TASK", 0)
        chosen = [
            item
            for item in request.session.items
            if isinstance(item, pytest.Function)
            and item.module is request.module
            and "cases" in item.fixturenames
        ]
        yield {item.name: pool.submit(run, item) for item in chosen}
        pool.shutdown(cancel_futures=True)


@pytest.mark.stack
@pytest.mark.parametrize(
    ("deletes", "seed"), [*(("hard", seed) for seed in HARD), *(("soft", seed) for seed in SOFT)]
)
def test_a_table_with_a_key(
    request: pytest.FixtureRequest, cases: Cases, deletes: str, seed: int
) -> None:
    cases[request.node.name].result()


@pytest.mark.stack
@pytest.mark.parametrize("deletes", ["hard"])
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "partial"])
@pytest.mark.parametrize(("where", "seed"), CHOSEN)
def test_a_table_of_some_rows(
    request: pytest.FixtureRequest, cases: Cases, where: str, seed: int, whole: bool, deletes: str
) -> None:
    """Rows leave and return; what would need a value that the log has not stops the table."""
    cases[request.node.name].result()


@pytest.mark.stack
@pytest.mark.parametrize(("where", "seed"), CHOSEN_EVENTS)
def test_a_table_of_some_rows_without_a_key(
    request: pytest.FixtureRequest, cases: Cases, where: str, seed: int
) -> None:
    cases[request.node.name].result()


@pytest.mark.property
@pytest.mark.parametrize(("where", "seed"), CHOSEN)
def test_rows_leave_and_return_in_the_logs(where: str, seed: int) -> None:
    """A merge that never removes a row that no longer matches would be noticed."""
    log, matches = busy_log(seed, batches=BATCHES, whole=True), WHERE[where]
    updates = [each.row for each in changes_of(log.records) if each.op == "u" and each.row]
    assert {matches(each) for each in updates} == {True, False}


@pytest.mark.stack
@pytest.mark.parametrize("tables", [SHARDS], ids=["shards"])
@pytest.mark.parametrize(("deletes", "seed"), [*SHARDED])
def test_tables_that_are_merged_into_one(
    request: pytest.FixtureRequest, cases: Cases, deletes: str, seed: int, tables: tuple[str, ...]
) -> None:
    """Of the same keys and positions, the second a step behind the first."""
    assert len(tables) > 1
    cases[request.node.name].result()


@pytest.mark.stack
@pytest.mark.parametrize("seed", KEYLESS)
def test_a_table_without_a_key(request: pytest.FixtureRequest, cases: Cases, seed: int) -> None:
    cases[request.node.name].result()


@dataclass(frozen=True)
class Chosen:
    """The rows that a table gets, and whether a value that the log has not may stop it."""

    where: str
    may_lack: bool


def source_of(
    log: Log, tables: Sequence[str], deletes: str, where: str = ALL_ROWS
) -> dict[str, object]:
    """The configuration of a log's tables; if there are several, they are merged into one."""
    columns = {name: "bigint" if name == "n" else "string" for name in log.shape.columns}
    configured = {name: columns[name] for name in columns if name not in log.shape.key}
    table: dict[str, object] = {
        "columns": configured, "deletes": deletes, "layout": layout_of(log)
    }  # fmt: skip
    if where != ALL_ROWS:
        table["where"] = where
    said: dict[str, object] = {"tables": dict.fromkeys(tables, table)}
    if len(tables) > 1:
        rule = {"tables": "(?:" + "|".join(map(re.escape, tables)) + ")", "shard": "{schema}"}
        said["merge_into"] = [{**rule, "namespace": "{source}_all"}]
    return said


def layout_of(log: Log) -> dict[str, Any]:
    """One of some layouts, as the log has it: by the key, by what changes, by both, or none.

    And one of the two modes: rows are marked as deleted, or files copied without them.
    """
    key, last = next(iter(log.shape.key), "n"), log.shape.columns[-1]
    drawn: tuple[dict[str, Any], ...] = (
        {"partition_by": ["n"], "sort_by": [f"{last} desc", key]},
        {"partition_by": [f"bucket(2, {key})"]},
        {"partition_by": [f"truncate(1, {last})", "bucket(3, n)"], "sort_by": ["n"]},
        {},
    )
    number = len(log.records)
    mode = list(DeleteMode)[(number // len(drawn) + 1) % len(DeleteMode)]
    return {**drawn[number % len(drawn)], "delete_mode": mode.value}


def in_turn(runs: Sequence[Run]) -> None:
    """All steps of each, each a step behind the one before it; whoever waits stays as it was."""
    steps = len(runs[0].log.steps)
    for number in range(steps + len(runs) - 1):
        for behind, run in enumerate(runs):
            if 0 <= number - behind < steps:
                if not run.step(number - behind):
                    return
                for each in runs:
                    each.require_equal(f"after step {number - behind} of {run.table}")


class Run:
    """One log on its way."""

    def __init__(self, pipeline: Pipeline, log: Log, table: str, of: Chosen, *, soft: bool) -> None:
        self.log = log
        self.of, self.matches = of, WHERE[of.where]
        self.soft = soft
        self.pipeline = pipeline
        self.table = table
        self.partitions = log.settings.partitions
        self.pipeline.create_topic(table, self.partitions)
        self.sent = list(zip(log.records, messages(log.records), strict=True))
        self.there: Mapping[int, int] = {}

    def step(self, number: int) -> bool:
        """Whether the table took it; it stops for a value that only a source without it has."""
        step = self.log.steps[number]
        try:
            if isinstance(step, Merge):
                self.produce(step.to)
                self.merge()
            else:
                self.replay(step)
        except RejectedRecordError as error:
            if self.of.may_lack and self.of.where != ALL_ROWS and INCOMPLETE in error.what:
                return False
            raise
        return True

    def require_equal(self, when: str) -> None:
        known = changes_of(cuts.between(self.log.records, {}, self.there))
        table = fold(known, self.log.shape, soft=self.soft)
        expected = {
            key: (dict(image.values), image.deleted)
            for key, image in table.items()
            if self.matches(image.values)
        }
        assert self.rows() == expected, f"{self.table} {when}:\n{self.log.describe()}"

    def keyless(self) -> None:
        for number, step in enumerate(self.log.steps):
            assert isinstance(step, Merge)
            self.produce(step.to)
            try:
                self.merge()
            except MissingRowError:
                continue
            known = changes_of(cuts.between(self.log.records, {}, self.there))
            expected = keyless.fold(map(self.matching, known))
            found = Counter(tuple(sorted(row.items())) for row in self.pipeline.rows(self.table))
            assert found == expected, f"after step {number}:\n{self.log.describe()}"

    def matching(self, change: Change) -> Change:
        """Without the rows that the table does not get: that one is missing is not seen there."""
        row, before = (
            each if each is not None and self.matches(each) else None
            for each in (change.row, change.before)
        )
        return replace(change, row=row, before=before)

    def produce(self, to: Mapping[int, int]) -> None:
        """What lies below these offsets and is not there yet."""
        new = [
            message
            for record, message in self.sent
            if self.there.get(record.partition, 0) <= record.offset < to.get(record.partition, 0)
        ]
        needed = max((message.partition for message in new), default=0) + 1
        if needed > self.partitions:
            self.pipeline.add_partitions(self.table, needed)
            self.partitions = needed
        self.pipeline.produce(self.table, new)
        self.there = dict(to)

    def merge(self) -> None:
        try:
            self.pipeline.merge(self.table)
        except TerminalError as error:
            # Nothing tells the columns of a table before its first row.
            if "no columns" not in error.what:
                raise

    def replay(self, step: Replay) -> None:
        entry = self.pipeline.entry(self.table)
        if self.pipeline.lake.state(entry.target, entry.shard_value) is None:
            return
        ranges = tuple(OffsetRange(p, low, high) for p, (low, high) in step.ranges.items())
        self.pipeline.replay_offsets(self.table, *ranges)

    def rows(self) -> dict[tuple[object, ...], tuple[dict[str, object], bool]]:
        """By key: the row, and whether it is marked as deleted."""
        entry = self.pipeline.entry(self.table)
        if self.pipeline.lake.state(entry.target) is None:
            return {}
        rows = self.pipeline.spark().table(f"lake.{entry.target}")
        found = rows.where(sql.of_shard(entry.shard)).collect()
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
