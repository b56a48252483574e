"""The hash of a change's content stays, whatever becomes of the table's columns."""

from __future__ import annotations

import struct
from dataclasses import replace
from decimal import Decimal as Number
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cdc_assets.merge.apply.content import content_of
from cdc_assets.schema.types import (
    Column,
    Decimal,
    Existing,
    Identity,
    Primitive,
    TableSchema,
    Wire,
)
from cdc_assets_tests.pipeline import Session

pytestmark = pytest.mark.spark

N = Column("n", Primitive.INT, Wire.INT)
P = Column("p", Decimal(8, 2), Wire.DECIMAL_BYTES)
LONG_P = Column("q", Decimal(17, 2), Wire.DECIMAL_BYTES)
R = Column("r", Primitive.FLOAT, Wire.FLOAT)
S = Column("s", Primitive.STRING, Wire.STRING)
MADE = TableSchema((N, P, LONG_P, R, S))
ADDED = Column("more", Primitive.INT, Wire.INT, existing=Existing("5", "1.more"))
ANOTHER = Column("again", Primitive.STRING, Wire.STRING)
NOW = TableSchema(
    (
        replace(N, name="number", type=Primitive.LONG, identity=Identity(was=("n",), turn=1)),
        replace(P, type=Decimal(12, 2)),
        replace(LONG_P, type=Decimal(30, 2)),
        replace(R, type=Primitive.DOUBLE),
        S,
        ADDED,
        ANOTHER,
        replace(N, name="n", type=Primitive.STRING, identity=Identity(turn=2)),
    )
)
ROWS: list[tuple[Any, ...]] = [
    (7, Number("1.25"), Number("1.25"), 0.1, "a"),
    (-(2**31), Number("-999999.99"), Number("-999999999999999.99"), float("nan"), ""),
    (0, Number(0), Number(0), -0.0, None),
    (None, None, None, None, None),
    (2**31 - 1, None, Number("1.00"), float("inf"), "ä€"),
]


def hashed(spark: SparkSession, schema: TableSchema, rows: list[tuple[Any, ...]]) -> list[int]:
    """Of updates of these rows; what goes into a row of 32 bits is read as one of 64."""
    columns = ", ".join(f"{c.name} {c.type}" for c in schema.columns)
    frame = spark.createDataFrame(rows, f"i int, {columns}").withColumn("op", F.lit("u"))
    image = F.struct(*schema.names)
    frame = frame.withColumns({"row": image, "old_row": F.when(F.col("i") > 1, image)})
    found = frame.select("i", content_of(MADE, schema).alias("hash")).orderBy("i").collect()
    return [row["hash"] for row in found]


def as_float(value: float | None) -> float | None:
    return None if value is None else struct.unpack("<f", struct.pack("<f", value))[0]


def test_it_is_that_of_the_columns_that_the_table_was_made_with(spark: Session) -> None:
    before = [(i, *row) for i, row in enumerate(ROWS)]
    plain = F.xxhash64("op", "row", "old_row")
    assert hashed(spark(), MADE, before) == plain_hashes(spark(), plain, before)

    def widened(*added: Any) -> list[tuple[Any, ...]]:
        return [(i, *row[:3], as_float(row[3]), row[4], *added) for i, row in enumerate(ROWS)]

    assert hashed(spark(), NOW, widened(None, None, None)) == hashed(spark(), MADE, before)
    assert hashed(spark(), NOW, widened(5, None, None)) == hashed(spark(), MADE, before)
    for added in ((6, None, None), (None, "x", None), (None, None, "x")):
        assert not {*hashed(spark(), NOW, widened(*added))} & {*hashed(spark(), MADE, before)}


def plain_hashes(spark: SparkSession, plain: Any, rows: list[tuple[Any, ...]]) -> list[int]:
    """As releases before have it, and tables whose columns are those that they were made with."""
    columns = ", ".join(f"{c.name} {c.type}" for c in MADE.columns)
    frame = spark.createDataFrame(rows, f"i int, {columns}").withColumn("op", F.lit("u"))
    image = F.struct(*MADE.names)
    frame = frame.withColumns({"row": image, "old_row": F.when(F.col("i") > 1, image)})
    return [r["hash"] for r in frame.select("i", plain.alias("hash")).orderBy("i").collect()]


def test_values_that_do_not_fit_into_the_former_types_differ(spark: Session) -> None:
    rows = [
        (0, 2**31, Number("1.00"), None, 0.5, "a", None, None, None),
        (1, 2**31 + 1, Number("1.00"), None, 0.5, "a", None, None, None),
        (2, 1, Number("1000000.00"), None, 0.5, "a", None, None, None),
        (3, 1, Number("1000001.00"), None, 0.5, "a", None, None, None),
        (4, 1, Number("1.00"), None, 0.1, "a", None, None, None),
        (5, 1, Number("1.00"), None, as_float(0.1), "a", None, None, None),
    ]
    assert len({*hashed(spark(), NOW, rows)}) == len(rows)
