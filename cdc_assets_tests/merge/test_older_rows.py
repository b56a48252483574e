"""Rows that are older than a column have the value that it was added with, after crashes too."""

from __future__ import annotations

import pytest

from cdc_assets_tests.faults import Death, Fault, How, faults
from cdc_assets_tests.merge.inline import change
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.pipeline import Message
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

STEPS = (
    pytest.param("spark: DescribeColumns", marks=profiles.in_soak),
    pytest.param("spark: AddColumns", marks=profiles.in_soak),
    "spark: fill columns",
    pytest.param("spark: fast-forward main", marks=profiles.in_soak),
)


def older(id_: int, lsn: int, *, op: str = "c") -> Message:
    return change(op, {"id": id_, "name": "x"}, lsn, inline=True)


def newer(id_: int, lsn: int, n: int | None, *, op: str = "c") -> Message:
    row = {"id": id_, "name": "y", "n": n}
    return change(op, row, lsn, inline=True, defaults={"n": 5})


@pytest.mark.parametrize("step", STEPS)
def test_a_default_is_in_older_rows_and_in_records_from_before_it(
    pipeline: Make, step: str
) -> None:
    told = {TABLE: {"columns": {"n": {"existing": "5"}}}}
    table = start(pipeline, older(1, 10), older(2, 20), tables=told)
    table.produce(TABLE, [newer(2, 40, None, op="u"), newer(3, 50, 8), older(4, 30)])
    with faults(Fault(step, How.DEATH)), pytest.raises(Death):
        table.merge(TABLE)
    table.merge(TABLE)
    expected = {1: 5, 2: None, 3: 8, 4: 5}
    assert {key: row["n"] for key, row in table.by_key(TABLE).items()} == expected
    table.produce(TABLE, [newer(1, 60, None, op="u"), older(5, 35)])
    table.merge(TABLE)
    expected |= {1: None, 5: 5}
    assert {key: row["n"] for key, row in table.by_key(TABLE).items()} == expected, "filled once"


@profiles.in_soak
def test_a_default_that_looks_like_a_variable_is_a_text(pipeline: Make) -> None:
    greeting = "Hello ${name}, ${env:PATH}"
    told = {TABLE: {"columns": {"greeting": {"existing": greeting}}}}
    table = start(pipeline, older(1, 10), tables=told)
    row = {"id": 2, "name": "y", "greeting": "own"}
    table.produce(TABLE, [change("c", row, 20, inline=True)])
    table.merge(TABLE)
    found = {key: row["greeting"] for key, row in table.by_key(TABLE).items()}
    assert found == {1: greeting, 2: "own"}


def test_a_default_that_only_a_records_schema_tells_is_put_into_no_row(pipeline: Make) -> None:
    table = start(pipeline, older(1, 10))
    table.produce(TABLE, [older(3, 15), newer(2, 20, 8), newer(4, 30, None)])
    table.merge(TABLE)
    found = {key: row["n"] for key, row in table.by_key(TABLE).items()}
    assert found == {1: None, 2: 8, 3: None, 4: None}
