"""Keys by another converter than values: the same rows, or the record that cannot be merged.

What Kafka Connect's converters make of Debezium's keys, and of keys that a transformation has made
one value (``ExtractField$Key``). Where they cannot be read, nothing tells that an update without
its row before it, as these are, left the key alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.config import SourceConfig
from cdc_assets.errors import RejectedRecordError
from cdc_assets.formats.key_form import KeyForm
from cdc_assets.formats.registered import format_of
from cdc_assets.log.values import RawRecord
from cdc_assets_tests.formats import golden_records as golden
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy.profiles import in_soak

Make = Callable[..., Pipeline]
TABLE = "public.orders"
NAME = TableName("shop", "public", "orders")
NOW = datetime(2026, 3, 4, tzinfo=UTC)
INT64 = {"type": "int64", "optional": False}
OF_KEY = {"type": "struct", "fields": [{**INT64, "field": "id"}], "optional": False}


def text(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


KEYS: dict[str, Callable[[int], bytes]] = {
    "object": lambda id_: text({"id": id_}),
    "object with schema": lambda id_: text({"schema": OF_KEY, "payload": {"id": id_}}),
    "scalar, or text": text,
    "scalar with schema": lambda id_: text({"schema": INT64, "payload": id_}),
    "long": lambda id_: id_.to_bytes(8),
    "integer": lambda id_: id_.to_bytes(4),
    "avro": lambda id_: b"\x00\x00\x00\x00\x0f" + bytes([2 * id_]),
    "struct as text": lambda id_: b"Struct{id=%d}" % id_,
}
UNREADABLE = {
    golden.AVRO: {"struct as text"},
    golden.BARE: {"struct as text", "avro"},
    golden.INLINE: {"struct as text", "avro"},
}
AT_ONCE = {(golden.BARE, "long"), (golden.BARE, "avro")}
PAIRS = [
    pytest.param(value, key, marks=() if (value, key) in AT_ONCE else in_soak)
    for value in UNREADABLE
    for key in KEYS
]


def rekeyed(records: list[Message], names: list[bytes | None], key: str) -> list[Message]:
    """The records with such keys; ``names`` are those of their JSON."""
    ids = [json.loads(name or b"")["id"] for name in names]
    return [replace(each, key=KEYS[key](id_)) for each, id_ in zip(records, ids, strict=True)]


FORMS = {"long": KeyForm.LONG, "integer": KeyForm.INTEGER}


@pytest.mark.unit
@pytest.mark.parametrize("value", UNREADABLE)
@pytest.mark.parametrize("key", KEYS)
def test_the_first_records_tell_how_keys_are_written(value: str, key: str) -> None:
    said = golden.load(value)
    names = [each.key for each in golden.messages(golden.load(golden.BARE)["records"], TABLE)]
    records = rekeyed(golden.messages(said["records"], TABLE), names, key)
    raw = [
        RawRecord(Coordinate("t", 0, n), NOW, each.key, each.value)
        for n, each in enumerate(records)
        if each.value is not None
    ]
    with source_of(value, said) as source:
        found = format_of(SourceConfig.model_validate(source)).look(raw, NAME)
    assert found.events == len(raw)
    assert found.is_keyed_by(("id",)) is (key not in UNREADABLE[value])
    assert not found.is_keyed_by(("customer_id",))
    assert found.key_form(("id",)) is FORMS.get(key, KeyForm.JSON)


@contextmanager
def source_of(value: str, said: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The configuration of a source of such values, and for as long the registry of its schemas."""
    source: dict[str, Any] = {"format": "debezium-json", "topics": {"include": ["t"]}}
    if value != golden.AVRO:
        yield source
        return
    with golden.confluent_registry(said["schemas"]) as registry:
        yield source | {"format": "debezium-avro", "schema_registry": {"url": registry.url}}


@pytest.mark.stack
@pytest.mark.parametrize(("value", "key"), PAIRS)
def test_a_key_of_any_converter_beside_a_value_of_any_other(
    pipeline: Make, value: str, key: str
) -> None:
    bare = golden.messages(golden.load(golden.BARE)["records"], TABLE)
    said = golden.load(value)
    names = [each.key for each in bare]
    records = rekeyed(golden.messages(said["records"], TABLE), names, key)
    with source_of(value, said) as source:
        named = {"tables": {TABLE: {"primary_key": ["id"]}}}
        made = pipeline(**{k: source[k] for k in source if k != "topics"}, **named)
        made.create_topic(TABLE)
        made.produce(TABLE, records)
        if key in UNREADABLE[value]:
            with pytest.raises(RejectedRecordError, match=r"the key before it.*offset=2\b"):
                made.merge(TABLE)
            assert made.rows(TABLE) == []
            return
        made.merge(TABLE)
        expected = expected_ids(bare)
        assert set(made.by_key(TABLE)) == expected
        gone = min(expected)
        made.produce(TABLE, [Message(KEYS[key](gone), None)])
        made.merge(TABLE)
        assert set(made.by_key(TABLE)) == expected - {gone}, "by the key alone"


def expected_ids(bare: list[Message]) -> set[int]:
    """By the events in their order."""
    rows: set[int] = set()
    for each in bare:
        event = json.loads(each.value) if each.value is not None else {"op": "tombstone"}
        match event["op"]:
            case "d":
                rows.discard(event["before"]["id"])
            case "c" | "r" | "u":
                rows.add(event["after"]["id"])
            case _:
                continue
    return rows
