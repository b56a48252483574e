"""Applies a batch to a table with a key: chooses the way and determines its writes.

The folding rules are those of `reference.Merger`, with only what a batch may look up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cdc_assets_tests.model.change import (
    Change,
    Coordinate,
    Key,
    Placed,
    Position,
    Shape,
    by_position,
)
from cdc_assets_tests.model.moves import event_of
from cdc_assets_tests.model.protocol.merged import (
    Found,
    Merged,
    Rows,
    Way,
    Write,
    coordinates,
    higher,
    highest,
    newest,
)
from cdc_assets_tests.model.protocol.published import Entry
from cdc_assets_tests.model.reference import Merger, Rules


@dataclass(frozen=True, slots=True)
class Keyed:
    """The rules of one table with a key."""

    shape: Shape
    soft: bool
    whole_moves: bool = True

    def merge(self, found: Found, batch: Sequence[Change]) -> Merged:
        """Applies a batch to the state that was found."""
        before = found.before
        low_watermarks = before.low_watermarks.raised(batch)
        placed = [(by_position(change, low_watermarks), change) for change in batch]
        way = self._choose(found, placed)
        look_up = way is Way.CONDITIONAL_UPSERT
        deletes = _positions(found) if look_up else {}
        merger = Merger(
            shape=self.shape,
            soft=self.soft,
            rules=Rules(whole_moves=self.whole_moves),
            low_watermarks=before.low_watermarks,
            rows=found.rows,
            deletes=deletes,
            gone=frozenset(event_of(entry.position) for entry in found.entries),
            truncated=before.truncated,
        )
        after = merger.apply(batch, look_up=look_up)
        kept = self._kept(found.rows, after.truncated)
        touched = {
            k for k in kept.keys() | after.rows.keys() if kept.get(k) is not after.rows.get(k)
        }
        where = {position: change.coordinate for position, change in placed}
        entries = _entries(after.deletes, deletes, where)
        truncates = after.truncated > before.truncated
        return Merged(
            way=way,
            writes=self._writes(way, after, touched, truncates=truncates and found.exists),
            entries=entries,
            applied=higher(before.applied, newest(placed)),
            highest_delete=highest([before.highest_delete, *(entry.position for entry in entries)]),
            truncated=after.truncated,
            low_watermarks=low_watermarks,
            settled=coordinates(change for at, change in placed if at > _bound(merger, change)),
            incomplete=after.incomplete,
            is_nothing=not (touched or entries or truncates),
        )

    def _choose(self, found: Found, placed: Sequence[Placed]) -> Way:
        """Chooses the way by proof that everything is newer than whatever was applied."""
        before = found.before
        if any(change.op == "t" and at > before.truncated for at, change in placed):
            return Way.CONDITIONAL_UPSERT if found.exists else Way.APPEND
        if not found.rows and not before.highest_delete:
            return Way.APPEND
        applied = before.applied
        if found.partitions != before.partitions:
            applied = dict.fromkeys(range(found.partitions), highest(applied.values()))
        newer = all(at > applied.get(change.partition, ()) for at, change in newest(placed))
        return Way.UPSERT if newer else Way.CONDITIONAL_UPSERT

    def _kept(self, rows: Rows, truncated: Position) -> Rows:
        """Returns the rows that a truncate leaves; soft deletes keep them, marked by position."""
        if self.soft:
            return rows
        return {key: held for key, held in rows.items() if held.position > truncated}

    def _writes(
        self, way: Way, after: Merger, touched: set[Key], *, truncates: bool
    ) -> tuple[Write, ...]:
        rows = {key: after.rows[key] for key in touched if key in after.rows}

        def truncate(there: Rows) -> Rows:
            return self._kept(there, after.truncated)

        def write(there: Rows) -> Rows:
            if way is not Way.APPEND:
                there = {key: held for key, held in there.items() if key not in touched}
            twice = {("there twice", *key): there[key] for key in there.keys() & rows.keys()}
            return {**there, **rows, **twice}

        writes = [Write("write rows", "overwrite", write)]
        if truncates:
            writes.insert(0, Write("truncate", "delete", truncate))
        return tuple(writes)


def _positions(found: Found) -> dict[Key, Position]:
    deletes: dict[Key, Position] = {}
    for entry in found.entries:
        deletes[entry.key] = max(entry.position, deletes.get(entry.key, ()))
    return deletes


def _entries(
    after: Mapping[Key, Position],
    before: Mapping[Key, Position],
    where: Mapping[Position, Coordinate],
) -> frozenset[Entry]:
    return frozenset(
        Entry(key, position, where[position], attempt=0)
        for key, position in after.items()
        if before.get(key) != position
    )


def _bound(merger: Merger, change: Change) -> Position:
    return merger.truncated if change.key is None else merger.position_of(change.key)
