"""The contract of a wire format: all that knows bytes.

A format reads records twice. Few of them in Python, to find out which topics are tables', what a
table is like, and where transactions end; and all of them on Spark, as expressions over the
columns ``key value headers partition offset`` of Kafka's source. Nothing else in the product looks
into a record. How changes are ordered is another matter (`cdc_assets.formats.order`), so that
formats and databases do not multiply.

A format is made for one source of the configuration. It is found by its name among the entry
points of the group ``cdc_assets.formats``: see docs/formats/README.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from cdc_assets.changes.names import TableName
from cdc_assets.changes.position import Scheme
from cdc_assets.config import SourceConfig
from cdc_assets.formats.layout import Layout
from cdc_assets.formats.names import PlainTopics, TopicNames
from cdc_assets.formats.sample import Refusal, Sample, Written
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.marks import Ended, LogRecord
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
        has_many_rows: whether a record may hold the changes of several rows, which `rows` takes
            out of its document.
        has_many_tables: whether records name their table, so that a topic may hold several.
        has_packets: whether a record is a packet of messages, each with its own table and schema,
            which `opened` takes out of it.
        tells_tables: whether `envelope` tells what a record, or a message of a packet, is a change
            of alike whichever table asks, also one without columns, and all rows of a message are
            of one table. Tables that share a topic then share the reading of it.
        tells_statements: whether statements on tables come among their rows: `statements`.
        has_tombstones: whether each delete is followed by a record without a value.
        names_schemas: whether each change tells its schema, in a layout that has a `writer`: a
            record that tells none is refused then.
        reads_alike: whether records of several schemas may be read by one that has the columns of
            all; else each schema is read by itself.
    """

    name: ClassVar[str]
    has_many_rows: ClassVar[bool] = False
    has_many_tables: ClassVar[bool] = False
    has_packets: ClassVar[bool] = False
    tells_tables: ClassVar[bool] = False
    tells_statements: ClassVar[bool] = False
    has_tombstones: ClassVar[bool] = False
    names_schemas: ClassVar[bool] = False
    reads_alike: ClassVar[bool] = True

    def __init__(self, source: SourceConfig) -> None:
        self.source = source

    @property
    def leaves_out(self) -> bool:
        """Whether an update may leave out any column but the key's, which is unchanged then.

        `Envelope.left_out` tells of each; a column that a record's schema lacks is left out too.
        """
        return False

    # ── few records, in Python ───────────────────────────────────────────────────────────

    @property
    def topics(self) -> TopicNames:
        """What the names of topics say."""
        return PlainTopics(self.source.topics)

    @abstractmethod
    def kind(self, record: RawRecord) -> TopicKind:
        """Says what a record with a value is.

        Raises:
            CdcError: if the place where schemas are kept does not answer, or not as it should.
        """

    @abstractmethod
    def look(self, records: Sequence[RawRecord], table: TableName) -> Sample:
        """Says what records, all with a value, tell about a table. Never raises for one."""

    @abstractmethod
    def holds_row(self, record: RawRecord, table: TableName) -> bool:
        """Whether a record is a change event of a table that holds a row which exists."""

    def refuses(self, layout: Layout, key: Sequence[str]) -> Refusal | None:
        """Why a table of this key cannot be kept equal by such records; None if it can."""
        return None

    def tables(self, records: Iterable[RawRecord], source: str) -> frozenset[TableName]:
        """The tables of which records hold changes; none if topics name theirs.

        Args:
            records: of a topic.
            source: the source's name.
        """
        return frozenset()

    def mark(self, raw: RawRecord, *, only_partition: bool) -> LogRecord | None:
        """What a record says about its transaction; None for one without a value.

        Args:
            raw: of a table's topic. What cannot be read counts as a row outside of transactions.
            only_partition: the topic has one, so that its offsets are an order.
        """
        return None

    def ended(self, raw: RawRecord) -> Ended | None:
        """The end of a transaction, by a record of the source's transaction topic."""
        return None

    def ddl(self, raw: RawRecord) -> Ddl | None:
        """The statement that a record of the source's topic of schema changes tells of.

        Raises:
            CdcError: if the place where schemas are kept does not answer, or not as it should.
        """
        return None

    def notice(self, raw: RawRecord) -> Notice | None:
        """What a record of a connector's notifications says of an incremental snapshot.

        Raises:
            CdcError: if the place where schemas are kept does not answer, or not as it should.
        """
        return None

    def statements(self, record: RawRecord, scheme: Scheme) -> tuple[Ddl, ...]:
        """The statements that a record of a table's topic tells of, in order; of any tables.

        Never raises for a record.

        Args:
            record: of a format that `tells_statements`.
            scheme: of the table's positions; `Ddl.place` is in its terms.
        """
        return ()

    def may_tell(self, raw: DataFrame) -> DataFrame:
        """Records, without those that tell of no statement, as far as that is cheap to see."""
        return raw

    # ── what a table is like ─────────────────────────────────────────────────────────────

    def of_catalog(self, table: SourceTable) -> Described:
        """The columns that a database's catalog has, as they arrive.

        Raises:
            TerminalError: if the catalog does not tell how.
        """
        return table.described(self.source.modes)

    def unseen(self, name: str) -> Described:
        """A column alone that nothing tells of but its name."""
        column = Column(name, Primitive.STRING, Wire.STRING)
        return Described((column,), inferred=True, unseen=frozenset({name}))

    # ── packets ──────────────────────────────────────────────────────────────────────────

    def opened(self, raw: DataFrame) -> DataFrame:
        """The messages of records, for all that is said below of records.

        Of a format that `has_packets` there is a row for each: ``value`` is the message, and
        ``first`` how many rows of its packet come before its own; one without rows counts as one.
        What cannot be opened is a message that `envelope` refuses. Opening must not raise on any
        bytes.
        """
        return raw

    def unpacked(self, record: RawRecord, table: TableName) -> Sequence[RawRecord]:
        """The messages of a record with a value that `written` tells the schemas of a table by."""
        is_mine = not self.has_many_tables or table in self.tables([record], table.source)
        return (record,) if is_mine else ()

    # ── the schemas of records ───────────────────────────────────────────────────────────

    def reads_headers(self, layout: Layout) -> bool:
        """Whether records have to be read with their headers: ``headers`` beside the columns."""
        return False

    def writer(self, layout: Layout, table: TableName) -> Expression | None:
        """The number of the schema that a change of a table was written with; NULL without one.

        None for a format, or a table, whose records do not tell.
        """
        return None

    def numbered(
        self, raw: DataFrame, layout: Layout, table: TableName, writers: Mapping[int, str]
    ) -> DataFrame:
        """Records as `document` and `envelope` read them.

        In a layout that has a `writer` there is a column of this name. The schema itself may be
        taken out of ``value``.

        Args:
            raw: the records.
            layout: of them.
            table: whose changes they hold.
            writers: see `ReadSpec`; those that are known.
        """
        number = self.writer(layout, table)
        return raw if number is None else raw.withColumn("writer", number)

    def schema_carrier(self, layout: Layout) -> Expression:
        """As much of a record's value as `written` needs, as bytes."""
        from pyspark.sql import functions as F

        return F.col("value")

    def written(self, record: RawRecord, layout: Layout) -> Written | None:
        """What the schema of a record says; None if it is not that of a change event.

        Raises:
            CdcError: if the place where schemas are kept does not answer, or not as it should.
        """
        return None

    # ── all records, on Spark ────────────────────────────────────────────────────────────

    @abstractmethod
    def document(self, spec: ReadSpec) -> Expression:
        """What is parsed of a record: evaluated once for each, and given to `envelope`.

        Parsing must not raise on any bytes.
        """

    def rows(self, document: Expression, spec: ReadSpec) -> Rows:
        """The rows of a record's document; of a format that `has_many_rows`.

        `envelope` is given ``struct<head, row>`` for each then, and one whose ``row`` is NULL for
        a record without any.
        """
        raise NotImplementedError(self.name)

    @abstractmethod
    def envelope(self, document: Expression, spec: ReadSpec) -> Envelope:
        """What the record says, over its parsed document."""

    def sources(
        self, raw: DataFrame, layout: Layout, order: Order, writers: Mapping[int, str]
    ) -> DataFrame:
        """``partition offset timestamp source`` of records, for orders that have to be scanned.

        Args:
            raw: the records.
            layout: of them.
            order: that needs them.
            writers: see `ReadSpec`; those that are known.

        Raises:
            NotImplementedError: of a format whose changes no such order is for.
        """
        msg = f"{self.name} has no changes that are ordered as {order.scheme}"
        raise NotImplementedError(msg)
