"""Chooses where in the log a shadow table begins that is read from its source."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.position import encode
from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.formats.layout import Layout
from cdc_assets.lake import Published, TableState
from cdc_assets.lake.carried import Carried, SideMark
from cdc_assets.lake.shadow_progress import ShadowProgress
from cdc_assets.log.values import TopicIdentity, Watermarks
from cdc_assets.merge.intake.describe import FirstSchema
from cdc_assets.merge.intake.planning import Planner
from cdc_assets.operations.session import TableSession
from cdc_assets.registry import TableEntry

_RECENT: Final = timedelta(hours=1)
"""The age of a shadow table's beginning where nothing else tells: a connector may send its last
changes again, and the log must still hold the changes after the beginning once all rows are
read."""


def first_publish(
    planner: Planner, entry: TableEntry, old: TableState, first: FirstSchema, session: TableSession
) -> Published:
    """Returns the record of the first publish of a table that is read from its source.

    Args:
        planner: knows the topic.
        entry: the table that is read.
        old: the lake table, looked at before anything is read.
        first: the columns and the layout of the table that is read.
        session: the means.
    """
    identity, marks = planner.identity(entry), planner.marks(entry)
    recent = planner.offsets_at(entry, session.clock() - _RECENT)
    own = _entry_beginning(entry, identity)
    otherwise = marks.begin.merged_max(recent).merged_max(own)
    offsets, carried = beginning_of(old, first.layout, identity, marks, otherwise)
    existing = (each.existing for each in first.schema.columns)
    set_aside = old.published.counts.get("quarantined", 0) if old.published else 0
    return Published(
        offsets=offsets,
        start=offsets,
        topic=entry.topic,
        topic_id=identity.topic_id,
        cluster_id=identity.cluster_id,
        attempt=str(uuid.uuid4()),
        run=session.host.run_id,
        kind=PublishKind.READ,
        published_at=session.clock(),
        carried=replace(carried, filled=tuple(each.id for each in existing if each)),
        counts={"records": 0, "quarantined": set_aside},
        shard=entry.shard_value,
    )


def _entry_beginning(entry: TableEntry, identity: TopicIdentity) -> OffsetVector:
    """Returns where the table's own records begin, behind those of a table of its name."""
    dropped, begins = entry.dropped, entry.begins
    end = dropped.end_in(identity.topic_id) if dropped and dropped.topic_id else None
    own = begins.at_in(identity.topic_id) if begins else OffsetVector()
    return own.merged_max(end or OffsetVector())


def beginning_of(
    old: TableState,
    layout: Layout,
    identity: TopicIdentity,
    marks: Watermarks,
    otherwise: OffsetVector,
) -> tuple[OffsetVector, Carried]:
    """Returns the offsets at which a shadow table begins that is read, and its carried state.

    Usually these are the lake table's offsets: all that it has merged is in the rows that will be
    read, and the highest position that it has applied is the position of these rows. Its offsets
    may have no meaning any more: the log lost the next ones, the topic is another one, positions
    are made otherwise, or the lake table lost its offsets. Then any offsets up to the log's present
    end serve: all changes before them are in the rows that will be read, and later ones are merged
    over rows that stand below every change.

    Args:
        old: the lake table, looked at before anything is read.
        layout: the layout of the shadow table.
        identity: the topic.
        marks: the topic's bounds.
        otherwise: the offsets if the lake table's have no meaning: not behind the end.
    """
    partitions, side = len(marks.end.offsets), SideMark()
    published = old.published
    position = _highest(published) if published else ""
    is_alike = bool(published) and Layout.of(old.properties).scheme is layout.scheme
    if published and position and is_alike and _is_held(published, identity, marks):
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
            shadow=ShadowProgress(),
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
        shadow=ShadowProgress(doubts=int(partitions > 1 and any(at for _, at in otherwise))),
    )
    return otherwise, carried


def _own_beginning(published: Published, identity: TopicIdentity) -> OffsetVector | None:
    """Returns the lake table's beginning in the topic; None if it has all of the topic."""
    is_same = (published.cluster_id, published.topic_id) == (identity.cluster_id, identity.topic_id)
    return published.carried.own_beginning if is_same else None


def _highest(published: Published) -> str:
    said = published.carried
    return max([*said.applied.values(), said.max_tombstone, said.max_truncate, said.read_at])


def _is_held(published: Published, identity: TopicIdentity, marks: Watermarks) -> bool:
    """Returns whether the log still holds everything from the offsets of a publish on."""
    if (published.cluster_id, published.topic_id) != (identity.cluster_id, identity.topic_id):
        return False
    begin, end = marks.begin.as_dict(), marks.end.as_dict()
    offsets = published.offsets
    return all(at <= offsets.get(p) for p, at in begin.items()) and all(
        at <= end.get(p, 0) for p, at in offsets
    )
