"""The parameters for reading the records of one batch of one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql.types import StringType, StructField, StructType

from cdc_assets.changes.names import TableName
from cdc_assets.formats.layout import Layout
from cdc_assets.formats.order import Order, OrderState, order_of
from cdc_assets.formats.values import wire_type
from cdc_assets.schema.types import Column, TableSchema

TOMBSTONE: Final = "tombstone"
CONTROL: Final = "control"
STATEMENT: Final = "statement"
"""A statement that may have changed the table other than row by row; it changes no rows here."""
OTHER: Final = "other"
ROW_OPS: Final = ("c", "u", "r")
LINE_BITS: Final = 20
"""Low bits of a position's last number, in formats whose records hold several rows: they hold the
row's place in its record, and the offset stands above them. A record with more rows is refused."""


@dataclass(frozen=True, slots=True)
class Own:
    """The rule that identifies a table's own records where the topic's name does not.

    Attributes:
        table: by the name that they give it.
        is_named: whether each of them names it.
        is_shared: whether records without a value may be of other tables.
    """

    table: TableName
    is_named: bool = False
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """Parameters for reading records of one table that have one schema.

    Attributes:
        schema: columns as they arrive, and the key.
        layout: of the table's records.
        target: the lake's columns; those that the record does not have become NULL.
        table: the table whose changes are wanted.
        omittable: columns that ``unset`` covers.
        state: data, other than the records, from which positions are made.
        tombstone_keys: whether to decode the key of records without a value.
        parse_here: whether conditions on the changes are kept from being pushed below the parsing.
            The result is then not deterministic for Spark, and cannot be used in a DELETE.
        may_lack: columns that may be missing from a row image, in addition to those marked in
            ``target``.
        doubtful: columns of these that ``absent`` lists nevertheless.
        tells_key_schema: whether to add the column ``key_schema``.
        writers: texts of the records' schemas, by number; empty for records without a schema.
        has_rows: whether records of these schemas may hold rows; else they hold a key at most, or
            are refused.
        lacks: by writer, the expected columns that its schema lacks although ``schema`` may have
            them. Empty if all writers have the same columns.
        records_reads: whether each reading of a row is recorded by itself, as in a changelog.
        homes: the target's columns by the column names of ``schema``, where these differ. Several
            may map to one: a renamed column arrives under one of its names.
        salts: the salts of digests, by their marks.
        own: the rule that identifies the table's own records; None if the topic holds no others, or
            if the format identifies them by ``table``.
    """

    schema: TableSchema
    layout: Layout
    target: TableSchema
    table: TableName
    omittable: tuple[str, ...] = ()
    state: OrderState = field(default_factory=OrderState)
    tombstone_keys: bool = False
    parse_here: bool = False
    may_lack: frozenset[str] = frozenset()
    doubtful: frozenset[str] = frozenset()
    tells_key_schema: bool = False
    writers: Mapping[int, str] = field(default_factory=dict[int, str])
    has_rows: bool = True
    lacks: Mapping[int, Sequence[str]] = field(default_factory=dict[int, Sequence[str]])
    records_reads: bool = False
    homes: Mapping[str, str] = field(default_factory=dict[str, str])
    own: Own | None = None
    salts: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def order(self) -> Order:
        """The order of the source's changes."""
        return order_of(self.layout.scheme)

    @property
    def expected(self) -> tuple[str, ...]:
        """Columns of the target that are reported if they are missing from a row image.

        They are given by their names in records.
        """
        pardoned = self.may_lack - set(self.older) - self.doubtful
        sent = {each.name: each.sent_as for each in self.target.columns}
        return tuple(sent[name] for name in self.target.expected if name not in pardoned)

    @property
    def older(self) -> tuple[str, ...]:
        """Columns that may be missing from an image of a row that has values for them."""
        there = (c for c in self.target.columns if c.existing and not c.absent)
        return tuple(each.name for each in there if each.name in self.may_lack)

    @property
    def present_names(self) -> dict[str, str]:
        """Present names in records by former names, of the columns that were renamed."""
        columns = self.target.columns
        return {old: each.sent_as for each in columns for old in each.identity.formerly}

    @property
    def counts_rows(self) -> bool:
        """Whether rows are identified by all their columns, for lack of a key."""
        return not self.schema.key

    @property
    def pairs(self) -> tuple[tuple[Column, tuple[Column, ...]], ...]:
        """Each of the lake's columns with the columns as which it may arrive."""
        arriving: dict[str, list[Column]] = {}
        for each in self.schema.columns:
            arriving.setdefault(self.homes.get(each.name, each.name), []).append(each)
        return tuple((c, tuple(arriving.get(c.name, ()))) for c in self.target.columns)

    @property
    def key_pairs(self) -> tuple[tuple[Column, tuple[Column, ...]], ...]:
        """Returns the pairs of the key's columns, in key order."""
        found = {column.name: (column, ways) for column, ways in self.pairs}
        return tuple(found[name] for name in self.target.key)

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The key's arriving columns, in key order."""
        return tuple(each for _, ways in self.key_pairs for each in ways)

    @property
    def before_columns(self) -> tuple[Column, ...]:
        """The columns to read from the row before a change."""
        return self.schema.columns if self.counts_rows else self.key_columns


def wire_struct(columns: tuple[Column, ...]) -> StructType:
    """Returns a struct of the columns as they arrive; Spark has no empty struct."""
    if not columns:
        return StructType([StructField("__none", StringType())])
    return StructType([StructField(column.name, wire_type(column)) for column in columns])
