"""Resolves the placeholder in creates of changed keys that left large values alone.

A changed key is a delete of the old key and a create of the new one at one source position. A
large value that the update left alone is not logged; the create then holds the placeholder,
and the value is that of the old key's row. In any other create the same text is data.

Only its other half shows that a create is one half of a changed key. So a batch must not end
between the two. If the log itself ends between them, the create is refused: its value was in a row
that is gone by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from cdc_assets_tests.model.change import (
    BEFORE_ALL,
    Change,
    Held,
    Key,
    Placed,
    Position,
    Row,
)


def source_position(change: Change) -> Position:
    """Returns the position without the Kafka offset: it is the same in every delivery."""
    return change.position[:-1]


def is_in_doubt(change: Change) -> bool:
    """Returns whether it is a create that holds the placeholder."""
    return change.op == "c" and bool(change.unset)


def old_keys(changes: Iterable[Change]) -> Mapping[Position, Key]:
    """Returns, by source position, the key that a delete there gives away."""
    return {
        source_position(change): change.key
        for change in changes
        if change.op == "d" and change.key is not None
    }


def whole(change: Change, values: Row) -> Change:
    """Returns the create with the placeholder's columns replaced by these values."""
    kept = {name: values[name] for name in change.unset}
    return replace(change, row={**(change.row or {}), **kept}, unset=frozenset())


@dataclass(frozen=True, slots=True)
class Known:
    """The part of the lake's state that a batch can look up.

    Attributes:
        rows: by key.
        gone: source events of the remembered deletes.
        truncated: position of the newest truncate.
    """

    rows: Mapping[Key, Held]
    gone: frozenset[Position]
    truncated: Position


def event_of(position: Position) -> Position:
    """Returns what both halves of a changed key share, wherever their partitions lift them to."""
    return position[1:-1]


def settled(placed: Sequence[Placed], known: Known, *, look_back: bool) -> Sequence[Placed]:
    """Resolves each create in doubt, by completing it or as data; one that is neither stays.

    Args:
        placed: the changes that count.
        known: state of the lake.
        look_back: whether deletes of earlier batches are looked up; otherwise a create whose other
            half was merged before would be stored as data.

    """
    if not any(is_in_doubt(change) for _, change in placed):
        return placed
    mates = old_keys(change for _, change in placed)
    now = [_alone(each, known, mates, look_back=look_back) for each in placed]
    for _ in range(len(now)):  # a chain of changed keys is settled link by link
        later = [_from_old_key(each, now, known, mates) for each in now]
        if later == now:
            break
        now = later
    return now


def _alone(
    placed: Placed, known: Known, mates: Mapping[Position, Key], *, look_back: bool
) -> Placed:
    """Resolves a create without its other half, as a redelivery or as data."""
    position, change = placed
    if not is_in_doubt(change) or change.key is None:
        return placed
    held = known.rows.get(change.key)
    if held and not held.deleted and event_of(held.position) == event_of(position):
        return position, whole(change, held.values)
    if source_position(change) in mates or (look_back and _is_gone(position, known)):
        return placed
    return position, replace(change, unset=frozenset())


def _is_gone(position: Position, known: Known) -> bool:
    """Returns whether the other half was merged by an earlier batch."""
    event = event_of(position)
    marked = (held for held in known.rows.values() if held.deleted)
    return event in known.gone or any(event_of(held.position) == event for held in marked)


def _from_old_key(
    placed: Placed, batch: Sequence[Placed], known: Known, mates: Mapping[Position, Key]
) -> Placed:
    position, change = placed
    old = mates.get(source_position(change)) if is_in_doubt(change) else None
    if old is None:
        return placed
    # A redelivery into an added partition may have a position that no low watermark lifts.
    halves = sorted({
        at[:-1]
        for at, other in batch
        if other.op == "d" and source_position(other) == source_position(change)
    })  # fmt: skip
    for deleted_at in halves:
        values = _values_before(old, deleted_at, batch, known)
        if change.unset <= values.keys():
            return position, whole(change, values)
    return placed


def _values_before(key: Key, at: Position, batch: Sequence[Placed], known: Known) -> Row:
    """Returns the row of a key at a position; {} if there was none."""
    earlier = sorted(
        (each for each in batch if each[0] < at and each[1].key in {key, None}),
        key=lambda each: each[0],
    )
    ends = [position for position, change in earlier if change.op in "dt"]
    since = max([*ends, known.truncated if known.truncated < at else BEFORE_ALL])
    held = known.rows.get(key)
    values: dict[str, object] = {}
    if held and not held.deleted and since < held.position < at:
        values, since = dict(held.values), held.position
    for position, change in earlier:
        if position > since and change.row is not None:
            values |= {n: value for n, value in change.row.items() if n not in change.unset}
    return values
