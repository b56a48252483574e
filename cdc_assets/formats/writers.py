"""The schemas with which a batch's records were written, grouped by those read as one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc_assets.schema.types import Column, TableSchema


@dataclass(frozen=True, slots=True)
class Writer:
    """A schema that records name or carry.

    Attributes:
        number: the number that identifies the records: a hash of the schema, or a registry's id.
        schema: the table's; None if it is not a schema of change events.
        text: the text that the format needs to read the records.
        is_of_key: whether the records have a key alone, which does not list the table's columns.
        homes: the lake's columns by the schema's column names, where these differ.
        names: all fields of its rows, including those excluded from the lake.
    """

    number: int
    schema: TableSchema | None
    text: str = ""
    is_of_key: bool = False
    homes: Mapping[str, str] = field(default_factory=dict[str, str])
    names: tuple[str, ...] = ()

    @property
    def column_names(self) -> frozenset[str]:
        """The lake's columns that its records contain."""
        names = self.schema.names if self.schema else ()
        return frozenset(self.homes.get(name, name) for name in names)


@dataclass(frozen=True, slots=True)
class SchemaGroup:
    """Records that are read by one schema, which has the columns of all of theirs.

    ``homes`` as in `Writer`; of two columns that map to one in the lake, a record has either.
    """

    writers: Mapping[int, str]
    schema: TableSchema
    homes: Mapping[str, str] = field(default_factory=dict[str, str])


def read_apart(writers: Mapping[int, Writer]) -> tuple[SchemaGroup, ...]:
    """Returns each schema by itself; schemas that are not of change events are left out."""
    return tuple(
        SchemaGroup({number: writer.text}, writer.schema, writer.homes)
        for number, writer in writers.items()
        if writer.schema is not None
    )


def read_alike(writers: Mapping[int, Writer]) -> tuple[SchemaGroup, ...]:
    """Groups the schemas, first fit, so that no column has two meanings within a group.

    Args:
        writers: by number; schemas that are not of change events are left out.
    """
    groups: list[tuple[dict[int, str], dict[str, tuple[Column, str]]]] = []
    for number, writer in writers.items():
        if writer.schema is None:
            continue
        columns = {c.name: (c, writer.homes.get(c.name, c.name)) for c in writer.schema.columns}
        for texts, known in groups:
            if all(_same(known.get(name, each), each) for name, each in columns.items()):
                texts[number] = writer.text
                known.update(columns)
                break
        else:
            groups.append(({number: writer.text}, columns))
    return tuple(_alike(texts, known) for texts, known in groups)


def _alike(texts: Mapping[int, str], known: Mapping[str, tuple[Column, str]]) -> SchemaGroup:
    columns = tuple(column for column, _ in known.values())
    homes = {name: home for name, (_, home) in known.items() if name != home}
    return SchemaGroup(texts, TableSchema(columns), homes)


def _same(one: tuple[Column, str], other: tuple[Column, str]) -> bool:
    return _meaning(one[0]) == _meaning(other[0]) and one[1] == other[1]


def reads_as(schema: TableSchema, table: TableSchema) -> bool:
    """Returns whether a schema has all columns of a table, each with the same meaning."""
    columns = {column.name: column for column in schema.columns}
    return all(
        each.name in columns and _meaning(columns[each.name]) == _meaning(each)
        for each in table.columns
    )


def _meaning(column: Column) -> tuple[object, ...]:
    return (column.type, column.wire, column.element_wire, column.unchanged_marker, column.detail)
