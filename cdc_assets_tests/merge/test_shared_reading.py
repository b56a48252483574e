"""Tables of one topic whose reading they share: each is what it is when it reads for itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.errors import CdcError, RejectedRecordError
from cdc_assets_tests.faults import Death, Fault, How
from cdc_assets_tests.merge.shared_topic import (
    BROKEN,
    CANAL,
    ITEMS,
    KEEP,
    MAXWELL,
    NOTES,
    PACKETS,
    TABLES,
    TOPIC,
    USERS,
    Dialect,
    change,
    ddl,
    put,
    remove,
    told,
    topic_of,
    views,
)
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

Make = Callable[..., Pipeline]


def of_all(usual: Dialect, *others: Dialect) -> pytest.MarkDecorator:
    """In one dialect; `make soak` does it in the others too."""
    later = (pytest.param(each, marks=profiles.in_soak) for each in others)
    return pytest.mark.parametrize("dialect", [usual, *later], ids=lambda each: each.format)


FIRST = [put(table, id_) for id_ in (1, 2, 3) for table in TABLES]
THEN = [
    change(ITEMS, 1, None), put(NOTES, 4, "ü"), remove(ITEMS, 2), ddl(NOTES), change(NOTES, 1, "b"),
    put("shop.unknown", 1), put(ITEMS, 5), put("shop.unknown", 2), remove(NOTES, 2),
]  # fmt: skip


@profiles.in_soak
@of_all(CANAL, PACKETS, MAXWELL)
def test_tables_are_the_same_whether_or_not_they_share(pipeline: Make, dialect: Dialect) -> None:
    odd = {"bad_records": "quarantine", "batch": {"max_record_bytes": 5_000}}
    source = odd if dialect is CANAL else {}
    apart, together = (topic_of(pipeline, dialect, partitions=3, **source) for _ in range(2))
    for each in (apart, together):
        each.send(*FIRST, *THEN, *([BROKEN, Message(None, b" " * 6_000)] if source else []))
    expected = apart.alone()
    with together.run() as run:
        found = run.merge_all()
    assert run.read == 1
    assert told(found) == told(expected)
    assert "shop.unknown" in found[USERS][0].other_tables
    assert together.rows() == apart.rows()
    assert together.rows()[ITEMS] == [(1, None), (3, "a"), (5, "a")]


@pytest.mark.parametrize(
    "shares", [True, pytest.param(False, marks=profiles.in_soak)], ids=["shared", "alone"]
)
def test_the_log_is_read_once(pipeline: Make, shares: bool) -> None:
    """Once the second table is planned, the log loses all records: who reads them now fails."""
    topic = topic_of(pipeline, MAXWELL)
    topic.send(*FIRST)
    topic.alone(ITEMS, NOTES)
    topic.send(*(each for each in THEN if each != ddl(NOTES)))
    made, end = topic.pipeline, topic.sent
    session = made.spark

    def after_the_log_is_gone() -> SparkSession:
        made.expire(TOPIC, end)
        return session()

    with topic.run(tables=2 if shares else 1) as run:
        run.merge(ITEMS)
        made.spark = after_the_log_is_gone
        if shares:
            (done,) = run.merge(NOTES)
            assert done.end.as_dict() == {0: end}
            assert views(session()) == [], "given back with the last table"
        else:
            with pytest.raises(CdcError, match="Spark failed at: read, decode, fold"):
                run.merge(NOTES)
    expected = [(1, "b"), (3, "a"), (4, "ü")] if shares else [(1, "a"), (2, "a"), (3, "a")]
    assert topic.rows()[NOTES] == expected


@profiles.in_soak
def test_what_was_read_is_given_back_with_the_last_table(pipeline: Make) -> None:
    topic = topic_of(pipeline, CANAL)
    topic.send(*FIRST)
    spark = topic.pipeline.spark()
    with topic.run() as run:
        run.merge(ITEMS)
        (kept,) = views(spark)
        spark.table(kept).createOrReplaceTempView("same")
        assert spark.catalog.isCached("same")
        run.merge(NOTES)
        assert views(spark) == [kept]
        run.merge(USERS)
        assert views(spark) == []
        assert not spark.catalog.isCached("same")
    spark.catalog.dropTempView("same")


@profiles.in_soak
def test_a_table_that_comes_late_reads_up_to_the_others_alone(pipeline: Make) -> None:
    topic = topic_of(pipeline, CANAL)
    topic.send(*FIRST)
    topic.alone(ITEMS)
    topic.send(*THEN, put(USERS, 7))
    with topic.run(tables=2) as run:
        done = {table: run.merge(table) for table in (ITEMS, USERS)}
    middle, end = len(FIRST), topic.sent
    assert [each.ranges for each in done[USERS]] == [
        (OffsetRange(0, 0, middle),), (OffsetRange(0, middle, end),),
    ]  # fmt: skip
    assert run.read == 1
    assert topic.rows()[USERS] == [(1, "a"), (2, "a"), (3, "a"), (7, "a")]


@profiles.in_soak
@of_all(MAXWELL, PACKETS, CANAL)
def test_a_table_that_is_ahead_takes_its_own_part(pipeline: Make, dialect: Dialect) -> None:
    """Whatever is told of its batch is of its own ranges."""
    topic, alone = (topic_of(pipeline, dialect) for _ in range(2))
    for each in (topic, alone):
        each.send(*FIRST)
        each.alone(USERS)
        each.send(*THEN)
    expected = alone.alone(USERS)
    with topic.run(tables=2) as run:
        run.merge(ITEMS)
        found = {USERS: run.merge(USERS)}
    assert run.read == 1
    assert told(found) == told(expected)


@profiles.in_soak
def test_what_the_log_holds_more_is_for_a_table_that_comes_after(pipeline: Make) -> None:
    """A turn ends where the others' did; what is merged beyond that is read for itself."""
    topic = topic_of(pipeline, CANAL)
    topic.send(*FIRST)
    with topic.run() as run:
        run.merge(ITEMS)
        topic.send(*THEN)
        first, rest = run.merge(NOTES)
        assert first.end.as_dict() == {0: len(FIRST)}
        again, last = run.merge(USERS)
    assert (again.ranges, last.ranges) == (first.ranges, rest.ranges)
    assert run.read == 2
    assert topic.rows()[NOTES] == [(1, "b"), (3, "a"), (4, "ü")]


@profiles.in_soak
def test_a_table_that_fails_does_so_alone(pipeline: Make) -> None:
    types = {table: {"columns": {"id": "int"}} for table in TABLES}
    topic = topic_of(pipeline, MAXWELL, tables=types)
    topic.send(*FIRST, put(ITEMS, 7), put(NOTES, 2**40), put(USERS, 7))
    with topic.run() as run:
        run.merge(ITEMS)
        with pytest.raises(RejectedRecordError, match=r"notes.*offset=10"):
            run.merge(NOTES)
        run.leave(NOTES)
        run.merge(USERS)
    rows = topic.rows()
    assert rows[ITEMS] == rows[USERS] == [(1, "a"), (2, "a"), (3, "a"), (7, "a")]
    assert rows[NOTES] == []


@profiles.in_soak
def test_a_broken_record_stops_each_table(pipeline: Make) -> None:
    topic = topic_of(pipeline, CANAL)
    topic.send(*FIRST, put(ITEMS, 7), BROKEN)
    with topic.run() as run:
        for table in TABLES:
            with pytest.raises(
                RejectedRecordError, match=rf"not a JSON object.*{table}.*offset=10"
            ):
                run.merge(table)
            run.leave(table)


@profiles.in_soak
@pytest.mark.parametrize(
    "fault",
    [
        *(Fault(KEEP, how) for how in How),
        Fault("spark: publish rows", How.BEFORE),
    ],
    ids=str,
)
def test_after_a_failure_everything_is_read_again(pipeline: Make, fault: Fault) -> None:
    topic = topic_of(pipeline, CANAL)
    topic.send(*FIRST)
    with topic.run(fault, tables=2) as run:
        with pytest.raises((CdcError, Death)):
            run.merge(ITEMS)
        assert views(topic.pipeline.spark()) == []
        topic.send(*THEN)
        (items,), (notes,) = run.merge(ITEMS), run.merge(NOTES)
    assert run.read == 2
    assert items.ranges == notes.ranges == (OffsetRange(0, 0, topic.sent),)
    assert topic.rows()[ITEMS] == [(1, None), (3, "a"), (5, "a")]
    assert topic.rows()[NOTES] == [(1, "b"), (3, "a"), (4, "ü")]


@profiles.in_soak
def test_no_more_is_kept_than_one_batch_may_hold(pipeline: Make) -> None:
    topic = topic_of(pipeline, CANAL, batch={"max_records": 4})
    topic.send(*FIRST)
    with topic.run(tables=2) as run:
        done = [run.merge(table) for table in (ITEMS, NOTES)]
    assert [[each.end.get(0) for each in batches] for batches in done] == [[4, 8, 9]] * 2
    assert run.read == 1
    assert topic.rows()[ITEMS] == topic.rows()[NOTES] == [(1, "a"), (2, "a"), (3, "a")]


def test_a_table_that_is_alone_in_its_run_keeps_nothing(pipeline: Make) -> None:
    topic = topic_of(pipeline, CANAL)
    topic.send(*FIRST)
    with topic.run(tables=1) as run:
        run.merge(ITEMS)
    assert run.read == 0
