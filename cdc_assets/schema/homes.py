"""Which column of the lake a column of a record is, and what new ones are called."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from cdc_assets.schema.promotions import fits
from cdc_assets.schema.types import Column, TableSchema


def home_of(table: TableSchema, column: Column, names: Collection[str]) -> Column | None:
    """The lake's column that a record's column is; None if it has none.

    Args:
        table: the lake's columns.
        column: of a record's schema, by its name in records.
        names: of all columns of that schema. A former name means the renamed column as long as the
            new name is not among them.
    """
    former = [
        each
        for each in table.columns
        if column.name in each.identity.formerly and each.sent_as not in names
    ]
    same = former or [each for each in table.columns if each.sent_as == column.name]
    fitting = [each for each in same if fits(column.type, each.type)]
    return next(reversed(fitting or same), None)


def homes(table: TableSchema, record: TableSchema) -> dict[str, str]:
    """By the name of each of a record's columns the lake's; without those that it has not."""
    found = {c.name: home_of(table, c, record.names) for c in record.columns}
    return {name: home.name for name, home in found.items() if home is not None}


def free_name(name: str, taken: Iterable[str]) -> str:
    """The name, or the first of ``name__2``, ``name__3`` … that is free whatever the case.

    Most readers of a lake do not tell ``Id`` from ``id``.
    """
    names = {each.casefold() for each in taken}
    if name.casefold() not in names:
        return name
    number = 2
    while f"{name}__{number}".casefold() in names:
        number += 1
    return f"{name}__{number}"


def apart(table: TableSchema, wanted: Mapping[str, str]) -> TableSchema:
    """A new table's columns under the names that the lake is to have.

    Args:
        table: as records name its columns.
        wanted: names in the lake by those in records.
    """
    named: list[Column] = []
    for each in table.columns:
        name = free_name(wanted.get(each.name, each.name), (other.name for other in named))
        named.append(under(name, each))
    called = {each.sent_as: each.name for each in named}
    return replace(table, columns=tuple(named), key=tuple(called[name] for name in table.key))


def under(name: str, column: Column) -> Column:
    """A record's column under the lake's name."""
    sent = "" if name == column.name else column.name
    return replace(column, name=name, identity=replace(column.identity, name=sent))
