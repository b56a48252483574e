"""``debezium-json``: Debezium's change events in JSON, in several dialects.

https://debezium.io/documentation/reference/stable/connectors/postgresql.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from cdc_assets.changes.json_text import mapping, read_json, read_object
from cdc_assets.changes.names import TableName
from cdc_assets.formats.debezium.added_fields import AddedFields
from cdc_assets.formats.debezium.dialects import (
    CloudEvents,
    Documents,
    Enveloped,
    EnvelopeDialect,
    Flat,
)
from cdc_assets.formats.debezium.dialects.cloudevents import is_cloud_event
from cdc_assets.formats.debezium.dialects.dialect import (
    is_nothing,
    is_object,
    opened,
    unwrapped,
)
from cdc_assets.formats.debezium.inline import known_text
from cdc_assets.formats.debezium.kinds import kind_of_event, kind_of_row
from cdc_assets.formats.debezium.marks import ended_of, mark_of
from cdc_assets.formats.debezium.named import named_in
from cdc_assets.formats.debezium.notices import read_notice
from cdc_assets.formats.debezium.schema_changes import read_ddl
from cdc_assets.formats.debezium.topics import DebeziumTopics
from cdc_assets.formats.format import Format
from cdc_assets.formats.key_form import KeyBytes, KeyForm
from cdc_assets.formats.names import TopicNames
from cdc_assets.formats.sample import JsonObject, Refusal, Sample, Written
from cdc_assets.formats.spark_hash import spark_hash
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.marks import EndMark, LogRecord
from cdc_assets.log.notices import Notice
from cdc_assets.log.values import RawRecord
from cdc_assets.schema.ddl import Ddl

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

    from cdc_assets.formats.debezium.records import DialectRecords
    from cdc_assets.formats.envelope import Envelope
    from cdc_assets.formats.layout import Layout
    from cdc_assets.formats.order import Order
    from cdc_assets.formats.spec import ReadSpec

_WHOLE_ROWS: Final = frozenset({"NEW_ROW", "NEW_ROW_AND_OLD_VALUES"})


@dataclass(frozen=True, slots=True)
class _ChangeEvent:
    """A change event among the records.

    Attributes:
        dialect: its own.
        event: as an envelope.
        is_inline: whether it carries a schema.
        schema: that schema.
    """

    dialect: EnvelopeDialect
    event: JsonObject
    is_inline: bool
    schema: object


class DebeziumJson(Format):
    """Debezium's JSON; for its dialects see `cdc_assets.formats.debezium.dialects`.

    Each comes with and without schemas.
    """

    name = "debezium-json"
    names_tables = True
    has_tombstones = True

    @property
    def topics(self) -> TopicNames:
        """Debezium's rules for names."""
        return DebeziumTopics(self.source.topics)

    @cached_property
    def added(self) -> AddedFields:
        """The names of fields that flattening adds."""
        return AddedFields(self.source.connector.added_fields_prefix)

    def key_bytes(self, layout: Layout) -> KeyBytes:
        """Keys are taken to carry schemas where records do."""
        carries = "inline" in layout.dialect
        return super().key_bytes(layout) if carries else _without_schema(layout)

    def key_schema(self, layout: Layout) -> Expression | None:
        """Keys may carry schemas where records do not."""
        from cdc_assets.formats import key_schemas

        match layout.key_form:
            case KeyForm.JSON:
                return key_schemas.of_json()
            case KeyForm.LONG | KeyForm.INTEGER:
                return key_schemas.of_number()
            case KeyForm.TEXT:
                return None

    # ── few records, in Python ───────────────────────────────────────────────────────────

    def kind(self, record: RawRecord) -> TopicKind:
        """Classifies the record, with or without a schema around it."""
        if is_nothing(record.value):
            return TopicKind.EMPTY
        document = read_json(record.value)
        if not isinstance(document, dict):
            return TopicKind.UNREADABLE
        if {"schema", "payload"} <= document.keys() and not isinstance(document["payload"], dict):
            return TopicKind.UNREADABLE
        body = opened(document).body
        if is_cloud_event(body) or self._flat.is_marked(body):
            return TopicKind.CHANGES
        return kind_of_row(body) if self.source.connector.flattened else kind_of_event(body)

    def ddl(self, raw: RawRecord) -> Ddl | None:
        """Reads Debezium's schema change event."""
        return read_ddl(unwrapped(raw.value), raw.coordinate)

    def notice(self, raw: RawRecord) -> Notice | None:
        """Reads Debezium's notification."""
        return read_notice(unwrapped(raw.value))

    def look(self, records: Sequence[RawRecord], table: TableName) -> Sample:
        """Samples the table in the dialect of the first event; ignores other dialects' events."""
        documents = [read_object(record.value) for record in records]
        all_events = [each for document in documents if (each := self._event_of(document))]
        mine = [each for each in all_events if each.dialect is all_events[0].dialect]
        events = tuple(each.event for each in mine)
        keys = [key for r in records if is_object(r.key) and (key := read_object(r.key))]
        rows = tuple(row for each in mine if (row := _row(each)))
        columns = frozenset(name for row in rows for name in row)
        sources = tuple(s for each in events if isinstance(s := each.get("source"), dict))
        nothing = _ChangeEvent(self._enveloped, {}, is_inline=False, schema=None)
        first = next((each for each in mine if each.is_inline), mine[0] if mine else nothing)
        dialect = first.dialect
        return Sample(
            count=len(records),
            events=len(events),
            rows=rows,
            has_row=any(mapping(each.get("after")) for each in events),
            keys=tuple(dialect.key(opened(key).body, columns) for key in keys),
            sources=sources,
            dialect=dialect.named(is_inline=first.is_inline),
            described=dialect.table(first.schema, keys) if first.is_inline else dialect.fixed,
            refusal=_partial_rows(sources),
            scalars=self._scalars(records),
        )

    def _scalars(self, records: Sequence[RawRecord]) -> tuple[tuple[bytes, JsonObject], ...]:
        """Returns keys that are not objects, of records that hold their row."""
        rows = (
            (record.key, self._event_of(read_object(record.value)))
            for record in records
            if record.key is not None and not is_object(record.key)
        )
        return tuple((key, row) for key, each in rows if each is not None and (row := _row(each)))

    def refuses(self, layout: Layout, key: Sequence[str]) -> Refusal | None:
        """Refuses records without the row before an update, where the key needs that row."""
        dialect = self._dialect_of(layout)
        return None if dialect.has_before else _without_before(layout, key)

    def holds_row(self, record: RawRecord, table: TableName) -> bool:
        """Whether a record has an ``after``."""
        found = self._event_of(read_object(record.value))
        return found is not None and bool(mapping(found.event.get("after")))

    def named(self, record: RawRecord, source: str) -> TableName | None:
        """Reads ``source``."""
        found = self._event_of(read_object(record.value))
        return named_in(mapping(found.event.get("source")), source) if found else None

    def mark(self, raw: RawRecord, *, only_partition: bool) -> LogRecord | None:
        """Reads ``transaction`` and ``source``."""
        if is_nothing(raw.value):
            return None
        document = read_object(raw.value)
        found = self._event_of(document)
        event = opened(document).body if found is None else found.event
        return mark_of(event, raw, only_partition=only_partition)

    def ended(self, raw: RawRecord) -> EndMark | None:
        """Reads an ``END`` record."""
        return ended_of(unwrapped(raw.value))

    # ── the schemas of records ───────────────────────────────────────────────────────────

    def writer(self, layout: Layout, table: TableName) -> Expression | None:
        """Returns a hash of the inline schema."""
        return self._records(layout).writer()

    def numbered(
        self, raw: DataFrame, layout: Layout, table: TableName, writers: Mapping[int, str]
    ) -> DataFrame:
        """Numbers the records by schema, and removes the text of a known schema."""
        return self._records(layout).numbered(raw, writers)

    def schema_carrier(self, layout: Layout) -> Expression:
        """Returns the schema alone, in an object of its own."""
        return self._records(layout).schema_alone()

    def written(self, record: RawRecord, layout: Layout) -> Written | None:
        """Describes the inline schema of the value."""
        dialect = self._dialect_of(layout)
        text = dialect.schema_text(record.value)
        schema = dialect.schema_in(read_object(record.value)) if text is None else read_json(text)
        if not dialect.is_schema(schema):
            return None
        number = None if text is None else spark_hash(text)
        described = layout.exactly(dialect.table(schema, ()))
        return Written(described, number, known_text(record.value))

    # ── all records, on Spark ────────────────────────────────────────────────────────────

    def document(self, spec: ReadSpec) -> Expression:
        """Returns the event as a struct."""
        return self._records(spec.layout).document(spec)

    def envelope(self, document: Expression, spec: ReadSpec) -> Envelope:
        """Returns the envelope from the parsed struct, or from the text if that is not enough."""
        return self._records(spec.layout).envelope(document, spec)

    def whose(self, raw: DataFrame, layout: Layout, topic: str) -> DataFrame:
        """Parses ``op`` and ``source`` alone."""
        from cdc_assets.formats.debezium.envelope import with_owner

        return with_owner(raw, self._records(layout).origin())

    def sources(
        self, raw: DataFrame, layout: Layout, order: Order, writers: Mapping[int, str]
    ) -> DataFrame:
        """Parses only the parts about the source."""
        return self._records(layout).sources(raw, order)

    # ── dialects ─────────────────────────────────────────────────────────────────────────

    @cached_property
    def _flat(self) -> Flat:
        return Flat(self.added, is_declared=self.source.connector.flattened)

    @cached_property
    def _enveloped(self) -> Enveloped:
        return Enveloped()

    @cached_property
    def _dialects(self) -> tuple[EnvelopeDialect, ...]:
        """Returns the dialects; each precedes dialects that would accept its records too."""
        return (CloudEvents(), self._flat, Documents(), self._enveloped)

    def _event_of(self, document: JsonObject) -> _ChangeEvent | None:
        """Returns a document's event; None if the document's schema is not a schema of events."""
        for dialect in self._dialects:
            found = dialect.opened(document)
            event = dialect.event(found.body)
            if event is not None and (not found.is_wrapped or dialect.is_schema(found.schema)):
                return _ChangeEvent(dialect, event, found.is_wrapped, found.schema)
        return None

    def _dialect_of(self, layout: Layout) -> EnvelopeDialect:
        named = (each for each in self._dialects if layout.dialect in (each.bare, each.inline))
        return next(named)

    def _records(self, layout: Layout) -> DialectRecords:
        from cdc_assets.formats.debezium.records import records_of

        placeholder = self.source.connector.unavailable_value_placeholder
        return records_of(layout.dialect, placeholder, self.added)


def _row(change: _ChangeEvent) -> JsonObject:
    return mapping(change.event.get("after") or change.event.get("before"))


def _partial_rows(sources: Sequence[JsonObject]) -> Refusal | None:
    """Refuses Spanner's change streams that may hold only the changed columns of a row."""
    types = {str(each["value_capture_type"]) for each in sources if each.get("value_capture_type")}
    partial = sorted(types - _WHOLE_ROWS)
    if not partial:
        return None
    what = f"its change stream captures {', '.join(partial)}: unchanged columns come as null"
    remedy = "ALTER CHANGE STREAM … SET OPTIONS (value_capture_type = 'NEW_ROW'), and load again"
    return Refusal(what, remedy)


def _without_before(layout: Layout, key: Sequence[str]) -> Refusal | None:
    remedy = "make them the record's key (message.key.columns), or send whole events"
    if not key:
        what = f"{layout.dialect} records do not hold rows before their changes, which a table"
        return Refusal(f"{what} without a key needs", "send whole events, or name key columns")
    if layout.split_keys:
        what = f"an update may change the key ({', '.join(key)}), and {layout.dialect} records do"
        return Refusal(f"{what} not hold the key before it", remedy)
    return None


def _without_schema(layout: Layout) -> KeyBytes:
    return KeyBytes.NAMES if layout.key_form is KeyForm.JSON else KeyBytes.VALUES
