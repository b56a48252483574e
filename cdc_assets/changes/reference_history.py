"""What a history is, given a log: the definition.

`versions` is given every change of a log's prefix at once, takes each once, sorts them by position
and applies them one by one. However the prefix is cut into batches, and whatever of it is replayed
between, the table's versions must be these. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cdc_assets.changes import reference_moves as moves
from cdc_assets.changes.reference_change import (
    Change,
    Floors,
    Key,
    Op,
    Position,
    Row,
    by_position,
)


@dataclass(slots=True)
class Version:
    """A row as it was from one change to another.

    Attributes:
        key, values: of the row.
        made: the change that it begins with.
        unset: columns that are as in the version before.
        ended: the change that it ends with; None while it is current.
        read_again: the snapshots' rows that were like it.
    """

    key: Key
    values: Row
    made: Change
    unset: frozenset[str] = frozenset()
    ended: Change | None = None
    read_again: list[Change] = field(default_factory=list[Change])

    @property
    def ended_by(self) -> Op | None:
        """The kind of change that it ends with."""
        return self.ended.op if self.ended else None


def told(change: Change) -> object:
    """What two deliveries of one change have in common; of a snapshot's row its coordinate."""
    if change.identity is None:
        return change.coordinate
    return (change.identity, change.op, change.key)


def versions(delivered: Iterable[Change]) -> Sequence[Version]:
    """The versions that a prefix of a log makes, those of a key in their order.

    Args:
        delivered: its changes in the order in which they came, repeats among them.
    """
    changes = tuple(delivered)
    floors = Floors().raised(changes)
    first: dict[object, Change] = {}
    for change in changes:
        first.setdefault(told(change), change)
    ordered = sorted(first.values(), key=lambda each: (by_position(each, floors), each.op != "d"))
    carried: Mapping[Position, Row] = {}
    while True:
        made, given_away = _made(ordered, carried)
        if given_away == carried:
            return made
        carried = given_away  # of a chain of changed keys one link more


def _made(
    ordered: Sequence[Change], carried: Mapping[Position, Row]
) -> tuple[Sequence[Version], Mapping[Position, Row]]:
    """The versions if changed keys carry these rows, and the rows that they carry then."""
    made: list[Version] = []
    alive: dict[Key, Version] = {}
    given_away: dict[Position, Row] = {}
    in_doubt = {moves.source_position(each) for each in ordered if moves.is_in_doubt(each)}
    mates = in_doubt & moves.old_keys(ordered).keys()
    for change in ordered:
        at = moves.source_position(change)
        if change.key is not None and change.op == "d" and at in mates and change.key in alive:
            given_away.setdefault(at, alive[change.key].values)
        for key in [*alive] if change.op == "t" else [change.key]:
            if change.op in "dt" and key in alive:
                alive.pop(key).ended = change
        if change.row is None or change.key is None:
            continue
        moved = moves.is_in_doubt(change) and at in mates
        if moved and at not in carried:
            continue
        set_ = moves.whole(change, carried[at]) if moved else change
        if version := _next(set_, alive.get(change.key)):
            made.append(version)
            alive[change.key] = version
    return made, given_away


def _next(change: Change, before: Version | None) -> Version | None:
    """The version that a row makes; None if it makes none."""
    unset = change.unset if change.op == "u" else frozenset[str]()
    if change.key is None or (unset and before is None):
        return None
    kept = {name: before.values[name] for name in unset} if before else {}
    values = {**(change.row or {}), **kept}
    if before is not None:
        if change.op == "r" and values == before.values:
            before.read_again.append(change)
            return None
        before.ended = change
    return Version(change.key, values, change, unset)
