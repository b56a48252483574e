"""How the records of one batch of one table are read."""

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
"""What may have changed the table otherwise than row by row; it changes no rows here."""
OTHER: Final = "other"
ROW_OPS: Final = ("c", "u", "r")
LINE_BITS: Final = 20
"""Of a position's last number, in formats whose records hold several rows: the offset stands above
these, the row in its record in them. A record of more rows than they count is refused."""


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """How to read records of one table that have one schema.

    Attributes:
        schema: columns as they arrive, and the key.
        layout: of the table's records.
        target: the lake's columns; those that the record does not have become NULL.
        table: whose changes are wanted.
        unset_able: columns that ``unset`` tells of.
        state: what positions are made with.
        tombstone_keys: decode the key of records without a value.
        parse_here: keep conditions on the changes from being pushed below the parsing. What
            follows is then not deterministic for Spark, and may not stand in a DELETE.
        may_lack: columns that need not be in a row image, beside those marked in ``target``.
        doubtful: those of them that ``absent`` tells of all the same.
        writers: of which schemas the records are, by their numbers, each with its text; those
            without a schema if there are none.
        has_rows: whether records of these schemas may hold rows; else they hold a key at most, or
            are refused.
        lacks: by writer which expected columns its schema has not, though ``schema`` may. Empty
            if all have the same.
        homes: the target's columns by the names of those of ``schema``, where these differ. Several
            may be one: a column that was renamed comes by one of its names.
    """

    schema: TableSchema
    layout: Layout
    target: TableSchema
    table: TableName
    unset_able: tuple[str, ...] = ()
    state: OrderState = field(default_factory=OrderState)
    tombstone_keys: bool = False
    parse_here: bool = False
    may_lack: frozenset[str] = frozenset()
    doubtful: frozenset[str] = frozenset()
    writers: Mapping[int, str] = field(default_factory=dict[int, str])
    has_rows: bool = True
    lacks: Mapping[int, Sequence[str]] = field(default_factory=dict[int, Sequence[str]])
    homes: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def order(self) -> Order:
        """How its changes are ordered."""
        return order_of(self.layout.scheme)

    @property
    def expected(self) -> tuple[str, ...]:
        """Columns of the target of which it is told if a row image has them not.

        By their names in records.
        """
        pardoned = self.may_lack - set(self.older) - self.doubtful
        sent = {each.name: each.sent_as for each in self.target.columns}
        return tuple(sent[name] for name in self.target.expected if name not in pardoned)

    @property
    def older(self) -> tuple[str, ...]:
        """Columns that need not be in a row image, whose rows have a value all the same."""
        there = (c for c in self.target.columns if c.existing and not c.absent)
        return tuple(each.name for each in there if each.name in self.may_lack)

    @property
    def once(self) -> dict[str, str]:
        """Names in records by those that they had before, of the columns that were renamed."""
        columns = self.target.columns
        return {old: each.sent_as for each in columns for old in each.identity.formerly}

    @property
    def counts_rows(self) -> bool:
        """Without a key, rows are told apart by all their columns."""
        return not self.schema.key

    @property
    def pairs(self) -> tuple[tuple[Column, tuple[Column, ...]], ...]:
        """Each of the lake's columns with the ways it may come."""
        arriving: dict[str, list[Column]] = {}
        for each in self.schema.columns:
            arriving.setdefault(self.homes.get(each.name, each.name), []).append(each)
        return tuple((c, tuple(arriving.get(c.name, ()))) for c in self.target.columns)

    @property
    def key_pairs(self) -> tuple[tuple[Column, tuple[Column, ...]], ...]:
        """The same of the key's columns, in key order."""
        found = {column.name: (column, ways) for column, ways in self.pairs}
        return tuple(found[name] for name in self.target.key)

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The columns of the key as they arrive, in key order."""
        return tuple(each for _, ways in self.key_pairs for each in ways)

    @property
    def before_columns(self) -> tuple[Column, ...]:
        """What is read of a row before its change."""
        return self.schema.columns if self.counts_rows else self.key_columns


def wire_struct(columns: tuple[Column, ...]) -> StructType:
    """Columns as they arrive; Spark has no empty struct."""
    if not columns:
        return StructType([StructField("__none", StringType())])
    return StructType([StructField(column.name, wire_type(column)) for column in columns])
