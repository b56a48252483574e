"""Which rows of the lake a snapshot by the connector has not shown."""

from __future__ import annotations

import pytest

from cdc_assets.operations.resnapshot.signal_resnapshot import unshown
from cdc_assets.schema.comparing import Compared, Comparison, Form
from cdc_assets.schema.types import Column, Primitive, Wire
from cdc_assets_tests.pipeline import Session

pytestmark = pytest.mark.spark

ID = Compared(Column("id", Primitive.INT, Wire.INT, required=True), Form.INTEGER)
COMPARISON = Comparison((ID,), (ID,), (), is_keyed=True)
CHANGES = (
    "op string, key struct<id: int>, unset struct<note: boolean, page: boolean>, reject string"
)
WHOLE, PARTIAL, NONE = (False, False), (False, True), (None, None)


def test_rows_are_unshown_without_a_record_and_partial_without_a_whole_one(spark: Session) -> None:
    lake = spark().createDataFrame([(n, "x") for n in range(10)], "id int, note string")
    told = [
        ("r", 0, WHOLE), ("c", 1, WHOLE), ("u", 2, WHOLE), ("u", 3, PARTIAL), ("u", 4, PARTIAL),
        ("r", 4, WHOLE), ("d", 5, NONE), ("u", 5, PARTIAL), ("c", 6, PARTIAL), ("r", 50, WHOLE),
        ("tombstone", 7, NONE),
    ]  # fmt: skip
    rows = [(op, (key,), unset, None) for op, key, unset in told]
    rows.append(("r", (8,), WHOLE, "it is broken"))
    changes = spark().createDataFrame(rows, CHANGES)

    found = unshown(lake, changes, ("id",), ("note", "page"))
    assert (found.unshown, found.partial) == (3, 1)
    keys = found.keys(COMPARISON, 10)
    assert {*keys[:3]} == {("7",), ("8",), ("9",)}
    assert keys[3:] == (("3",),)
    assert len(found.keys(COMPARISON, 2)) == 2


def test_where_updates_leave_nothing_out_each_record_shows_its_row(spark: Session) -> None:
    lake = spark().createDataFrame([(1,), (2,)], "id int")
    changes = spark().createDataFrame([("u", (1,), NONE, None)], CHANGES)
    found = unshown(lake, changes, ("id",), ())
    assert (found.unshown, found.partial) == (1, 0)


def test_where_the_log_has_said_nothing_no_row_was_shown(spark: Session) -> None:
    lake = spark().createDataFrame([(1,), (1,), (2,)], "id int")
    found = unshown(lake, None, ("id",), ())
    assert found.unshown == 3
    assert {*found.keys(COMPARISON, 10)} == {("1",), ("2",)}
    assert {*found.keys(COMPARISON, 2)} == {("1",), ("2",)}, "a row that is there twice is one key"
