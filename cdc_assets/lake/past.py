"""Reads a lake table's past: our kept publishes, in ``main``'s ancestry and under rewinds' tags."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot

from cdc_assets.lake.properties import Published
from cdc_assets.lake.state import ancestry, published_by

KEPT: Final = "before_rewind_"
"""Start of the names of tags on snapshots that a rewind has replaced; a number follows."""

_NUMBERED: Final = re.compile(f"{KEPT}([0-9]+)")


@dataclass(frozen=True, slots=True)
class KeptPublish:
    """A publish whose snapshot is kept.

    Attributes:
        snapshot: its id.
        at: when the snapshot was written, aware.
        published: its recorded state, of whichever shard it is.
    """

    snapshot: int
    at: datetime
    published: Published


@dataclass(frozen=True, slots=True)
class Past:
    """One look at a table's past.

    Attributes:
        table: as it was looked at; a rewind is based on that.
        snapshots: all that are kept, by id.
        head: of ``main``.
        line: publishes in the ancestry of ``main``, newest first.
        rewound: for each tag left by a rewind, newest tag first, the publishes that ``main``
            does not have, newest first.
        tags: the snapshots of these tags by name, newest tag first.
    """

    table: Table
    snapshots: Mapping[int, Snapshot]
    head: int
    line: tuple[KeptPublish, ...]
    rewound: Mapping[str, tuple[KeptPublish, ...]]
    tags: Mapping[str, int]

    @property
    def next_tag(self) -> str:
        """The name of the next such tag."""
        numbers = (int(found[1]) for each in self.tags if (found := _NUMBERED.fullmatch(each)))
        return f"{KEPT}{max(numbers, default=0) + 1}"

    def publish_at(self, snapshot: int) -> KeptPublish | None:
        """Returns the publish with a snapshot's rows: the snapshot itself, or the one it compacted.

        None for the steps of a batch, for another writer's snapshots, and for expired ones.
        """
        found = self.snapshots.get(snapshot)
        while found is not None:
            published = published_by(found)
            if published is not None:
                return _kept(found, published)
            if not _is_compaction(found):
                return None
            found = self.snapshots.get(found.parent_snapshot_id or 0)
        return None

    def newest_publish(self, snapshot: int) -> KeptPublish | None:
        """Returns the newest publish in a snapshot's ancestry, despite other writers' snapshots."""
        return next(_publishes(self.table, snapshot), None)

    def since(self, snapshot: int) -> tuple[KeptPublish, ...]:
        """Returns the publishes of ``main`` that are not in a snapshot's ancestry."""
        there = {each.snapshot_id for each in ancestry(self.table, snapshot)}
        return tuple(each for each in self.line if each.snapshot not in there)

    def is_at(self, snapshot: int) -> bool:
        """Whether ``main`` has the rows of a snapshot, without later writes."""
        return any(each == snapshot for each in _same_rows(self.table, self.head))

    def was_rewound(self, tag: str, head: int, to: int) -> bool:
        """Whether ``main`` moved from one snapshot to another, leaving this tag."""
        moves = pairwise(each.snapshot_id for each in self.table.metadata.snapshot_log)
        line = (each.snapshot_id for each in ancestry(self.table, self.head))
        return self.tags.get(tag) == head and (head, to) in moves and to in line

    def columns_since(self, snapshot: int) -> tuple[str, ...]:
        """Returns names of columns that were added to the table after a snapshot was written."""
        found = self.snapshots.get(snapshot)
        schema = self.table.schemas().get(found.schema_id or 0) if found else None
        then = {each.field_id for each in (schema or self.table.schema()).fields}
        return tuple(each.name for each in self.table.schema().fields if each.field_id not in then)


def read_past(table: Table) -> Past | None:
    """Returns the past of a loaded table; None if it has no snapshot."""
    head = table.current_snapshot()
    if head is None:
        return None
    snapshots = {each.snapshot_id: each for each in table.metadata.snapshots}
    tags = _tags(table)
    line = tuple(_publishes(table, head.snapshot_id))
    there = {each.snapshot for each in line}
    rewound = {
        name: tuple(each for each in _publishes(table, at) if each.snapshot not in there)
        for name, at in tags.items()
    }
    return Past(table, snapshots, head.snapshot_id, line, rewound, tags)


def _tags(table: Table) -> dict[str, int]:
    """Returns the tags that rewinds have left, newest first."""
    refs = table.metadata.refs.items()
    tags = {
        name: ref.snapshot_id
        for name, ref in refs
        if ref.snapshot_ref_type is SnapshotRefType.TAG and _NUMBERED.fullmatch(name)
    }
    newest = sorted(tags, key=lambda name: int(name.removeprefix(KEPT)), reverse=True)
    return {name: tags[name] for name in newest}


def _publishes(table: Table, snapshot: int) -> Iterator[KeptPublish]:
    """Yields our kept publishes in a snapshot's ancestry, newest first."""
    for each in ancestry(table, snapshot):
        published = published_by(each)
        if published is not None:
            yield _kept(each, published)


def _same_rows(table: Table, snapshot: int) -> Iterator[int]:
    """Yields a snapshot and the snapshots it compacted."""
    for each in ancestry(table, snapshot):
        yield each.snapshot_id
        if not _is_compaction(each):
            return


def _is_compaction(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE


def _kept(snapshot: Snapshot, published: Published) -> KeptPublish:
    at = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
    return KeptPublish(snapshot.snapshot_id, at, published)
