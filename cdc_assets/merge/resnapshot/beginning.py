"""Chooses the offsets at which a table that is read beside the old one begins.

Usually where the old one stands: everything that it has merged is in what will be read, and the
highest position that it has applied is the one that the rows are put at. Where its place in the log
means nothing any more (the log lost what comes next, the topic is another one, positions are made
otherwise, or the old table lost its offsets), any place of the log does that is not behind its
present end: what lies before it is in what will be read, and what follows is merged over rows that
stand below every change.
"""

from __future__ import annotations

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.position import encode
from cdc_assets.formats.layout import Layout
from cdc_assets.lake import Published, TableState
from cdc_assets.lake.beside import Beside
from cdc_assets.lake.carried import Carried, SideMark
from cdc_assets.log.values import TopicIdentity, Watermarks
from cdc_assets.merge.intake.layouts import layout_of


def beginning(
    old: TableState,
    layout: Layout,
    identity: TopicIdentity,
    marks: Watermarks,
    otherwise: OffsetVector,
) -> tuple[OffsetVector, Carried]:
    """Returns the offsets that the table begins at, and what it carries on.

    Args:
        old: the table whose place it is to take, looked at before anything is read.
        layout: of the new table.
        identity: of the topic.
        marks: its bounds.
        otherwise: where to begin if the old table's place means nothing: not behind the end.
    """
    partitions, side = len(marks.end.offsets), SideMark()
    published = old.published
    position = _highest(published) if published else ""
    is_alike = layout_of(old.properties).scheme is layout.scheme
    if published and position and is_alike and _goes_on(published, identity, marks):
        carried = Carried(
            applied=dict.fromkeys(marks.end.as_dict(), position),
            partitions=published.carried.partitions,
            partitions_seen=published.carried.partitions_seen,
            snapshot_starts=published.carried.snapshot_starts,
            max_truncate=published.carried.max_truncate,
            numbering=published.carried.numbering,
            side=side,
            read_at=position,
            read_from=published.offsets,
            own_from=_own_beginning(published, identity),
            beside=Beside(),
        )
        return published.offsets, carried
    lowest = encode((0,) * layout.scheme.numbers).hex().upper()
    carried = Carried(
        partitions=partitions,
        partitions_seen=partitions,
        # As with any first publish: a partition without an entry was added later.
        snapshot_starts=dict.fromkeys(range(partitions), ()),
        side=side,
        read_at=lowest,
        read_from=otherwise,
        own_from=_own_beginning(published, identity) if published else None,
        # What one partition has before it may be newer than a truncate that another one has behind.
        beside=Beside(doubts=int(partitions > 1)),
    )
    return otherwise, carried


def _own_beginning(published: Published, identity: TopicIdentity) -> OffsetVector | None:
    """Returns where the old table begins in the topic; None if all of it is its own."""
    is_same = (published.cluster_id, published.topic_id) == (identity.cluster_id, identity.topic_id)
    return published.carried.own_beginning if is_same else None


def _highest(published: Published) -> str:
    said = published.carried
    return max([*said.applied.values(), said.max_tombstone, said.max_truncate, said.read_at])


def _goes_on(published: Published, identity: TopicIdentity, marks: Watermarks) -> bool:
    """Returns whether the log still holds everything from the offsets of a publish on."""
    if (published.cluster_id, published.topic_id) != (identity.cluster_id, identity.topic_id):
        return False
    begin, end = marks.begin.as_dict(), marks.end.as_dict()
    offsets = published.offsets
    return all(at <= offsets.get(p) for p, at in begin.items()) and all(
        at <= end.get(p, 0) for p, at in offsets
    )
