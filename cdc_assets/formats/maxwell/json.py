"""``maxwell-json``: the messages of Maxwell's daemon, one row in each.

Values are typed by JSON alone: their types come from the database's catalog, or are configured. A
topic may hold many tables. Changes are ordered by Kafka's offsets: see docs/formats/maxwell-json.md
for why the position in the binlog (``position``) is not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from cdc_assets.changes.json_text import read_object
from cdc_assets.changes.names import TableName
from cdc_assets.changes.position import Scheme
from cdc_assets.errors import TerminalError
from cdc_assets.formats import guessed
from cdc_assets.formats.format import Format
from cdc_assets.formats.key_form import KeyBytes
from cdc_assets.formats.maxwell import messages
from cdc_assets.formats.maxwell.statements import statement_of
from cdc_assets.formats.sample import Refusal, Sample
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.values import RawRecord
from cdc_assets.schema.ddl import Ddl
from cdc_assets.schema.described import Described

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

    from cdc_assets.databases.catalog import SourceTable
    from cdc_assets.formats.envelope import Envelope
    from cdc_assets.formats.layout import Layout
    from cdc_assets.formats.spec import ReadSpec

MAXWELL: Final = "maxwell"
_ENCRYPTED: Final = Refusal(
    "its rows are encrypted", "let Maxwell write them as they are (encrypt=none)"
)
_KEYLESS: Final = Refusal(
    "the table has no primary key: a message that is sent again could not be told from a row more",
    "name key columns under tables.<schema.table>.primary_key",
)


class MaxwellJson(Format):
    """A format with one dialect."""

    name = "maxwell-json"
    has_many_tables = True
    tells_tables = True
    tells_statements = True

    def key_bytes(self, layout: Layout) -> KeyBytes:
        """The producer hashes the values, whatever their columns are called."""
        del layout
        return KeyBytes.VALUES

    # ── few records, in Python ───────────────────────────────────────────────────────────

    def kind(self, record: RawRecord) -> TopicKind:
        """Classifies by ``type``."""
        return messages.kind_of(read_object(record.value))

    def tables(self, records: Iterable[RawRecord], source: str) -> frozenset[TableName]:
        """Finds tables by ``database`` and ``table``."""
        found = (messages.table_of(read_object(each.value), source) for each in records)
        return frozenset(table for table in found if table is not None)

    def half_named(self, record: RawRecord) -> str:
        """Returns ``table``."""
        return str(read_object(record.value).get("table") or "")

    def look(self, records: Sequence[RawRecord], table: TableName) -> Sample:
        """Samples the table; its types are guessed, see `cdc_assets.formats.guessed`."""
        read = ((read_object(record.value), record.key) for record in records)
        mine = [each for each in read if messages.table_of(each[0], table.source) == table]
        rows = tuple(row for message, _ in mine if (row := messages.row_of(message)))
        keys = (names for each in mine if (names := messages.keys_of(*each)))
        is_encrypted = bool(mine) and all(messages.is_encrypted(message) for message, _ in mine)
        return Sample(
            count=len(records),
            events=len(mine),
            rows=rows,
            has_row=any(messages.holds_row(message) for message, _ in mine) or is_encrypted,
            keys=(),
            sources=({"connector": MAXWELL},),
            dialect=MAXWELL,
            guessed=guessed.guess(rows, next(keys, ()), self._zone),
            refusal=_ENCRYPTED if is_encrypted else None,
        )

    def holds_row(self, record: RawRecord, table: TableName) -> bool:
        """Returns whether it is of the table, and has a row that exists."""
        message = read_object(record.value)
        is_mine = messages.table_of(message, table.source) == table
        return is_mine and (messages.holds_row(message) or messages.is_encrypted(message))

    def statements(self, record: RawRecord, scheme: Scheme) -> tuple[Ddl, ...]:
        """Reads statements from ``type``, ``def`` and ``sql``."""
        found = statement_of(read_object(record.value), record.coordinate, scheme)
        return () if found is None else (found,)

    def may_tell(self, raw: DataFrame) -> DataFrame:
        """Keeps records that contain such a type as text, possibly within a value."""
        from cdc_assets.formats.record_json import value_text

        return raw.where(value_text().rlike(r'"type"\s*:\s*"(?:table|database)-'))

    def refuses(self, layout: Layout, key: Sequence[str]) -> Refusal | None:
        """Refuses tables without a key."""
        return None if key else _KEYLESS

    @property
    def _zone(self) -> str | None:
        """The time zone of Maxwell's Java process, if configured."""
        return self.source.connector.time_zone

    # ── descriptions of tables ───────────────────────────────────────────────────────────

    def of_catalog(self, table: SourceTable) -> Described:
        """Describes tables of MySQL and MariaDB, by the types that Maxwell writes."""
        from cdc_assets.databases.mysql.maxwell_types import describe_maxwell_table
        from cdc_assets.databases.mysql.table import CatalogTable

        if not isinstance(table, CatalogTable):
            what = "maxwell-json holds changes of MySQL and MariaDB, and the database is another"
            raise TerminalError(what, where="sources.*.database.kind", remedy="correct the kind")
        key, comment = table.primary_key, table.comment
        return describe_maxwell_table(table.columns, key, zone=self._zone, comment=comment)

    def unseen(self, name: str) -> Described:
        """Describes text, unless configured otherwise."""
        return guessed.unseen(name, self._zone)

    # ── all records, on Spark ────────────────────────────────────────────────────────────

    def document(self, spec: ReadSpec) -> Expression:
        """Returns the message as a struct."""
        from cdc_assets.formats.maxwell import json_records

        return json_records.document(spec)

    def envelope(self, document: Expression, spec: ReadSpec) -> Envelope:
        """Returns the envelope of the parsed struct, and of the names of its fields."""
        from cdc_assets.formats.maxwell import json_records

        return json_records.envelope(document, spec)
