"""What a table is, given a log: the definition, and the batch-by-batch algorithm as a model.

`fold` is the definition. It is given every change of a log's prefix at once, sorts them by
position and applies them one by one. `Merger` is the algorithm: it sees the log in batches and
remembers only what the lake holds. After every batch its table must be the fold of everything
read so far, and a replay of any range must change nothing. Neither does I/O; the tests compare
the two, and the real merge with both. Tables without a key: `reference_keyless`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

Op: TypeAlias = Literal["c", "u", "d", "r", "t"]
Position: TypeAlias = tuple[int, ...]
Key: TypeAlias = tuple[object, ...]
Row: TypeAlias = Mapping[str, object]
Coordinate: TypeAlias = tuple[int, int]

BEFORE_ALL: Position = ()
"""Lower than any position."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Column names of a table; ``key`` is empty if it has none."""

    key: tuple[str, ...]
    columns: tuple[str, ...]

    def key_of(self, row: Row) -> Key:
        """The key of a row, in key order."""
        return tuple(row[name] for name in self.key)


@dataclass(frozen=True, slots=True)
class Change:
    """One change as decoded from the log.

    Attributes:
        position: source position, the Kafka offset last. A row of a snapshot read at S is at
            ``(S, 0, offset)``: committed at S, before every change that follows that commit.
        key: None for a truncate and for tables without a key.
        row: columns of the image without those in ``unset``; None for deletes and truncates.
        before: the full row before the change, where the source sends it.
        floats: the change has no last commit; its position is as if it committed at its own
            LSN, and `Floors` lifts it.
        incremental: a snapshot row that was read while the connector streamed.
        identity: what two deliveries of one event have in common; None for snapshot rows.
    """

    op: Op
    position: Position
    partition: int
    offset: int
    key: Key | None = None
    row: Row | None = None
    unset: frozenset[str] = frozenset()
    ts_ms: int = 0
    before: Row | None = None
    floats: bool = False
    incremental: bool = False
    identity: Position | None = None

    @property
    def coordinate(self) -> Coordinate:
        """Partition and offset."""
        return (self.partition, self.offset)


# ── order ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Floors:
    """Read floors: LSNs of complete snapshots, with the place where each begins.

    A floating change counts as committed at the latest complete snapshot *before it in its
    partition*. The highest snapshot known would not do: a change that waited in a slow
    partition, or that is replayed, would be lifted to a snapshot that came after it. Rows of
    an incremental snapshot raise nothing.

    Not covered: a partition that is added between a snapshot and the end of the first
    transaction after it.

    Attributes:
        first: offset of the first row, by ``(partition, floor)``.
    """

    first: Mapping[Coordinate, int] = field(default_factory=dict[Coordinate, int])

    def raised(self, changes: Iterable[Change]) -> Floors:
        """With the snapshot rows among the changes."""
        first = dict(self.first)
        for change in changes:
            if change.op == "r" and not change.incremental:
                at = (change.partition, change.position[0])
                first[at] = min(first.get(at, change.offset), change.offset)
        return Floors(first)

    def at(self, partition: int, offset: int) -> int:
        """The floor of a floating change there; 0 if it has none."""
        begun = (at for at, first in self.first.items() if at[0] == partition and first < offset)
        return max((floor for _, floor in begun), default=0)


Order: TypeAlias = Callable[[Change, Floors], Position]


def by_position(change: Change, floors: Floors) -> Position:
    """The position that decides: the source's, lifted to the read floor if it floats."""
    floor = floors.at(change.partition, change.offset) if change.floats else 0
    return max(change.position, (floor, *change.position[1:]))


# ── the definition ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Image:
    """A row as readers see it; ``deleted`` only where deletes are soft."""

    values: Row
    deleted: bool = False


Table: TypeAlias = dict[Key, Image]


def fold(changes: Iterable[Change], shape: Shape, *, soft: bool = False) -> Table:
    """The table that a prefix of a log makes.

    Args:
        changes: all changes of the prefix, in any order; redeliveries and replays may be among
            them, since the same change applied again at its own place changes nothing.
        shape: columns and key.
        soft: a deleted row stays, marked.

    Returns:
        Rows by key. An update that leaves columns out of a row that is not there is not
        applied; `Merger.incomplete` tells of it.
    """
    known = tuple(changes)
    floors = Floors().raised(known)
    table: Table = {}
    for change in sorted(known, key=lambda each: by_position(each, floors)):
        _step(table, change, shape, soft=soft)
    return table


def _step(table: Table, change: Change, shape: Shape, *, soft: bool) -> None:
    gone = [*table] if change.op == "t" else [_key(change)] if change.op == "d" else []
    for key in gone:
        last = table.pop(key, None)
        if soft:
            table[key] = Image(last.values if last else _key_only(key, shape), deleted=True)
    if change.row is None:
        return
    old = table.get(_key(change))
    if not change.unset:
        table[_key(change)] = Image(dict(change.row))
    elif old is not None and not old.deleted:
        table[_key(change)] = Image({**old.values, **change.row})


def _key(change: Change) -> Key:
    if change.key is None:
        msg = f"a change without a key: {change.op} at {change.coordinate}"
        raise ValueError(msg)
    return change.key


def _key_only(key: Key, shape: Shape) -> Row:
    return dict.fromkeys(shape.columns) | dict(zip(shape.key, key, strict=True))


# ── the algorithm ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Rules:
    """What the algorithm rests on. The defaults are right; tests prove that others are not.

    Attributes:
        order: where a change stands.
        column_fold: an update's unset columns keep their value; else they become NULL.
        remember_deletes: the position of a deleted key is kept.
        remember_truncates: the position of a truncate is kept.
    """

    order: Order = by_position
    column_fold: bool = True
    remember_deletes: bool = True
    remember_truncates: bool = True


@dataclass(frozen=True, slots=True)
class Held:
    """A row of the lake: its values, its newest change, and whether that was a delete."""

    values: Row
    position: Position
    deleted: bool = False


Placed: TypeAlias = tuple[Position, Change]


@dataclass(frozen=True, slots=True)
class Merger:
    """A table after some batches: exactly what the lake holds, and nothing of the log.

    Attributes:
        shape: columns and key.
        soft: a deleted row stays, marked.
        rules: see `Rules`.
        floors: read floors.
        rows: by key; with soft deletes also deleted ones.
        deletes: remembered position of each deleted key (not with soft deletes).
        truncated: position of the highest truncate.
        offsets: next-to-read offset of each partition.
        incomplete: where changes of the last batch lie that leave out columns of a row which
            is not there. They were not applied.
    """

    shape: Shape
    soft: bool = False
    rules: Rules = Rules()
    floors: Floors = Floors()
    rows: Mapping[Key, Held] = field(default_factory=dict[Key, Held])
    deletes: Mapping[Key, Position] = field(default_factory=dict[Key, Position])
    truncated: Position = BEFORE_ALL
    offsets: Mapping[int, int] = field(default_factory=dict[int, int])
    incomplete: tuple[Coordinate, ...] = ()

    def table(self) -> Table:
        """The rows as readers see them."""
        return {
            key: Image(held.values, held.deleted or held.position < self.truncated)
            for key, held in self.rows.items()
        }

    def position_of(self, key: Key) -> Position:
        """The position that a change of this key must exceed to count."""
        held = self.rows.get(key)
        return max(
            held.position if held else BEFORE_ALL,
            self.deletes.get(key, BEFORE_ALL),
            # A soft-deleted row keeps its last values, so that older ones still count.
            BEFORE_ALL if self.soft else self.truncated,
        )

    def apply(self, batch: Iterable[Change]) -> Merger:
        """The table after one more batch, whose changes may come in any order.

        1. Give each change its position.
        2. Truncate: rows older than the newest truncate go.
        3. Fold by key what is newer than the key's position, and put the outcome in place.
        """
        changes = tuple(batch)
        floors, offsets = self.floors.raised(changes), _read(self.offsets, changes)
        placed = [(self.rules.order(change, floors), change) for change in changes]  # 1
        truncated = _truncate(self, (at for at, change in placed if change.op == "t"))  # 2
        merged = _put(truncated, placed)  # 3
        kept = merged.truncated if self.rules.remember_truncates else BEFORE_ALL
        return replace(merged, floors=floors, offsets=offsets, truncated=kept)

    def replay(self, batch: Iterable[Change]) -> Merger:
        """A range that was merged before: the same thing, and it must change nothing."""
        return self.apply(batch)


def _read(offsets: Mapping[int, int], changes: Iterable[Change]) -> Mapping[int, int]:
    read = dict(offsets)
    for change in changes:
        read[change.partition] = max(read.get(change.partition, 0), change.offset + 1)
    return read


def _truncate(merger: Merger, positions: Iterable[Position]) -> Merger:
    at = max(positions, default=BEFORE_ALL)
    if at <= merger.truncated:
        return merger
    rows = {key: held for key, held in merger.rows.items() if merger.soft or held.position > at}
    return replace(merger, rows=rows, truncated=at)


def _put(merger: Merger, placed: Iterable[Placed]) -> Merger:
    rows, deletes, incomplete = dict(merger.rows), dict(merger.deletes), list[Coordinate]()
    for key, fresh in _fresh_by_key(merger, placed).items():
        held = _folded(merger, key, fresh)
        if held is None:
            incomplete.append(fresh[-1][1].coordinate)
        elif merger.soft or not held.deleted:
            rows[key] = held
        else:
            rows.pop(key, None)
            if merger.rules.remember_deletes:
                deletes[key] = held.position
    return replace(merger, rows=rows, deletes=deletes, incomplete=tuple(sorted(incomplete)))


def _fresh_by_key(merger: Merger, placed: Iterable[Placed]) -> Mapping[Key, Sequence[Placed]]:
    fresh: defaultdict[Key, list[Placed]] = defaultdict(list)
    for position, change in placed:
        if change.op != "t" and position > merger.position_of(_key(change)):
            fresh[_key(change)].append((position, change))
    return {key: sorted(mine, key=lambda each: each[0]) for key, mine in fresh.items()}


def _folded(merger: Merger, key: Key, fresh: Sequence[Placed]) -> Held | None:
    """The newest change made whole; None if a column that it leaves out is nowhere."""
    position, newest = fresh[-1]
    if newest.op == "d":
        return Held(_last_values(merger, key, fresh), position, deleted=True)
    values = dict(newest.row or {})
    if newest.unset and not merger.rules.column_fold:
        return Held(dict.fromkeys(newest.unset) | values, position)
    known = _set_values(merger, key, fresh)
    if not newest.unset <= known.keys():
        return None
    return Held(values | {name: known[name] for name in newest.unset}, position)


def _set_values(merger: Merger, key: Key, fresh: Sequence[Placed]) -> Row:
    """Column by column the newest value set since the row was last deleted, if it was."""
    position, _ = fresh[-1]
    deleted = max((at for at, change in fresh if change.op == "d"), default=BEFORE_ALL)
    since = max(deleted, merger.truncated if merger.truncated < position else BEFORE_ALL)
    held = merger.rows.get(key)
    is_alive = held is not None and not held.deleted and held.position > since
    newer = (change for at, change in fresh if at > since)
    return _overlaid(held.values if held and is_alive else {}, newer)


def _last_values(merger: Merger, key: Key, fresh: Sequence[Placed]) -> Row:
    """What a soft-deleted row keeps."""
    held = merger.rows.get(key)
    known = held.values if held else _key_only(key, merger.shape)
    return _overlaid(known, (change for _, change in fresh))


def _overlaid(values: Row, changes: Iterable[Change]) -> Row:
    """Values with those that the changes set, oldest first."""
    merged = dict(values)
    for change in changes:
        merged |= change.row or {}
    return merged
