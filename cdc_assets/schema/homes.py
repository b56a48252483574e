"""Finds the lake's column for a record's column, and names for new ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from cdc_assets.schema.promotions import fits
from cdc_assets.schema.types import Column, TableSchema, Wire


def home_of(table: TableSchema, column: Column, names: Collection[str]) -> Column | None:
    """Returns the lake's column for a record's column; None if there is none.

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
    same = former or [
        each
        for each in table.columns
        if each.sent_as == column.name and each.wire is not Wire.SHARD
    ]
    fitting = [each for each in same if fits(column.type, each.type)]
    return next(reversed(fitting or same), None)


def homes(table: TableSchema, record: TableSchema) -> dict[str, str]:
    """Returns the lake's column names by the record's; columns without one are left out."""
    found = {c.name: home_of(table, c, record.names) for c in record.columns}
    return {name: home.name for name, home in found.items() if home is not None}


def free_name(name: str, taken: Iterable[str]) -> str:
    """Returns the name, or the first free one of ``name__2``, ``name__3`` …, ignoring case.

    Most readers of a lake do not distinguish ``Id`` from ``id``.
    """
    names = {each.casefold() for each in taken}
    if name.casefold() not in names:
        return name
    number = 2
    while f"{name}__{number}".casefold() in names:
        number += 1
    return f"{name}__{number}"


def apart(table: TableSchema, wanted: Mapping[str, str]) -> TableSchema:
    """Gives a new table's columns the names that the lake is to have.

    Args:
        table: with the columns' names in records.
        wanted: names in the lake by names in records.
    """
    named: list[Column] = []
    for each in table.columns:
        name = free_name(wanted.get(each.name, each.name), (other.name for other in named))
        named.append(under(name, each))
    called = {each.sent_as: each.name for each in named}
    return replace(table, columns=tuple(named), key=tuple(called[name] for name in table.key))


def under(name: str, column: Column) -> Column:
    """Returns a record's column under the lake's name."""
    sent = "" if name == column.name else column.name
    return replace(column, name=name, identity=replace(column.identity, name=sent))
