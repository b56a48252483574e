"""What the first records of a topic describe, where they are none that hold a whole row."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.config import SourceConfig
from cdc_assets.errors import TerminalError, TransientError
from cdc_assets.formats.layout import Layout
from cdc_assets.formats.registered import format_of
from cdc_assets.log.values import RawRecord
from cdc_assets.merge.intake.describe import TypeSource
from cdc_assets.registry import TableEntry
from cdc_assets.schema.types import TableSchema
from cdc_assets_tests.formats.canal import as_json, flat
from cdc_assets_tests.formats.messages import ITEMS, maxwell, ogg
from cdc_assets_tests.pipeline import Message

pytestmark = pytest.mark.unit

THEN = datetime(2026, 1, 1, tzinfo=UTC)
ENTRY = TableEntry(TableName("s", *ITEMS.split(".")), "t", LakeName("s_shop", "items"), THEN)
TYPES = {"id": "bigint", "name": "string"}
WHOLE = {"id": "1", "name": "a"}


@dataclass
class Topic:
    """A topic with these records."""

    messages: tuple[Message, ...]

    def sample(
        self, topic: str, _most: int, *, wanted: Callable[[RawRecord], bool]
    ) -> list[RawRecord]:
        return [
            RawRecord(Coordinate(topic, 0, n), THEN, each.key, each.value)
            for n, each in enumerate(self.messages)
        ]


def source_of(fmt: str, *messages: Message, **overrides: Any) -> TypeSource:
    said = {"format": fmt, "topics": {"include": [".*"]}, "tables": {ITEMS: overrides}}
    source = SourceConfig.model_validate(said)
    return TypeSource(source, cast("Any", Topic(messages)), format_of(source))


def described(fmt: str, *messages: Message, columns: dict[str, str] | None = None) -> TableSchema:
    overrides = {"primary_key": ["id"], **({"columns": columns} if columns else {})}
    return source_of(fmt, *messages, **overrides).first_schema(ENTRY).schema


def types(schema: TableSchema) -> dict[str, str]:
    return {each.name: f"{each.type} from {each.wire}" for each in schema.columns}


def canal(row: dict[str, Any], types: dict[str, str] | None, **told: Any) -> Message:
    said = flat("INSERT", [row], types={}, table=ITEMS)
    return as_json({**said, "mysqlType": types, "_tidb": {"commitTs": 7, **told} if told else None})


KEY_ONLY = canal({"id": "1"}, {"id": "int"}, onlyHandleKey=True)
WAITS = "the topic holds no row yet"


@pytest.mark.parametrize("columns", [None, TYPES], ids=["types are told", "types are configured"])
def test_a_row_that_is_not_in_its_message_describes_no_table(
    columns: dict[str, str] | None,
) -> None:
    with pytest.raises(TransientError, match=WAITS):
        described("canal-json", KEY_ONLY, columns=columns)
    whole = canal(WHOLE, {"id": "bigint", "name": "varchar(9)"})
    made = described("canal-json", KEY_ONLY, whole, columns=columns)
    assert types(made) == {"id": "bigint from integer_text", "name": "string from string"}


@pytest.mark.parametrize("columns", [None, {"id": "bigint"}], ids=["none", "some"])
def test_messages_of_canal_without_types_that_nothing_tells_are_refused(
    columns: dict[str, str] | None,
) -> None:
    with pytest.raises(TerminalError, match="do not tell their types") as caught:
        described("canal-json", canal({"id": 1, "name": "a"}, None), columns=columns)
    assert "name every column under tables" in str(caught.value)
    typed = canal(WHOLE, {"id": "bigint", "name": "varchar(9)"})
    assert types(described("canal-json", canal(WHOLE, None), typed, columns=columns)) == {
        "id": "bigint from integer_text", "name": "string from string",
    }  # fmt: skip


def test_a_delete_describes_a_table_all_of_whose_columns_are_configured() -> None:
    delete = maxwell("delete", {"id": 1, "name": "a"})
    made = described("maxwell-json", delete, columns=TYPES)
    assert types(made) == {"id": "bigint from scalar", "name": "string from scalar"}
    for columns in (None, {"name": "string"}, {**TYPES, "price": "double"}):
        with pytest.raises(TransientError, match=WAITS):
            described("maxwell-json", delete, columns=columns)
    with pytest.raises(TransientError, match=WAITS):
        described("ogg-json", ogg("D", 9, before={"id": 1}), columns=TYPES)


def test_a_truncate_of_goldengate_names_its_table() -> None:
    truncate = ogg("T", 9)
    with pytest.raises(TransientError, match=WAITS):
        described("ogg-json", truncate)
    row = ogg("I", 10, after={"id": 1, "name": "a"})
    assert types(described("ogg-json", truncate, row)) == {
        "id": "bigint from scalar", "name": "string from scalar",
    }  # fmt: skip
    bare = Message(None, json.dumps({"table": ITEMS, "op_type": "I", "id": 1}).encode())
    with pytest.raises(TerminalError, match="flat rows"):
        described("ogg-json", truncate, bare)


@pytest.mark.parametrize(
    ("fmt", "dialect", "is_whole"),
    [("canal-json", "canal", True), ("maxwell-json", "maxwell", True),
     ("ogg-json", "goldengate", True), ("debezium-json", "bare", False)],
)  # fmt: skip
def test_a_row_that_lacks_columns_is_none_where_rows_are_whole(
    fmt: str, dialect: str, is_whole: bool
) -> None:
    """Of schemaless records of Debezium without a catalog nothing tells whether a column went."""
    types = source_of(fmt)
    assert types.sends_columns(ENTRY, Layout(dialect), is_known=False) is is_whole
