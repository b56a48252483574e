"""Does steps 1 and 2 of a batch: reads the table and the log, and chooses the batch's end.

Planning changes nothing, neither in the lake nor in the log.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.offsets import Coordinate, OffsetRange, OffsetVector, total_length
from cdc_assets.config import ReplicationConfig, SourceConfig
from cdc_assets.errors import (
    ConflictError,
    LogReplacedError,
    LostRangeError,
    TerminalError,
    TransientError,
)
from cdc_assets.formats.format import Format
from cdc_assets.formats.registered import format_of
from cdc_assets.lake import Lake, Published, TableState
from cdc_assets.lake.at_source import AtSource
from cdc_assets.lake.properties import accepted_restart
from cdc_assets.lake.side import Forgettable
from cdc_assets.log.hours import HourWindow
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.left_behind import late_under_old_name
from cdc_assets.log.transactions import TransactionLog
from cdc_assets.log.values import TopicIdentity, Watermarks
from cdc_assets.merge.intake.describe import TypeSource
from cdc_assets.merge.intake.layouts import LakeTables
from cdc_assets.merge.intake.shared_reading import SharedReadings
from cdc_assets.merge.intake.witnesses import Witnesses
from cdc_assets.merge.plan.plan import (
    BatchPlan,
    limited,
    require_kept,
    require_same_log,
    require_whole,
)
from cdc_assets.merge.plan.result import Waiting
from cdc_assets.merge.plan.unmoved import require_unmoved
from cdc_assets.merge.plan.waiting import Patience
from cdc_assets.registry import TableEntry

BEGIN: Final = "cdc-assets.begin"
"""Property of a lake table: the offsets before its first batch, if not the log's beginning."""
BEGIN_TOPIC: Final = "cdc-assets.begin-topic"
"""Property beside it: the id of the topic that they are of."""
BEGIN_WHOLE: Final = "cdc-assets.begin-whole"
"""Property beside it: the whole table lies behind them, and no snapshot has to be waited for."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A planned batch, with figures about the rest of the log.

    Attributes:
        plan: of the batch.
        unread: number of offsets that were not merged when it was planned.
        may_grow: whether the log holds more that a longer batch would take.
        require_whole: checks that the batch does not end while its newest transaction is being
            sent again; see `Patience.require_whole`.
    """

    plan: BatchPlan
    unread: int
    may_grow: bool = False
    require_whole: Callable[[Mapping[int, int]], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class _Cut:
    """The ranges read, and the committed offsets before and after."""

    ranges: tuple[OffsetRange, ...]
    start: OffsetVector
    end: OffsetVector


class Planner:
    """The planner of batches for the tables of one configuration."""

    def __init__(
        self,
        config: ReplicationConfig,
        lake: Lake,
        log: KafkaLog,
        clock: Callable[[], datetime],
        witnesses: Witnesses | None = None,
    ) -> None:
        """Stores what plans are made from.

        Args:
            config: of the replication.
            lake: read for plans.
            log: read for plans.
            clock: wall clock.
            witnesses: for what batches may prove; None to prove nothing.
        """
        self._witnesses = witnesses
        self._config = config
        self._lake = lake
        self._log = log
        self._clock = clock
        self._kinds: dict[str, TopicKind] = {}
        self._formats: dict[str, Format] = {}
        self._left: TableState | None = None
        self._creates = True

    def only_existing(self) -> None:
        """From now on plans no batch that would make its table."""
        self._creates = False

    def goes_on_from(self, left: TableState | None) -> None:
        """Makes the next `tail` use the state that a publish has just left, instead of reading it.

        If another writer has published since, the batch conflicts with it before it writes, and
        is then planned from the state read.
        """
        self._left = left

    def tail(
        self,
        entry: TableEntry,
        window: HourWindow | None,
        run_id: str,
        *,
        limits: int = 1,
        shared: SharedReadings | None = None,
        until: OffsetVector | None = None,
    ) -> Pending | Waiting | None:
        """Plans the next batch from the committed offsets on; None if there is nothing to merge.

        Args:
            entry: the table.
            window: the hour to stay within, except for the end of a transaction.
            run_id: recorded.
            limits: largest size of the batch, as a multiple of the source's limit.
            shared: readings of the topic for other tables, to which the batch is cut.
            until: end of an earlier try, exclusive, which this one does not exceed.

        Raises:
            LostRangeError, LogReplacedError: if the log is not the one to go on with.
            TransientError: if the table has another topic by now.
            MovedKeysError: if partitions were added, and nothing but offsets orders changes.
            ConflictError: if the table is not there, and is not to be made.
        """
        left, self._left = self._left, None
        state = left or self._lake.state(entry.target, entry.shard_value)
        if state is None and not self._creates:
            what = "another process has dropped the table that is being filled"
            where = f"table={entry.table} lake={entry.target}"
            raise ConflictError(what, where=where, remedy="run the same command again")
        # Taken before the log's end, up to which the batch is planned.
        witnesses = self._witnesses.of(entry, self._log) if self._witnesses else ()
        identity, marks = self._log_now(entry)
        self._require_left(entry)
        published = state.published if state else None
        is_new_shard = bool(state and state.others)
        if state and state.snapshot_id is not None and not (published or is_new_shard):
            raise _without_offsets(entry, state)
        dropped = entry.dropped
        begin = begin_of(state) or (dropped.end_in(identity.topic_id) if dropped else None)
        start = published.offsets if published else begin or marks.begin
        if published:
            self._require_same_log(entry, state, published, identity)
            self._require_unmoved(entry, state, published, marks)
        elif state and state.properties.get(BEGIN_TOPIC, identity.topic_id) != identity.topic_id:
            raise _begun_elsewhere(entry)
        elif begin is None and self._source(entry).lost_start == "fail":
            require_whole(entry, marks)
        require_kept(entry, start, marks, self._anew(entry))
        unread = start.ranges_to(marks.end)
        within = whole = self._within(entry, unread, window)
        if until is not None:
            ends = {r.partition: min(r.end, until.get(r.partition)) for r in within}
            within = tuple(replace(r, end=max(r.start, ends[r.partition])) for r in within)
        if not total_length(within):
            return None
        transactions, patience = self._transactions(entry), self._patience(entry)
        limit = self._limit(entry, state, marks, limits)
        # A batch with whole transactions, a larger limit or none does not share readings.
        may_share = shared is not None and transactions is None and limit is not None
        cut = shared.cut(entry, within) if shared and may_share and limits == 1 else within
        ranges = self._ended((transactions, patience), unread, cut, marks, limit)
        if isinstance(ranges, Waiting):
            return ranges
        if not ranges:
            return None
        end = start.merged_max(OffsetVector.of({each.partition: each.end for each in ranges}))
        plan = self._plan(entry, state, _Cut(ranges, start, end), run_id, (identity, marks))
        left = total_length(unread)
        aligned, behind = transactions is not None, total_length(within) < left
        plan = replace(plan, is_aligned=aligned, is_behind=behind, unread=unread)
        plan = replace(plan, witnesses=witnesses)
        is_cut = limit is not None and (total_length(whole) > limit or cut != within)
        plan = replace(plan, is_limited=is_cut)
        pending = Pending(plan, left, total_length(ranges) < left)
        if transactions is None:
            return pending
        whole = partial(patience.require_whole, transactions, ranges, marks.end)
        return replace(pending, require_whole=whole)

    def replay_ranges(self, entry: TableEntry, window: HourWindow) -> tuple[OffsetRange, ...]:
        """Returns an hour's offsets, as far as they were merged.

        Raises:
            LostRangeError: if the log may no longer hold the hour's beginning.
            TerminalError: if the table does not exist yet, or has no key.
        """
        committed = self.require_replayable(entry, ())
        offsets = self._log.window_offsets([entry.topic], [window])[entry.topic, window]
        begin = self.marks(entry).begin.as_dict()
        lost = [f"{p}:[0,{at})" for p, at in begin.items() if at and offsets.start.get(p) <= at]
        if lost:
            what = (
                f"the log may no longer hold the start of hour {window}: {' '.join(lost)} is gone"
            )
            where = f"table={entry.table} topic={entry.topic}"
            raise LostRangeError(what, where=where, remedy="replay later hours, or re-snapshot")
        merged = (
            replace(r, end=max(r.start, min(r.end, committed.get(r.partition))))
            for r in offsets.ranges
        )
        return tuple(each for each in merged if each.length)

    def require_replayable(
        self, entry: TableEntry, ranges: tuple[OffsetRange, ...]
    ) -> OffsetVector:
        """Checks that ranges can be replayed; returns the table's committed offsets.

        Raises:
            TerminalError: if they cannot be.
        """
        state = self._lake.state(entry.target, entry.shard_value)
        where = f"table={entry.table}"
        if state is None or state.published is None:
            what = "there is nothing to replay: the table was not replicated yet"
            raise TerminalError(what, where=where, remedy="materialize it first")
        is_mirror = self._source(entry).mode_of(entry.table) is Mode.MIRROR
        if is_mirror and not self.tables(entry).plan(state).first.schema.key:
            what = "a table without a key is not replayed: its rows are counted, not replaced"
            remedy = f"build it anew: cdc-assets rebuild {entry.table}"
            raise TerminalError(what, where=where, remedy=remedy)
        committed = state.published.offsets
        ahead = [str(each) for each in ranges if each.end > committed.get(each.partition)]
        if ahead:
            what = f"offsets that were never merged cannot be replayed: {' '.join(ahead)}"
            raise TerminalError(what, where=where, remedy="materialize the table first")
        return committed

    def again(self, entry: TableEntry, ranges: tuple[OffsetRange, ...], run_id: str) -> Pending:
        """Plans a batch of offsets that were merged before; committed offsets stay.

        Raises:
            ConflictError: if the table no longer exists.
        """
        state = self._lake.state(entry.target, entry.shard_value)
        identity, marks = self._log_now(entry)
        if state is None or state.published is None:
            what = "the table vanished while it was replayed"
            raise ConflictError(what, where=f"table={entry.table}", remedy="look who dropped it")
        self._require_same_log(entry, state, state.published, identity)
        committed = state.published.offsets
        cut = _Cut(ranges, committed, committed)
        plan = self._plan(entry, state, cut, run_id, (identity, marks))
        plan = replace(plan, replay=True, forgettable=None)
        return Pending(plan, total_length(committed.ranges_to(marks.end)))

    def swap(self, entry: TableEntry, state: TableState, published: Published) -> BatchPlan:
        """Returns the plan of a publish that reads no records: see `cdc_assets.merge.rebuild`."""
        table = self.tables(entry).plan(state)
        return BatchPlan(
            entry=entry,
            head=state.snapshot_id,
            published=state.published,
            identity=TopicIdentity(published.cluster_id, published.topic_id),
            start=published.start,
            ranges=(),
            end=published.offsets,
            partitions=published.carried.partitions_seen,
            context=(),
            schema=table.first.schema,
            layout=table.first.layout,
            is_empty=state.is_empty,
            head_columns=state.head_columns,
            soft=False,
            mode=self._source(entry).mode_of(entry.table),
            replay=False,
            run_id=published.run,
            attempt=published.attempt,
            state=state,
        )

    def tables(self, entry: TableEntry) -> LakeTables:
        """Returns the planner of the lake table."""
        types = TypeSource(self._source(entry), self._log, self.format(entry))
        return LakeTables(self._config, self._lake, types, entry)

    def format(self, entry: TableEntry) -> Format:
        """Returns the format of a table's records."""
        source = entry.table.source
        if source not in self._formats:
            self._formats[source] = format_of(self._source(entry))
        return self._formats[source]

    def identity(self, entry: TableEntry) -> TopicIdentity:
        """Returns the identity of the table's topic.

        Raises:
            LostRangeError, ConflictError: if it does not exist, or was just created.
        """
        return self._log_now(entry)[0]

    def require_same_topic(self, plan: BatchPlan) -> None:
        """Checks, after the read, that the topic is still the one that was planned for.

        Raises:
            LogReplacedError: if it was recreated meanwhile.
        """
        now = self._log.identity([plan.entry.topic]).get(plan.entry.topic)
        if now != plan.identity:
            what = "the topic was recreated while it was read"
            where = f"{plan.where} was={plan.identity} is={now}"
            remedy = "nothing was published; build the table anew: cdc-assets rebuild"
            raise LogReplacedError(what, where=where, remedy=remedy)

    def marks(self, entry: TableEntry) -> Watermarks:
        """Returns the log's watermarks.

        Raises:
            LostRangeError: if the topic does not exist.
        """
        marks = self._log.settled_watermarks(entry.topic)
        if marks is None:
            what = "the topic does not exist any more"
            remedy = "if it was removed for good, take the table out of the registry"
            raise LostRangeError(
                what, where=f"table={entry.table} topic={entry.topic}", remedy=remedy
            )
        return marks

    def offsets_at(self, entry: TableEntry, at: datetime) -> OffsetVector:
        """Returns the first offsets not older than a time; the log's end if there are none."""
        return self._log.offsets_at([entry.topic], [at])[entry.topic, at]

    def _require_left(self, entry: TableEntry) -> None:
        """Checks that no records have come under the name that a table had before.

        Raises:
            TerminalError: if some have, which may be changes of rows that are newer by now.
        """
        late = late_under_old_name(entry, self._log)
        if late is not None:
            raise late

    def _require_same_log(
        self,
        entry: TableEntry,
        state: TableState | None,
        published: Published,
        identity: TopicIdentity,
    ) -> None:
        """Checks that the table's offsets are those of its topic as it is.

        Raises:
            TransientError: if the table was found to be renamed since its entry was read.
            LogReplacedError: for other reasons; see `require_same_log`.
        """
        if published.topic != entry.topic:
            renamed = AtSource.of(state, entry.shard_value).renamed_to(published.topic)
            if renamed is not None:
                what = f"another step or run has gone on with it as {renamed.schema}.{renamed.name}"
                where = f"table={entry.table} topic={entry.topic}"
                raise TransientError(what, where=where, remedy="the next try reads that topic")
        require_same_log(entry, published, identity, self._anew(entry))

    def _require_unmoved(
        self, entry: TableEntry, state: TableState | None, published: Published, marks: Watermarks
    ) -> None:
        """Checks that keys have not moved between partitions; see `require_unmoved`."""
        if published.carried.partitions != len(marks.end.offsets):
            scheme = self.tables(entry).plan(state).first.layout.scheme
            require_unmoved(entry, scheme, published, marks)

    # ── where it ends ────────────────────────────────────────────────────────────────────

    def _limit(
        self, entry: TableEntry, state: TableState | None, marks: Watermarks, limits: int
    ) -> int | None:
        """Returns the limit of offsets; None for no limit.

        Keys move when partitions are added. Their older changes must not be left for later.
        """
        published = state.published if state else None
        if published and published.carried.partitions_seen != len(marks.end.offsets):
            return None
        return self._source(entry).batch.max_records * limits

    def _ended(
        self,
        boundaries: tuple[TransactionLog | None, Patience],
        unread: tuple[OffsetRange, ...],
        within: tuple[OffsetRange, ...],
        marks: Watermarks,
        limit: int | None,
    ) -> tuple[OffsetRange, ...] | Waiting:
        """Cuts unread ranges at the hour's end, the limit, and a transaction's end."""
        cut = within if limit is None else limited(within, limit)
        transactions, patience = boundaries
        if transactions is None:
            return tuple(each for each in cut if each.length)
        by_hour = total_length(cut) == total_length(within) < total_length(unread)
        return patience.aligned(transactions, unread, cut, marks.end, forward=by_hour)

    def _patience(self, entry: TableEntry) -> Patience:
        return Patience(entry, self._source(entry).transactions, self._log, self._clock)

    def _transactions(self, entry: TableEntry) -> TransactionLog | None:
        topic = self._transaction_topic(entry)
        if topic is None:
            return None
        qualified, marks = entry.at_source.qualified, self.format(entry)
        return self._log.transactions((entry.topic, topic), qualified, marks)

    def _transaction_topic(self, entry: TableEntry) -> str | None:
        """Returns the topic of transaction metadata; one that could be a table's is examined."""
        fmt, name = self.format(entry), entry.at_source.qualified
        found = fmt.topics.transaction_topics(entry.topic, name, self._log.topics())
        doubtful = [each for each in found if fmt.topics.table_of(each, entry.table.source)]
        if not doubtful:
            return found[0] if found else None
        unknown = [each for each in doubtful if each not in self._kinds]
        self._kinds |= self._log.kinds(unknown, fmt.kind) if unknown else {}
        tables = {each for each in doubtful if self._kinds.get(each) is TopicKind.CHANGES}
        return next((each for each in found if each not in tables), None)

    def _within(
        self, entry: TableEntry, unread: tuple[OffsetRange, ...], window: HourWindow | None
    ) -> tuple[OffsetRange, ...]:
        """Cuts ranges at the hour's end if it is over; they may become empty."""
        if window is None or not unread or not window.is_closed(self._clock()):
            return unread
        stop = self._log.offsets_at([entry.topic], [window.end])[entry.topic, window.end]
        return tuple(
            replace(r, end=max(r.start, min(r.end, stop.get(r.partition)))) for r in unread
        )

    # ── the plan ─────────────────────────────────────────────────────────────────────────

    def _plan(
        self,
        entry: TableEntry,
        state: TableState | None,
        cut: _Cut,
        run_id: str,
        log: tuple[TopicIdentity, Watermarks],
    ) -> BatchPlan:
        table, (identity, marks) = self.tables(entry).plan(state), log
        published = state.published if state else None
        begin = marks.begin
        context = (
            OffsetRange(r.partition, r.start - 1, r.start)
            for r in cut.ranges
            if r.start > begin.get(r.partition)
        )
        plan = BatchPlan(
            entry=entry,
            head=state.snapshot_id if state else None,
            published=published,
            identity=identity,
            start=cut.start,
            ranges=cut.ranges,
            end=cut.end,
            partitions=len(marks.end.offsets),
            context=tuple(context),
            schema=table.first.schema,
            layout=table.first.layout,
            is_empty=state.is_empty if state else True,
            head_columns=state.head_columns if state else {},
            soft=self._source(entry).overrides(entry.table).deletes == "soft",
            mode=self._source(entry).mode_of(entry.table),
            replay=False,
            run_id=run_id,
            attempt=str(uuid.uuid4()),
            state=state,
            steps=table.steps,
            numbering=published.carried.numbering if published else "",
            permit=state.properties.get(accepted_restart(entry.shard_value), "") if state else "",
        )
        return replace(plan, forgettable=self._forgettable(plan, marks))

    def _forgettable(self, plan: BatchPlan, marks: Watermarks) -> Forgettable | None:
        """Returns which deletes may go; None if keys may move, or changes are in quarantine."""
        said, published = self._source(plan.entry).upkeep(plan.entry.table), plan.published
        if not said.enabled or published is None or published.counts.get("quarantined"):
            return None
        if not plan.keys_stay:
            return None
        begin, end = marks.begin.as_dict(), marks.end.as_dict()
        held = [at for partition, at in begin.items() if at < end.get(partition, at)]
        below = min(held) if held else max(end.values(), default=0)
        return Forgettable(below, said.remembered_deletes) if below else None

    def _anew(self, entry: TableEntry) -> str:
        return self._source(entry).built_anew_by(entry.table)

    def _source(self, entry: TableEntry) -> SourceConfig:
        return self._config.source(entry.table.source)

    def _log_now(self, entry: TableEntry) -> tuple[TopicIdentity, Watermarks]:
        """Returns the topic's identity, and watermarks no older: see `require_same_topic`.

        Raises:
            LostRangeError: if the topic does not exist.
            ConflictError: if it was just created.
        """
        identity = self._log.identity([entry.topic]).get(entry.topic)
        marks = self.marks(entry)
        if identity is None:
            what = "the topic was created while it was looked at"
            raise ConflictError(what, where=f"topic={entry.topic}", remedy="it is looked at again")
        return identity, marks


def _without_offsets(entry: TableEntry, state: TableState) -> TerminalError:
    where = f"table={entry.table} lake={entry.target}"
    if state.is_lost:
        what = (
            "the lake table lost its offsets: neither its snapshots nor earlier metadata files "
            "have one of our publishes"
        )
        remedy = f"build it anew, while readers keep its rows: cdc-assets rebuild {entry.table}"
        return TerminalError(what, where=where, remedy=remedy)
    what = "the lake table exists but was not made by cdc_assets, or for other source tables"
    remedy = "drop it, or give this table another target in the configuration"
    return TerminalError(what, where=where, remedy=remedy)


def _begun_elsewhere(entry: TableEntry) -> LogReplacedError:
    what = "the topic is not the one in which the rebuild of this table was to begin"
    again = f"cdc-assets rebuild {entry.table} --abandon"
    where = f"table={entry.table} topic={entry.topic} lake={entry.target}"
    return LogReplacedError(what, where=where, remedy=f"begin again, after: {again}")


def begin_of(state: TableState | None) -> OffsetVector | None:
    """Returns where a table built from a new snapshot begins; None for the log's beginning."""
    text = state.properties.get(BEGIN) if state else None
    return OffsetVector.from_json(text) if text else None


def rest_of(ranges: Sequence[OffsetRange], done: Sequence[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Returns the rest of ranges after some of their beginnings."""
    ends = {each.partition: each.end for each in done}
    left = (replace(each, start=ends.get(each.partition, each.start)) for each in ranges)
    return tuple(each for each in left if each.length)


def spans(coordinates: Sequence[Coordinate]) -> tuple[OffsetRange, ...]:
    """Returns the shortest range of each partition that has all of its coordinates."""
    offsets: dict[int, list[int]] = defaultdict(list)
    for each in coordinates:
        offsets[each.partition].append(each.offset)
    return tuple(OffsetRange(p, min(at), max(at) + 1) for p, at in sorted(offsets.items()))
