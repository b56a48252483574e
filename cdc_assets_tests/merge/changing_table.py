"""A table under changes of several kinds, and what it is to equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from cdc_assets.errors import CdcError
from cdc_assets_tests.faults import Death, Fault, faults
from cdc_assets_tests.merge.events import PLACEHOLDER, event, tombstone, truncate
from cdc_assets_tests.merge.one_table import TABLE, Make
from cdc_assets_tests.pipeline import Message, Pipeline

COLUMNS = {f"c{n}": "text" for n in range(500)}
LAID_OUT = {"partition_by": ["truncate(1, name)", "bucket(2, id)"], "sort_by": ["big desc"]}
"""A layout in which updates move rows to another partition."""
Row = dict[str, Any]


@dataclass
class Source:
    """A table of the source: its rows, and the changes that it sends."""

    partitions: int = 2
    rows: dict[int, Row] = field(default_factory=dict)
    lsn: int = 1000
    columns: int = 0
    next_id: int = 0

    def step(self) -> int:
        self.lsn += 10
        return self.lsn

    def send(self, op: str, row: Row) -> Message:
        at = self.step()
        return event(op, row, at, commit=at - 1, partition=row["id"] % self.partitions)

    def create(self) -> Message:
        id_, self.next_id = self.next_id, self.next_id + 1
        added = {f"c{n}": None for n in range(self.columns)}
        self.rows[id_] = {"id": id_, "name": f"n{self.lsn}", "big": f"b{self.lsn}"} | added
        return self.send("c", self.rows[id_])

    def update(self, id_: int, **values: object) -> Message:
        self.rows[id_] |= values
        return self.send("u", dict(self.rows[id_]))

    def delete(self, id_: int) -> list[Message]:
        del self.rows[id_]
        gone = self.send("d", {"id": id_, "name": None, "big": None})
        return [gone, tombstone(id_, id_ % self.partitions)]


def upserts(source: Source) -> list[Message]:
    made = [source.create(), source.create()]
    return [*made, source.update(min(source.rows), name=f"u{source.lsn}")]


def deletes(source: Source) -> list[Message]:
    return [source.create(), *source.delete(min(source.rows))]


def late(source: Source) -> list[Message]:
    """Beside new changes an old one of a row, and a delete: what counts has to be looked up."""
    old = event("u", {"id": min(source.rows), "name": "late", "big": "late"}, 5, commit=4,
                partition=min(source.rows) % source.partitions)  # fmt: skip
    return [source.create(), old, *source.delete(max(source.rows))]


def partial(source: Source) -> list[Message]:
    id_ = max(source.rows)
    sent = source.send("u", source.rows[id_] | {"name": f"p{source.lsn}", "big": PLACEHOLDER})
    source.rows[id_]["name"] = f"p{source.lsn - 10}"
    return [sent]


def column(source: Source) -> list[Message]:
    name, source.columns = f"c{source.columns}", source.columns + 1
    for row in source.rows.values():
        row[name] = None
    made = source.create()
    id_ = max(source.rows)
    return [made, source.update(id_, **{name: f"v{source.lsn}"})]


def emptied(source: Source) -> list[Message]:
    at = source.step()
    source.rows.clear()
    return [truncate(at, commit=at - 1), source.create(), source.create()]


def refused(source: Source) -> list[Message]:
    made = source.create()
    return [made, Message(b'{"id": 0}', b"{", 0)]


KINDS: tuple[Callable[[Source], list[Message]], ...] = (
    upserts, deletes, late, partial, column, refused, emptied,
)  # fmt: skip


@dataclass
class World:
    """The source, and the table that is to equal it."""

    pipeline: Pipeline
    source: Source = field(default_factory=Source)

    def merge(self, *planned: Fault) -> frozenset[str]:
        """One try; the points that it has passed."""
        with faults(*planned) as seen:
            try:
                self.pipeline.merge(TABLE)
            except (CdcError, Death):
                assert seen.happened, "no fault was injected, and the merge failed"
        assert len(seen.happened) == len(planned), f"not reached: {planned}"
        return frozenset(seen.seen)

    def settle(self) -> None:
        """What a new process does."""
        self.pipeline.merge(TABLE)

    def check(self, why: object) -> None:
        found = self.pipeline.by_key(TABLE)
        names = {name for row in found.values() for name in row}
        expected = {i: dict.fromkeys(names) | row for i, row in self.source.rows.items()}
        assert found == expected, f"after: {why}"
        history = self.pipeline.lake.history(self.pipeline.entry(TABLE).target, limit=1000)
        assert all(newer.start == older.offsets for newer, older in pairwise(history)), why


def started(pipeline: Make, layout: Mapping[str, object] | None = None, **source: object) -> World:
    """Its topic is there, and no record in it."""
    tables = {TABLE: {"columns": COLUMNS, "layout": layout or {}}}
    made = pipeline(**{"bad_records": "quarantine", "tables": tables, **source})
    made.create_topic(TABLE, partitions=2)
    return World(made)
