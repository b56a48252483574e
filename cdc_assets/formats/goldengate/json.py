"""``ogg-json``: Oracle GoldenGate's operations, as its JSON formatter writes them.

Values are typed by JSON alone: further types have to be configured. A topic may hold many tables.
An update may leave out columns that it did not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from cdc_assets.changes.json_text import read_object
from cdc_assets.changes.names import TableName
from cdc_assets.errors import TerminalError
from cdc_assets.formats import guessed
from cdc_assets.formats.format import Format
from cdc_assets.formats.goldengate import messages
from cdc_assets.formats.sample import Refusal, Sample
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.values import RawRecord
from cdc_assets.schema.described import Described

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression

    from cdc_assets.databases.catalog import SourceTable
    from cdc_assets.formats.envelope import Envelope
    from cdc_assets.formats.layout import Layout
    from cdc_assets.formats.spec import ReadSpec

GOLDENGATE: Final = "goldengate"
_FLAT: Final = Refusal(
    "its records are flat rows (format=json_row): they hold no key before a change of it, and "
    "columns that have the names of metadata take their places",
    "let the handler write operations (gg.handler.<name>.format=json)",
)
_KEYLESS: Final = Refusal(
    "the records name no key columns of the table",
    "let GoldenGate write the key's columns (primary_keys: ${primarykeycolumns[primary_keys]} in "
    "metaColumnsTemplate), or name them under tables.<schema.table>.primary_key",
)


class OggJson(Format):
    """A format with one dialect; flat rows (``json_row``) are recognized and refused."""

    name = "ogg-json"
    has_many_tables = True
    tells_tables = True
    sends_whole_rows = True

    @property
    def leaves_out(self) -> bool:
        """Whether updates may leave columns out: compressed updates do."""
        return True

    # ── few records, in Python ───────────────────────────────────────────────────────────

    def kind(self, record: RawRecord) -> TopicKind:
        """Classifies by ``op_type`` and ``table``."""
        return messages.kind_of(read_object(record.value))

    def tables(self, records: Iterable[RawRecord], source: str) -> frozenset[TableName]:
        """Finds tables by ``table``."""
        found = (messages.table_of(read_object(each.value), source) for each in records)
        return frozenset(table for table in found if table is not None)

    def table_called(self, name: str, origin: TableName) -> TableName:
        """Splits at the last dot: a container database precedes the schema (``PDB1.HR.EMP``)."""
        schema, _, table = name.rpartition(".")
        return TableName(origin.source, schema, table)

    def half_named(self, record: RawRecord) -> str:
        """Returns ``table``: a template may write the table's name without its schema."""
        return str(read_object(record.value).get("table") or "")

    def look(self, records: Sequence[RawRecord], table: TableName) -> Sample:
        """Samples the table; its types are guessed, see `cdc_assets.formats.guessed`."""
        read = (read_object(record.value) for record in records)
        mine = [each for each in read if messages.table_of(each, table.source) == table]
        rows = tuple(row for each in mine if (row := messages.row_of(each)))
        keys = (names for each in mine if (names := messages.keys_of(each)))
        is_flat = any(map(messages.is_flat, mine)) and not rows
        given_up = self.source.overrides(table).absent_columns
        vanished = [name for name in messages.vanished(mine) if name not in given_up]
        return Sample(
            count=len(records),
            events=len(mine),
            rows=rows,
            has_row=any(map(messages.holds_row, mine)) or is_flat,
            keys=(),
            sources=tuple(map(messages.source_of, mine)),
            dialect=GOLDENGATE,
            guessed=guessed.guess(rows, next(keys, ()), self._zone),
            refusal=_FLAT if is_flat else _without_nulls(vanished),
        )

    def holds_row(self, record: RawRecord, table: TableName) -> bool:
        """Whether a record is of the table, and has a whole row."""
        message = read_object(record.value)
        is_mine = messages.table_of(message, table.source) == table
        return is_mine and (messages.holds_row(message) or messages.is_flat(message))

    def refuses(self, layout: Layout, key: Sequence[str]) -> Refusal | None:
        """Refuses tables without a key."""
        return None if key else _KEYLESS

    @property
    def _zone(self) -> str | None:
        """The time zone of GoldenGate's times; None if not configured."""
        return self.source.connector.time_zone

    # ── descriptions of tables ───────────────────────────────────────────────────────────

    def of_catalog(self, table: SourceTable) -> Described:
        """Refuses a catalog: GoldenGate writes values by its own rules, not the database's."""
        what = "ogg-json takes no types from a database's catalog"
        remedy = "leave database: out, and give types under tables.<schema.table>.columns"
        raise TerminalError(what, where="sources.*.database", remedy=remedy)

    def unseen(self, name: str) -> Described:
        """Describes text, unless configured otherwise."""
        return guessed.unseen(name, self._zone)

    # ── all records, on Spark ────────────────────────────────────────────────────────────

    def document(self, spec: ReadSpec) -> Expression:
        """Returns the operation as a struct."""
        from cdc_assets.formats.goldengate import json_records

        return json_records.document(spec)

    def envelope(self, document: Expression, spec: ReadSpec) -> Envelope:
        """Returns the envelope of the parsed struct, and of the names of its fields."""
        from cdc_assets.formats.goldengate import json_records

        return json_records.envelope(document, spec, self._zone)


def _without_nulls(vanished: Sequence[str]) -> Refusal | None:
    """Refuses updates in which a column set to NULL looks like an unchanged column."""
    if not vanished:
        return None
    what = (
        f"inserts lack {', '.join(vanished)}, which others before them have, and no value is null: "
        "an update to NULL would look like none"
    )
    remedy = (
        "let GoldenGate write nulls (format.omitNullValues=false), and load the table again; name "
        "dropped columns under tables.<schema.table>.absent_columns"
    )
    return Refusal(what, remedy)
