"""Rows of an old table that a new one takes along, marked as deleted."""

from __future__ import annotations

import pytest

from cdc_assets.merge.statements import sql
from cdc_assets.operations.rebuild.shadow_table import HELD, rows_to_keep
from cdc_assets_tests.pipeline import Session

pytestmark = pytest.mark.stack

KEY = "a `key`.1"
OLD = (
    f"{sql.quote(KEY)} int, n string, gone string, {sql.POSITION} binary, {sql.COMMIT_TIME} "
    f"timestamp, {sql.DELETED} boolean, {sql.DELETED_AT} timestamp"
)
NEW = (
    f"{sql.quote(KEY)} bigint, n int, added string, {sql.POSITION} binary, {sql.COMMIT_TIME} "
    f"timestamp, {sql.DELETED} boolean, {sql.DELETED_AT} timestamp"
)


def test_the_newest_row_of_each_key_that_was_not_read_is_taken_along(spark: Session) -> None:
    old = spark().createDataFrame(
        [
            (1, "10", "x", b"\x01", None, False, None),
            (2, "20", "x", b"\x01", None, False, None),
            (3, "30", "x", None, None, False, None),
            (3, "31", "x", b"\x02", None, False, None),
            (3, "32", "x", b"\x01", None, False, None),
            (4, None, "x", b"\x02", None, True, None),
            (5, "no number", "x", b"\x02", None, True, None),
        ],
        OLD,
    )
    new = spark().createDataFrame([(2, 21, None, b"\x03", None, False, None)], NEW)
    made = rows_to_keep(old, new, [KEY], b"\x09")
    assert made.columns == [*new.columns, HELD]
    rows = sorted(tuple(row) for row in made.drop(sql.COMMIT_TIME, sql.DELETED_AT).collect())
    assert rows == [
        (1, 10, None, b"\x09", True, True),
        (3, 31, None, b"\x09", True, True),
        (4, None, None, b"\x09", True, True),
        (5, None, None, b"\x09", True, False),
    ]


def test_a_table_that_kept_no_rows_gives_those_that_are_gone_from_now_on(spark: Session) -> None:
    columns = f"{sql.quote(KEY)} int, n string, {sql.POSITION} binary"
    old = spark().createDataFrame([(1, "10", b"\x01"), (2, "20", b"\x01")], columns)
    new = spark().createDataFrame([(2, 21, None, b"\x03", None, False, None)], NEW)
    (row,) = rows_to_keep(old, new, [KEY], b"\x09").collect()
    assert tuple(row) == (1, 10, None, b"\x09", None, True, None, True)
