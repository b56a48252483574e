"""Applies a batch to a table without a key: events that count, and the rows added or removed.

The counting rules are those of `keyless.KeylessMerger`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cdc_assets_tests.model.change import Change
from cdc_assets_tests.model.keyless import Frozen, KeylessMerger
from cdc_assets_tests.model.protocol.merged import (
    Found,
    Merged,
    Rows,
    Way,
    Write,
    coordinates,
    higher,
    highest,
)
from cdc_assets_tests.model.protocol.published import Entry


@dataclass(frozen=True, slots=True)
class Keyless:
    """The rules of one table without a key."""

    repeats_by_event: bool = True

    def merge(self, found: Found, batch: Sequence[Change]) -> Merged:
        """Applies a batch to the state that was found.

        Raises:
            MissingRow: if a row to remove does not exist.
        """
        before = found.before
        counted = frozenset[tuple[int, ...]]()
        if self._may_repeat(found, batch):
            counted = frozenset(entry.position for entry in found.entries)
        start = KeylessMerger(Counter(dict(found.rows)), counted, before.truncated)
        after = start.apply(batch)
        fresh = [change for change in batch if change.identity not in counted]
        entries = {
            change.identity: Entry((), change.identity, change.coordinate, attempt=0)
            for change in fresh
            if change.identity is not None
        }
        truncates = after.since > before.truncated
        placed = [(change.position, change) for change in batch]
        return Merged(
            way=Way.COUNT,
            writes=_writes(found.rows, after, truncates=truncates and found.exists),
            entries=frozenset(entries.values()),
            applied=higher(before.applied, placed),
            highest_delete=(),
            truncated=after.since,
            low_watermarks=before.low_watermarks,
            settled=coordinates(batch),
            incomplete=(),
            is_nothing=not batch,
        )

    def _may_repeat(self, found: Found, batch: Sequence[Change]) -> bool:
        """Returns whether an event may be a counted one: not if all are newer than the newest."""
        end = -1 if self.repeats_by_event else None
        newest = highest(each[:end] for each in found.before.applied.values())
        return any(change.position[:end] <= newest for change in batch)


def _writes(rows: Rows, after: KeylessMerger, *, truncates: bool) -> tuple[Write, ...]:
    base = Counter[Frozen]() if truncates else Counter[Frozen](dict(rows))
    more = Counter(dict(after.rows))
    more.subtract(base)
    surplus, missing = +more, -more

    def truncate(_: Rows) -> Rows:
        return {}

    def write(there: Rows) -> Rows:
        return Counter(dict(there)) - missing + surplus

    writes = [Write("write rows", "overwrite", write)]
    if truncates:
        writes.insert(0, Write("truncate", "delete", truncate))
    return tuple(writes)
