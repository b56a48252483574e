"""Reads from a lake table's properties how its columns arrive, and which it is not to have.

The encodings of the columns that a table was made with are one property. Each column that was
added, adopted, renamed or given up since has a property of its own, so that two writers do not
remove each other's. An empty value says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from cdc_assets.lake.state import TableState
from cdc_assets.schema.iceberg import from_iceberg
from cdc_assets.schema.stored import column_from_json, from_json
from cdc_assets.schema.types import Column, TableSchema

SCHEMA: Final = "cdc-assets.schema"
"""Property with the columns that the table was made with."""

LEFT_OUT: Final = "cdc-assets.left-out."
"""Property of a column that the table does not get."""

DROPPED: Final = "cdc-assets.dropped."
"""Property of a column that the table no longer has, or is about to lose; "false" if it has a
column of that name again."""

COLUMN: Final = "cdc-assets.column."
"""Property of a column that was added or adopted after the table was made."""


def as_made(state: TableState) -> TableSchema | None:
    """Returns the columns that the table was made with; None if it does not say: it is not ours."""
    text = state.properties.get(SCHEMA)
    return from_json(text) if text else None


def columns_of(state: TableState) -> TableSchema | None:
    """Returns all columns, as in records, with the types that the table has.

    None if the table does not say how they arrive: it is not ours.
    """
    made = as_made(state)
    if made is None:
        return None
    found = described(made, state)
    actual = {each.name: from_iceberg(each.type) for each in state.columns}
    columns = (replace(each, type=actual.get(each.name) or each.type) for each in found.columns)
    return replace(found, columns=tuple(columns))


def described(schema: TableSchema, state: TableState) -> TableSchema:
    """Returns the schema recorded when the table was made, with all changes since.

    For a renamed column the later description counts, and for a name that several columns have had
    in turn the later column.
    """
    said = state.properties
    later = {
        name.removeprefix(COLUMN): column_from_json(text)
        for name, text in said.items()
        if text and name.startswith(COLUMN)
    }
    found = {each.name: each for each in schema.columns} | later
    found = {name: each for name, each in found.items() if said.get(DROPPED + name) != "true"}
    gone = {n for c in found.values() for n in c.identity.was if _is_before(found.get(n), c)}
    now = {n: c.name for c in found.values() if c.name not in gone for n in c.identity.was}
    visible = {name: each for name, each in found.items() if name not in gone}
    names = dict.fromkeys(
        name
        for each in (*schema.columns, *(later[name] for name in sorted(later)))
        if (name := _called_now(each.name, visible, now)) in visible
    )
    left = (n.removeprefix(LEFT_OUT) for n, text in said.items() if text and n.startswith(LEFT_OUT))
    return replace(
        schema,
        columns=tuple(visible[name] for name in names),
        key=tuple(_called_now(name, visible, now) for name in schema.key),
        left_out=tuple(dict.fromkeys([*schema.left_out, *sorted(left)])),
    )


def _is_before(column: Column | None, other: Column) -> bool:
    return column is not None and column.identity.turn < other.identity.turn


def _called_now(name: str, visible: Mapping[str, Column], now: Mapping[str, str]) -> str:
    """Returns the present name of the column that had this name when the table was made."""
    mine = visible.get(name)
    if mine is not None and (name not in now or name in mine.identity.was):
        return name
    return now.get(name, name)


def dropped(state: TableState) -> tuple[str, ...]:
    """Returns columns that the table still has but should not: they were dropped at the source."""
    said = state.properties
    return tuple(each.name for each in state.columns if said.get(DROPPED + each.name) == "true")
