"""Defines the table without a key that a log makes, a multiset of rows, and models its algorithm.

Events carry full images. `fold` is the definition and `KeylessMerger` the model of the algorithm,
as in `cdc_assets_tests.model.reference`. The algorithm rests on two rules that keyed tables do not
need:

- It remembers every applied event, since counting twice differs from counting once. Such tables
  are not replayed: rows of a snapshot have no identity.
- Batches respect barriers: a batch that reads past a truncate or past the first row of a complete
  snapshot, in any partition, has read everything up to it in all of them. The lake's rows carry no
  history that would show on which side of it they belong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from cdc_assets_tests.model.change import BEFORE_ALL, Change, Coordinate, Position, Row

Frozen: TypeAlias = tuple[tuple[str, object], ...]
"""A row that can be counted: its columns by name."""


class MissingRow(LookupError):
    """A change removes a row that does not exist yet: the batch has to be longer."""

    def __init__(self, coordinate: Coordinate) -> None:
        partition, offset = coordinate
        super().__init__(
            f"the row that partition={partition} offset={offset} takes away is not there yet;"
            " try again with a longer batch"
        )


def fold(changes: Iterable[Change]) -> Counter[Frozen]:
    """Returns how often each row is in the table that a prefix of a log makes.

    Redeliveries are ignored; all other changes are applied by position. A count may be below zero
    on the way, where the prefix has a gap, but not in the end.

    Raises:
        MissingRow: if a count is below zero in the end.
    """
    table: Counter[Frozen] = Counter()
    since = BEFORE_ALL
    once = _once(changes)
    for change in sorted(once, key=lambda each: each.position):
        if _clears(change) > since:
            since = _clears(change)
            table.clear()
        table.update(_added(change))
        table.subtract(_taken(change))
    return _whole(table, once)


@dataclass(frozen=True, slots=True)
class KeylessMerger:
    """A table after some batches.

    Attributes:
        rows: the number of times that each row is there.
        applied: identities of the applied events.
        since: position of the newest truncate or complete snapshot; older rows are gone.
        remember_events: without it redeliveries count again; tests prove that this is wrong.
    """

    rows: Mapping[Frozen, int] = field(default_factory=Counter[Frozen])
    applied: frozenset[Position] = frozenset()
    since: Position = BEFORE_ALL
    remember_events: bool = True

    def apply(self, batch: Iterable[Change]) -> KeylessMerger:
        """Returns the table after one more batch, whose changes may come in any order.

        Raises:
            MissingRow: see `fold`.
        """
        fresh = self._fresh(batch)
        since = max((self.since, *map(_clears, fresh)))
        rows = Counter(self.rows if since == self.since else {})
        counted = [change for change in fresh if change.position >= since]
        for change in counted:
            rows.update(_added(change))
            rows.subtract(_taken(change))
        identities = (change.identity for change in fresh if change.identity)
        applied = self.applied.union(identities) if self.remember_events else self.applied
        return KeylessMerger(_whole(rows, counted), applied, since, self.remember_events)

    def _fresh(self, batch: Iterable[Change]) -> list[Change]:
        if not self.remember_events:
            return list(batch)
        return [change for change in _once(batch) if change.identity not in self.applied]


def _once(changes: Iterable[Change]) -> list[Change]:
    """Returns each event once, and every snapshot row."""
    known = {(change.identity, change.identity or change.coordinate): change for change in changes}
    return list(known.values())


def _clears(change: Change) -> Position:
    """Returns the position below which the change removes everything."""
    if change.op == "t":
        return change.position
    return change.position[:1] if change.op == "r" else BEFORE_ALL


def _added(change: Change) -> list[Frozen]:
    return [] if change.row is None else [_frozen(change.row)]


def _taken(change: Change) -> list[Frozen]:
    return [] if change.before is None else [_frozen(change.before)]


def _frozen(row: Row) -> Frozen:
    return tuple(sorted(row.items()))


def _whole(table: Counter[Frozen], changes: Iterable[Change]) -> Counter[Frozen]:
    for change in changes:
        if any(table[row] < 0 for row in _taken(change)):
            raise MissingRow(change.coordinate)
    return +table
