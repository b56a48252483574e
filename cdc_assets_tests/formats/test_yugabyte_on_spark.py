"""Records of each record type beside the changes that they are: ``golden/yugabyte_*.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from cdc_assets.formats.changes import Reading, decode
from cdc_assets.formats.format import Format
from cdc_assets.formats.layout import Layout
from cdc_assets.formats.spec import ReadSpec
from cdc_assets.schema.types import Column, Primitive, TableSchema, Wire
from cdc_assets_tests.formats.yugabyte import TABLE, record, schema_of, text, yugabyte
from cdc_assets_tests.pipeline import Session

GOLDEN = Path(__file__).parent / "golden"
SCHEMA = TableSchema(
    (
        Column("id", Primitive.INT, Wire.INT, required=True),
        Column("name", Primitive.STRING, Wire.STRING),
        Column("n", Primitive.LONG, Wire.LONG),
        Column("at", Primitive.TIMESTAMP, Wire.EPOCH_MICROS),
    ),
    key=("id",),
)
TYPES = {"id": "int32", "name": "string", "n": "int64", "at": "int64"}
SHOWN = ("op", "key", "old_key", "row", "unset", "reject", "unknown", "absent")

pytestmark = pytest.mark.spark


def frame(spark: Session, records: Iterable[tuple[bytes | None, bytes | None]]) -> DataFrame:
    """As Spark's source gives them, one partition, offsets from 0."""
    rows = [(key, value, 0, offset) for offset, (key, value) in enumerate(records)]
    return spark().createDataFrame(rows, "key binary, value binary, partition int, offset bigint")


def reading(fmt: Format, records: list[tuple[Any, Any]], columns: TableSchema = SCHEMA) -> Reading:
    """By what the records themselves tell, but for the types."""
    given = [record(*each) for each in records if each[1] is not None]
    found = fmt.look(given, TABLE)
    layout = Layout(found.dialect, scheme=found.scheme)
    omittable = tuple(n for n in columns.names if n != "id") if fmt.leaves_out else ()
    bare = ReadSpec(columns, layout, columns, TABLE, omittable)
    numbers = {
        written.number: written.text
        for each in given
        if found.described and (written := fmt.written(each, layout)) and written.number
    }
    inline = ReadSpec(columns, layout, columns, TABLE, omittable, writers=numbers)
    return Reading(fmt, (inline, bare) if numbers else (bare,))


def shown(changes: DataFrame, numbers: int) -> list[dict[str, Any]]:
    """What a change says, without what it does not say."""
    found = changes.orderBy("offset").select(
        *SHOWN, *(f"n{i}" for i in range(numbers - 1)), "in_doubt"
    )
    return [_said(row.asDict(recursive=True), numbers) for row in found.collect()]


def _said(change: dict[str, Any], numbers: int) -> dict[str, Any]:
    position = [change.pop(f"n{i}") for i in range(numbers - 1)]
    in_doubt = change.pop("in_doubt")
    change["unset"] = [name for name, unset in change["unset"].items() if unset]
    if change["row"]:
        change["row"]["at"] = change["row"]["at"] and str(change["row"]["at"])
    untold = ("unknown", "absent") if change["reject"] else ()
    said = {n: value for n, value in change.items() if n not in untold and value not in (None, [])}
    if change["key"] == {"id": None}:
        del said["key"]
    return {
        **said,
        **({"in_doubt": True} if in_doubt else {}),
        **({"position": position} if position and position[0] is not None else {}),
    }


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("yugabyte_*.json")), ids=lambda file: file.stem)
def test_records_are_these_changes(file: Path, spark: Session) -> None:
    golden = json.loads(file.read_text())
    records = [(each["key"], each["value"]) for each in golden["records"]]
    if golden.get("inline"):
        records = [(_in_schema(key), _in_schema(value)) for key, value in records]
    fmt = yugabyte(record_type=golden.get("record_type", "partial"))
    how = reading(fmt, records)
    raw = frame(spark, ((text(key), text(value)) for key, value in records))
    numbers = how.specs[-1].layout.scheme.numbers
    assert shown(decode(raw, how), numbers) == golden["changes"]


def _in_schema(document: Any) -> Any:
    if document is None:
        return None
    schema = schema_of(TYPES)
    if "op" not in document:
        schema = {**schema, "fields": schema["fields"][1]["fields"][:1]}
    return {"schema": schema, "payload": document}
