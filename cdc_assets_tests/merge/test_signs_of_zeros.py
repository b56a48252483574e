"""A row that is added to a table without a key has the values that were sent."""

from __future__ import annotations

from math import copysign

import pytest

from cdc_assets.merge.apply.multiset import net_changes
from cdc_assets.schema.types import Column, ListOf, Primitive, TableSchema, Wire
from cdc_assets_tests.pipeline import Session

pytestmark = pytest.mark.spark

COLUMNS = TableSchema(
    (
        Column("d", Primitive.DOUBLE, Wire.DOUBLE),
        Column("f", ListOf(Primitive.FLOAT), Wire.LIST, element_wire=Wire.FLOAT),
        Column("s", Primitive.STRING, Wire.STRING),
    )
)
TYPES = ",".join(f"{each.name}:{each.type}" for each in COLUMNS.columns)
NAMES = f"position binary, ts timestamp, row struct<{TYPES}>, old_row struct<{TYPES}>"


def test_a_zero_keeps_its_sign(spark: Session) -> None:
    zero, other = (-0.0, [-0.0, 1.0], "a"), (-0.0, [None], "b")
    changes = [
        (b"1", None, zero, None),
        (b"2", None, zero, None),
        (b"3", None, None, other),
    ]
    frame = spark().createDataFrame(changes, NAMES)
    found = {row["n"]: row["row"] for row in net_changes(frame, COLUMNS).collect()}
    assert {n: row["s"] for n, row in found.items()} == {2: "a", -1: "b"}
    assert copysign(1, found[2]["d"]) == -1
    assert copysign(1, found[2]["f"][0]) == -1
