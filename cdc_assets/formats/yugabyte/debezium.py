"""``yugabyte-debezium``: records of YugabyteDB's connectors, gRPC and logical replication.

https://docs.yugabyte.com/stable/additional-features/change-data-capture/

Converts cells in Python: to the record that Debezium would write without them.

Each column is ``{"value": …, "set": true}``, in the row's images and in the key. A column that the
record does not hold is null, or a cell with ``"set": false``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from cdc_assets.changes.json_text import mapping, read_object
from cdc_assets.changes.names import TableName
from cdc_assets.formats.debezium.dialects import Enveloped
from cdc_assets.formats.debezium.dialects.dialect import unwrapped
from cdc_assets.formats.debezium.inline import known_text, schema_text
from cdc_assets.formats.debezium.json import DebeziumJson
from cdc_assets.formats.debezium.marks import mark_of
from cdc_assets.formats.sample import JsonObject, Refusal, Sample, Written
from cdc_assets.formats.spark_hash import spark_hash
from cdc_assets.log.marks import LogRecord
from cdc_assets.log.values import RawRecord

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

    from cdc_assets.formats.envelope import Envelope
    from cdc_assets.formats.layout import Layout
    from cdc_assets.formats.order import Order
    from cdc_assets.formats.spec import ReadSpec


CELLS: Final = "cells"
INLINE_CELLS: Final = "cells-inline"
_WITH_CELLS: Final = {Enveloped.bare: CELLS, Enveloped.inline: INLINE_CELLS}
CASSANDRA: Final = "cassandra"
_GRPC: Final = "yugabytedb"


class YugabyteDebezium(DebeziumJson):
    """Dialects: ``cells`` and ``cells-inline``; without cells, those of ``debezium-json``.

    Without cells, a column that is NULL and one that an update leaves out look alike: such records
    are rejected, unless the configuration says that updates leave nothing out. Debezium's connector
    for Cassandra writes cells too; its records are all rejected (``cassandra``), see
    docs/reference/formats/yugabyte-debezium.md.
    """

    name = "yugabyte-debezium"

    @property
    def is_full(self) -> bool:
        """Whether every update holds the whole row, by the configuration."""
        return self.source.connector.record_type == "full"

    @property
    def leaves_out(self) -> bool:
        """Whether updates may leave columns out: true unless the configuration excludes it."""
        return not self.is_full

    # ── few records, in Python ───────────────────────────────────────────────────────────

    def look(self, records: Sequence[RawRecord], table: TableName) -> Sample:
        """Takes the dialect from the first event with a row image."""
        found = super().look([without_cells(record) for record in records], table)
        if any(source.get("connector") == CASSANDRA for source in found.sources):
            return replace(found, dialect=CASSANDRA)
        cells = (has_cells(unwrapped(record.value)) for record in records)
        if next((each for each in cells if each is not None), True):
            return replace(found, dialect=_WITH_CELLS.get(found.dialect, found.dialect))
        return found

    def mark(self, raw: RawRecord, *, only_partition: bool) -> LogRecord | None:
        """Reads a mark, without the gRPC connector's transactions, which are counted by tablet."""
        if raw.value is None:
            return None
        event = unwrapped(raw.value)
        if mapping(event.get("source")).get("connector") == _GRPC:
            event = {**event, "transaction": None}
        return mark_of(event, raw, only_partition=only_partition)

    def refuses(self, layout: Layout, key: Sequence[str]) -> Refusal | None:
        """Refuses as for records without cells."""
        return super().refuses(_plain(layout), key)

    # ── the schemas of records ───────────────────────────────────────────────────────────

    def schema_carrier(self, layout: Layout) -> Expression:
        """Returns the schema alone, in an object of its own."""
        return super().schema_carrier(_plain(layout))

    def writer(self, layout: Layout, table: TableName) -> Expression | None:
        """Returns a hash of the inline schema."""
        return super().writer(_plain(layout), table)

    def numbered(
        self, raw: DataFrame, layout: Layout, table: TableName, writers: Mapping[int, str]
    ) -> DataFrame:
        """Numbers the records; of a known schema they lose its text."""
        return super().numbered(raw, _plain(layout), table, writers)

    def written(self, record: RawRecord, layout: Layout) -> Written | None:
        """Reads the value's inline schema, identified by its unchanged text."""
        if layout.dialect != INLINE_CELLS:
            return super().written(record, _plain(layout))
        found = super().written(without_cells(record), _plain(layout))
        text = schema_text(record.value)
        number = None if text is None else spark_hash(text)
        known = known_text(record.value)
        return None if found is None else replace(found, number=number, text=known)

    # ── all records, on Spark ────────────────────────────────────────────────────────────

    def document(self, spec: ReadSpec) -> Expression:
        """Returns the envelope as a struct, in which each column is a struct."""
        from cdc_assets.formats.yugabyte import cell_records

        if spec.layout.dialect not in _WITH_CELLS.values():
            return super().document(replace(spec, layout=_plain(spec.layout)))
        return cell_records.document(spec, is_inline=spec.layout.dialect == INLINE_CELLS)

    def envelope(self, document: Expression, spec: ReadSpec) -> Envelope:
        """Returns Debezium's envelope, with the columns taken out of their cells."""
        from cdc_assets.formats.yugabyte import cell_records

        plain = super().envelope(document, replace(spec, layout=_plain(spec.layout)))
        if spec.layout.dialect == CASSANDRA:
            return cell_records.of_cassandra(plain)
        if spec.layout.dialect in _WITH_CELLS.values():
            return cell_records.envelope(plain, document, spec, is_full=self.is_full)
        return plain if self.is_full else cell_records.refused(plain)

    def whose(self, raw: DataFrame, layout: Layout, topic: str) -> DataFrame:
        """Parses ``op`` and ``source`` alone."""
        return super().whose(raw, _plain(layout), topic)

    def sources(
        self, raw: DataFrame, layout: Layout, order: Order, writers: Mapping[int, str]
    ) -> DataFrame:
        """Parses ``source`` alone."""
        return super().sources(raw, _plain(layout), order, writers)


def _plain(layout: Layout) -> Layout:
    """Returns the layout of the same records without cells."""
    dialects = {cells: plain for plain, cells in _WITH_CELLS.items()}
    dialects[CASSANDRA] = Enveloped.bare
    return replace(layout, dialect=dialects.get(layout.dialect, layout.dialect))


_VALUE: Final = "value"
_SET: Final = "set"
_IMAGES: Final = ("before", "after")


def has_cells(event: JsonObject) -> bool | None:
    """Returns whether the columns of an envelope are cells; None if it holds no column."""
    images = (mapping(event.get(name)) for name in _IMAGES)
    held = [column for image in images for column in image.values() if column is not None]
    return all(map(_is_cell, held)) if held else None


def without_cells(record: RawRecord) -> RawRecord:
    """Returns the record with plain columns, and NULL for those that it does not hold.

    A row of a snapshot is also marked in ``source``: YugabyteDB's connector marks it only by
    ``op``. A key or value that is no JSON object, or has no cells, keeps its content.
    """
    return replace(record, key=_changed(record.key, _row), value=_changed(record.value, _event))


def _changed(text: bytes | None, payload: Callable[[JsonObject], JsonObject]) -> bytes | None:
    document: JsonObject = read_object(text)
    if not document:
        return text
    schema = mapping(document.get("schema"))
    if schema and not _is_cell(schema):
        wrapped = mapping(document.get("payload"))
        plain = {"payload": payload(wrapped)} if wrapped else {}
        document = {**document, "schema": _plain_schema(schema), **plain}
    else:
        document = payload(document)
    return json.dumps(document).encode()


def _event(event: JsonObject) -> JsonObject:
    images = {name: _row(row) for name in _IMAGES if (row := mapping(event.get(name)))}
    source = mapping(event.get("source"))
    if event.get("op") == "r" and source.get("snapshot") in (None, False, "false"):
        source = {**source, "snapshot": "true"}
    return {**event, **images, "source": source}


def _row(row: JsonObject) -> JsonObject:
    return {name: _plain_cell(column) for name, column in row.items()}


def _plain_cell(column: Any) -> Any:
    if not _is_cell(column):
        return column
    return column[_VALUE] if column[_SET] is True else None


def _is_cell(column: Any) -> bool:
    return isinstance(column, Mapping) and {_VALUE, _SET} <= column.keys()


# ── schemas ───────────────────────────────────────────────────────────────────────────────


def _plain_schema(schema: JsonObject) -> JsonObject:
    """Returns the schema of an envelope or key, without cells."""
    fields = schema.get("fields")
    if not isinstance(fields, list):
        return schema
    return {**schema, "fields": [_plain_field(each) for each in fields]}


def _plain_field(field: Any) -> Any:
    """Returns the schema of an image of the row, or of a column of the key."""
    if mapping(field).get("field") not in _IMAGES:
        return _plain_column(field)
    columns = field.get("fields")
    if not isinstance(columns, list):
        return field
    return {**field, "fields": [_plain_column(each) for each in columns]}


def _plain_column(field: Any) -> Any:
    """Returns the schema of the column's value, under the column's name."""
    parts = mapping(field).get("fields")
    if not isinstance(parts, list):
        return field
    named = {part.get("field"): part for part in map(mapping, parts)}
    if not {_VALUE, _SET} <= named.keys():
        return field
    return {**named[_VALUE], "field": field.get("field")}
