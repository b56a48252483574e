"""Checks that a table's publishes follow one another without gaps in their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.publish_kind import PublishKind

if TYPE_CHECKING:
    from cdc_assets.changes.names import LakeName
    from cdc_assets.lake import Lake, Published, TableState
    from cdc_assets.log.values import Watermarks
    from cdc_assets.registry import TableEntry

PUBLISHES_CHECKED: Final = 100
"""The number of newest publishes that the check reads; older ones were checked when new."""


MOST_KNOWN: Final = 4_096
"""The most tables whose publishes are not read again; each takes a line or two."""


@dataclass(frozen=True, slots=True)
class Contiguity:
    """The result of comparing a table's newest publishes with each other.

    Attributes:
        publishes: their number.
        gaps: where one does not begin where the one before it ended, in words.
    """

    publishes: int = 0
    gaps: tuple[str, ...] = ()


class Contiguities:
    """Compares tables' publishes. Of a head that it has looked at before nothing is read again.

    That is enough, as the parents of a snapshot never change. Threads may share it.
    """

    def __init__(self, lake: Lake) -> None:
        from cdc_assets.lake.pointers import Recent

        self._lake = lake
        self._known = Recent[Contiguity](MOST_KNOWN)

    def of(self, entry: TableEntry, state: TableState | None) -> Contiguity:
        """Compares the publishes of a table in this state; None if the table does not exist.

        Raises:
            UnreachableError: if the catalog or the table's metadata cannot be read.
        """
        known = self.known(entry, state)
        if known is not None or state is None:
            return known or Contiguity()
        target, shard, head = _key(entry, state)
        history = self._lake.history(target, PUBLISHES_CHECKED, shard, head)
        found = Contiguity(len(history), tuple(gaps(history)))
        return self._known.keep((target, shard, head), found)

    def known(self, entry: TableEntry, state: TableState | None) -> Contiguity | None:
        """Returns what `of` does if nothing has to be read for it, else None."""
        if state is None or state.snapshot_id is None:
            return Contiguity()
        return self._known.of(_key(entry, state))


def _key(entry: TableEntry, state: TableState) -> tuple[LakeName, str, int | None]:
    return entry.target, entry.shard_value, state.snapshot_id


def gaps(newest_first: Sequence[Published]) -> list[str]:
    """Describes each gap between a table's publishes in words with coordinates.

    The offsets of a rebuild are those of the new table, and may belong to another topic.
    """
    return [
        _between(before, after, partition)
        for after, before in pairwise(newest_first)
        if after.kind != PublishKind.REBUILD
        for partition in _partitions(before.offsets, after.start)
        if before.offsets.get(partition) != after.start.get(partition)
    ]


def _partitions(one: OffsetVector, other: OffsetVector) -> list[int]:
    return sorted(one.as_dict().keys() | other.as_dict().keys())


def _between(before: Published, after: Published, partition: int) -> str:
    return (
        f"partition {partition}: attempt {after.attempt} starts at {after.start.get(partition)}, "
        f"but attempt {before.attempt} before it ended at {before.offsets.get(partition)}"
    )


def outside(committed: OffsetVector, marks: Watermarks | None) -> list[str]:
    """Describes which committed offsets are not within the log.

    Args:
        committed: a table's offsets.
        marks: the log's bounds; None if the topic does not exist.
    """
    if marks is None:
        return ["the topic does not exist any more"]
    begin = marks.begin.as_dict()
    lost = [
        f"partition {p}: offsets [{offset},{begin[p]}) left the log before they were merged"
        for p, offset in committed
        if offset < begin.get(p, 0)
    ]
    ahead = [
        f"partition {p}: committed {offset} is beyond the log's end {marks.end.get(p)}"
        for p, offset in committed
        if offset > marks.end.get(p)
    ]
    return lost + ahead
