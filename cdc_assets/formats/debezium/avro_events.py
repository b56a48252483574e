"""Reads Debezium's Avro in Python: a few records, as the mappings that its JSON would be."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import fastavro

from cdc_assets.changes.json_text import read_json
from cdc_assets.formats.registry import SchemaRegistry
from cdc_assets.formats.wire_id import Framed, SchemaId, Side, Unframed, read_frame
from cdc_assets.log.values import RawRecord
from cdc_assets.schema.avro import connect_schema
from cdc_assets.schema.avro_types import AvroSchemaError
from cdc_assets.schema.avro_wire import wire_schema
from cdc_assets.schema.connect import ConnectSchema

_UNREADABLE: Final = (
    ValueError, EOFError, LookupError, TypeError, OverflowError, RecursionError,
)  # fmt: skip
"""Exceptions that the decoder raises on bytes that do not match their schema."""


@dataclass(frozen=True, slots=True)
class AvroSchemas:
    """The schemas of a source's records, in the forms in which they are needed.

    Attributes:
        registry: the registry that has them.
    """

    registry: SchemaRegistry
    _wires: dict[SchemaId, str | None]
    _parsed: dict[SchemaId, Any]

    @classmethod
    def of(cls, registry: SchemaRegistry) -> AvroSchemas:
        """Returns the schemas of a registry, with nothing read yet."""
        return cls(registry, {}, {})

    def frame(self, record: RawRecord, side: Side) -> Framed | Unframed | None:
        """Returns the schema id and the data of a record's key or value; None if it has none."""
        return read_frame(record, side, of_glue=self.registry.is_glue)

    def wire(self, schema_id: SchemaId, topic: str) -> str | None:
        """Returns the schema by which Spark and Python read; None if it has no such form.

        Raises:
            CdcError: if the registry does not answer, or does not know it.
        """
        if schema_id not in self._wires:
            self._wires[schema_id] = _wire(self.registry.schema(schema_id, topic))
        return self._wires[schema_id]

    def connect(self, schema_id: SchemaId, topic: str) -> ConnectSchema | None:
        """Returns the converter's input schema; None if it cannot be derived.

        Raises:
            CdcError: if the registry does not answer, or does not know it.
        """
        try:
            return connect_schema(self.registry.schema(schema_id, topic))
        except AvroSchemaError:
            return None

    def event(self, record: RawRecord, side: Side = Side.VALUE) -> Mapping[str, Any] | None:
        """Returns a key or value; None if it is missing, or unreadable.

        Raises:
            CdcError: if the registry does not answer, or does not know its schema.
        """
        frame = self.frame(record, side)
        if not isinstance(frame, Framed):
            return None
        text = self.wire(frame.schema_id, record.coordinate.topic)
        if text is None:
            return None
        if frame.schema_id not in self._parsed:
            self._parsed[frame.schema_id] = fastavro.parse_schema(read_json(text))
        return _read(frame.payload, self._parsed[frame.schema_id])


def _wire(avro: object) -> str | None:
    try:
        return wire_schema(avro)
    except AvroSchemaError:
        return None


def _read(payload: bytes, schema: Any) -> Mapping[str, Any] | None:
    try:
        value = fastavro.schemaless_reader(io.BytesIO(payload), schema, None)
    except _UNREADABLE:
        return None
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else None
