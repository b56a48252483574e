"""Maxwell's messages: which tables they are of, and what becomes of them in the lake."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.databases.postgres.table import PostgresTable, ReplicaIdentity
from cdc_assets.errors import TerminalError
from cdc_assets.formats.layout import Layout
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.values import RawRecord
from cdc_assets_tests.formats.messages import ITEMS, format_named, maxwell
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy.profiles import in_soak

Make = Callable[..., Pipeline]
NOTES, TOPIC = "shop.notes", "maxwell"
PRICED = {"tables": {ITEMS: {"columns": {"price": "decimal(12,4)"}}}}
MAXWELL = format_named("maxwell-json")
TABLE = TableName("s", "shop", "items")


def row(id_: int, name: str | None, price: float | None = 1.5) -> dict[str, Any]:
    return {"id": id_, "name": name, "price": price}


@pytest.fixture
def topic(pipeline: Make) -> Callable[..., Pipeline]:
    """A topic of its own name, with these messages in it, and the tables that they name."""

    def start(*messages: Message, partitions: int = 1, **source: object) -> Pipeline:
        made = pipeline(format="maxwell-json", **{**PRICED, **source})
        made.shared = {ITEMS: TOPIC, NOTES: TOPIC}
        made.create_topic(TOPIC, partitions)
        made.produce(TOPIC, messages)
        return made

    return start


def names(made: Pipeline) -> dict[object, object]:
    return {key: each["name"] for key, each in made.by_key(ITEMS).items()}


@pytest.mark.stack
def test_rows_are_bootstrapped_and_changed(topic: Callable[..., Pipeline]) -> None:
    """A row's changes count in Kafka's order, whether they were bootstrapped or read as changes."""
    made = topic(
        maxwell("insert", row(1, "before"), position="mysql-bin.000009:4567"),
        maxwell("bootstrap-start", {}),
        maxwell("bootstrap-insert", row(1, "bootstrapped")),
        maxwell("bootstrap-insert", row(2, "bootstrapped")),
        maxwell("bootstrap-insert", row(3, None, None)),
        maxwell("bootstrap-complete", {}),
        maxwell("update", row(2, "", 0.0001), {"name": "bootstrapped"}),
        maxwell("table-alter", None, sql="ALTER TABLE items COMMENT 'x'"),
        maxwell("insert", {"id": 1, "text": "n"}, table=NOTES),
    )
    (merged,) = made.merge(ITEMS)
    assert (merged.passed_over, merged.of_others, merged.other_tables) == (3, 1, (NOTES,))
    assert made.by_key(ITEMS) == {
        1: {"id": 1, "name": "bootstrapped", "price": Decimal("1.5000")},
        2: {"id": 2, "name": "", "price": Decimal("0.0001")},
        3: {"id": 3, "name": None, "price": None},
    }
    made.produce(TOPIC, [maxwell("delete", row(3, None)), maxwell("delete", row(1, "x"))])
    made.merge(ITEMS)
    assert names(made) == {2: ""}
    made.replay(ITEMS)
    assert names(made) == {2: ""}


@pytest.mark.stack
def test_a_change_of_the_key_moves_the_row(topic: Callable[..., Pipeline]) -> None:
    made = topic(
        maxwell("insert", row(1, "a")),
        maxwell("insert", row(2, "b")),
        maxwell("update", row(3, "b"), {"id": 2}),
        maxwell("update", row(2, "a"), {"id": 1}),
    )
    made.merge(ITEMS)
    assert names(made) == {2: "a", 3: "b"}


@in_soak
@pytest.mark.stack
def test_nulls_that_are_left_out_stop_the_table_until_somebody_says_so(
    topic: Callable[..., Pipeline],
) -> None:
    """``output_nulls=false``: what is NULL and what is not there look alike."""
    nameless = maxwell("update", {"id": 1, "price": 1.5}, {"name": "a"})
    made = topic(maxwell("insert", row(1, "a")), nameless)
    with pytest.raises(TerminalError, match="lacks column 'name'"):
        made.merge(ITEMS)
    told = {ITEMS: {**PRICED["tables"][ITEMS], "absent_columns": ["name"]}}
    made = topic(maxwell("insert", row(1, "a")), nameless, tables=told)
    made.merge(ITEMS)
    assert names(made) == {1: None}


@pytest.mark.stack
@pytest.mark.parametrize(
    ("messages", "source", "reason"),
    [
        ([maxwell("insert", row(1, "a"))], {"tables": {}}, "price .*decimal from a float"),
        ([maxwell("insert", None, encrypted={"iv": "…", "bytes": "…"})], {}, "encrypt"),
        ([Message(None, maxwell("insert", row(1, "a")).value)], {}, "no primary key"),
        pytest.param([maxwell("insert", row(1, "a")), Message(None, b"{")],
                     {}, "not a JSON object", marks=in_soak),
    ],
    ids=["types", "encrypted", "keyless", "broken"],
)  # fmt: skip
def test_what_cannot_be_exact_stops_the_table(
    topic: Callable[..., Pipeline], messages: list[Message], source: dict[str, Any], reason: str
) -> None:
    with pytest.raises(TerminalError, match=reason):
        topic(*messages, **source).merge(ITEMS)


# ── few records, in Python ────────────────────────────────────────────────────────────────


def raw(each: Message) -> RawRecord:
    return RawRecord(Coordinate("t", 0, 0), datetime(2026, 1, 1, tzinfo=UTC), each.key, each.value)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("message", "kind", "names_table"),
    [
        (maxwell("insert", row(1, "a")), TopicKind.CHANGES, True),
        (maxwell("bootstrap-insert", row(1, "a")), TopicKind.CHANGES, True),
        (maxwell("bootstrap-start", {}), TopicKind.OTHER, False),
        (maxwell("table-create", None), TopicKind.SCHEMA_CHANGES, False),
        (maxwell("database-drop", None), TopicKind.SCHEMA_CHANGES, False),
        (Message(None, b'{"encrypted":{"iv":"","bytes":""}}'), TopicKind.OTHER, False),
        (Message(None, b'{"type":{"a":1}}'), TopicKind.OTHER, False),
        (Message(None, b"[1]"), TopicKind.UNREADABLE, False),
    ],
    ids=range(8),
)
def test_messages_say_what_they_are(message: Message, kind: TopicKind, names_table: bool) -> None:
    assert MAXWELL.kind(raw(message)) is kind
    assert MAXWELL.tables([raw(message)], "s") == ({TABLE} if names_table else set())


@pytest.mark.unit
@pytest.mark.parametrize(
    ("key", "more", "found"),
    [
        (b'{"database":"shop","table":"items","pk.id":1}', {}, ("ID",)),
        (b'["shop","items",[{"id":1},{"name":"a"}]]', {}, ("ID", "name")),
        (b'{"database":"shop","table":"items","_uuid":"x"}', {}, ()),
        (b'{"database":"shop","table":"items","pk.id":1}', {"primary_key_columns": ["name"]},
         ("name",)),
        (b'{"database":"shop","table":"items","pk.gone":1}', {}, ()),
        (b'["shop","items",[1]]', {}, ()),
        (b'["shop",["items"]]', {}, ()),
        (b"\xff", {}, ()),
        (None, {}, ()),
    ],
    ids=range(9),
)  # fmt: skip
def test_the_key_is_that_of_the_record(
    key: bytes | None, more: dict[str, Any], found: tuple[str, ...]
) -> None:
    """Maxwell writes its names in lower case there."""
    message = maxwell("insert", {"ID": 1, "name": "a"}, **more)
    sample = MAXWELL.look([raw(Message(key, message.value))], TABLE)
    assert sample.guessed is not None
    assert sample.guessed.key == found


@pytest.mark.unit
def test_one_encrypted_message_among_others_costs_itself() -> None:
    messages = [maxwell("insert", None, encrypted={}), maxwell("insert", row(1, "a"))]
    assert MAXWELL.look([raw(each) for each in messages], TABLE).refusal is None
    refusal = MAXWELL.look([raw(messages[0])], TABLE).refusal
    assert refusal is not None
    assert "encrypted" in refusal.what


@pytest.mark.unit
def test_a_table_without_a_key_is_refused() -> None:
    assert MAXWELL.refuses(Layout("maxwell"), ()) is not None
    assert MAXWELL.refuses(Layout("maxwell"), ("id",)) is None


@pytest.mark.unit
def test_the_catalog_of_another_database_is_refused() -> None:
    table = PostgresTable((), (), ReplicaIdentity.DEFAULT, "")
    with pytest.raises(TerminalError, match="MySQL and MariaDB"):
        MAXWELL.of_catalog(table)


@pytest.mark.unit
@pytest.mark.parametrize("value", [b"", b"{", b"[1]", b'{"data":1,"type":[]}', b"[" * 99999])
def test_odd_messages_describe_nothing(value: bytes) -> None:
    sample = MAXWELL.look([raw(Message(value, value))], TABLE)
    assert (sample.events, sample.rows, sample.has_row) == (0, (), False)
    assert not MAXWELL.holds_row(raw(Message(None, value)), TABLE)


@pytest.mark.unit
def test_messages_of_the_tests_are_what_maxwell_writes() -> None:
    """As https://maxwells-daemon.io/dataformat/ has it."""
    message = maxwell("update", row(1, "a"), {"name": "b"}, xid=23396, commit=True)
    said = json.loads(message.value or b"")
    assert list(said) == ["database", "table", "type", "ts", "xid", "commit", "data", "old"]
