"""Messages as their producers document them, beside what is made of them.

As in `cdc_assets_tests.formats.test_golden`; ``from`` says where the records were taken, with names
of database and table changed. ``catalog`` has the types of a MySQL table, ``columns`` those of a
configuration, ``sampled`` how many records there were when the table was made. A value given as
text is the message as it is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row

from cdc_assets.config import SourceConfig
from cdc_assets.databases.mysql.table import MysqlTable
from cdc_assets.databases.mysql.types import MysqlColumn
from cdc_assets.formats.format import Format
from cdc_assets.formats.registered import format_of
from cdc_assets.formats.spec import CONTROL, OTHER, STATEMENT
from cdc_assets_tests.formats.decoding import Bytes, Table, decoded, table_of
from cdc_assets_tests.formats.test_golden import bytes_of, change_of, plain, told
from cdc_assets_tests.pipeline import Session

GOLDEN = Path(__file__).parent / "golden"
_TOLD = {"op", "reject"}
ONLY_TOLD = {CONTROL, STATEMENT, OTHER}
"""What is no change of a row."""
FILES = sorted(file for name in ("maxwell-json", "ogg-json") for file in (GOLDEN / name).iterdir())


def of_file(file: Path) -> tuple[dict[str, Any], Format, list[Bytes], Table]:
    """What a file says, as the code under test takes it."""
    golden = json.loads(file.read_text())
    said = {"topics": {"include": [".*"]}, "connector": golden.get("connector", {})}
    fmt = format_of(SourceConfig.model_validate({**said, "format": file.parent.name}))
    records = [
        Bytes(bytes_of(each.get("key")), bytes_of(each["value"])) for each in golden["records"]
    ]
    key = tuple(golden.get("primary_key", ()))
    catalog = None
    if "catalog" in golden:
        columns = tuple(MysqlColumn(*each) for each in golden["catalog"].items())
        catalog = MysqlTable(columns, tuple(golden["catalog_key"]))
    sampled = records[: golden.get("sampled")]
    table = table_of(fmt, sampled, key, catalog=catalog, columns=golden.get("columns"))
    return golden, fmt, records, table


@pytest.mark.spark
@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_messages_are_decoded_as_written_beside_them(spark: Session, file: Path) -> None:
    golden, fmt, records, table = of_file(file)
    assert told(fmt, table) == golden["table"]
    changes = decoded(spark, fmt, table, records)
    assert [[said(row, table) for row in rows] for rows in changes.values()] == [
        [each["change"]] for each in golden["records"]
    ]


def said(row: Row, table: Table) -> dict[str, Any]:
    """A change, with the key before it and whose it is."""
    beside = {"old_key": plain(row["old_key"]), "of": row["other_table"]}
    is_change = row["reject"] is None and row["op"] not in ONLY_TOLD
    found = change_of(row, table)
    kept = found if is_change else {name: found[name] for name in found if name in _TOLD}
    return {**kept, **{name: value for name, value in beside.items() if value is not None}}
