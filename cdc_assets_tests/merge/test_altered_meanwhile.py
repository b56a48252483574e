"""A source that is altered all the time: each batch ends all the same."""

from __future__ import annotations

from itertools import count

import pytest

from cdc_assets.effects import Moment, hooked
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.pipeline import Message
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

ALTERED_AT = "kafka: offsets"
"""Each try looks how far the log goes."""


def row(number: int) -> Message:
    """With a column of its own."""
    values = {"id": number, "n": number} | ({f"c{number}": number} if number else {})
    return event("c", values, 100 + number)


@profiles.in_soak
def test_a_try_that_has_learned_of_a_column_takes_no_later_records(pipeline: Make) -> None:
    types = {f"c{number}": "int" for number in range(1, 50)}
    made = start(pipeline, row(0), tables={TABLE: {"columns": types}})
    made.produce(TABLE, [row(1), row(2)])
    numbers = count(3)

    def alter(point: str, moment: Moment) -> None:
        if point == ALTERED_AT and moment is Moment.AFTER:
            made.produce(TABLE, [row(next(numbers))])

    with hooked(alter):
        drained = made.replicator().drain(
            made.entry(TABLE), window=None, run_id="test", budget_seconds=300
        )
        first = next(drained)
        drained.close()
    assert first.records == 2
    end = next(numbers)
    assert end > 5, "it was altered in several tries"
    made.merge(TABLE)
    assert {key: r[f"c{key}"] for key, r in made.by_key(TABLE).items() if key} == {
        number: number for number in range(1, end)
    }
