"""The source database as the oracle: each row of each table against the lake's.

Rows of tables without a key are counted: so many equal ones here, so many there.

The source is read by its own driver (`postgres_side`, `mariadb_side`) and Iceberg by PyIceberg:
neither takes the way of the replication. Values are compared as the types of the source mean them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cdc_assets.changes.names import LakeName
from cdc_assets.config import ReplicationConfig
from cdc_assets_tests.lake_view import read_rows

SHOWN = 3

Row = Mapping[str, object]
Rows = Mapping[tuple[object, ...], Row]


@dataclass(frozen=True)
class SourceTable:
    """A table of a source at one moment.

    Attributes:
        types: of each column, as the source names them.
        key: the columns of the primary key; none if there is none.
        rows: with plain values.
        plain: a value by the meaning of its type, whichever side it was read from.
    """

    types: Mapping[str, str]
    key: tuple[str, ...]
    rows: Sequence[Row]
    plain: Callable[[object, str], object]


def difference(
    source: SourceTable, config: ReplicationConfig, target: LakeName, ignoring: Sequence[str] = ()
) -> str:
    """In which keys and columns the lake differs from the source; empty if in none."""
    found = read_rows(config, target)
    raw = [{c: value for c, value in row.items() if c not in ignoring} for row in found]
    foreign = sorted({column for row in raw for column in row} - source.types.keys())
    if foreign:
        return f"{target}: columns that the source has not: {foreign}"
    plain = [{c: source.plain(value, source.types[c]) for c, value in row.items()} for row in raw]
    differing = _by_key(source, plain) if source.key else _by_count(source, plain)
    return "; ".join(f"{target}: {what}" for what in differing if what)


def _by_key(source: SourceTable, plain: Sequence[Row]) -> tuple[str, ...]:
    expected, _ = _keyed(source.rows, source.key)
    rows, twice = _keyed(plain, source.key)
    return (
        _named("keys missing", expected.keys() - rows.keys()),
        _named("keys too many", rows.keys() - expected.keys()),
        _named("keys twice", twice),
        _named("rows that differ", _unequal(expected, rows)),
    )


def _by_count(source: SourceTable, plain: Sequence[Row]) -> tuple[str, ...]:
    def counted(rows: Sequence[Row]) -> Counter[str]:
        return Counter(repr([row.get(column, "absent") for column in source.types]) for row in rows)

    here, there = counted(source.rows), counted(plain)
    missing, extra = here - there, there - here
    return (
        _named("rows missing", [f"{row:.80} {count}x" for row, count in missing.items()]),
        _named("rows too many", [f"{row:.80} {count}x" for row, count in extra.items()]),
    )


def _unequal(expected: Rows, actual: Rows) -> list[str]:
    found: list[str] = []
    for key in sorted(expected.keys() & actual.keys(), key=str):
        left, right = expected[key], actual[key]
        columns = [c for c in left if c not in right or not _same(left[c], right[c])]
        if columns:
            values = ", ".join(_pair(column, left, right) for column in columns)
            found.append(f"{key} in {values}")
    return found


def _pair(column: str, left: Row, right: Row) -> str:
    return f"{column}: {left[column]!r:.60} here, {right.get(column, 'absent')!r:.60} in the lake"


def _named(what: str, found: Sequence[object] | set[tuple[object, ...]]) -> str:
    if not found:
        return ""
    shown = ", ".join(str(each) for each in sorted(found, key=str)[:SHOWN])
    return f"{len(found)} {what}: {shown}{' …' if len(found) > SHOWN else ''}"


def _keyed(
    rows: Sequence[Row], key: Sequence[str]
) -> tuple[dict[tuple[object, ...], Row], list[tuple[object, ...]]]:
    """By key, and the keys that are there more than once."""
    keyed: dict[tuple[object, ...], Row] = {}
    twice = []
    for row in rows:
        values = tuple(row.get(column) for column in key)
        if values in keyed:
            twice.append(values)
        keyed[values] = row
    return keyed, twice


def _same(left: object, right: object) -> bool:
    return type(left) is type(right) and left == right
