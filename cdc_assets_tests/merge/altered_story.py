"""Stories of an altered table: what is sent, in which order, and what fails meanwhile."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from cdc_assets_tests.faults import How
from cdc_assets_tests.merge.altered_source import (
    INT,
    KEY,
    NUMERIC,
    REAL,
    REWRITES,
    TEXT,
    WIDER,
    Sent,
    Source,
    SourceColumn,
)

IDS: Final = range(9)
EFFECTS: Final = 30
"""A batch has about as many; a fault at a later one does not happen."""


@dataclass(frozen=True)
class Turn:
    """What is sent before the table is merged again.

    Attributes:
        said: the statements that came with it.
        records: in the order in which they are sent.
        faults: of so many tries, before the one that is left alone.
    """

    said: tuple[str, ...]
    records: tuple[Sent, ...]
    faults: tuple[tuple[int, How], ...]


@dataclass
class Story:
    """Turns from a seed; the source is then as it is when the turn's records are read.

    Partition 0 is sent at once, so that each form is read in its time; what the others hold may
    come turns later, by columns that are long called otherwise, or twice.
    """

    seed: int
    by_catalog: bool
    inline: bool
    turns: int = 5
    source: Source = field(default_factory=Source)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._waiting: list[list[Sent]] = [[] for _ in range(self.source.partitions)]
        self._sent: list[Sent] = []

    def __iter__(self) -> Iterator[Turn]:
        for number in range(self.turns):
            self._rows(4)
            said = self._alter() if number else ()
            self._send(self._put(self._random.choice(IDS[::3])))
            self._rows(4)
            yield Turn(said, tuple(self._delivered(number)), self._faults())
        rest = tuple(each for waiting in self._waiting for each in waiting)
        yield Turn((), rest, ())

    # ── rows ──────────────────────────────────────────────────────────────────────────────

    def _rows(self, count: int) -> None:
        for _ in range(count):
            id_ = self._random.choice(IDS)
            gone = id_ in self.source.rows and self._random.random() < 0.3
            self._send(self.source.delete(id_) if gone else self._put(id_))

    def _put(self, id_: int) -> Sent:
        values = {c.number: self._value(c) for c in self.source.columns if c.number != KEY}
        if id_ in self.source.rows:
            values = {n: v for n, v in values.items() if self._random.random() < 0.5}
        return self.source.put(id_, values)

    def _value(self, column: SourceColumn) -> Any:
        if column.optional and self._random.random() < 0.2:
            return None
        return self._random.choice(column.kind.values)

    def _send(self, sent: Sent) -> None:
        self._waiting[sent.partition].append(sent)

    def _delivered(self, number: int) -> list[Sent]:
        """The partitions' records in turn, as many of each as come in time."""
        late = [0, *(self._random.randint(0, len(each)) for each in self._waiting[1:])]
        parts = []
        for partition, count in enumerate(late):
            waiting = self._waiting[partition]
            end = len(waiting) - count
            parts.append(waiting[:end])
            self._waiting[partition] = waiting[end:]
        again = self._random.sample(self._sent, min(number, 2))
        found = [*again, *(each for part in parts for each in part)]
        self._sent += found
        return found

    def _faults(self) -> tuple[tuple[int, How], ...]:
        count = self._random.choice((0, 1, 1, 2))
        ways = list(How)
        return tuple(
            (self._random.randint(1, EFFECTS), self._random.choice(ways)) for _ in range(count)
        )

    # ── columns ───────────────────────────────────────────────────────────────────────────

    def _alter(self) -> tuple[str, ...]:
        """One or two statements whose effect on older rows the catalog can still tell."""
        said = [self._statement(added=False)]
        if self._random.random() < 0.5:
            said.append(self._statement(added=said[0].startswith("add")))
        return tuple(said)

    def _statement(self, *, added: bool) -> str:
        """``added``: the statement before it has added a column, which stays as it is."""
        source = self.source
        columns = source.columns[:-1] if added else source.columns
        told = self.by_catalog
        ways = {
            "add": True,
            "add with a default": True,
            "reorder": not added,
            "widen": bool(self._widened(columns, added=added)),
            "set not null": any(map(self._may_be_required, columns)),
            "drop not null": any(not c.optional and c.number != KEY for c in columns),
            "drop": told and not added and len(columns) > 3,
            "rename": told and not added,
        }
        way = self._random.choice([name for name, may_be in ways.items() if may_be])
        return f"{way} {self._done(way, columns, added=added)}"

    def _done(self, way: str, columns: tuple[SourceColumn, ...], *, added: bool) -> str:
        source, pick = self.source, self._random.choice
        match way:
            case "add" | "add with a default":
                kind = pick((INT, REAL, NUMERIC, TEXT))
                column = source.new(kind, pick(kind.values) if way != "add" else None)
                source.add(column)
            case "reorder":
                source.reorder()
                return ""
            case "widen":
                column = pick(self._widened(columns, added=added))
                source.alter(column.number, kind=WIDER[column.kind])
            case "set not null":
                column = pick([each for each in columns if self._may_be_required(each)])
                source.alter(column.number, optional=False)
            case "drop not null":
                column = pick([c for c in columns if not c.optional and c.number != KEY])
                source.alter(column.number, optional=True)
            case "drop":
                column = pick([each for each in columns if each.number != KEY])
                source.drop(column.number)
            case "rename":
                column = pick(columns)
                former = source.names[column.number]
                new = f"c{column.number}_{len(former)}"
                source.alter(column.number, name=pick([new, *former]))
            case _:
                raise AssertionError(way)
        return column.name

    def _widened(self, columns: tuple[SourceColumn, ...], *, added: bool) -> list[SourceColumn]:
        return [
            each
            for each in columns
            if each.kind in WIDER
            and (self.inline or each.kind is not REAL)
            and not (added and each.kind in REWRITES)
        ]

    def _may_be_required(self, column: SourceColumn) -> bool:
        rows = self.source.rows.values()
        return column.optional and all(row.get(column.number) is not None for row in rows)
