"""Generated logs of the reference, through Kafka, Spark and Iceberg: the same tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from cdc_assets.changes import reference_keyless
from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.changes.reference import Rules, fold
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TerminalError
from cdc_assets.merge.apply.multiset import MissingRowError
from cdc_assets_tests.changes.test_inverse import by_time
from cdc_assets_tests.merge.one_table import TABLE, Make
from cdc_assets_tests.pipeline import Pipeline, Session
from cdc_assets_tests.toy import cuts, profiles
from cdc_assets_tests.toy.actions import Log
from cdc_assets_tests.toy.busy import busy_log
from cdc_assets_tests.toy.connector import changes_of
from cdc_assets_tests.toy.cuts import Merge, Replay
from cdc_assets_tests.toy.debezium import messages
from cdc_assets_tests.toy.reading import fault, keyless_fault

Cases = Mapping[str, Future[None]]
BATCHES = 2
if profiles.is_soak():
    HARD = SOFT = (2, 3, 6, 7, 9, 10, 13, 15, 18, 21, 23, 31, 32, 35, 37, 39)
    KEYLESS = tuple(range(8))
else:
    HARD, SOFT, KEYLESS = (10, 21), (3,), (1, 4)
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
    logs = [busy_log(seed, batches=BATCHES) for seed in {*HARD, *SOFT}]
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
        seed, deletes = item.callspec.params["seed"], item.callspec.params.get("deletes")
        log = busy_log(seed, batches=BATCHES, keyless=deletes is None)

        def made(**source: object) -> Pipeline:
            return Pipeline(stack_config, spark, folder, source)

        case = Run(made, log, deletes or "hard")
        case.keyed() if deletes else case.keyless()

    with ThreadPoolExecutor(2) as pool:
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
@pytest.mark.parametrize("seed", KEYLESS)
def test_a_table_without_a_key(request: pytest.FixtureRequest, cases: Cases, seed: int) -> None:
    cases[request.node.name].result()


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
        self.sent = list(zip(log.records, messages(log.records), strict=True))
        self.there: Mapping[int, int] = {}

    def keyed(self) -> None:
        for number, step in enumerate(self.log.steps):
            if isinstance(step, Merge):
                self.produce(step.to)
                self.merge()
            else:
                self.replay(step)
            known = changes_of(cuts.between(self.log.records, {}, self.there))
            table = fold(known, self.log.shape, soft=self.soft)
            expected = {key: (dict(image.values), image.deleted) for key, image in table.items()}
            assert self.rows() == expected, f"after step {number}:\n{self.log.describe()}"

    def keyless(self) -> None:
        for number, step in enumerate(self.log.steps):
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

    def produce(self, to: Mapping[int, int]) -> None:
        """What lies below these offsets and is not there yet."""
        new = [
            message
            for record, message in self.sent
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

    def replay(self, step: Replay) -> None:
        target = self.pipeline.entry(TABLE).target
        if self.pipeline.lake.state(target) is None:
            return
        ranges = tuple(OffsetRange(p, low, high) for p, (low, high) in step.ranges.items())
        entry = self.pipeline.entry(TABLE)
        list(self.pipeline.replicator().replay_offsets(entry, ranges, run_id="again"))

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
