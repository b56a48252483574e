"""Two runs of one table at once: exactly one publishes each range."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Barrier, get_ident

import pytest
from cdc_assets_devstack.spark_server import SparkEndpoint
from pyspark.sql import SparkSession

from cdc_assets.changes.names import LakeName
from cdc_assets.effects import Moment, hooked
from cdc_assets.errors import CdcError, ConflictError
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets_tests.merge.at_once import merge_at_once
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE
from cdc_assets_tests.pipeline import Pipeline
from cdc_assets_tests.toy import profiles

CHANGES, AT_MOST = (1200, 200) if profiles.is_soak() else (300, 100)
"""In all, and in a batch: six batches for two writers, or three."""
ROUNDS = 20


class Together:
    """Holds two writers before their first passing of a point, until both are there."""

    def __init__(self, point: str) -> None:
        self._point, self._both = point, Barrier(2)
        self.came: set[int] = set()

    def __call__(self, point: str, moment: Moment) -> None:
        if point == self._point and moment is Moment.BEFORE and get_ident() not in self.came:
            self.came.add(get_ident())
            self._both.wait(120)


@pytest.mark.stack
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_each_range_is_published_by_exactly_one_of_two_writers(
    pipeline: Callable[..., Pipeline], mode: str
) -> None:
    tables = {TABLE: {"layout": {"delete_mode": mode}}}
    made = pipeline(batch={"max_records": AT_MOST}, tables=tables)
    made.create_topic(TABLE, partitions=2)
    changes = [
        event("c" if n < 100 else "u", {"id": n % 100, "n": n}, n + 1, commit=n, partition=n % 2)
        for n in range(CHANGES)
    ]
    made.produce(TABLE, changes[:50])
    made.merge(TABLE)
    made.produce(TABLE, changes[50:])
    both = Together("spark: publish rows")
    with hooked(both):
        merged = merge_at_once(made, TABLE, TABLE)
    assert len(both.came) == 2, "there was no race"
    merged.append(sum(result.records for result in made.merge(TABLE)))

    assert sum(merged) == CHANGES - 50, "a range was published twice, or not at all"
    history = made.lake.history(made.entry(TABLE).target, limit=1000)
    for newer, older in pairwise(history):
        assert newer.start == older.offsets
    expected = {n % 100: n for n in range(CHANGES)}
    assert {key: row["n"] for key, row in made.by_key(TABLE).items()} == expected


@pytest.mark.stack
def test_a_second_session_of_the_process_takes_no_frame_from_the_first(
    pipeline: Callable[..., Pipeline], spark_endpoint: SparkEndpoint
) -> None:
    """A batch that looks at the lake keeps what it found in its own session, active or not."""
    made = pipeline()
    made.create_topic(TABLE)
    made.produce(TABLE, [event("c", {"id": 1, "n": 1}, 10, commit=9)])
    made.merge(TABLE)
    active = SparkSession.active()
    other = SparkSession.builder.remote(spark_endpoint.url).create()
    assert SparkSession.active() is active
    made.spark = lambda: other
    made.produce(TABLE, [event("u", {"id": 1, "n": 0}, 5, commit=4)])
    (result,) = made.merge(TABLE)
    assert result.stale == 1
    assert SparkSession.active() is active
    other.stop()


@pytest.mark.stack
def test_tables_that_are_made_at_once_share_a_namespace_that_none_has_made(
    pipeline: Callable[..., Pipeline], spark_endpoint: SparkEndpoint
) -> None:
    """Some catalogs look for a namespace first and insert it then."""
    at_once = 4
    sessions = [SparkSession.builder.remote(spark_endpoint.url).create() for _ in range(at_once)]
    catalog = pipeline().config.lake.catalog.name
    together = Barrier(at_once)

    def make(session: SparkSession) -> list[Exception]:
        failed: list[Exception] = []
        for n in range(ROUNDS):
            together.wait(60)
            try:
                with translated("make a namespace", "here"):
                    session.sql(sql.create_namespace(catalog, LakeName(f"at_once_{n}", "t")))
            except CdcError as error:
                failed.append(error)
        return failed

    with ThreadPoolExecutor(at_once) as threads:
        failed = [each for found in threads.map(make, sessions) for each in found]
    for session in sessions:
        session.stop()
    print(f"{len(failed)} of {at_once * ROUNDS} came second")
    assert all(isinstance(each, ConflictError) for each in failed), failed
