"""Every effect of a batch fails in every way, and the next try makes it good.

A table is kept under changes of several kinds. For each point that a batch passes, and each way
in which it can fail, a batch meets that fault; then the table is merged again, as the same
process would (after an error) or a new one (after a death), and must equal its source. Each
point fails once, in one of the ways in turn, in the kind of batch that does least beside it;
`make soak` does each way for every kind of batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from cdc_assets.errors import CdcError
from cdc_assets_tests.faults import Death, Fault, How, faults
from cdc_assets_tests.merge.events import PLACEHOLDER, event, tombstone, truncate
from cdc_assets_tests.merge.one_table import TABLE, Make
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

COLUMNS = {f"c{n}": "text" for n in range(500)}
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


def started(pipeline: Make) -> World:
    tables = {TABLE: {"columns": COLUMNS}}
    made = pipeline(bad_records="quarantine", tables=tables)
    made.create_topic(TABLE, partitions=2)
    return World(made)


def wanted(points: dict[str, frozenset[str]], *, every_kind: bool) -> Iterator[tuple[int, Fault]]:
    """Each point in one way with a kind of batch that passes it; or in all with all that do."""
    kinds, ways = [kind.__name__ for kind in KINDS], list(How)
    for turn, point in enumerate(sorted(frozenset().union(*points.values()))):
        passing = [n for n, name in enumerate(kinds) if point in points[name]]
        if every_kind:
            yield from ((kind, Fault(point, how)) for how in ways for kind in passing)
        else:
            least = min(passing, key=lambda n: len(points[kinds[n]]))
            yield least, Fault(point, ways[turn % len(ways)])


@pytest.mark.timeout(1800)
def test_each_effect_of_a_batch_may_fail_in_each_way(pipeline: Make) -> None:
    world = started(pipeline)
    world.pipeline.produce(TABLE, upserts(world.source))
    world.settle()
    points = {}
    for kind in KINDS:
        world.pipeline.produce(TABLE, kind(world.source))
        points[kind.__name__] = world.merge()
        world.check(kind.__name__)
    for kind, fault in wanted(points, every_kind=profiles.is_soak()):
        world.pipeline.produce(TABLE, KINDS[kind](world.source))
        world.merge(fault)
        world.settle()
        world.check(f"{KINDS[kind].__name__}: {fault}")


@pytest.mark.parametrize(
    "how", How if profiles.is_soak() else [How.DEATH], ids=lambda how: how.name.lower()
)
def test_a_table_that_was_made_in_part_is_completed(pipeline: Make, how: How) -> None:
    steps = ("CreateNamespace", "CreateTable", "SetIdentifier", "CreateSide", "create branch")
    for step in steps:
        world = started(pipeline)
        world.pipeline.produce(TABLE, upserts(world.source))
        world.merge(Fault(f"spark: {step}", how))
        world.settle()
        world.pipeline.produce(TABLE, deletes(world.source))
        world.settle()
        world.check(f"{step} {how}")
        state = world.pipeline.lake.state(world.pipeline.entry(TABLE).target)
        assert state is not None
        assert state.key == ("id",)
