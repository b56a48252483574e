"""The schemas that a batch's records were written with, and which of them are read as one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cdc_assets.schema.types import Column, TableSchema


@dataclass(frozen=True, slots=True)
class Writer:
    """One schema that records name or carry.

    Attributes:
        number: by which records are told: a hash of the schema, or a registry's id.
        schema: of the table; None if it is not that of change events.
        text: what the format needs to read its records.
        is_of_key: its records have a key alone: nothing of it says what columns there are.
    """

    number: int
    schema: TableSchema | None
    text: str = ""
    is_of_key: bool = False


@dataclass(frozen=True, slots=True)
class Alike:
    """Records that are read by one schema, which has the columns of all of theirs."""

    writers: Mapping[int, str]
    schema: TableSchema


def read_apart(writers: Mapping[int, Writer]) -> tuple[Alike, ...]:
    """Each schema by itself; those that are not of change events are left out."""
    return tuple(
        Alike({number: writer.text}, writer.schema)
        for number, writer in writers.items()
        if writer.schema is not None
    )


def read_alike(writers: Mapping[int, Writer]) -> tuple[Alike, ...]:
    """As few groups of schemas as they come, in which no column has two meanings.

    Args:
        writers: by number; those that are not of change events are left out.
    """
    groups: list[tuple[dict[int, str], dict[str, Column]]] = []
    for number, writer in writers.items():
        if writer.schema is None:
            continue
        columns = {column.name: column for column in writer.schema.columns}
        for texts, known in groups:
            if all(_meaning(known.get(name, c)) == _meaning(c) for name, c in columns.items()):
                texts[number] = writer.text
                known.update(columns)
                break
        else:
            groups.append(({number: writer.text}, columns))
    return tuple(Alike(texts, TableSchema((*known.values(),))) for texts, known in groups)


def reads_as(schema: TableSchema, table: TableSchema) -> bool:
    """Whether a schema has all columns of a table, and gives each the same meaning."""
    columns = {column.name: column for column in schema.columns}
    return all(
        each.name in columns and _meaning(columns[each.name]) == _meaning(each)
        for each in table.columns
    )


def _meaning(column: Column) -> tuple[object, ...]:
    return (column.type, column.wire, column.element_wire, column.unchanged_marker, column.detail)
