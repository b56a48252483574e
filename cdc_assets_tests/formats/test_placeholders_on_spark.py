"""Placeholders as Spark reads them: what is left out, what is data, and what cannot be told."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cdc_assets.changes.position import Scheme
from cdc_assets.databases.postgres.types import describe_table
from cdc_assets.formats.layout import Layout
from cdc_assets.schema.modes import ConnectorModes, DecimalMode
from cdc_assets.schema.types import Column, ListOf, Primitive, TableSchema, Wire
from cdc_assets_tests.databases.postgres_columns import column, numeric
from cdc_assets_tests.formats.debezium import debezium_json, debezium_json_with
from cdc_assets_tests.formats.decoding import Bytes, Table, decoded
from cdc_assets_tests.pipeline import Session

pytestmark = pytest.mark.spark

PLACEHOLDER = "__debezium_unavailable_value"
ROWS = TableSchema(
    (
        Column("id", Primitive.LONG, Wire.LONG, required=True),
        Column("big", Primitive.STRING, Wire.STRING, unchanged_marker=True),
    ),
    ("id",),
)


def flat(op: str, big: str, **added: object) -> Bytes:
    row = {"id": 1, "big": big, "__op": op, "__deleted": "false", **added}
    return Bytes(b'{"id":1}', json.dumps(row).encode())


def test_without_positions_a_create_with_the_placeholder_is_rejected(spark: Session) -> None:
    table = Table(ROWS, Layout("flat", scheme=Scheme.OFFSET))
    records = [flat(op, big) for op in "cur" for big in (PLACEHOLDER, "plain")]
    read = [rows[0] for rows in decoded(spark, debezium_json(), table, records).values()]
    assert [row["reject"] is None for row in read] == [False, True, True, True, True, True]
    assert "cannot be told from data" in read[0]["reject"]
    assert "source.lsn" in read[0]["reject"]
    assert PLACEHOLDER not in read[0]["reject"]
    assert [row["unset"]["big"] for row in read[1:]] == [False, True, False, False, False]


def test_with_positions_the_delete_of_the_old_key_decides(spark: Session) -> None:
    table = Table(ROWS, Layout("flat", scheme=Scheme.POSTGRES))
    at = {
        "__source_connector": "postgresql",
        "__source_ts_ms": 1,
        "__source_lsn": 7,
        "__source_sequence": '["6","7"]',
    }
    (read,) = decoded(spark, debezium_json(), table, [flat("c", PLACEHOLDER, **at)])[0]
    assert (read["reject"], read["in_doubt"], read["unset"]["big"]) == (None, True, True)


def test_numbers_as_text_that_updates_leave_alone_are_no_data(spark: Session) -> None:
    """As the catalog tells them to a connector that writes decimals as text, without schemas."""
    columns = (
        replace(column("int8", not_null=True), name="id"),
        replace(column("numeric"), name="any"),
        replace(numeric(38, 2), name="long"),
        replace(numeric(12, 2), name="short"),
    )
    modes = ConnectorModes(decimal=DecimalMode.STRING)
    schema = describe_table(columns, ("id",), modes).exact()
    table = Table(schema, Layout("flat", scheme=Scheme.POSTGRES))
    at = {
        "__source_connector": "postgresql",
        "__source_ts_ms": 1,
        "__source_lsn": 7,
        "__source_sequence": '["6","7"]',
    }
    whole = {"any": "1e5", "long": "1.50", "short": "2.50"}
    rows = (whole, whole | dict.fromkeys(("any", "long"), PLACEHOLDER), whole | {"short": "_"})
    records = [
        Bytes(b'{"id":1}', json.dumps({"id": 1, **row, "__op": "u", **at}).encode()) for row in rows
    ]
    read = [each for (each,) in decoded(spark, debezium_json(), table, records).values()]
    assert [row["reject"] is None for row in read] == [True, True, False]
    assert [[row["unset"][name] for name in ("any", "long")] for row in read[:2]] == [
        [False, False],
        [True, True],
    ]
    assert "short" not in read[0]["unset"].asDict()


def test_a_placeholder_beyond_ascii_is_no_data_in_arrays_of_numbers(spark: Session) -> None:
    """Debezium writes its bytes as they are in Java: from -128 to 127."""
    mark = "\u2205a"
    numbers = [int.from_bytes([each], signed=True) for each in mark.encode()]
    columns = (
        Column("id", Primitive.LONG, Wire.LONG, required=True),
        *(
            Column(name, ListOf(of), Wire.LIST, unchanged_marker=True, element_wire=wire)
            for name, of, wire in (
                ("ints", Primitive.INT, Wire.INT), ("longs", Primitive.LONG, Wire.LONG),
            )
        ),
    )  # fmt: skip
    table = Table(TableSchema(columns, ("id",)), Layout("flat", scheme=Scheme.OFFSET))
    fmt = debezium_json_with({"unavailable_value_placeholder": mark})
    records = [
        Bytes(b'{"id":1}', json.dumps({"id": 1, "ints": n, "longs": n, "__op": "u"}).encode())
        for n in (numbers, [each & 0xFF for each in numbers])
    ]
    read = [each for (each,) in decoded(spark, fmt, table, records).values()]
    assert [row["reject"] for row in read] == [None, None]
    assert [[row["unset"][name] for name in ("ints", "longs")] for row in read] == [
        [True, True],
        [False, False],
    ]
