"""Defines the history that a log makes, and models the algorithm that builds it batch by batch.

`versions` is the definition. It takes every change of a log's prefix at once, each once, sorts them
by position and applies them one by one. `Keeper` is the algorithm: it sees the log in batches and
remembers only what the lake stores. However the prefix is cut into batches, and whatever part of it
is replayed in between, the versions must be the same. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cdc_assets_tests.model import moves
from cdc_assets_tests.model.change import (
    BEFORE_ALL,
    Change,
    Key,
    LowWatermarks,
    Op,
    Position,
    Row,
    by_position,
)

# ── the definition ────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Version:
    """A row as it was from one change to another.

    Attributes:
        key, values: of the row.
        made: the change that began it.
        unset: columns with the same value as in the version before.
        ended: the change that ended it; None while it is current.
        read_again: the snapshots' rows that were equal to it.
    """

    key: Key
    values: Row
    made: Change
    unset: frozenset[str] = frozenset()
    ended: Change | None = None
    read_again: list[Change] = field(default_factory=list[Change])

    @property
    def ended_by(self) -> Op | None:
        """The kind of change that ended it."""
        return self.ended.op if self.ended else None


def told(change: Change) -> object:
    """Returns what two deliveries of a change share; for a snapshot's row its coordinate."""
    if change.identity is None:
        return change.coordinate
    return (change.identity, change.op, change.key)


def versions(delivered: Iterable[Change]) -> Sequence[Version]:
    """Returns the versions that a prefix of a log makes, in order for each key.

    Args:
        delivered: its changes in order of arrival, redeliveries included.
    """
    changes = tuple(delivered)
    low_watermarks = LowWatermarks().raised(changes)
    first: dict[object, Change] = {}
    for change in changes:
        first.setdefault(told(change), change)
    ordered = sorted(
        first.values(), key=lambda each: (by_position(each, low_watermarks), each.op != "d")
    )
    return _settled(ordered)


def _settled(ordered: Sequence[Change]) -> Sequence[Version]:
    """Returns the versions that ordered changes make."""
    carried: Mapping[Position, Row] = {}
    while True:
        made, given_away = _made(ordered, carried)
        if given_away == carried:
            return made
        carried = given_away  # resolves one more link of a chain of changed keys


def _made(
    ordered: Sequence[Change], carried: Mapping[Position, Row]
) -> tuple[Sequence[Version], Mapping[Position, Row]]:
    """Returns the versions if changed keys carry these rows, and the rows that they then carry."""
    made: list[Version] = []
    alive: dict[Key, Version] = {}
    given_away: dict[Position, Row] = {}
    in_doubt = {moves.event_of(each.position) for each in ordered if moves.is_in_doubt(each)}
    mates = in_doubt & {moves.event_of(each.position) for each in ordered if each.op == "d"}
    for change in ordered:
        at = moves.event_of(change.position)
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
    """Returns the version that a row makes; None if it makes none."""
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


# ── the algorithm ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the algorithm. The defaults are right; tests prove that the others are not.

    Attributes:
        tell_repeats: a change that the table contains already makes no second version.
        look_back: changes that may be older than those applied are combined with past versions.
        carry: columns that an update leaves alone keep their value; otherwise they become empty.
        note_readings: a version remembers the snapshots that have read it again.
        remember_ends: truncates, and deletes that ended nothing, are kept.
    """

    tell_repeats: bool = True
    look_back: bool = True
    carry: bool = True
    note_readings: bool = True
    remember_ends: bool = True


@dataclass(frozen=True, slots=True)
class Keeper:
    """A history after some batches: exactly what the lake holds, and nothing of the log.

    Its changes are complete and have their final positions: nothing floats any more.

    Attributes:
        rules: see `Rules`.
        low_watermarks: low watermarks.
        versions: of all keys.
        ends: truncates, and deletes that ended nothing.
        applied: the highest position of all.
    """

    rules: Rules = Rules()
    low_watermarks: LowWatermarks = field(default_factory=LowWatermarks)
    versions: tuple[Version, ...] = ()
    ends: tuple[Change, ...] = ()
    applied: Position = BEFORE_ALL

    def apply(self, batch: Iterable[Change]) -> Keeper:
        """Returns the history after one more batch, or a replay.

        1. Give each change its position; leave out those that the table contains.
        2. Take the versions that these may affect, as the changes that made and ended them.
        3. Apply all of these in order.
        """
        changes = tuple(batch)
        low_watermarks = self.low_watermarks.raised(changes)
        placed = [
            replace(c, position=by_position(c, low_watermarks), floats=False) for c in changes
        ]  # 1
        new = self._new(placed)
        lowest = min((change.position for change in new), default=BEFORE_ALL)
        keys = {change.key for change in new}
        taken = [each for each in self.versions if self._takes_part(each, keys, lowest)]  # 2
        ends = [each for each in self.ends if self.rules.look_back and each.position >= lowest]
        made, lone = _folded(new, taken, ends, carry=self.rules.carry)  # 3
        rest = [each for each in self.versions if not any(each is other for other in taken)]
        if not self.rules.note_readings:
            for each in made:
                each.read_again.clear()
        return replace(
            self,
            low_watermarks=low_watermarks,
            versions=(*rest, *made),
            ends=(*self.ends, *lone) if self.rules.remember_ends else (),
            applied=max(self.applied, max((c.position for c in placed), default=BEFORE_ALL)),
        )

    def _new(self, placed: Sequence[Change]) -> Sequence[Change]:
        there = {told(change) for version in self.versions for change in _changes_of(version)}
        there |= {told(change) for change in self.ends}
        new: list[Change] = []
        for change in placed:
            if told(change) not in there or not self.rules.tell_repeats:
                new.append(change)
                there.add(told(change))
        return new

    def _takes_part(self, version: Version, keys: set[Key | None], lowest: Position) -> bool:
        if version.key not in keys and None not in keys:  # a truncate affects all keys
            return False
        is_late = self.rules.look_back and lowest <= self.applied
        return version.ended is None or (is_late and version.ended.position >= lowest)


def _changes_of(version: Version) -> Sequence[Change]:
    ended = version.ended
    return [version.made, *version.read_again, *([ended] if ended is not None else [])]


def _folded(
    new: Sequence[Change], taken: Sequence[Version], ends: Sequence[Change], *, carry: bool
) -> tuple[Sequence[Version], Sequence[Change]]:
    """Returns the resulting versions, and the new truncates and deletes that ended nothing."""
    before = {told(each.made): each for each in taken}
    first = {each.key: each for each in sorted(taken, key=_begin, reverse=True)}
    events = {told(change): change for change in ends}
    for version in taken:
        # The first version owns the values that it took over from a version not taken here.
        is_first = first[version.key] is version
        row = version.values if is_first else _set_by(version)
        unset = frozenset[str]() if is_first else version.unset
        events[told(version.made)] = replace(version.made, row=row, unset=unset)
        for each in version.read_again:
            events[told(each)] = replace(each, row=version.values)
        if version.ended is not None and version.ended.op in "dt":
            events[told(version.ended)] = version.ended
    events |= {told(change): change if carry else _emptied(change) for change in new}
    ordered = sorted(events.values(), key=lambda each: (each.position, each.op != "d"))
    made = [_whole(each, before.get(told(each.made))) for each in _settled(ordered)]
    used = {told(each.ended) for each in made if each.ended is not None}
    lone = [c for c in new if c.op == "t" or (c.op == "d" and told(c) not in used)]
    return made, lone


def _begin(version: Version) -> Position:
    return version.made.position


def _set_by(version: Version) -> Row:
    return {name: each for name, each in version.values.items() if name not in version.unset}


def _emptied(change: Change) -> Change:
    if change.op != "u" or not change.unset:
        return change
    row = {**(change.row or {}), **dict.fromkeys(change.unset)}
    return replace(change, row=row, unset=frozenset())


def _whole(version: Version, before: Version | None) -> Version:
    """Returns a version whose change is complete, as in a row of the lake."""
    version.unset = before.unset if before is not None else version.unset
    kept = replace(version.made, row=version.values, unset=frozenset())
    version.made = kept
    return version
