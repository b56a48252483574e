"""Defines the table that a log makes, and models the algorithm that merges it batch by batch.

`fold` is the definition. It takes every change of a log's prefix at once, sorts them by position
and applies them one by one. `Merger` is the algorithm: it sees the log in batches and remembers
only what the lake stores. After every batch its table must equal the fold of everything read so
far, and replaying any range must change nothing. Neither does I/O. The tests compare the two, and
the real merge with both. `keyless` does the same for tables without a key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from cdc_assets_tests.model import moves
from cdc_assets_tests.model.change import (
    BEFORE_ALL,
    Change,
    Coordinate,
    Held,
    Key,
    LowWatermarks,
    Order,
    Placed,
    Position,
    Row,
    Shape,
    by_position,
)

# ── the definition ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Image:
    """A row as readers see it; ``deleted`` is only set with soft deletes."""

    values: Row
    deleted: bool = False


Table: TypeAlias = dict[Key, Image]


def fold(changes: Iterable[Change], shape: Shape, *, soft: bool = False) -> Table:
    """Returns the table that a prefix of a log makes.

    Args:
        changes: all changes of the prefix, in any order. Redeliveries and replays may be among
            them: applying the same change again at its own position changes nothing.
        shape: columns and key.
        soft: keep deleted rows, marked as deleted.

    Returns:
        Rows by key. An update that leaves out columns of a row that does not exist is not applied;
        `Merger.incomplete` lists such updates.
    """
    known = tuple(changes)
    low_watermarks = LowWatermarks().raised(known)
    ordered = sorted(known, key=lambda each: by_position(each, low_watermarks))
    carried: Mapping[Position, Row] = {}
    while True:
        table, given_away = _folded_with(carried, ordered, shape, soft=soft)
        if given_away == carried:
            return table
        carried = given_away  # resolves one more link of a chain of changed keys


def _folded_with(
    carried: Mapping[Position, Row], ordered: Sequence[Change], shape: Shape, *, soft: bool
) -> tuple[Table, Mapping[Position, Row]]:
    """Returns the table if changed keys carry these rows, and the rows that they then carry."""
    table: Table = {}
    given_away: dict[Position, Row] = {}
    in_doubt = {moves.source_position(each) for each in ordered if moves.is_in_doubt(each)}
    mates = in_doubt & moves.old_keys(ordered).keys()
    for change in ordered:
        at = moves.source_position(change)
        if change.op == "d" and at in mates:
            last = table.get(_key(change))
            if last is not None and not last.deleted:
                given_away.setdefault(at, last.values)
        if moves.is_in_doubt(change) and at in mates:
            if at in carried:
                _step(table, moves.whole(change, carried[at]), shape, soft=soft)
        else:
            _step(table, change, shape, soft=soft)
    return table, given_away


def _step(table: Table, change: Change, shape: Shape, *, soft: bool) -> None:
    gone = [*table] if change.op == "t" else [_key(change)] if change.op == "d" else []
    for key in gone:
        last = table.pop(key, None)
        if soft:
            table[key] = Image(last.values if last else _key_only(key, shape), deleted=True)
    if change.row is None:
        return
    old = table.get(_key(change))
    if not change.unset or change.op == "c":
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
    """The rules of the algorithm. The defaults are right; tests prove that the others are not.

    Attributes:
        order: the position that a change is ordered by.
        column_fold: an update's unset columns keep their value; otherwise they become NULL.
        remember_deletes: the position of a deleted key is kept.
        remember_truncates: the position of a truncate is kept.
        whole_moves: a create with the placeholder is refused if its delete was merged before;
            otherwise it is stored as data.
    """

    order: Order = by_position
    column_fold: bool = True
    remember_deletes: bool = True
    remember_truncates: bool = True
    whole_moves: bool = True


@dataclass(frozen=True, slots=True)
class Merger:
    """A table after some batches: exactly what the lake holds, and nothing of the log.

    Attributes:
        shape: columns and key.
        soft: keep deleted rows, marked as deleted.
        rules: see `Rules`.
        low_watermarks: low watermarks.
        rows: by key; with soft deletes, deleted rows too.
        deletes: remembered position of each deleted key (not with soft deletes).
        gone: the source events of all remembered deletes.
        truncated: position of the highest truncate.
        offsets: next-to-read offset of each partition.
        incomplete: coordinates of changes of the last batch that were not applied, since they leave
            out columns of a row that does not exist, or since their other half is missing.
    """

    shape: Shape
    soft: bool = False
    rules: Rules = Rules()
    low_watermarks: LowWatermarks = field(default_factory=LowWatermarks)
    rows: Mapping[Key, Held] = field(default_factory=dict[Key, Held])
    deletes: Mapping[Key, Position] = field(default_factory=dict[Key, Position])
    gone: frozenset[Position] = frozenset()
    truncated: Position = BEFORE_ALL
    offsets: Mapping[int, int] = field(default_factory=dict[int, int])
    incomplete: tuple[Coordinate, ...] = ()

    def table(self) -> Table:
        """Returns the rows as readers see them."""
        return {
            key: Image(held.values, held.deleted or held.position < self.truncated)
            for key, held in self.rows.items()
        }

    def position_of(self, key: Key) -> Position:
        """Returns the position that a change of this key must exceed to count."""
        held = self.rows.get(key)
        return max(
            held.position if held else BEFORE_ALL,
            self.deletes.get(key, BEFORE_ALL),
            # A soft-deleted row keeps its last values, so that older ones still count.
            BEFORE_ALL if self.soft else self.truncated,
        )

    def apply(self, batch: Iterable[Change], *, look_up: bool = True) -> Merger:
        """Returns the table after one more batch, whose changes may come in any order.

        1. Give each change its position.
        2. Truncate: drop the rows older than the newest truncate.
        3. Fold, by key, the changes newer than the key's position, and store the result.

        Args:
            batch: the changes.
            look_up: False if the batch is known to be newer than everything applied so far: rows
                are then looked up for partial images only, and remembered deletes never.
        """
        changes = tuple(batch)
        low_watermarks, offsets = self.low_watermarks.raised(changes), _read(self.offsets, changes)
        placed = [(self.rules.order(change, low_watermarks), change) for change in changes]  # 1
        truncated = _truncate(self, (at for at, change in placed if change.op == "t"))  # 2
        merged = _put(truncated, placed, look_up=look_up)  # 3
        kept = merged.truncated if self.rules.remember_truncates else BEFORE_ALL
        return replace(merged, low_watermarks=low_watermarks, offsets=offsets, truncated=kept)

    def replay(self, batch: Iterable[Change]) -> Merger:
        """Applies a range that was merged before in the same way; it must change nothing."""
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


def _put(merger: Merger, placed: Iterable[Placed], *, look_up: bool) -> Merger:
    rows, deletes, gone = dict(merger.rows), dict(merger.deletes), set(merger.gone)
    fresh_ones = [each for each in placed if _counts(merger, each, look_up=look_up)]
    known = moves.Known(merger.rows, merger.gone, merger.truncated)
    settled = moves.settled(fresh_ones, known, look_back=merger.rules.whole_moves)
    incomplete = list[Coordinate]()
    for key, mine in _by_key(settled).items():
        fresh = _newer_than_row(merger.rows.get(key), mine)
        held = _folded(merger, key, fresh)
        if held is None:
            incomplete.append(fresh[-1][1].coordinate)
        elif merger.soft or not held.deleted:
            rows[key] = held
        else:
            rows.pop(key, None)
            if merger.rules.remember_deletes:
                deletes[key] = held.position
                gone.add(moves.event_of(held.position))
    return replace(
        merger,
        rows=rows,
        deletes=deletes,
        gone=frozenset(gone),
        incomplete=tuple(sorted(incomplete)),
    )


def _counts(merger: Merger, placed: Placed, *, look_up: bool) -> bool:
    """Returns whether a change is newer than its key's position, as far as that is looked up."""
    position, change = placed
    if change.op == "t":
        return True
    if not look_up:
        return merger.soft or position > merger.truncated
    return position > merger.position_of(_key(change))


def _newer_than_row(held: Held | None, fresh: Sequence[Placed]) -> Sequence[Placed]:
    """Returns the newest change, and the older ones that the row does not contain already."""
    if held is None:
        return fresh
    return [*(each for each in fresh[:-1] if each[0] > held.position), fresh[-1]]


def _by_key(placed: Iterable[Placed]) -> Mapping[Key, Sequence[Placed]]:
    fresh: defaultdict[Key, list[Placed]] = defaultdict(list)
    for position, change in placed:
        if change.op != "t":
            fresh[_key(change)].append((position, change))
    return {key: sorted(mine, key=lambda each: each[0]) for key, mine in fresh.items()}


def _folded(merger: Merger, key: Key, fresh: Sequence[Placed]) -> Held | None:
    """Returns the newest change, completed; None if a column that it leaves out is nowhere."""
    position, newest = fresh[-1]
    if newest.op == "d":
        if merger.soft and any(moves.is_in_doubt(change) for _, change in fresh):
            return None
        return Held(_last_values(merger, key, fresh), position, deleted=True)
    values = dict(newest.row or {})
    if moves.is_in_doubt(newest):
        return None
    if newest.unset and not merger.rules.column_fold:
        return Held(dict.fromkeys(newest.unset) | values, position)
    known = _set_values(merger, key, fresh)
    if not newest.unset <= known.keys():
        return None
    return Held(values | {name: known[name] for name in newest.unset}, position)


def _set_values(merger: Merger, key: Key, fresh: Sequence[Placed]) -> Row:
    """Returns the newest value set for each column since the row's last delete, if any."""
    position, _ = fresh[-1]
    deleted = max((at for at, change in fresh if change.op == "d"), default=BEFORE_ALL)
    since = max(deleted, merger.truncated if merger.truncated < position else BEFORE_ALL)
    held = merger.rows.get(key)
    is_alive = held is not None and not held.deleted and held.position > since
    newer = (change for at, change in fresh if at > since)
    return _overlaid(held.values if held and is_alive else {}, newer)


def _last_values(merger: Merger, key: Key, fresh: Sequence[Placed]) -> Row:
    """Returns the values that a soft-deleted row keeps."""
    held = merger.rows.get(key)
    known = held.values if held else _key_only(key, merger.shape)
    whole = (change for _, change in fresh if not moves.is_in_doubt(change))
    return _overlaid(known, whole)


def _overlaid(values: Row, changes: Iterable[Change]) -> Row:
    """Returns the values overlaid with those that the changes set, oldest first."""
    merged = dict(values)
    for change in changes:
        merged |= change.row or {}
        if change.op == "c":  # still in doubt: the values of its unset columns are unknown
            merged = {name: value for name, value in merged.items() if name not in change.unset}
    return merged
