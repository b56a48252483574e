"""Checks the promises that must hold after every effect, whatever failed before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cdc_assets_tests.model import keyless, reference
from cdc_assets_tests.model.change import Change, Coordinate, Shape
from cdc_assets_tests.model.keyless import MissingRow
from cdc_assets_tests.model.protocol.keyed import Keyed
from cdc_assets_tests.model.protocol.merged import Rows
from cdc_assets_tests.model.protocol.published import Published
from cdc_assets_tests.model.protocol.rules import Protocol
from cdc_assets_tests.model.protocol.topic import Topic, Vector
from cdc_assets_tests.model.protocol.world import World
from cdc_assets_tests.model.reference import Image


class BrokenPromiseError(AssertionError):
    """A promise no longer holds; the message says which."""


@dataclass(slots=True)
class Definition:
    """The tables that prefixes of one topic make, each folded once.

    Attributes:
        topic: all of it.
        shape: columns and key.
        soft: whether deleted rows stay, marked as deleted; None without a key.
    """

    topic: Topic
    shape: Shape
    soft: bool | None
    _known: dict[object, Rows] = field(default_factory=dict[object, Rows])

    def table(self, offsets: Vector, missing: frozenset[Coordinate]) -> Rows:
        """Returns the table of a prefix without some records."""
        name = (tuple(sorted(offsets.items())), missing)
        if name not in self._known:
            self._known[name] = self._folded(offsets, missing)
        return self._known[name]

    def _folded(self, offsets: Vector, missing: frozenset[Coordinate]) -> Rows:
        records = self.topic.between({}, offsets)
        changes = [c for each in records if each.coordinate not in missing for c in each.changes]
        if self.soft is None:
            return self._counted(changes)
        return reference.fold(changes, self.shape, soft=self.soft)

    def _counted(self, changes: Sequence[Change]) -> Rows:
        try:
            return keyless.fold(changes)
        except MissingRow as missing:
            msg = f"published without a row that is taken away: {missing}"
            raise BrokenPromiseError(msg) from missing


@dataclass(slots=True)
class Checks:
    """Checks of the world after each effect. A violation raises `BrokenPromiseError`."""

    definition: Definition
    protocol: Protocol
    _head: int | None = None
    _offsets: Vector = field(default_factory=dict[int, int])

    def look(self, world: World, *, by_operator: bool = False) -> None:
        """Checks everything that must hold if ``main`` has moved."""
        if world.table is None or world.table.snapshots.main == self._head:
            return
        snapshots = world.table.snapshots
        before, self._head = self._head, snapshots.main
        published = world.published()
        offsets = published.offsets if self.protocol.offsets_with_rows else world.stored_offsets
        if not by_operator:
            _require(snapshots.descends(self._head, before), "what was published is gone")
            back = any(offsets.get(p, 0) < at for p, at in self._offsets.items())
            _require(not back, "offsets have moved back")
        self._offsets = offsets
        self._require_publish(world)
        expected = self.definition.table(offsets, published.missing | published.late)
        found = visible(world)
        _require(found == expected, f"not the fold of {offsets}: {found} is not {expected}")
        self._require_side(world, published)
        kept = published.missing <= set(world.pending())
        _require(kept, "a record is neither merged nor in quarantine")
        events = self.definition.topic.events
        kept = events(published.late) <= events(published.missing)
        _require(kept, "an event is neither merged nor in quarantine")

    def _require_publish(self, world: World) -> None:
        """Requires that the head is a publish, or has the rows of one."""
        if world.table is None:
            return
        snapshots = world.table.snapshots
        head = next(s for s in snapshots.ancestry(snapshots.main) if s.operation != "replace")
        _require(head.published is not None, "readers see a part of a batch")

    def _require_side(self, world: World, published: Published) -> None:
        """Requires that every entry that counts was published, and that none is forgotten."""
        if not self.protocol.side_as_published or world.side is None or world.table is None:
            return
        has = world.table.snapshots.has_attempt
        entries = world.side.content(published.side)
        _require(all(has(each.attempt) for each in entries), "an entry counts before its publish")
        _require(len(entries) == published.entries, "an entry of a publish is forgotten")


def visible(world: World) -> Rows:
    """Returns the rows that a reader sees."""
    if world.table is None:
        return {}
    snapshots = world.table.snapshots
    rows = snapshots.content(snapshots.main)
    if not isinstance(world.rules, Keyed):
        return rows
    truncated = world.published().truncated
    return {
        key: Image(held.values, held.deleted or held.position < truncated)
        for key, held in rows.items()
    }


def alive(rows: Mapping[object, Image]) -> Rows:
    """Returns the values of the rows that are not marked as deleted."""
    return {key: image.values for key, image in rows.items() if not image.deleted}


def require_settled(world: World, definition: Definition, source: Rows) -> None:
    """Requires that in the end the table is complete and equals its source.

    Args:
        world: after the last run.
        definition: of its topic.
        source: the source's rows.

    Raises:
        BrokenPromiseError: if not.
    """
    table, published = world.table, world.published()
    is_whole = table is not None and (table.has_identifier or not world.is_keyed)
    if table is None or not is_whole or not world.has_namespace or world.side is None:
        msg = "the table is half made"
        raise BrokenPromiseError(msg)
    width = max((record.width for record in world.topic.records), default=1)
    _require(table.width == table.described == width, "a column is missing")
    _require(not world.has_failure_file, "the table is said to fail")
    attempts = [each.published for each in table.snapshots.snapshots.values()]
    known = {each.attempt for each in attempts if each is not None}
    _require(known.issuperset(world.events), "an event tells of what was not published")
    found = visible(world)
    if not published.missing:
        rows = found if definition.soft is None else alive(found)
        _require(rows == source, f"all is merged, but it is not the source: {found}")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise BrokenPromiseError(what)
