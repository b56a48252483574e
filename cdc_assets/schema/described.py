"""What a source of types says about a table, before it is known to be complete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
        origin: where the types come from, for people.
        comment: of the table.
        inferred: the types are guesses from values, to be replaced by configured ones freely.
        unseen: inferred columns whose values tell no type: none was seen, or they differ in kind.
        warnings: what a person should know about the types.
        left_out: columns of the source that the table is not to have, see `TableSchema`.
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
        """Without columns whose changes the source does not publish; each is warned of."""
        gone = {name: why for name, why in reasons.items() if name in self.names}
        told = tuple(f"column {name} is left out: {why}" for name, why in gone.items())
        columns = tuple(each for each in self.columns if each.name not in gone)
        left_out = (*self.left_out, *(name for name in reasons if name not in self.left_out))
        warnings = (*self.warnings, *told)
        return replace(self, columns=columns, left_out=left_out, warnings=warnings)

    def called(self, names: Mapping[str, str]) -> Described:
        """With other names of columns, by those that they have."""
        columns = (replace(each, name=names.get(each.name, each.name)) for each in self.columns)
        key = tuple(names.get(name, name) for name in self.key)
        return replace(self, columns=tuple(columns), key=key)

    def with_unsigned(self, types: Mapping[str, ColumnType]) -> Described:
        """With integers of 64 bits as those without a sign: no schema tells these apart.

        Args:
            types: that they are stored as, by their names.
        """
        columns = (
            replace(each, type=types[each.name], wire=Wire.UNSIGNED_LONG)
            if isinstance(each, Column) and each.name in types and each.wire is Wire.LONG
            else each
            for each in self.columns
        )
        return replace(self, columns=tuple(columns))

    def with_unsigned_as(self, types: Mapping[str, ColumnType]) -> Described:
        """With integers that are known to have no sign as these types, by their names."""
        columns = (
            replace(each, type=types[each.name])
            if isinstance(each, Column) and each.name in types and each.wire is Wire.UNSIGNED_LONG
            else each
            for each in self.columns
        )
        return replace(self, columns=tuple(columns))

    def with_unseen(self, names: Iterable[str]) -> Described:
        """With columns of which no value was seen: text, as long as nobody says otherwise."""
        unseen = tuple(Column(name, Primitive.STRING, Wire.STRING) for name in names)
        known = self.unseen | {each.name for each in unseen}
        return replace(self, columns=(*self.columns, *unseen), unseen=known)

    def exact(self, where: str = "") -> TableSchema:
        """The schema, if every column is mapped.

        Args:
            where: coordinates for the error, such as ``table=shop.public.orders``.

        Raises:
            TerminalError: if a column is refused, or there is none; names each and why.
        """
        if not self.columns:
            msg = "the table has no columns"
            raise TerminalError(msg, where=where, remedy="check that its changes are row events")
        if self.unmapped:
            msg = f"columns cannot be stored exactly: {describe_unmapped(self.unmapped)}"
            raise TerminalError(msg, where=where, remedy=_remedy(self.unmapped))
        columns = tuple(each for each in self.columns if isinstance(each, Column))
        return TableSchema(columns, self.key, self.comment, self.origin, self.left_out)


def _remedy(unmapped: tuple[UnmappedColumn, ...]) -> str:
    if any(each.wire is not None for each in unmapped):
        return "give them a type under tables.<schema.table>.columns, or change the connector"
    return "leave the columns out of the connector (column.exclude.list)"
