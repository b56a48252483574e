"""Finds where a table's next batch starts, and checks that its offsets are valid in its topic.

A batch starts at the committed offsets of the newest publish. A table without one starts where it
was made to begin, or behind another table of its name that was dropped, or where it began before
people had it removed, or else where the log begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.errors import ConflictError, LogReplacedError, TerminalError, TransientError
from cdc_assets.lake import Published, TableState
from cdc_assets.lake.at_source import AtSource
from cdc_assets.lake.properties import ADOPTED
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.left_behind import late_under_old_name
from cdc_assets.log.values import TopicIdentity, Watermarks
from cdc_assets.merge.intake.planning.configured import Configured
from cdc_assets.merge.intake.planning.continuity import (
    require_kept,
    require_same_log,
    require_whole,
)
from cdc_assets.merge.intake.planning.topics import BEGIN_TOPIC, TopicNow, begin_of
from cdc_assets.merge.plan.stable_partitions import require_unmoved
from cdc_assets.registry import TableEntry

_SKEW: Final = timedelta(hours=1)
"""Most by which the clocks of producers may differ from this process's."""


@dataclass(frozen=True, slots=True)
class Starts:
    """The starts of tables' next batches.

    Attributes:
        configured: the tables.
        log: Kafka.
    """

    configured: Configured
    log: KafkaLog

    def of(self, entry: TableEntry, state: TableState | None, now: TopicNow) -> OffsetVector:
        """Returns the first offset to read of each partition, inclusive.

        Args:
            entry: the table.
            state: of the lake's table; None if it is yet to be made.
            now: its topic.

        Raises:
            LostRangeError, LogReplacedError: if the log does not continue from the offsets.
            TransientError: if the table has another topic by now.
            MovedKeysError: if partitions were added, and only offsets order changes.
            TerminalError: if the table has no offsets, or records came under its former name, or
                the end of a dropped table of the same name is unknown.
        """
        if (late := late_under_old_name(entry, self.log)) is not None:
            raise late
        _require_offsets(entry, state)
        if state and state.published:
            start = state.published.offsets
            self.require_same_log(entry, state, state.published, now.identity)
            self._require_unmoved(entry, state, state.published, now.marks)
        else:
            start = self._of_new(entry, state, now)
        require_kept(entry, start, now.marks, self.configured.rebuild_command(entry))
        return start

    def require_same_log(
        self,
        entry: TableEntry,
        state: TableState | None,
        published: Published,
        identity: TopicIdentity,
    ) -> None:
        """Fails if the topic was recreated since the offsets were committed.

        Args:
            entry: the table.
            state: of the lake's table.
            published: its newest publish.
            identity: of the topic as it is.

        Raises:
            TransientError: if the table was renamed since its entry was read.
            LogReplacedError: for other reasons; see `require_same_log`.
        """
        if published.topic != entry.topic:
            renamed = AtSource.of(state, entry.shard_value).renamed_to(published.topic)
            if renamed is not None:
                what = f"another step or run has continued it as {renamed.schema}.{renamed.name}"
                where = f"table={entry.table} topic={entry.topic}"
                raise TransientError(what, where=where, remedy="the next try reads that topic")
        require_same_log(entry, published, identity, self.configured.rebuild_command(entry))

    def _require_unmoved(
        self, entry: TableEntry, state: TableState | None, published: Published, marks: Watermarks
    ) -> None:
        """Fails if keys have moved between partitions, and nothing but offsets orders changes."""
        if published.carried.partitions != len(marks.end.offsets):
            scheme = self.configured.tables(entry).plan(state).first.layout.scheme
            require_unmoved(entry, scheme, published, marks)

    def _of_new(self, entry: TableEntry, state: TableState | None, now: TopicNow) -> OffsetVector:
        """Returns the start of a table that has no publish."""
        if state:
            _require_begun_here(entry, state, now.identity)
        begin = begin_of(state)
        if begin is not None:
            return begin
        own = self._behind_another(entry, now)
        if entry.begins is not None:
            own = own.merged_max(entry.begins.at_in(now.identity.topic_id))
        if self.configured.source(entry).lost_start == "fail":
            require_whole(entry, now.marks, own)
        return now.marks.begin.merged_max(own)

    def _behind_another(self, entry: TableEntry, now: TopicNow) -> OffsetVector:
        """Returns the end of a dropped table's changes under this name; empty without any.

        An earlier version noted the end without its topic. Then all changes of the dropped table
        are older than the note, and all records of a recreated topic are newer.
        """
        dropped = entry.dropped
        if dropped is None or dropped.end is None:
            return OffsetVector()
        if dropped.topic_id:
            return dropped.end_in(now.identity.topic_id) or OffsetVector()
        times = (dropped.at, dropped.at + _SKEW)
        first = self.log.offsets_at([entry.topic], times)
        since, later = (first[entry.topic, each] for each in times)
        if all(since.get(p) >= at for p, at in dropped.end):
            return dropped.end
        if all(later.get(p) <= now.marks.begin.get(p) for p, _ in dropped.end):
            return OffsetVector()
        what = (
            f"a dropped table of this name ended at offsets {dropped.end}, and it is unknown "
            "whether in this topic, or before the topic was recreated"
        )
        where = f"table={entry.table} topic={entry.topic}"
        remedy = (
            "in the registry's file, give the table's `dropped` the `topic_id` of the topic as it "
            "is, or take its `end` out if the topic was recreated since"
        )
        raise TerminalError(what, where=where, remedy=remedy, page="dropped-end-unknown")


def _require_offsets(entry: TableEntry, state: TableState | None) -> None:
    """Fails if a table with snapshots has no offsets: neither its own nor other shards'.

    It lost them, or somebody else made it.
    """
    if state is None or state.published or state.others:
        return
    where = f"table={entry.table} lake={entry.target}"
    if found := state.properties.get(ADOPTED):
        what = f"the table is being adopted, and the adoption was not completed: it was {found}"
        remedy = f"cdc-assets adopt {entry.table} --existing {found}"
        raise TerminalError(what, where=where, remedy=remedy)
    if state.snapshot_id is None:
        return
    if state.is_lost:
        what = (
            "the lake table lost its offsets: neither its snapshots nor earlier metadata files "
            "have one of our publishes"
        )
        remedy = f"rebuild it, while readers keep its rows: cdc-assets rebuild {entry.table}"
        raise TerminalError(what, where=where, remedy=remedy, page="lost-offsets")
    what = "the lake table exists but was not made by cdc_assets, or for other source tables"
    remedy = (
        f"take it over (cdc-assets adopt {entry.table} --existing {entry.target}), drop it, or "
        "give this table another target in the configuration"
    )
    raise TerminalError(what, where=where, remedy=remedy, page="foreign-table")


def _require_begun_here(entry: TableEntry, state: TableState, identity: TopicIdentity) -> None:
    """Fails if a table without a publish was begun for another topic than its present one."""
    if state.properties.get(BEGIN_TOPIC, identity.topic_id) != identity.topic_id:
        what = "the topic is not the one in which the rebuild of this table was to begin"
        again = f"cdc-assets rebuild {entry.table} --abandon"
        where = f"table={entry.table} topic={entry.topic} lake={entry.target}"
        raise LogReplacedError(what, where=where, remedy=f"begin again, after: {again}")


def require_first_rows(entry: TableEntry, state: TableState | None) -> None:
    """Fails if a table lacks the first rows, which are read from its source: its log lacks them.

    Raises:
        TransientError: if they are yet to be read.
        TerminalError: if the table was replaced by an empty one.
    """
    where = f"table={entry.table} lake={entry.target}"
    if state is None:
        what = "its rows are yet to be read from its source (initial: read)"
        raise TransientError(what, where=where, remedy="have them read: cdc-assets replicate")
    if state.snapshot_id is None:
        what = (
            "the lake table is empty and has no offsets: another program has made or replaced it, "
            "and its first rows are read from its source (initial: read)"
        )
        remedy = f"have it read again: cdc-assets reset --table {entry.table}"
        raise TerminalError(what, where=where, remedy=remedy, page="lost-offsets")


def require_read(entry: TableEntry, state: TableState | None) -> None:
    """Fails as long as another process still reads the table's rows from its source.

    That process appends each wave of keys without a look at the table's rows: a row that a batch
    had written before would be in the table twice.

    Raises:
        ConflictError: if it has not; see `cdc_assets.operations.rebuild.shadow_rows`.
    """
    shadow = state.published.carried.shadow if state and state.published else None
    if shadow is not None and shadow.until is None:
        what = "another process is reading the table's rows from the source"
        remedy = "run the same command again once it has"
        where = f"table={entry.table} lake={entry.target}"
        if state and (found := state.properties.get(ADOPTED)):
            what = "the table is being adopted, and its rows are yet to be compared with the source"
            remedy = f"let the command end: cdc-assets adopt {entry.table} --existing {found}"
        raise ConflictError(what, where=where, remedy=remedy)
