"""What connectors write, beside what is made of it: one file for each, to be read by people.

A file has ``records`` (an object is written as the converter would, a text as it is), ``changes``
in the same order, and what the table is settled to be. Records under ``from`` were written by
Debezium's own code, others after its documentation.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row

from cdc_assets.formats.format import Format
from cdc_assets.formats.order import NUMBERS
from cdc_assets_tests.formats.debezium import debezium_json_with
from cdc_assets_tests.formats.decoding import Bytes, Table, decoded, table_of
from cdc_assets_tests.pipeline import Session

pytestmark = pytest.mark.spark

FILES = sorted((Path(__file__).parent / "golden" / "debezium-json").glob("*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_records_are_decoded_as_written_beside_them(spark: Session, file: Path) -> None:
    golden = json.loads(file.read_text())
    fmt = debezium_json_with(golden.get("connector", {}))
    records = [Bytes(bytes_of(each.get("key")), bytes_of(each["value"]))
               for each in golden["records"]]  # fmt: skip
    table = table_of(fmt, records, tuple(golden.get("primary_key", ())))
    assert told(fmt, table) == golden["table"]
    changes = decoded(spark, fmt, table, records)
    assert [[change_of(row, table) for row in rows] for rows in changes.values()] == [
        [each["change"]] for each in golden["records"]
    ]


def bytes_of(given: Any) -> bytes | None:
    """An object as the converter writes it; a text as it is; bytes as hexadecimal digits."""
    match given:
        case None | str():
            return None if given is None else given.encode()
        case {"hex": digits}:
            return bytes.fromhex(digits)
        case _:
            return json.dumps(given, separators=(",", ":"), ensure_ascii=False).encode()


def told(fmt: Format, table: Table) -> dict[str, Any]:
    layout, schema = table.layout, table.schema
    refusal = table.refusal or fmt.refuses(layout, schema.key)
    said = {
        "dialect": layout.dialect,
        "positions": layout.scheme.value,
        "keyed": layout.keyed,
        "columns": {each.name: f"{each.type} from {each.wire}" for each in schema.columns},
        "key": list(schema.key),
        "key_form": layout.key_form.value,
    }
    return said if refusal is None else {**said, "refused": refusal.what}


def change_of(row: Row, table: Table) -> dict[str, Any]:
    """What a person would look at; without what is not there."""
    if row["reject"] is not None:
        return {"reject": row["reject"]}
    numbers = NUMBERS[: table.layout.scheme.numbers - 1]
    said = {
        "op": row["op"],
        "key": plain(row["key"]),
        "row": plain(row["row"]),
        "unset": [name for name, is_unset in (plain(row["unset"]) or {}).items() if is_unset],
        "position": [row[name] for name in numbers] if row["n0"] is not None else [],
        "ts": None if row["ts"] is None else row["ts"].isoformat(),
        "unknown": row["unknown"],
        "absent": row["absent"],
    }
    return {name: value for name, value in said.items() if value not in (None, [])}


def plain(value: Any) -> Any:
    match value:
        case Row():
            return {name: plain(each) for name, each in value.asDict().items()}
        case list():
            return [plain(each) for each in value]
        case None | str() | int() | float():
            return value
        case bytes() | bytearray():
            return bytes(value).hex()
        case Decimal():
            return str(value)
        case _:
            return value.isoformat()
