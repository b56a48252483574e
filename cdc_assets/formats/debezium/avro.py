"""``debezium-avro``: Debezium's envelope in Avro, its schemas in a registry.

Each record names the schema that it was written with; it is read by that one and no other. A few
records are read in Python, as the mappings that Debezium's JSON would be; all of them on Spark.
https://debezium.io/documentation/reference/stable/configuration/avro.html
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import fastavro

from cdc_assets.changes.json_text import mapping, read_json
from cdc_assets.changes.names import TableName
from cdc_assets.config import SourceConfig
from cdc_assets.errors import ConfigError, TerminalError
from cdc_assets.formats.debezium.dialects.dialect import unwrapped
from cdc_assets.formats.debezium.dialects.enveloped import has_operation
from cdc_assets.formats.debezium.kinds import kind_of_event
from cdc_assets.formats.debezium.marks import ended_of, mark_of
from cdc_assets.formats.debezium.named import named_in
from cdc_assets.formats.debezium.notices import read_notice
from cdc_assets.formats.debezium.schema_changes import read_ddl
from cdc_assets.formats.debezium.topics import DebeziumTopics
from cdc_assets.formats.format import Format
from cdc_assets.formats.key_form import KeyForm, are_numbers
from cdc_assets.formats.names import TopicNames
from cdc_assets.formats.registry import SchemaRegistry
from cdc_assets.formats.sample import JsonObject, Refusal, Sample, Written
from cdc_assets.formats.spark_hash import spark_hash
from cdc_assets.formats.wire_id import (
    Framed,
    Framing,
    IdKind,
    SchemaId,
    Side,
    Unframed,
    framing_of,
    read_frame,
)
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.marks import EndMark, LogRecord
from cdc_assets.log.notices import Notice
from cdc_assets.log.values import RawRecord
from cdc_assets.schema.avro import connect_schema
from cdc_assets.schema.avro_types import AvroSchemaError
from cdc_assets.schema.avro_wire import wire_schema
from cdc_assets.schema.connect import (
    ConnectSchema,
    describe_envelope,
    describe_row,
    is_documents_schema,
    is_envelope_schema,
)
from cdc_assets.schema.ddl import Ddl
from cdc_assets.schema.described import Described

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

    from cdc_assets.formats.envelope import Envelope
    from cdc_assets.formats.layout import Layout
    from cdc_assets.formats.order import Order
    from cdc_assets.formats.spec import ReadSpec

_DOCUMENTS = Refusal(
    "its records hold whole documents (MongoDB), which are read from JSON only",
    "have the connector write JSON (value.converter) to another topic, and read that by a source "
    "with format: debezium-json",
)

_UNREADABLE: Final = (
    ValueError, EOFError, LookupError, TypeError, OverflowError, RecursionError,
)  # fmt: skip
"""Exceptions that the decoder raises on bytes that do not match their schema."""


class DebeziumAvro(Format):
    """Debezium's Avro; its dialects are the framings of `cdc_assets.formats.wire_id`."""

    name = "debezium-avro"
    has_tombstones = True
    names_tables = True
    names_schemas = True
    reads_alike = False

    def __init__(self, source: SourceConfig) -> None:
        super().__init__(source)
        if source.schema_registry is None:
            what = "format debezium-avro needs the registry that holds the records' schemas"
            remedy = "schema_registry: {url: http://…}"
            raise ConfigError(what, where="sources.*.schema_registry", remedy=remedy)
        self._schemas = AvroSchemas(SchemaRegistry(source.schema_registry))

    @property
    def topics(self) -> TopicNames:
        """Debezium's rules for names."""
        return DebeziumTopics(self.source.topics)

    @property
    def placeholder(self) -> str:
        """The connector's ``unavailable.value.placeholder``."""
        return self.source.connector.unavailable_value_placeholder

    # ── few records, in Python ───────────────────────────────────────────────────────────

    def kind(self, record: RawRecord) -> TopicKind:
        """Classifies the decoded record."""
        event = self._schemas.event(record)
        return TopicKind.UNREADABLE if event is None else kind_of_event(event)

    def ddl(self, raw: RawRecord) -> Ddl | None:
        """Reads Debezium's schema change event."""
        return read_ddl(self._schemas.event(raw) or {}, raw.coordinate)

    def notice(self, raw: RawRecord) -> Notice | None:
        """Reads Debezium's notification."""
        return read_notice(self._schemas.event(raw) or {})

    def look(self, records: Sequence[RawRecord], table: TableName) -> Sample:
        """Samples the table; the framing is that of all records.

        Raises:
            TerminalError: if they are framed in several ways.
        """
        read = [(record, self._schemas.event(record) or {}) for record in records]
        events = [(record, event) for record, event in read if has_operation(event)]
        shown = [
            (record.key, row)
            for record, event in events
            if (row := mapping(event.get("after") or event.get("before")))
        ]
        # A number's bytes may look like a schema id: the registry must not be asked for it.
        plain = are_numbers(shown)
        keys = [] if plain else [key for record in records if (key := self._key(record))]
        return Sample(
            count=len(records),
            events=len(events),
            rows=tuple(row for _, row in shown),
            has_row=any(mapping(each.get("after")) for _, each in events),
            keys=tuple(keys),
            sources=tuple(s for _, each in events if (s := mapping(each.get("source")))),
            dialect=self._framing(record for record, _ in events),
            described=self._described(events[0][0], plain=plain) if events else None,
            refusal=_DOCUMENTS if self._are_documents(events) else None,
            scalars=() if keys else tuple((key, row) for key, row in shown if key is not None),
        )

    def _framing(self, records: Iterable[RawRecord]) -> str:
        of_glue = self._schemas.registry.is_glue
        match framing_of(records, Side.VALUE, of_glue=of_glue):
            case Unframed(reason):
                remedy = "have one converter write the topic, or take those apart"
                raise TerminalError(reason, remedy=remedy)
            case found:
                return found or (Framing.GLUE if of_glue else Framing.CONFLUENT)

    def _are_documents(self, events: Sequence[tuple[RawRecord, JsonObject]]) -> bool:
        """Returns whether row images are texts, or are so by the schema of deletes."""
        if any(isinstance(event.get("after"), str) for _, event in events):
            return True
        frame = self._schemas.frame(events[0][0], Side.VALUE) if events else None
        if not isinstance(frame, Framed):
            return False
        schema = self._schemas.connect(frame.schema_id, events[0][0].coordinate.topic)
        return is_documents_schema(schema)

    def _described(self, record: RawRecord, *, plain: bool) -> Described | None:
        written = self._of_value(record)
        frame, topic = self._schemas.frame(record, Side.KEY), record.coordinate.topic
        if written is None or plain or not isinstance(frame, Framed):
            return written
        key = self._schemas.connect(frame.schema_id, topic)
        names = describe_row(key).names if key is not None and key.get("fields") else ()
        return Described(written.columns, names, written.origin)

    def _of_value(self, record: RawRecord) -> Described | None:
        frame = self._schemas.frame(record, Side.VALUE)
        if not isinstance(frame, Framed):
            return None
        schema = self._schemas.connect(frame.schema_id, record.coordinate.topic)
        return describe_envelope(schema) if is_envelope_schema(schema) and schema else None

    def _key(self, record: RawRecord) -> JsonObject | None:
        """Reads Avro, or else JSON."""
        if isinstance(self._schemas.frame(record, Side.KEY), Framed):
            return self._schemas.event(record, Side.KEY)
        return unwrapped(record.key) or None

    def holds_row(self, record: RawRecord, table: TableName) -> bool:
        """Returns whether it has an ``after``."""
        event = self._schemas.event(record) or {}
        return has_operation(event) and bool(mapping(event.get("after")))

    def named(self, record: RawRecord, source: str) -> TableName | None:
        """Reads ``source``."""
        event = self._schemas.event(record) or {}
        return named_in(mapping(event.get("source")), source) if has_operation(event) else None

    def mark(self, raw: RawRecord, *, only_partition: bool) -> LogRecord | None:
        """Reads ``transaction`` and ``source``."""
        if raw.value is None:
            return None
        return mark_of(self._schemas.event(raw) or {}, raw, only_partition=only_partition)

    def ended(self, raw: RawRecord) -> EndMark | None:
        """Reads an ``END`` record."""
        return ended_of(self._schemas.event(raw) or {})

    # ── the schemas of records ───────────────────────────────────────────────────────────

    def reads_headers(self, layout: Layout) -> bool:
        """Returns whether headers name the schema."""
        return layout.dialect == Framing.HEADERS

    def key_schema(self, layout: Layout) -> Expression | None:
        """The id before the data; in headers it is no part of the key."""
        from cdc_assets.formats import key_schemas

        if not _may_have_key_schema(layout) or self.reads_headers(layout):
            return None
        return key_schemas.of_glue() if _is_glue(layout) else key_schemas.of_avro()

    def writer(self, layout: Layout, table: TableName) -> Expression | None:
        """Returns the ids of value and key together."""
        from cdc_assets.formats.debezium import avro_records

        return avro_records.writer(layout.dialect, has_key=_may_have_key_schema(layout))

    def written(self, record: RawRecord, layout: Layout) -> Written | None:
        """Describes the schemas of value and key; of the key alone if there is no value."""
        topic = record.coordinate.topic
        value = self._schemas.frame(record, Side.VALUE)
        key = self._schemas.frame(record, Side.KEY) if _may_have_key_schema(layout) else None
        texts = {
            side: self._schemas.wire(frame.schema_id, topic) if isinstance(frame, Framed) else None
            for side, frame in ((Side.VALUE, value), (Side.KEY, key))
        }
        number, text = _number(value, key), json.dumps(texts)
        if isinstance(value, Framed):
            described = self._of_value(record)
            if texts[Side.VALUE] is None or described is None:
                return None
            return Written(layout.exactly(described), number, text)
        if record.value is None and texts[Side.KEY] is not None:
            return Written(Described(()), number, text, is_of_key=True)
        return None

    # ── all records, on Spark ────────────────────────────────────────────────────────────

    def document(self, spec: ReadSpec) -> Expression:
        """Decodes the value by its schema."""
        from cdc_assets.formats.debezium import avro_records

        return avro_records.document(spec)

    def envelope(self, document: Expression, spec: ReadSpec) -> Envelope:
        """Returns the envelope of the value, by its schema."""
        from cdc_assets.formats.debezium import avro_records

        return avro_records.envelope(document, spec, self.placeholder)

    def whose(self, raw: DataFrame, layout: Layout, topic: str) -> DataFrame:
        """Reads ``op`` and ``source`` of each record by its schema, of all that there are."""
        from cdc_assets.formats.debezium import avro_records
        from cdc_assets.formats.debezium.envelope import with_owner

        number = avro_records.writer(layout.dialect, has_key=False)
        numbered = raw.withColumn("writer", number)
        found = numbered.where("writer IS NOT NULL AND value IS NOT NULL")
        shown = avro_records.shown_id(layout.dialect)
        ids = {
            row["writer"]: _value_id(row.asDict(), layout)
            for row in found.select("writer", shown.alias("id")).distinct().collect()
        }
        texts = {number: self._schemas.wire(each, topic) for number, each in ids.items()}
        readable = {number: text for number, text in texts.items() if text is not None}
        origin = avro_records.origin(readable, layout.dialect)
        return with_owner(numbered, origin).drop("writer")

    def sources(
        self, raw: DataFrame, layout: Layout, order: Order, writers: Mapping[int, str]
    ) -> DataFrame:
        """Reads ``source`` of each record by its schema."""
        from cdc_assets.formats.debezium import avro_records

        return avro_records.sources(
            raw,
            order,
            writers,
            layout.dialect,
            has_key=_may_have_key_schema(layout),
        )


@dataclass(frozen=True, slots=True)
class AvroSchemas:
    """The schemas of a source's records, in the forms in which they are needed.

    Attributes:
        registry: the registry that has them.
    """

    registry: SchemaRegistry
    _wires: dict[SchemaId, str | None] = field(default_factory=dict, init=False)
    _parsed: dict[SchemaId, Any] = field(default_factory=dict, init=False)

    def frame(self, record: RawRecord, side: Side) -> Framed | Unframed | None:
        """Returns the schema id and the data of a record's key or value; None if it has none."""
        return read_frame(record, side, of_glue=self.registry.is_glue)

    def wire(self, schema_id: SchemaId, topic: str) -> str | None:
        """Returns the schema by which Spark and Python read; None if it has no such form.

        Raises:
            CdcError: if the registry does not answer, or does not know it.
        """
        if schema_id not in self._wires:
            avro = self.registry.schema(schema_id, topic)
            try:
                self._wires[schema_id] = wire_schema(avro)
            except AvroSchemaError:
                self._wires[schema_id] = None
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

    def event(self, record: RawRecord, side: Side = Side.VALUE) -> JsonObject | None:
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
        try:
            value = fastavro.schemaless_reader(
                io.BytesIO(frame.payload), self._parsed[frame.schema_id], None
            )
        except _UNREADABLE:
            return None
        return cast("JsonObject", value) if isinstance(value, dict) else None


def _may_have_key_schema(layout: Layout) -> bool:
    """Returns whether keys may be Avro; those of a table whose keys are plain never are."""
    return layout.key_form is KeyForm.JSON


def _is_glue(layout: Layout) -> bool:
    return layout.dialect == Framing.GLUE


def _value_id(row: Mapping[str, Any], layout: Layout) -> SchemaId:
    """Returns the id of a value's schema, from `avro_records.shown_id` or the writer's number."""
    if _is_glue(layout):
        return SchemaId(int.from_bytes(row["id"], "big"), IdKind.VERSION)
    number = row["writer"]
    id_ = (number >> 31) & (2**31 - 1)
    if layout.dialect != Framing.HEADERS:
        return SchemaId(id_)
    return SchemaId(id_, IdKind.CONTENT if number >> 62 else IdKind.GLOBAL)


def _number(value: object, key: object) -> int:
    """Returns the same number as `avro_records.writer`: ids below 2³¹, or a hash of UUIDs."""
    ids = [each.schema_id for each in (value, key) if isinstance(each, Framed)]
    if any(each.kind is IdKind.VERSION for each in ids):
        both = (_uuid(each) for each in (value, key))
        return spark_hash(*both)
    of_value = value.schema_id.number if isinstance(value, Framed) else 0
    of_key = key.schema_id.number if isinstance(key, Framed) else 0
    is_content = isinstance(value, Framed) and value.schema_id.kind is IdKind.CONTENT
    return (int(is_content) << 62) | (of_value << 31) | of_key


def _uuid(frame: object) -> bytes:
    return frame.schema_id.number.to_bytes(16, "big") if isinstance(frame, Framed) else b""
