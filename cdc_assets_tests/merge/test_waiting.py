"""A transaction whose end does not come: nothing of it is seen, and it is said what is missing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cdc_assets.merge import BatchResult, Replicator, Waiting
from cdc_assets_tests.merge.events import event, transaction_end
from cdc_assets_tests.merge.one_table import TABLE, Make
from cdc_assets_tests.pipeline import Message, Pipeline

pytestmark = pytest.mark.stack

ENDS = "transaction"


def change(transaction: int, place: int) -> Message:
    lsn = transaction * 100 + place
    return event("c", {"id": lsn, "n": transaction}, lsn, commit=transaction * 100, order=place)


def dead_connector(pipeline: Make, **source: object) -> Pipeline:
    """One whole transaction, and two changes of the next."""
    made = pipeline(**source)
    made.create_topic(TABLE)
    made.create_topic(ENDS)
    made.produce(TABLE, [change(1, 1), change(1, 2), change(2, 1), change(2, 2)])
    made.produce(ENDS, [transaction_end(100, 199, 2)])
    return made


def ids(made: Pipeline) -> set[object]:
    return {row["id"] for row in made.rows(TABLE)}


def drained(made: Pipeline, after: timedelta) -> list[BatchResult | Waiting]:
    """What a run merges when some time has passed."""
    replicator = Replicator(made.config, made.spark, clock=lambda: datetime.now(UTC) + after)
    entry = made.entry(TABLE)
    return list(replicator.drain(entry, window=None, run_id="test", budget_seconds=300))


def test_what_is_whole_is_published_and_the_rest_waits_with_a_reason(pipeline: Make) -> None:
    made = dead_connector(pipeline)
    before = datetime.now(UTC)
    batch, waiting = made.drained(TABLE)
    assert isinstance(batch, BatchResult)
    assert isinstance(waiting, Waiting)
    assert ids(made) == {101, 102}
    assert waiting.transaction == "200"
    assert waiting.unread == 2
    assert made.topic(ENDS) in waiting.reason
    assert abs((waiting.since - before).total_seconds()) < 60
    assert waiting.stops_at - waiting.since == timedelta(minutes=15)
    ends = {topic: end.as_dict() for topic, end in waiting.log_end.items()}
    assert ends == {made.topic(TABLE): {0: 4}, made.topic(ENDS): {0: 1}}

    made.produce(ENDS, [transaction_end(200, 299, 2)])
    (last,) = made.drained(TABLE)
    assert isinstance(last, BatchResult)
    assert ids(made) == {101, 102, 201, 202}


def test_without_more_ado_nothing_of_it_is_ever_published(pipeline: Make) -> None:
    made = dead_connector(pipeline)
    *_, waiting = drained(made, after=timedelta(days=30))
    assert isinstance(waiting, Waiting)
    assert ids(made) == {101, 102}


def test_a_part_is_published_after_the_bound_if_that_is_configured(pipeline: Make) -> None:
    made = dead_connector(pipeline, transactions={"wait_minutes": 20, "then": "publish"})
    *_, waiting = drained(made, after=timedelta(minutes=18))
    assert isinstance(waiting, Waiting)
    assert ids(made) == {101, 102}
    (batch,) = drained(made, after=timedelta(minutes=21))
    assert isinstance(batch, BatchResult)
    assert ids(made) == {101, 102, 201, 202}

    made.produce(TABLE, [change(2, place) for place in (1, 2, 3)])  # the connector is back
    made.produce(ENDS, [transaction_end(200, 299, 3)])
    made.drained(TABLE)
    assert ids(made) == {101, 102, 201, 202, 203}


def test_an_end_that_expired_is_told_by_the_next_transaction_of_the_source(pipeline: Make) -> None:
    """The transaction topic keeps its records for a shorter time than the table's topic."""
    made = dead_connector(pipeline)
    made.produce(ENDS, [transaction_end(200, 299, 2)])
    made.expire(ENDS, 2)
    (*_, waiting) = made.drained(TABLE)
    assert isinstance(waiting, Waiting)
    assert "has lost records of that time" in waiting.reason

    later = datetime.now(UTC) + timedelta(seconds=3)
    other = transaction_end(300, 399, 1)
    made.produce(ENDS, [Message(None, other.value, timestamp_ms=int(later.timestamp() * 1000))])
    (batch,) = made.drained(TABLE)
    assert isinstance(batch, BatchResult)
    assert {201, 202} <= ids(made)


def test_a_table_called_transaction_is_not_taken_for_the_metadata(pipeline: Make) -> None:
    """Neither ``<prefix>.public.transaction`` nor, under a longer prefix, one with three parts."""
    made = pipeline()
    for topic in (TABLE, "public.transaction", ENDS):
        made.create_topic(topic)
    made.produce("public.transaction", [change(1, 1)])
    made.produce(TABLE, [change(1, 1), change(1, 2)])
    made.produce(ENDS, [transaction_end(100, 199, 2)])
    for table in (TABLE, "public.transaction"):
        (batch, *rest) = made.drained(table)
        assert isinstance(batch, BatchResult)
        assert rest == []


def test_metadata_under_a_prefix_with_a_dot_is_told_from_a_table_by_its_records(
    pipeline: Make,
) -> None:
    made = pipeline()
    made.create_topic("west.transaction")
    topic = made.create_topic("west.public.t")
    entry = replace(made.entry(TABLE), topic=topic)

    def drained() -> list[BatchResult | Waiting]:
        run = made.replicator().drain(entry, window=None, run_id="test", budget_seconds=300)
        return list(run)

    made.produce("west.public.t", [change(1, 1)])
    made.produce("west.transaction", [change(7, 1)])
    (batch,) = drained()
    assert isinstance(batch, BatchResult), "a table's changes are no metadata: nothing waits"

    made.create_topic("transaction")
    made.produce("west.public.t", [change(2, 1)])
    (waiting,) = drained()
    assert isinstance(waiting, Waiting), "the shorter prefix has the metadata"
    made.produce("transaction", [transaction_end(200, 299, 1)])
    (batch,) = drained()
    assert isinstance(batch, BatchResult)
