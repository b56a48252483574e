"""A table's description by a source of types, before it is known to be complete."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from cdc_assets.errors import TerminalError
from cdc_assets.schema.types import (
    Column,
    ColumnType,
    Primitive,
    TableSchema,
    UnmappedColumn,
    Wire,
    describe_unmapped,
)


@dataclass(frozen=True, slots=True)
class Described:
    """Columns in source order, mapped or refused, and the key.

    Attributes:
        columns: every column of the source table.
        key: names of the key columns, in key order; empty without a primary key.
        origin: source of the types, for people.
        comment: of the table.
        inferred: whether the types are guesses from values, which configured ones may replace.
        unseen: inferred columns whose values show no type: none was seen, or they differ in kind.
        warnings: notes on the types for people.
        left_out: columns of the source that the table does not get, see `TableSchema`.
    """

    columns: tuple[Column | UnmappedColumn, ...]
    key: tuple[str, ...] = ()
    origin: str = ""
    comment: str = ""
    inferred: bool = False
    unseen: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(each.name for each in self.columns)

    @property
    def unmapped(self) -> tuple[UnmappedColumn, ...]:
        """The refused columns."""
        return tuple(each for each in self.columns if isinstance(each, UnmappedColumn))

    def without(self, reasons: Mapping[str, str]) -> Described:
        """Removes columns whose changes the source does not publish, with a warning for each."""
        gone = {name: why for name, why in reasons.items() if name in self.names}
        added = tuple(f"column {name} is left out: {why}" for name, why in gone.items())
        columns = tuple(each for each in self.columns if each.name not in gone)
        left_out = (*self.left_out, *(name for name in reasons if name not in self.left_out))
        warnings = (*self.warnings, *added)
        return replace(self, columns=columns, left_out=left_out, warnings=warnings)

    @property
    def with_closed_lists(self) -> Described:
        """The description, in which enumerations and sets have no labels but the listed ones."""
        columns = (
            replace(each, detail=replace(each.detail, is_closed=True))
            if isinstance(each, Column) and each.detail and each.detail.labels
            else each
            for each in self.columns
        )
        return replace(self, columns=tuple(columns))

    def called(self, names: Mapping[str, str]) -> Described:
        """Renames columns, given new names by old ones."""
        columns = (replace(each, name=names.get(each.name, each.name)) for each in self.columns)
        key = tuple(names.get(name, name) for name in self.key)
        return replace(self, columns=tuple(columns), key=key)

    def with_unsigned(self, types: Mapping[str, ColumnType]) -> Described:
        """Maps 64-bit integers to these unsigned types, which schemas describe like signed ones.

        Args:
            types: the types to store them as, by column name.
        """
        columns = (
            replace(each, type=types[each.name], wire=Wire.UNSIGNED_LONG)
            if isinstance(each, Column) and each.name in types and each.wire is Wire.LONG
            else each
            for each in self.columns
        )
        return replace(self, columns=tuple(columns))

    def with_unsigned_as(self, types: Mapping[str, ColumnType]) -> Described:
        """Stores integers known to be unsigned as these types, by column name."""
        columns = (
            replace(each, type=types[each.name])
            if isinstance(each, Column) and each.name in types and each.wire is Wire.UNSIGNED_LONG
            else each
            for each in self.columns
        )
        return replace(self, columns=tuple(columns))

    def with_accepted(self, names: Collection[str]) -> Described:
        """Maps refused columns for which an operator accepts that some values are lost."""
        columns = (
            replace(each.accepted, name=each.name)
            if isinstance(each, UnmappedColumn) and each.accepted and each.name in names
            else each
            for each in self.columns
        )
        return replace(self, columns=tuple(columns))

    def with_unseen(self, names: Iterable[str]) -> Described:
        """Adds columns of which no value was seen, as text until configured otherwise."""
        unseen = tuple(Column(name, Primitive.STRING, Wire.STRING) for name in names)
        known = self.unseen | {each.name for each in unseen}
        return replace(self, columns=(*self.columns, *unseen), unseen=known)

    def exact(self, where: str = "") -> TableSchema:
        """Returns the schema if every column is mapped.

        Args:
            where: coordinates for the error, such as ``table=shop.public.orders``.

        Raises:
            TerminalError: if a column is refused, or there is none; names each with its reason.
        """
        if not self.columns:
            msg = "the table has no columns"
            raise TerminalError(msg, where=where, remedy="check that its changes are row events")
        if self.unmapped:
            msg = f"columns cannot be stored exactly: {describe_unmapped(self.unmapped)}"
            raise TerminalError(
                msg, where=where, remedy=_remedy(self.unmapped), page="columns-inexact"
            )
        columns = tuple(each for each in self.columns if isinstance(each, Column))
        return TableSchema(columns, self.key, self.comment, self.origin, self.left_out)


def _remedy(unmapped: tuple[UnmappedColumn, ...]) -> str:
    if any(each.accepted is not None for each in unmapped):
        return (
            "do as the reason says, leave the column out ({exclude: true}), or accept the loss "
            "under tables.<schema.table>.columns: {large_values: accept}"
        )
    if any(each.wire is not None for each in unmapped):
        return "give them a type under tables.<schema.table>.columns, or change the connector"
    return "leave the columns out of the connector (column.exclude.list)"
