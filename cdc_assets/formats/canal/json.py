"""``canal-json``: Canal's ``FlatMessage``, and TiCDC's messages in its form.

Every value is text, typed by the message's own ``mysqlType``. A message holds the rows of one
statement, of one table; a topic may hold many tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from cdc_assets.changes.names import TableName
from cdc_assets.formats.canal import messages
from cdc_assets.formats.format import Format
from cdc_assets.formats.sample import Sample, Written
from cdc_assets.formats.spark_hash import spark_hash
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.values import RawRecord

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression

    from cdc_assets.formats.envelope import Envelope
    from cdc_assets.formats.layout import Layout
    from cdc_assets.formats.spec import ReadSpec

CANAL: Final = "canal"


class CanalJson(Format):
    """One dialect: TiCDC's messages have a position beside."""

    name = "canal-json"
    has_many_rows = True
    has_many_tables = True
    names_schemas = True

    # ── few records, in Python ───────────────────────────────────────────────────────────

    def kind(self, record: RawRecord) -> TopicKind:
        """By ``type`` and ``isDdl``."""
        return messages.kind_of(messages.read(record.value))

    def tables(self, records: Iterable[RawRecord], source: str) -> frozenset[TableName]:
        """By ``database`` and ``table``."""
        found = (messages.table_of(messages.read(each.value), source) for each in records)
        return frozenset(table for table in found if table is not None)

    def look(self, records: Sequence[RawRecord], table: TableName) -> Sample:
        """The types are those of the table's first message."""
        read = (messages.read(record.value) for record in records)
        mine = [each for each in read if messages.table_of(each, table.source) == table]
        rows = tuple(row for each in mine for row in messages.rows_of(each))
        typed = (messages.described(each, self._zone) for each in mine)
        return Sample(
            count=len(records),
            events=len(mine),
            rows=rows,
            has_row=bool(rows),
            keys=(),
            sources=tuple(map(messages.source_of, mine)),
            dialect=CANAL,
            described=next((each for each in typed if each is not None), None),
        )

    def holds_row(self, record: RawRecord, table: TableName) -> bool:
        """Whether it is of the table, and has rows."""
        message = messages.read(record.value)
        return messages.table_of(message, table.source) == table and bool(messages.rows_of(message))

    @property
    def _zone(self) -> str | None:
        """In which ``timestamp`` values are written."""
        return self.source.connector.time_zone

    # ── the schemas of records ───────────────────────────────────────────────────────────

    def writer(self, layout: Layout, table: TableName) -> Expression | None:
        """A hash of ``mysqlType``."""
        from cdc_assets.formats.canal import json_records

        return json_records.writer(table)

    def written(self, record: RawRecord, layout: Layout) -> Written | None:
        """By ``mysqlType``."""
        message = messages.read(record.value)
        text, described = messages.types_text(message), messages.described(message, self._zone)
        if text is None or described is None:
            return None
        return Written(described, spark_hash(text.encode()))

    # ── all records, on Spark ────────────────────────────────────────────────────────────

    def document(self, spec: ReadSpec) -> Expression:
        """An array: each row with what the message says of all of them."""
        from cdc_assets.formats.canal import json_records

        return json_records.document(spec)

    def envelope(self, document: Expression, spec: ReadSpec) -> Envelope:
        """Of one row."""
        from cdc_assets.formats.canal import json_records

        return json_records.envelope(document, spec)
