"""A connector that crashed amid a transaction sends again: no snapshot shows a part of it."""

from __future__ import annotations

from collections import Counter

import pytest

from cdc_assets.merge import Waiting
from cdc_assets_tests.merge.events import event, transaction_end
from cdc_assets_tests.merge.one_table import TABLE, Make
from cdc_assets_tests.pipeline import Message, Pipeline

pytestmark = pytest.mark.stack

ENDS = "transaction"
LAST, SIZE = 20, 90
"""More records are sent again than are looked at around the end of a batch."""


def changes(number: int, upto: int = SIZE) -> list[Message]:
    """Of one transaction, each of a row of its own."""
    return [
        event("c", {"id": number * 100 + place, "n": number}, number * 100 + place,
              commit=number * 100, order=place)
        for place in range(1, upto + 1)
    ]  # fmt: skip


def end(number: int) -> Message:
    return transaction_end(number * 100, number * 100 + SIZE, SIZE)


def crashed(pipeline: Make, **source: object) -> Pipeline:
    """Amid the last transaction; those before were sent again since."""
    made = pipeline(**source)
    made.create_topic(TABLE)
    made.create_topic(ENDS)
    before = [change for number in range(1, LAST) for change in changes(number)]
    made.produce(TABLE, [*before, *changes(LAST, upto=SIZE - 1), *before])
    made.produce(ENDS, [end(number) for number in range(1, LAST)] * 2)
    return made


def finished(made: Pipeline) -> None:
    made.produce(TABLE, changes(LAST))
    made.produce(ENDS, [end(LAST)])


def sizes(made: Pipeline) -> Counter[object]:
    return Counter(row["n"] for row in made.rows(TABLE))


def test_a_transaction_stays_outside_until_all_of_it_is_sent(pipeline: Make) -> None:
    made = crashed(pipeline)
    (waiting,) = made.drained(TABLE)
    assert isinstance(waiting, Waiting)
    assert waiting.transaction == str(LAST * 100)
    assert "the connector sends records again after a restart" in waiting.reason
    assert made.rows(TABLE) == []
    finished(made)
    made.merge(TABLE)
    assert sizes(made) == dict.fromkeys(range(1, LAST + 1), SIZE)


def test_a_batch_is_longer_where_its_end_lies_in_what_is_sent_again(pipeline: Make) -> None:
    made = crashed(pipeline, batch={"max_records": LAST * SIZE + 1500})
    finished(made)
    drained = made.replicator().drain(
        made.entry(TABLE), window=None, run_id="test", budget_seconds=300
    )
    for batch in drained:
        assert not isinstance(batch, Waiting)
        assert set(sizes(made).values()) == {SIZE}
    assert sizes(made) == dict.fromkeys(range(1, LAST + 1), SIZE)
