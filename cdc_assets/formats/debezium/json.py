"""``debezium-json``: Debezium's envelope in JSON, with and without an inline schema.

https://debezium.io/documentation/reference/stable/connectors/postgresql.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from cdc_assets.changes.json_text import mapping, read_json, read_object
from cdc_assets.changes.names import TableName
from cdc_assets.formats.debezium.inline import schema_text, spark_hash
from cdc_assets.formats.debezium.kinds import kind_of_event
from cdc_assets.formats.debezium.marks import ended_of, mark_of
from cdc_assets.formats.debezium.topics import DebeziumTopics
from cdc_assets.formats.format import Format
from cdc_assets.formats.names import TopicNames
from cdc_assets.formats.sample import JsonObject, Sample, Written
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.marks import Ended, LogRecord
from cdc_assets.log.values import RawRecord
from cdc_assets.schema.connect import (
    ConnectSchema,
    describe_envelope,
    is_envelope_schema,
    is_key_schema,
)
from cdc_assets.schema.described import Described

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

    from cdc_assets.formats.envelope import Envelope
    from cdc_assets.formats.layout import Layout
    from cdc_assets.formats.order import Order
    from cdc_assets.formats.spec import ReadSpec

BARE: Final = "bare"
INLINE: Final = "inline"
_OPS: Final = frozenset({"c", "u", "d", "r", "t"})


class DebeziumJson(Format):
    """Dialects: ``bare``, and ``inline`` where records carry their schema."""

    name = "debezium-json"
    has_tombstones = True

    @property
    def topics(self) -> TopicNames:
        """Debezium's."""
        return DebeziumTopics(self.source.topics)

    @property
    def placeholder(self) -> str:
        """The connector's ``unavailable.value.placeholder``."""
        return self.source.connector.unavailable_value_placeholder

    # ── few records, in Python ───────────────────────────────────────────────────────────

    def kind(self, record: RawRecord) -> TopicKind:
        """Schemas around a record do not matter."""
        document = read_json(record.value)
        if isinstance(document, dict) and {"schema", "payload"} <= document.keys():
            document = document["payload"]
        event = cast("Mapping[str, Any]", document) if isinstance(document, dict) else None
        return kind_of_event(event)

    def look(self, records: Sequence[RawRecord], table: TableName) -> Sample:
        """The dialect is that of the first event."""
        documents = [read_object(record.value) for record in records]
        wrapped = [document for document in documents if _is_event(document)]
        events = tuple(map(_bare, wrapped))
        keys = [key for record in records if (key := read_object(record.key))]
        images = (each.get("after") or each.get("before") for each in events)
        is_inline = bool(wrapped) and _is_wrapped(wrapped[0])
        return Sample(
            count=len(records),
            events=len(events),
            rows=tuple(image for image in images if isinstance(image, dict) and image),
            has_row=any(mapping(each.get("after")) for each in events),
            keys=tuple(map(_bare, keys)),
            sources=tuple(s for each in events if (s := mapping(each.get("source")))),
            dialect=INLINE if is_inline else BARE,
            described=_described(wrapped[0]["schema"], keys) if is_inline else None,
        )

    def holds_row(self, record: RawRecord, table: TableName) -> bool:
        """Whether it has an ``after``."""
        document = read_object(record.value)
        return _is_event(document) and bool(mapping(_bare(document).get("after")))

    def mark(self, raw: RawRecord, *, only_partition: bool) -> LogRecord | None:
        """By ``transaction`` and ``source``."""
        if raw.value is None:
            return None
        return mark_of(payload_of(raw.value), raw, only_partition=only_partition)

    def ended(self, raw: RawRecord) -> Ended | None:
        """An ``END`` record."""
        return ended_of(payload_of(raw.value or b""))

    # ── the schemas of records ───────────────────────────────────────────────────────────

    def writer(self, layout: Layout, table: TableName) -> Expression | None:
        """A hash of the inline schema."""
        from cdc_assets.formats.debezium import json_records

        return json_records.writer() if layout.dialect == INLINE else None

    def schema_carrier(self, layout: Layout) -> Expression:
        """The schema alone, in an object of its own."""
        from cdc_assets.formats.debezium import json_records

        return json_records.schema_alone()

    def written(self, record: RawRecord, layout: Layout) -> Written | None:
        """By the inline schema of the value."""
        text = schema_text(record.value)
        schema = read_object(record.value).get("schema") if text is None else read_json(text)
        if not is_envelope_schema(schema):
            return None
        described = describe_envelope(cast("ConnectSchema", schema))
        return Written(described, None if text is None else spark_hash(text))

    # ── all records, on Spark ────────────────────────────────────────────────────────────

    def document(self, spec: ReadSpec) -> Expression:
        """The envelope as a struct."""
        from cdc_assets.formats.debezium import json_records

        return json_records.document(spec, is_inline=spec.layout.dialect == INLINE)

    def envelope(self, document: Expression, spec: ReadSpec) -> Envelope:
        """Of the parsed struct, and where that does not tell, of the text."""
        from cdc_assets.formats.debezium import json_records

        is_inline = spec.layout.dialect == INLINE
        return json_records.envelope(document, spec, self.placeholder, is_inline=is_inline)

    def sources(
        self, raw: DataFrame, layout: Layout, order: Order, writers: Mapping[int, str]
    ) -> DataFrame:
        """``source`` alone is parsed."""
        from cdc_assets.formats.debezium import json_records

        return json_records.sources(raw, order, is_inline=layout.dialect == INLINE)


def _described(schema: ConnectSchema, keys: Sequence[JsonObject]) -> Described:
    of_keys = (key.get("schema") for key in keys)
    key = next((each for each in of_keys if is_key_schema(each)), None)
    return describe_envelope(schema, key)


def _is_event(document: JsonObject) -> bool:
    """Whether it is an envelope of a known operation; one in a schema needs a readable schema."""
    op = _bare(document).get("op")
    if not (isinstance(op, str) and op in _OPS):
        return False
    return not _is_wrapped(document) or is_envelope_schema(document["schema"])


def _is_wrapped(document: JsonObject) -> bool:
    return "schema" in document and "payload" in document


def _bare(document: JsonObject) -> JsonObject:
    """A key or value without a schema around it."""
    payload = document.get("payload")
    return payload if "schema" in document and isinstance(payload, dict) else document


def payload_of(value: bytes) -> Mapping[str, Any]:
    """Empty for what cannot be read."""
    document = read_object(value)
    return mapping(document["payload"]) if {"schema", "payload"} <= set(document) else document
