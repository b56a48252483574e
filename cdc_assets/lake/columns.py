"""What a lake table says of its columns: how they arrive, and which it is not to have.

How the columns arrive that a table was made with is one property; each column that was added,
adopted, renamed or given up since has one of its own, so that of two writers none takes the
other's away. An empty value says nothing.
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
"""Property of the columns that the table was made with."""

LEFT_OUT: Final = "cdc-assets.left-out."
"""Property of a column that the table is not to have."""

DROPPED: Final = "cdc-assets.dropped."
"""Property of a column that the table no longer has, or is about not to; "false" if it has again
one of that name."""

COLUMN: Final = "cdc-assets.column."
"""Property of a column that was added or adopted after the table was made."""


def columns_of(state: TableState) -> TableSchema | None:
    """All columns, as records have them, of the types that the table has.

    None if the table does not say how they arrive: it is not ours.
    """
    text = state.properties.get(SCHEMA)
    if not text:
        return None
    found = described(from_json(text), state)
    actual = {each.name: from_iceberg(each.type) for each in state.columns}
    columns = (replace(each, type=actual.get(each.name) or each.type) for each in found.columns)
    return replace(found, columns=tuple(columns))


def described(schema: TableSchema, state: TableState) -> TableSchema:
    """The schema that was recorded when the table was made, and what was since.

    Of a column that was renamed the later description counts, and of a name that columns have had
    one after the other the later column.
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
    """What the column is called that had this name when the table was made."""
    mine = visible.get(name)
    if mine is not None and (name not in now or name in mine.identity.was):
        return name
    return now.get(name, name)


def dropped(state: TableState) -> tuple[str, ...]:
    """Columns that the table has and is not to have: they were dropped at the source."""
    said = state.properties
    return tuple(each.name for each in state.columns if said.get(DROPPED + each.name) == "true")
