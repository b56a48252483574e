"""Plans batches of tables: of new records in the log, and of replays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from cdc_assets.changes.offsets import OffsetRange, OffsetVector, total_length
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import ConflictError
from cdc_assets.formats.format import Format
from cdc_assets.lake import Published, TableState
from cdc_assets.lake.carried import LastRecords
from cdc_assets.log.hours import HourWindow
from cdc_assets.log.values import TopicIdentity, Watermarks
from cdc_assets.merge.intake.connections import Connections
from cdc_assets.merge.intake.layouts import LakeTables
from cdc_assets.merge.intake.planning.configured import Configured
from cdc_assets.merge.intake.planning.continuity import last_records, require_unchanged
from cdc_assets.merge.intake.planning.cuts import Cut, Cuts, Extent
from cdc_assets.merge.intake.planning.pending import Offsets, Pending
from cdc_assets.merge.intake.planning.plans import Plans, Replays
from cdc_assets.merge.intake.planning.starts import Starts, require_first_rows, require_read
from cdc_assets.merge.intake.planning.topics import Topics, continued
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.plan.result import Waiting
from cdc_assets.registry import TableEntry


class Planner:
    """The planner of batches for the tables of one configuration.

    Args:
        config: of the replication.
        connections: read for plans.
        clock: wall clock.
        require_existing: raises if a table, as a batch is planned for it, is not the one to merge
            into; None to plan batches that make their table.
    """

    def __init__(
        self,
        config: ReplicationConfig,
        connections: Connections,
        clock: Callable[[], datetime],
        require_existing: Callable[[TableState], None] | None = None,
    ) -> None:
        self._boundaries = connections.boundaries
        self._witnesses = connections.witnesses
        self._lake = lake = connections.lake
        self._log = log = connections.log
        self._configured = Configured(config, lake, log)
        self._topics = Topics(log, self._configured.reads_first)
        self._starts = Starts(self._configured, log)
        self._cuts = Cuts(self._configured, log, clock)
        self._plans = Plans(self._configured)
        self._replays = Replays(self._configured, lake, self._topics)
        self._left: TableState | None = None
        self._require_existing = require_existing

    # ── what is new in the log ───────────────────────────────────────────────────────────

    def goes_on_from(self, left: TableState | None) -> None:
        """Passes the next `tail` the state after the latest publish, so that it need not be read.

        If another writer has published since, the batch conflicts with it before it writes, and
        is then planned from the state read.
        """
        self._left = left

    def tail(
        self,
        entry: TableEntry,
        extent: Extent,
        run_id: str,
    ) -> Pending | Waiting | None:
        """Plans the next batch from the committed offsets on; None if there is nothing to merge.

        Args:
            entry: the table.
            extent: the largest that the batch may have.
            run_id: recorded.

        Raises:
            LostRangeError, LogReplacedError: if the log does not continue from the offsets.
            TransientError: if the table has another topic by now, or its first rows are to be read.
            TerminalError: if the rows that were read first are gone.
            MovedKeysError: if partitions were added, and only offsets order changes.
            ConflictError: if the table is missing and must not be created, or its rows are still
                being read from its source.
        """
        left, self._left = self._left, None
        state = left or self._lake.state(entry.target, entry.shard_value)
        if self._require_existing is not None:
            if state is None:
                what = "another process has dropped the table that is being filled"
                where = f"table={entry.table} lake={entry.target}"
                raise ConflictError(what, where=where, remedy="run the same command again")
            self._require_existing(state)
        elif self._configured.reads_first(entry):
            require_first_rows(entry, state)
        require_read(entry, state)
        # Taken before the log's end, up to which the batch is planned.
        witnesses = self._witnesses.of(entry, self._log) if self._witnesses else ()
        now = self._topics.present(entry, was_there=_has_topic(state))
        state = continued(state, now)
        start = self._starts.of(entry, state, now)
        unread, published = start.ranges_to(now.marks.end), state.published if state else None
        if self._boundaries is not None and published is not None:
            extent = extent.before(self._boundaries.of(entry, published.offsets))
        cut = self._cuts.of(entry, published, unread, now.marks, extent)
        if cut is None:
            return None
        ranges = cut.ranges if isinstance(cut, Cut) else unread
        last = self._last_records(entry, published, now.marks, ranges)
        if isinstance(cut, Waiting):
            return cut
        plan = self._plans.of(entry, state, Offsets.after(start, cut.ranges), now, run_id)
        plan = replace(
            plan,
            is_aligned=cut.is_aligned,
            is_behind=cut.is_behind,
            is_limited=cut.is_limited,
            unread=unread,
            witnesses=witnesses,
            last_records=last,
        )
        return Pending(plan, total_length(unread), cut.may_grow, cut.require_whole)

    # ── what was merged before ───────────────────────────────────────────────────────────

    def replay_ranges(self, entry: TableEntry, window: HourWindow) -> tuple[OffsetRange, ...]:
        """Returns an hour's merged offsets; see `Replays.ranges`."""
        return self._replays.ranges(entry, window)

    def replay(self, entry: TableEntry, ranges: tuple[OffsetRange, ...], run_id: str) -> Pending:
        """Plans a replay of merged offsets; committed offsets stay.

        Raises:
            ConflictError: if the table no longer exists, or is yet to be read from its source.
            TransientError, LogReplacedError: if the log is not the one that they are of.
        """
        state = self._lake.state(entry.target, entry.shard_value)
        now = self._topics.present(entry, was_there=_has_topic(state))
        state = continued(state, now)
        if state is None or state.published is None:
            what = "the table vanished while it was replayed"
            raise ConflictError(what, where=f"table={entry.table}", remedy="look who dropped it")
        require_read(entry, state)
        self._starts.require_same_log(entry, state, state.published, now.identity)
        self._last_records(entry, state.published, now.marks, ranges)
        committed = state.published.offsets
        plan = self._plans.of(entry, state, Offsets(ranges, committed, committed), now, run_id)
        plan = replace(plan, replay=True, forgettable=None)
        return Pending(plan, total_length(committed.ranges_to(now.marks.end)))

    def _last_records(
        self,
        entry: TableEntry,
        published: Published | None,
        marks: Watermarks,
        ranges: tuple[OffsetRange, ...],
    ) -> LastRecords:
        """Returns the last record of each range; fails if the log before the ranges has changed.

        Raises:
            LostRangeError: if it was cut back and has grown again.
        """
        was, last = last_records(self._log, entry, published, marks, ranges)
        require_unchanged(entry, published, was, self._configured.rebuild_command(entry))
        return last

    # ── what plans are made from ─────────────────────────────────────────────────────────

    def swap(self, entry: TableEntry, state: TableState, published: Published) -> BatchPlan:
        """Returns the plan of a publish that reads no records; see `Plans.swap`."""
        return self._plans.swap(entry, state, published)

    def tables(self, entry: TableEntry) -> LakeTables:
        """Returns the planner of the lake table."""
        return self._configured.tables(entry)

    def format(self, entry: TableEntry) -> Format:
        """Returns the format of a table's records."""
        return self._configured.format(entry)

    def identity(self, entry: TableEntry) -> TopicIdentity:
        """Returns the identity of the table's topic.

        Raises:
            LostRangeError, ConflictError: if it does not exist, or was just created.
        """
        return self._topics.present(entry, was_there=False).identity

    def marks(self, entry: TableEntry) -> Watermarks:
        """Returns the log's watermarks.

        Raises:
            LostRangeError: if the topic does not exist.
        """
        return self._topics.marks(entry)

    def offsets_at(self, entry: TableEntry, at: datetime) -> OffsetVector:
        """Returns the first offsets not older than a time; the log's end without such offsets."""
        return self._topics.offsets_at(entry, at)

    def require_same_topic(self, plan: BatchPlan) -> None:
        """Fails if the topic was recreated between planning and reading.

        Raises:
            LogReplacedError: if it was recreated meanwhile.
        """
        self._topics.require_same(plan)


def _has_topic(state: TableState | None) -> bool:
    return bool(state and state.published and state.published.topic_id)
