"""The common part of Canal's formats: messages, each with the rows of one statement.

Every value is text, typed by the message's own ``mysqlType``. A message is of one table; a topic,
and in some formats a record, may hold many.

Reads statements in Canal's messages, and in TiCDC's: ``isDdl``, with the text in ``sql``.

Of a statement on several tables, Canal names only the first in ``database`` and ``table``. The text
therefore decides which tables it affects, and these names help only where the text cannot be read.
https://github.com/alibaba/canal (``LogEventConvert.parseQueryEvent``) and
https://docs.pingcap.com/tidb/stable/ticdc-canal-json
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from cdc_assets.changes.json_text import mapping, natural, read_object, string
from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.changes.position import Scheme
from cdc_assets.formats import guessed
from cdc_assets.formats.canal import messages
from cdc_assets.formats.canal.messages import TRUNCATE, Message, rows_of
from cdc_assets.formats.ddl import read_statement
from cdc_assets.formats.format import Format
from cdc_assets.formats.key_form import KeyBytes
from cdc_assets.formats.sample import Refusal, Sample, Written
from cdc_assets.formats.spark_hash import spark_hash
from cdc_assets.formats.spec import LINE_BITS
from cdc_assets.formats.times import time_of_millis
from cdc_assets.log.kinds import TopicKind, kind_of_kinds
from cdc_assets.log.values import RawRecord
from cdc_assets.schema.ddl import Ddl, Statement
from cdc_assets.schema.described import Described

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

    from cdc_assets.formats.envelope import Envelope, Rows
    from cdc_assets.formats.layout import Layout
    from cdc_assets.formats.spec import ReadSpec


CANAL: Final = "canal"
_UNTYPED: Final = Refusal(
    "its messages do not tell their types (mysqlType), and the configuration not those of all of "
    "its columns",
    "name every column under tables.<schema.table>.columns",
)


class Canal(Format):
    """A format with one dialect; TiCDC's messages also have a position."""

    has_many_rows = True
    has_many_tables = True
    tells_tables = True
    names_schemas = True
    tells_statements = True

    @abstractmethod
    def flat(self, record: RawRecord) -> Sequence[Message]:
        """Returns a record's messages, at least one; an empty one for an unreadable record."""

    def key_bytes(self, layout: Layout) -> KeyBytes:
        """The producer hashes the values, whatever their columns are called."""
        del layout
        return KeyBytes.VALUES

    # ── few records, in Python ───────────────────────────────────────────────────────────

    def kind(self, record: RawRecord) -> TopicKind:
        """Classifies by ``type`` and ``isDdl``."""
        return kind_of_kinds(map(messages.kind_of, self.flat(record)))

    def tables(self, records: Iterable[RawRecord], source: str) -> frozenset[TableName]:
        """Finds tables by ``database`` and ``table``."""
        read = (message for record in records for message in self.flat(record))
        found = (messages.table_of(message, source) for message in read)
        return frozenset(table for table in found if table is not None)

    def half_named(self, record: RawRecord) -> str:
        """Returns the first ``table``."""
        found = (str(each.get("table") or "") for each in self.flat(record))
        return next((name for name in found if name), "")

    def look(self, records: Sequence[RawRecord], table: TableName) -> Sample:
        """Samples the table; its types are those of its first message, or as configured."""
        found = [message for record in records for message in self.table_messages(record, table)]
        whole = [message for message in found if messages.is_whole(message)]
        rows = tuple(row for message in whole for row in messages.rows_of(message))
        described = (messages.described(message, self._zone) for message in whole)
        typed = next((each for each in described if each is not None), None)
        types = self.source.overrides(table).column_types
        # Otherwise a text could be anything: Canal writes every value as text.
        is_typed = typed is not None or all(name in types for row in rows for name in row)
        key = next(map(messages.keys_of, whole), ())
        return Sample(
            count=len(records),
            events=len(found),
            rows=rows,
            has_row=bool(rows),
            keys=(),
            sources=tuple(map(messages.source_of, found)),
            dialect=CANAL,
            described=typed,
            guessed=guessed.guess(rows, key, self._zone),
            refusal=None if is_typed else _UNTYPED,
        )

    def holds_row(self, record: RawRecord, table: TableName) -> bool:
        """Returns whether one of its messages is of the table, and has rows."""
        return any(map(messages.rows_of, self.table_messages(record, table)))

    def statements(self, record: RawRecord, scheme: Scheme) -> tuple[Ddl, ...]:
        """Reads statements from ``isDdl`` and ``sql``."""
        return tuple(statements_of(self.flat(record), record.coordinate, scheme))

    def table_messages(self, record: RawRecord, table: TableName) -> list[Message]:
        """Returns the messages of a record that change rows of a table."""
        read = self.flat(record)
        return [each for each in read if messages.table_of(each, table.source) == table]

    @property
    def _zone(self) -> str | None:
        """The time zone in which ``timestamp`` values are written."""
        return self.source.connector.time_zone

    def unseen(self, name: str) -> Described:
        """Describes a column that messages without types have, as configured."""
        return guessed.unseen(name, self._zone)

    # ── the schemas of messages ──────────────────────────────────────────────────────────

    def writer(self, layout: Layout, table: TableName) -> Expression | None:
        """Returns a hash of ``mysqlType`` and of what ``sqlType`` adds."""
        from cdc_assets.formats.canal import flat_messages

        return flat_messages.writer(table)

    def numbered(
        self, raw: DataFrame, layout: Layout, table: TableName, writers: Mapping[int, str]
    ) -> DataFrame:
        """Adds the `writer`, from one parsing of the head."""
        from cdc_assets.formats.canal import flat_messages

        return flat_messages.numbered(raw, table)

    def written(self, record: RawRecord, layout: Layout) -> Written | None:
        """Describes the table by the types of one message, as JSON."""
        message = read_object(record.value)
        text, described = messages.types_text(message), messages.described(message, self._zone)
        if text is None or described is None:
            return None
        return Written(described, spark_hash(text.encode()))

    # ── all messages, on Spark ───────────────────────────────────────────────────────────

    def document(self, spec: ReadSpec) -> Expression:
        """Returns the parsed message."""
        from cdc_assets.formats.canal import flat_messages

        return flat_messages.document(spec)

    def rows(self, document: Expression, spec: ReadSpec) -> Rows:
        """Returns each row of ``data`` with its counterpart in ``old``."""
        from cdc_assets.formats.canal import flat_messages

        return flat_messages.rows(document, spec)

    def envelope(self, document: Expression, spec: ReadSpec) -> Envelope:
        """Returns the envelope of one row."""
        from cdc_assets.formats.canal import flat_messages

        keeps = self.source.connector.replacement_characters == "keep"
        return flat_messages.envelope(document, spec, keeps_replacements=keeps)


def statements_of(
    messages: Iterable[Message], coordinate: Coordinate, scheme: Scheme
) -> Iterator[Ddl]:
    """Yields the statements of a record's messages; a truncate is a change of the table's rows.

    Args:
        messages: of the record, in order.
        coordinate: the record's.
        scheme: of the table's positions.
    """
    line = 0
    for message in messages:
        if message.get("isDdl") is True and message.get("type") != TRUNCATE:
            yield _ddl(message, coordinate, _place(message, coordinate, line, scheme))
        line += max(1, len(rows_of(message)))


def _ddl(message: Message, coordinate: Coordinate, place: tuple[int, int] | None) -> Ddl:
    commit = mapping(message.get("_tidb")).get("commitTs")
    return Ddl(
        text=string(message.get("sql")),
        statement=_statement(message),
        position=f"commitTs={commit}" if natural(commit) is not None else "",
        at=time_of_millis(message.get("es")),
        coordinate=coordinate,
        place=place,
    )


def _statement(message: Message) -> Statement:
    """Reads the statement; without a text, it may affect the named table in any way."""
    text, table = string(message.get("sql")), string(message.get("table"))
    words = frozenset({table.casefold()} - {""})
    if not text.strip():
        return Statement((), words, is_read=False)
    schema = string(message.get("ddlSchema")) or string(message.get("database"))
    found = read_statement(text, "mysql", schema)
    return replace(found, words=found.words | words)


def _place(
    message: Message, coordinate: Coordinate, line: int, scheme: Scheme
) -> tuple[int, int] | None:
    if scheme is Scheme.TIDB:
        commit = natural(mapping(message.get("_tidb")).get("commitTs"))
        return (commit, 0) if commit else None
    return ((coordinate.offset << LINE_BITS) + line, 0) if scheme is Scheme.OFFSET else None
