"""The contract of a wire format: all knowledge of bytes.

A format reads records in two ways. It reads a few in Python, to find the topics of tables, the
layout of a table, and the ends of transactions; and it reads all of them on Spark, as expressions
over the columns ``key value headers partition offset`` of Kafka's source. No other code looks into
a record. The order of changes is separate (`cdc_assets.formats.order`), so that formats and
databases do not multiply.

A format is made for one source of the configuration. It is found by its name among the entry points
of the group ``cdc_assets.formats``: see docs/reference/formats/README.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from cdc_assets.changes.names import TableName
from cdc_assets.changes.position import Scheme
from cdc_assets.config import SourceConfig
from cdc_assets.formats.key_form import KeyBytes, KeyForm
from cdc_assets.formats.layout import Layout
from cdc_assets.formats.names import PlainTopics, TopicNames
from cdc_assets.formats.sample import Refusal, Sample, Written
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.marks import EndMark, LogRecord
from cdc_assets.log.notices import Notice
from cdc_assets.log.values import RawRecord
from cdc_assets.schema.ddl import Ddl
from cdc_assets.schema.described import Described
from cdc_assets.schema.types import Column, Primitive, Wire

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

    from cdc_assets.databases.catalog import SourceTable
    from cdc_assets.formats.envelope import Envelope, Rows
    from cdc_assets.formats.order import Order
    from cdc_assets.formats.spec import ReadSpec


class Format(ABC):
    """A wire format as one source uses it.

    Attributes:
        name: as the configuration spells it.
        source: the configuration.
        has_many_rows: whether a record may hold the changes of several rows, which `rows` takes out
            of its document.
        has_many_tables: whether records name their table, so that a topic may hold several.
        names_tables: whether records may name their table although topics are named after tables: a
            topic's name is then a guess, and `named` decides.
        has_packets: whether a record is a packet of messages, each with its own table and schema,
            which `opened` takes out of it.
        tells_tables: whether `envelope` finds the table of a record, or of a message of a packet,
            alike for every table that asks, also for one without columns, and all rows of a message
            are of one table. Tables that share a topic then share the reading of it.
        tells_statements: whether statements on tables come among their rows: `statements`.
        sends_whole_rows: whether an insert has all columns: one that lacks some does not hold its
            row, unless the configuration says that the source has dropped them.
        has_tombstones: whether each delete is followed by a record without a value.
        names_schemas: whether each change names its schema, in a layout that has a `writer`: a
            record that names none is then refused.
        reads_alike: whether records of several schemas may be read by one that has the columns of
            all; else each schema is read by itself.
    """

    name: ClassVar[str]
    has_many_rows: ClassVar[bool] = False
    has_many_tables: ClassVar[bool] = False
    names_tables: ClassVar[bool] = False
    has_packets: ClassVar[bool] = False
    tells_tables: ClassVar[bool] = False
    tells_statements: ClassVar[bool] = False
    sends_whole_rows: ClassVar[bool] = False
    has_tombstones: ClassVar[bool] = False
    names_schemas: ClassVar[bool] = False
    reads_alike: ClassVar[bool] = True

    def __init__(self, source: SourceConfig) -> None:
        self.source = source

    @property
    def leaves_out(self) -> bool:
        """Whether an update may leave out any column but the key's, which is then unchanged.

        `Envelope.left_out` gives it for each; a column that a record's schema lacks is left out
        too.
        """
        return False

    def key_bytes(self, layout: Layout) -> KeyBytes:
        """Returns the bytes that decide a key's partition: if their encoding changes, keys move.

        Args:
            layout: of the table.
        """
        return KeyBytes.SCHEMA if layout.key_form is KeyForm.JSON else KeyBytes.VALUES

    def key_schema(self, layout: Layout) -> Expression | None:
        """Returns a number for the schema in a raw ``key``; None if keys hold only values.

        Keys with different numbers may be in different partitions. NULL for a record whose key
        holds no schema.

        Args:
            layout: of the table.
        """
        del layout
        return None

    # ── few records, in Python ───────────────────────────────────────────────────────────

    @property
    def topics(self) -> TopicNames:
        """The rules for names of topics."""
        return PlainTopics(self.source.topics)

    @abstractmethod
    def kind(self, record: RawRecord) -> TopicKind:
        """Classifies a record with a value.

        Raises:
            CdcError: if the schemas' store does not answer, or answers wrongly.
        """

    @abstractmethod
    def look(self, records: Sequence[RawRecord], table: TableName) -> Sample:
        """Samples a table from records, all with a value. Never raises because of a record."""

    @abstractmethod
    def holds_row(self, record: RawRecord, table: TableName) -> bool:
        """Whether a record is a change event of a table with a row that exists."""

    def refuses(self, layout: Layout, key: Sequence[str]) -> Refusal | None:
        """Returns why a table with this key cannot be replicated exactly; None if it can be."""
        return None

    def tables(self, records: Iterable[RawRecord], source: str) -> frozenset[TableName]:
        """Returns the tables whose changes are in records; none if topics name theirs.

        Args:
            records: of a topic.
            source: the source's name.
        """
        return frozenset()

    def table_called(self, name: str, origin: TableName) -> TableName:
        """Returns the table that `Envelope.other_table` names, which has one dot or more.

        A schema with dots is known by the table in whose batch the name was found.

        Args:
            name: ``schema.table``.
            origin: the table whose record names the other one.
        """
        own = f"{origin.schema}."
        schema = origin.schema if name.startswith(own) else name.partition(".")[0]
        return TableName(origin.source, schema, name[len(schema) + 1 :])

    def half_named(self, record: RawRecord) -> str:
        """Returns the table's name in a change that `tables` does not know; '' without a name."""
        return ""

    def named(self, record: RawRecord, source: str) -> TableName | None:
        """Returns the table that a change names, in a format that `names_tables`; None without one.

        Args:
            record: any record.
            source: the source's name.
        """
        return None

    def mark(self, raw: RawRecord, *, only_partition: bool) -> LogRecord | None:
        """Returns a record's mark of its transaction; None for a record without a value.

        Args:
            raw: of a table's topic. An unreadable record counts as a row outside of transactions.
            only_partition: whether the topic has one partition, so that its offsets are an order.
        """
        return None

    def ended(self, raw: RawRecord) -> EndMark | None:
        """Returns the end of a transaction, from a record of the source's transaction topic."""
        return None

    def ddl(self, raw: RawRecord) -> Ddl | None:
        """Returns the statement in a record of the source's topic of schema changes.

        Raises:
            CdcError: if the schemas' store does not answer, or answers wrongly.
        """
        return None

    def notice(self, raw: RawRecord) -> Notice | None:
        """Returns a connector's notification about an incremental snapshot.

        Raises:
            CdcError: if the schemas' store does not answer, or answers wrongly.
        """
        return None

    def statements(self, record: RawRecord, scheme: Scheme) -> tuple[Ddl, ...]:
        """Returns the statements in a record of a table's topic, in order; of any tables.

        Never raises for a record.

        Args:
            record: of a format that `tells_statements`.
            scheme: of the table's positions; `Ddl.place` is in its terms.
        """
        return ()

    def may_tell(self, raw: DataFrame) -> DataFrame:
        """Drops records without a statement, as far as these are cheap to detect."""
        return raw

    # ── descriptions of tables ───────────────────────────────────────────────────────────

    def of_catalog(self, table: SourceTable) -> Described:
        """Describes a database catalog's columns in the encodings in which they arrive.

        Raises:
            TerminalError: if the catalog does not determine this.
        """
        return table.described(self.source.modes)

    def unseen(self, name: str) -> Described:
        """Describes a single column from its name, the only known fact."""
        column = Column(name, Primitive.STRING, Wire.STRING)
        return Described((column,), inferred=True, unseen=frozenset({name}))

    # ── packets ──────────────────────────────────────────────────────────────────────────

    def opened(self, raw: DataFrame) -> DataFrame:
        """Returns the messages in records; the methods below take messages as records.

        In a format that `has_packets` there is a row for each: ``value`` is the message, and
        ``first`` the number of rows of its packet before its own; a message without rows counts as
        one. A packet that cannot be opened becomes a message that `envelope` refuses. Opening must
        not raise on any bytes.
        """
        return raw

    def unpacked(self, record: RawRecord, table: TableName) -> Sequence[RawRecord]:
        """Returns a record's messages with a value, in which `written` finds a table's schemas."""
        is_mine = not self.has_many_tables or table in self.tables([record], table.source)
        return (record,) if is_mine else ()

    # ── the schemas of records ───────────────────────────────────────────────────────────

    def reads_headers(self, layout: Layout) -> bool:
        """Whether records have to be read with the column ``headers``."""
        return False

    def writer(self, layout: Layout, table: TableName) -> Expression | None:
        """Returns the number of the schema of a table's change; NULL without one.

        None for a format, or a table, whose records do not name it.
        """
        return None

    def numbered(
        self, raw: DataFrame, layout: Layout, table: TableName, writers: Mapping[int, str]
    ) -> DataFrame:
        """Returns records as `document` and `envelope` read them.

        In a layout that has a `writer` there is a column of this name. The schema itself may be
        removed from ``value``.

        Args:
            raw: the records.
            layout: their layout.
            table: the table whose changes they hold.
            writers: see `ReadSpec`; the known ones.
        """
        number = self.writer(layout, table)
        return raw if number is None else raw.withColumn("writer", number)

    def schema_carrier(self, layout: Layout) -> Expression:
        """Returns the part of a record's value that `written` needs, as bytes."""
        from pyspark.sql import functions as F

        return F.col("value")

    def written(self, record: RawRecord, layout: Layout) -> Written | None:
        """Describes a record's schema; None if the schema is not a change event's.

        Raises:
            CdcError: if the schemas' store does not answer, or answers wrongly.
        """
        return None

    # ── all records, on Spark ────────────────────────────────────────────────────────────

    @abstractmethod
    def document(self, spec: ReadSpec) -> Expression:
        """Parses a record: evaluated once for each, and given to `envelope`.

        Parsing must not raise on any bytes.
        """

    def rows(self, document: Expression, spec: ReadSpec) -> Rows:
        """Returns the rows of a record's document, in a format that `has_many_rows`.

        `envelope` is then given ``struct<head, row>`` for each, and one whose ``row`` is NULL for a
        record without rows.
        """
        raise NotImplementedError(self.name)

    @abstractmethod
    def envelope(self, document: Expression, spec: ReadSpec) -> Envelope:
        """Returns the envelope of a record, from its parsed document."""

    def whose(self, raw: DataFrame, layout: Layout, topic: str) -> DataFrame:
        """Adds ``of_table is_delete is_empty`` to raw records, in a format that `names_tables`.

        The first is ``schema.table`` of the table that a change names, NULL if it names none or
        cannot be read; the others are whether it deletes a row, and whether it has no value.

        Raises:
            CdcError: if the schemas' store does not answer, or answers wrongly.
        """
        raise NotImplementedError(self.name)

    def sources(
        self, raw: DataFrame, layout: Layout, order: Order, writers: Mapping[int, str]
    ) -> DataFrame:
        """Returns ``partition offset timestamp source`` of records, for orders that are scanned.

        Args:
            raw: the records.
            layout: their layout.
            order: the order that needs them.
            writers: see `ReadSpec`; the known ones.

        Raises:
            NotImplementedError: in a format whose changes have no such order.
        """
        msg = f"{self.name} has no changes that are ordered as {order.scheme}"
        raise NotImplementedError(msg)
