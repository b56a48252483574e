"""The outcome of quarantined records that are merged again, by what the table has of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cdc_assets.changes.missing import Missing
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.merge.apply.refusals import Reported
from cdc_assets.merge.plan.quarantine_replay import Requeue
from cdc_assets.merge.statements.deadline import Limits, Steps, Watch
from cdc_assets_tests.hostile import within

pytestmark = pytest.mark.unit


class Applied:
    """Changes that are in the table now, in place of a frame."""

    def __init__(self, places: list[dict[str, int]]) -> None:
        self._places = places

    def select(self, *_: str) -> Applied:
        return self

    def distinct(self) -> Applied:
        return self

    def collect(self) -> list[dict[str, int]]:
        return self._places


def test_any_number_of_records_is_sorted_in_time_proportional_to_it() -> None:
    taken = tuple(Coordinate("t", 0, n) for n in range(20_000))
    requeue = Requeue(taken, (), (), (), (), Missing.of(taken), 0)
    refusals = Reported(requeue, None)
    applied: Any = Applied([{"partition": 0, "offset": n} for n in range(0, 20_000, 2)])
    steps = Steps("", Watch(lambda: None, Limits(60, 60)))
    with within(5):
        refusals.settle(applied, steps)
    assert refusals.merged == taken[::2]
    assert refusals.overtaken == taken[1::2]
    assert refusals.missing(SimpleNamespace()) == Missing()
