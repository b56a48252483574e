"""``maxwell-json``: the messages of Maxwell's daemon, one row in each.

Values are typed by JSON alone: their types come from the database's catalog, or are configured. A
topic may hold many tables. Changes are ordered by Kafka's offsets:
docs/reference/formats/maxwell-json.md says why the binlog's ``position`` is not used.

Reads statements in Maxwell's messages: one table each, with its columns before and after.

A statement on several tables comes as several messages of the same text; the text's effect on other
tables is left to their messages. https://maxwells-daemon.io/dataformat/ (``output_ddl``) and
zendesk/maxwell (``schema/ddl/Resolved*``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from cdc_assets.changes.json_text import mapping, read_object, string
from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.changes.position import Scheme
from cdc_assets.errors import TerminalError
from cdc_assets.formats import guessed
from cdc_assets.formats.ddl import read_statement
from cdc_assets.formats.format import Format
from cdc_assets.formats.key_form import KeyBytes
from cdc_assets.formats.maxwell import messages
from cdc_assets.formats.maxwell.messages import DDL, Message
from cdc_assets.formats.sample import Refusal, Sample
from cdc_assets.formats.times import time_of_millis
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.values import RawRecord
from cdc_assets.schema.ddl import Ddl, Relation, Statement, TableChange, TableChangeKind
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
    "the table has no primary key: a redelivered message would look like one more row",
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
        """Whether a record is of the table, and has a row that exists."""
        message = read_object(record.value)
        is_mine = messages.table_of(message, table.source) == table
        return is_mine and (messages.holds_row(message) or messages.is_encrypted(message))

    def statements(self, record: RawRecord, scheme: Scheme) -> tuple[Ddl, ...]:
        """Reads statements from ``type``, ``def`` and ``sql``."""
        found = statement_of(read_object(record.value), record.coordinate, scheme)
        return () if found is None else (found,)

    def may_tell(self, raw: DataFrame) -> DataFrame:
        """Keeps records that contain a statement's type as text, possibly within a value."""
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
        from cdc_assets.databases.mysql.table import MysqlTable

        if not isinstance(table, MysqlTable):
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


_BY_TYPE = {
    "table-create": TableChangeKind.CREATED,
    "table-drop": TableChangeKind.DROPPED,
    "database-drop": TableChangeKind.DROPPED,
}
"""Effects of statements by type, known without the statement's text."""


def statement_of(message: Message, coordinate: Coordinate, scheme: Scheme) -> Ddl | None:
    """Returns the statement of a message; None for another message.

    Args:
        message: of a record.
        coordinate: the record's.
        scheme: of the table's positions.
    """
    if str(message.get("type")) not in DDL:
        return None
    after = _columns(message.get("def"))
    return Ddl(
        text=string(message.get("sql")),
        statement=_statement(message),
        position=string(message.get("position")),
        at=time_of_millis(message.get("ts")),
        coordinate=coordinate,
        tells_tables=True,
        after={} if after is None else {_named_now(message): after},
        place=(coordinate.offset, 0) if scheme is Scheme.OFFSET else None,
    )


def _statement(message: Message) -> Statement:
    table, now = _table(message), _named_now(message)
    if table is None:
        return Statement((), frozenset())
    found = read_statement(string(message.get("sql")), "mysql", table.schema)
    words = found.words | {table.name.casefold(), now.name.casefold()} - {""}
    if kind := _BY_TYPE.get(str(message.get("type"))):
        conditional = any(each.is_conditional for each in found.changes)
        return Statement((TableChange(kind, table, is_conditional=conditional),), words)
    mine = tuple(each for each in found.changes if each.table.includes(table))
    is_altered = message.get("type") == "table-alter"
    return Statement(mine, words, is_read=bool(mine) or not is_altered)


def _table(message: Message) -> Relation | None:
    """Returns the table by its former name; for a database, all its tables."""
    database, table = string(message.get("database")), string(message.get("table"))
    is_of_all = str(message.get("type")).startswith("database-")
    if not database or not (is_of_all or table):
        return None
    return Relation(database, "" if is_of_all else table)


def _named_now(message: Message) -> Relation:
    table, now = _table(message) or Relation("", ""), mapping(message.get("def"))
    database, name = now.get("database"), now.get("table")
    return Relation(
        database if isinstance(database, str) else table.schema,
        name if isinstance(name, str) else table.name,
    )


def _columns(definition: object) -> tuple[str, ...] | None:
    columns = mapping(definition).get("columns")
    if not isinstance(columns, list):
        return None
    names = [mapping(each).get("name") for each in columns]
    return tuple(map(str, names)) if all(isinstance(each, str) for each in names) else None
