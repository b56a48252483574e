"""The contract of a dialect: the change event in a record's JSON, and its schema.

Each dialect has two forms: records that carry the schema of their table, and those that do not.
Events of every dialect are returned as Debezium's envelope (``op before after source
transaction``), so that no other code depends on the dialect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, cast

from cdc_assets.changes.json_text import read_object
from cdc_assets.formats.debezium.inline import schema_text
from cdc_assets.formats.sample import JsonObject
from cdc_assets.schema.connect import ConnectSchema, is_key_schema
from cdc_assets.schema.described import Described

_NULL_PAYLOAD: Final = (b"null}", b"null }")


@dataclass(frozen=True, slots=True)
class Opened:
    """A record's JSON without the schema around it.

    Attributes:
        body: the part that the schema describes; in a dialect with the schema elsewhere, the whole.
        is_wrapped: whether there is a schema.
        schema: the schema, unchecked, if there is one.
    """

    body: JsonObject
    is_wrapped: bool = False
    schema: object = None


class EnvelopeDialect(ABC):
    """A dialect, with and without schemas.

    Attributes:
        bare, inline: its names without and with schemas, as tables store them.
        has_before: whether an update holds the row before it.
        fixed: the table, if it is the same for all records of the dialect.
    """

    bare: ClassVar[str]
    inline: ClassVar[str]
    has_before: ClassVar[bool] = True
    fixed: ClassVar[Described | None] = None

    @abstractmethod
    def event(self, body: JsonObject) -> JsonObject | None:
        """Returns the change event as an envelope with a known operation; None if it is none."""

    @abstractmethod
    def is_schema(self, schema: object) -> bool:
        """Returns whether a schema is that of this dialect's events."""

    @abstractmethod
    def described(self, schema: ConnectSchema, key: ConnectSchema | None = None) -> Described:
        """Describes the table by the schemas of its records and of their keys."""

    def opened(self, document: JsonObject) -> Opened:
        """Takes a record's JSON apart."""
        return opened(document)

    def key(self, key: JsonObject, columns: Collection[str]) -> JsonObject:
        """Returns a record's key, without its schema, as columns of a table with these columns."""
        return key

    def schema_text(self, value: bytes | None) -> bytes | None:
        """Returns the schema in a record with the converter's layout; None for any other."""
        return schema_text(value)

    def schema_in(self, document: JsonObject) -> object:
        """Returns the schema of a record, or of the reduced record that carries only its schema."""
        found = self.opened(document)
        return found.schema if found.is_wrapped else document.get("schema")

    def named(self, *, is_inline: bool) -> str:
        """Returns the name that tables store."""
        return self.inline if is_inline else self.bare

    def table(self, schema: object, keys: Sequence[JsonObject]) -> Described:
        """Describes the table by the schema of an event and the keys of some records."""
        of_keys = (each.get("schema") for each in keys)
        key = next((each for each in of_keys if is_key_schema(each)), None)
        return self.described(cast("ConnectSchema", schema), cast("ConnectSchema | None", key))


def opened(document: JsonObject) -> Opened:
    """Unwraps ``{"schema": …, "payload": …}``, if wrapped; a payload that is no object is empty.

    A converter with schemas writes a schema that is null around values that have none.
    """
    if not {"schema", "payload"} <= document.keys():
        return Opened(document)
    payload, schema = document["payload"], document["schema"]
    body = cast("JsonObject", payload) if isinstance(payload, dict) else {}
    return Opened(body, is_wrapped=schema is not None, schema=schema)


def is_nothing(text: bytes | None) -> bool:
    """Returns whether a value is none: as such, as ``null``, or with a schema around that.

    Converters before Kafka 2.2 write a tombstone as ``{"schema": null, "payload": null}``.
    """
    if text is None or text.strip() == b"null":
        return True
    document = read_object(text) if text.rstrip().endswith(_NULL_PAYLOAD) else {}
    if document.keys() != {"schema", "payload"} or document["payload"] is not None:
        return False
    return document["schema"] is None or isinstance(document["schema"], dict)


def unwrapped(text: bytes | None) -> JsonObject:
    """Returns an object without the schema around it; empty if it is unreadable."""
    return opened(read_object(text)).body


def is_object(key: bytes | None) -> bool:
    """Returns whether a key is a JSON object, with or without a schema around it."""
    document = read_object(key)
    return bool(document) and (
        not {"schema", "payload"} <= document.keys() or isinstance(document["payload"], dict)
    )
