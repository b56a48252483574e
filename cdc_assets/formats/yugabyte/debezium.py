"""``yugabyte-debezium``: records of YugabyteDB's connectors, gRPC and logical replication.

https://docs.yugabyte.com/stable/additional-features/change-data-capture/
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from cdc_assets.changes.json_text import mapping
from cdc_assets.changes.names import TableName
from cdc_assets.formats.debezium.dialects import Enveloped
from cdc_assets.formats.debezium.dialects.dialect import unwrapped
from cdc_assets.formats.debezium.inline import known_text, schema_text
from cdc_assets.formats.debezium.json import DebeziumJson
from cdc_assets.formats.debezium.marks import mark_of
from cdc_assets.formats.sample import Refusal, Sample, Written
from cdc_assets.formats.spark_hash import spark_hash
from cdc_assets.formats.yugabyte.cells import has_cells, without_cells
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
    docs/formats/yugabyte-debezium.md.
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
        told = (has_cells(unwrapped(record.value)) for record in records)
        if next((each for each in told if each is not None), True):
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
        told = known_text(record.value)
        return None if found is None else replace(found, number=number, text=told)

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
