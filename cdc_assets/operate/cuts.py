"""Takes cuts of a source: states of all its tables as of one commit (`consistent` in the source).

1. A commit is found that is complete in every table's topic (`cdc_assets.log.common_cut`), and
   written down with the offsets at which it ends in each of them: the *pending* cut.
2. Each table's batches end at these offsets, and the table merges on from there.
3. Once each table has published them, the cut is added to the source's table of cuts, with the
   snapshots of these publishes. Then the tag is moved.

The pending cut is a document next to the registry, and all processes that merge the source's tables
follow it. It decides nothing: a cut is added only if a publish of every table ends at the very
offsets of the cut. So processes that overwrite each other's document, or lose it, lose a cut at
most. A table that has passed the boundary (another process had not read the document yet) makes the
cut impossible; then it is given up, and another one is begun.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.config import ReplicationConfig
from cdc_assets.config.batch import ConsistentConfig
from cdc_assets.errors import ConflictError, message_of
from cdc_assets.lake import Published
from cdc_assets.lake.cuts import CutLake, CutSnapshot, StoredCut
from cdc_assets.log.common_cut import CutTable, EndAt, NoCut
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.pending_cuts import PendingCut, PendingCuts
from cdc_assets.merge.intake.planning import TransactionTopics
from cdc_assets.merge.intake.planning.configured import Configured
from cdc_assets.operate.known_tables import replicated
from cdc_assets.operate.services import Services
from cdc_assets.registry import TableEntry

LOOK_SECONDS: Final = 5.0
"""How often to look whether tables that other processes merge have reached a boundary, and how long
to wait with another search if there was no cut."""

_FROM_ELSEWHERE: Final = frozenset({
    PublishKind.REPAIR, PublishKind.RESNAPSHOT, PublishKind.READ, PublishKind.REBUILD,
    PublishKind.RENAME,
})  # fmt: skip
"""Publishes with rows that may be newer than the topic's offsets tell: read from the source, or
merged from the topic of the table's former name."""

_SKEW: Final = timedelta(minutes=1)
"""How long after such a publish a commit is certainly later than the rows, despite clocks."""

_READ_SECONDS: Final = 0.5
"""How often to read which cut is pending."""

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class LogCuts:
    """The cuts of one log of a source: the tables whose transactions are in one topic.

    Attributes:
        log: the topic of the transactions.
        entries: the tables, by name.
        pending: the pending cut as it was last read.
        reached: the UUIDs and snapshots of lake tables that have reached it.
        last: the newest cut; None before the first.
        counted: a transaction up to which a search has found all complete; None for none.
        looked: when its tables were looked at last, in monotonic seconds.
        read: when the pending cut was read last, likewise.
        why: why there is no cut, or what it waits for, in words.
    """

    log: str
    entries: dict[TableName, TableEntry]
    pending: PendingCut | None = None
    reached: dict[LakeName, tuple[str, int]] = field(
        default_factory=dict[LakeName, tuple[str, int]]
    )
    last: StoredCut | None = None
    counted: EndAt | None = None
    looked: float = float("-inf")
    read: float = float("-inf")
    why: str = ""

    def targets(self) -> Mapping[LakeName, list[TableEntry]]:
        """Returns the tables of the pending cut by their lake table."""
        found = dict[LakeName, list[TableEntry]]()
        for table in self.pending.cut.ends if self.pending else ():
            entry = self.entries.get(table)
            if entry is not None:
                found.setdefault(entry.target, []).append(entry)
        return found


class SourceCuts:
    """The cuts of one source. Not for several threads at once: see `lock`.

    Attributes:
        lock: to be held while anything of it is called.

    Args:
        services: for the registry, directives and failures.
        source: its name in the configuration.
        config: how it takes cuts.
    """

    def __init__(self, services: Services, source: str, config: ConsistentConfig) -> None:
        self.lock = threading.Lock()
        self._services, self._source, self._config = services, source, config
        self._lake = CutLake(services.config)
        log: KafkaLog = services.log
        self._transactions = TransactionTopics(Configured(services.config, services.lake, log), log)
        self._book = PendingCuts(services.config.registry)
        self._logs: dict[str, LogCuts] = {}
        self._log_of: dict[str, str] = {}

    def boundary(self, entry: TableEntry, committed: OffsetVector) -> OffsetVector | None:
        """Returns the offsets that a table must not pass now; None for no boundary.

        Raises:
            CdcError: if a part does not answer.
        """
        log = self._log(entry)
        if log is None:
            return None
        self._read(log, _READ_SECONDS)
        end = log.pending.cut.ends.get(entry.table) if log.pending else None
        if end is None:
            return None
        if committed.ranges_to(end):
            return end
        # The shards of a lake table have to be there in one snapshot: the first ones wait, unless
        # it is for one that is stopped.
        is_first = entry.shard is not None and not end.ranges_to(committed)
        waits = is_first and not self._is_there(log, entry) and not self._is_stopped(log, entry)
        return end if waits else None

    def advance(self, entry: TableEntry | None) -> list[StoredCut]:
        """Begins a cut if one is due, or adds the pending one if all tables are there.

        Args:
            entry: the table that was just merged: its log alone is looked at; None for all logs.

        Returns:
            The cuts that were added.

        Raises:
            CdcError: if a part does not answer; nothing is lost by that.
        """
        if entry is not None:
            log = self._log(entry)
            return self._advanced(log, entry) if log else []
        for each in self._entries():
            self._log(each)
        return [cut for log in self._logs.values() for cut in self._advanced(log, None)]

    def _advanced(self, log: LogCuts, entry: TableEntry | None) -> list[StoredCut]:
        self._read(log)
        now = self._services.clock()
        if log.pending is None:
            self._begin(log, now)
        if log.pending is not None and self._look(log, entry):
            return self._added(log, now)
        return []

    def standing(self) -> list[LogCuts]:
        """Returns the present state of each log. Raises as `advance` does."""
        for entry in self._entries():
            self._log(entry)
        for log in self._logs.values():
            self._read(log)
            if log.pending is not None:
                self._look(log, None)
            else:
                log.why = self._stopped_shard(self._members(log))
        return list(self._logs.values())

    def kept(self) -> tuple[StoredCut, ...]:
        """Returns the kept cuts, newest first."""
        return self._lake.cuts(self._source)

    # ── the tables ───────────────────────────────────────────────────────────────────────

    def _entries(self) -> list[TableEntry]:
        services = self._services
        known = replicated(services.config, services.registry.load())
        mine = (each for each in known if each.table.source == self._source)
        return [each for each in mine if each.dropped is None]

    def _log(self, entry: TableEntry) -> LogCuts | None:
        """Returns the log of a table; None if its transactions are in no topic."""
        name = self._log_of.get(entry.topic)
        if name is None:  # or not yet
            found = self._transactions.of(entry)
            if found is None:
                return None
            name = self._log_of[entry.topic] = found.topics[1]
        if name not in self._logs:
            self._logs[name] = LogCuts(name, {}, last=self._newest(name))
        return self._logs[name]

    def _members(self, log: LogCuts) -> list[TableEntry]:
        """Returns the tables of a log, without those that its cuts leave out."""
        desired = self._services.desired
        mine = [each for each in self._entries() if self._log(each) is log]
        mine = [each for each in mine if desired.of(each.table).dropped is None]
        # With a stopped shard, the others are left out: their lake table has its rows.
        stopped = {each.target for each in self._stopped(mine)}
        skips = self._config.without_stopped
        return [each for each in mine if not (skips and each.target in stopped)]

    def _stopped(self, entries: Iterable[TableEntry]) -> list[TableEntry]:
        """Returns the tables that are paused or fail."""
        services = self._services
        failures = services.failures.load()
        return [each for each in entries
                if each.table in failures or services.desired.of(each.table).held]  # fmt: skip

    def _stopped_shard(self, members: Iterable[TableEntry]) -> str:
        """Returns why there is no cut for a stopped shard; empty without one."""
        shard = next((each for each in self._stopped(members) if each.shard), None)
        what = "is paused or fails, and shares its lake table with others"
        return f"{shard.table} {what}" if shard else ""

    def _is_stopped(self, log: LogCuts, entry: TableEntry) -> bool:
        """Returns whether a shard of a table's lake table is stopped."""
        return bool(self._stopped(log.targets().get(entry.target, ())))

    # ── beginning ────────────────────────────────────────────────────────────────────────

    def _read(self, log: LogCuts, within: float = 0.0) -> None:
        if time.monotonic() - log.read < within:
            return
        log.read = time.monotonic()
        pending = self._book.read(self._source, log.log)
        if pending != log.pending:
            log.pending, log.reached, log.looked = pending, {}, float("-inf")
            log.entries = {each.table: each for each in self._entries()}

    def _begin(self, log: LogCuts, now: datetime) -> None:
        """Finds and stores the next cut, if it is due and there is one."""
        if not self._is_due(log, now) or time.monotonic() - log.looked < LOOK_SECONDS:
            return
        log.looked = time.monotonic()
        # Another process may have added one.
        log.last = self._newest(log.log)
        if not self._is_due(log, now):
            return
        number = 1 + max((each.number for each in self.kept()), default=0)
        found = self._next_cut(log, number, now)
        if isinstance(found, NoCut):
            log.why = found.reason
            return
        self._book.write(self._source, log.log, found)
        self._read(log)

    def _is_due(self, log: LogCuts, now: datetime) -> bool:
        """Returns whether the last cut is old enough, or of a clock that was set back since."""
        return log.last is None or abs(now - log.last.added_at) >= self._config.interval

    def _next_cut(self, log: LogCuts, number: int, now: datetime) -> PendingCut | NoCut:
        members = self._members(log)
        if stopped := self._stopped_shard(members):
            return NoCut(stopped)
        states = self._lake.states([(each.target, each.shard_value) for each in members])
        tables, topic_ids = list[CutTable](), dict[TableName, str]()
        for each, state in zip(members, states, strict=True):
            if state is None or state.published is None:
                return NoCut(f"{each.table} was not merged yet")
            committed, topic_ids[each.table] = state.published.offsets, state.published.topic_id
            tables.append(CutTable(each.table, each.topic, each.at_source.qualified, committed))
        if not tables:
            return NoCut("no table is merged")
        patience = timedelta(
            minutes=self._services.config.source(self._source).transactions.wait_minutes
        )
        marks = self._services.formats[self._source]
        after = log.last and EndAt(log.last.end_offset, log.last.end_sent_at)
        finder = self._services.log.cut_finder(log.log, marks, patience)
        found = finder.find(tables, after, now, log.counted)
        if isinstance(found, NoCut):
            log.counted = found.counted or log.counted
            return found
        return PendingCut(number, log.log, found, topic_ids, now)

    # ── reaching ─────────────────────────────────────────────────────────────────────────

    def _is_there(self, log: LogCuts, entry: TableEntry) -> bool:
        return self._reach(log, entry.target, log.targets().get(entry.target, [])) is not None

    def _look(self, log: LogCuts, entry: TableEntry | None) -> bool:
        """Looks whether tables have reached the pending cut; returns whether all have.

        Args:
            log: of the cut.
            entry: the table that this process has just merged; others are looked at less often.
        """
        targets = log.targets()
        is_time = time.monotonic() - log.looked >= LOOK_SECONDS
        if is_time:
            log.looked = time.monotonic()
            pending, there = log.pending, {each.table for each in self._members(log)}
            gone = [each for each in pending.cut.ends if each not in there] if pending else []
            if pending and gone:
                self._book.write(self._source, log.log, pending.without(gone))
                self._read(log)
                targets = log.targets()
        for target, entries in targets.items():
            if target in log.reached or not (is_time or (entry and entry.target == target)):
                continue
            if self._reach(log, target, entries) is None and log.pending is None:
                return False
        missing = [str(each[0].table) for to, each in targets.items() if to not in log.reached]
        log.why = f"waits for {', '.join(sorted(missing))}" if missing else ""
        return not missing and bool(targets)

    def _reach(
        self, log: LogCuts, target: LakeName, entries: Sequence[TableEntry]
    ) -> tuple[str, int] | None:
        """Returns a lake table's UUID, and the snapshot in which it is exactly at the pending cut.

        Gives the cut up if the table has passed it without such a snapshot.
        """
        if log.pending is None or not entries:
            return None
        if target in log.reached:
            return log.reached[target]
        past = self._lake.past(target)
        if past is None:
            return None
        line, passed = past.line, False
        for at, each in enumerate(line):
            places = [self._place(log.pending, entry, each.published) for entry in entries]
            if all(place < 0 for place in places):
                break
            reads = (one.at for one in line[at:] if one.published.kind in _FROM_ELSEWHERE)
            is_newer = any(one + _SKEW >= log.pending.cut.end.sent_at for one in reads)
            if any(places) or is_newer:
                passed = passed or not any(places) or any(place > 0 for place in places)
                continue
            found = str(past.table.metadata.table_uuid), each.snapshot
            log.reached[target] = found
            return found
        if passed:
            _log.info("%s: the cut at %s is given up: %s is beyond it",
                      self._source, log.pending.cut.transaction, target)  # fmt: skip
            self._book.write(self._source, log.log, None)
            self._read(log)
        return None

    def _place(self, pending: PendingCut, entry: TableEntry, published: Published) -> int:
        """Compares a table's offsets with a boundary: below it -1, at it 0, beyond it 1."""
        of = published.of_shard(entry.shard_value)
        if of is None:
            return -1
        if of.topic_id != pending.topic_ids[entry.table]:
            return 1
        end = pending.cut.ends[entry.table]
        partitions = {p for p, _ in of.offsets} | {p for p, _ in end}
        differences = [of.offsets.get(p) - end.get(p) for p in partitions]
        return 1 if any(each > 0 for each in differences) else -1 if any(differences) else 0

    # ── adding ───────────────────────────────────────────────────────────────────────────

    def _added(self, log: LogCuts, now: datetime) -> list[StoredCut]:
        pending = log.pending
        if pending is None:
            return []
        tables = [
            CutSnapshot(
                entry.table.schema, entry.table.name, target.namespace, target.name,
                *log.reached[target],
            )
            for target, entries in log.targets().items()
            for entry in entries
        ]  # fmt: skip
        cut = StoredCut(
            pending.number, log.log, pending.cut.transaction,
            pending.cut.end.offset, pending.cut.end.sent_at, pending.cut.committed_at, now,
            tuple(sorted(tables, key=lambda each: each.qualified)),
        )  # fmt: skip
        added = self._lake.add_cut(self._source, cut, self._config.kept)
        # From here on the cut can be read. What follows is repeated if this process dies here.
        log.last = added or self._newest(log.log)
        try:
            self._lake.settle(self._source, log.last or cut)
        except ConflictError:
            _log.info("%s: the tag is moved with the next cut: a table has just changed",
                      self._source)  # fmt: skip
        self._book.write(self._source, log.log, None)
        self._read(log)
        return [added] if added else []

    def _newest(self, log: str) -> StoredCut | None:
        """Returns the newest cut of a log."""
        return next((each for each in self._lake.cuts(self._source) if each.log == log), None)


class ConsistentCuts:
    """The cuts of all sources that take any, for all threads of a process.

    A part that does not answer holds no batch up: there is no boundary then, and no cut.
    """

    def __init__(self, config: ReplicationConfig, services: Services | None = None) -> None:
        self._services = services or Services(config)
        taking = ((name, each.consistent) for name, each in config.sources.items())
        self._sources = {
            name: SourceCuts(self._services, name, cuts) for name, cuts in taking if cuts
        }

    def __bool__(self) -> bool:
        return bool(self._sources)

    def of(self, entry: TableEntry, committed: OffsetVector) -> OffsetVector | None:
        """Returns the offsets that a table must not pass now; see `Boundaries`."""
        source = self._sources.get(entry.table.source)
        if source is None:
            return None
        with source.lock:
            try:
                return source.boundary(entry, committed)
            except Exception as error:  # other errors than ours may quote values
                _log.warning("%s: its cut is not known: %s", entry.table, message_of(error))
                return None

    def advance(self, entry: TableEntry) -> list[StoredCut]:
        """Returns the cuts that were added after a batch; see `SourceCuts.advance`.

        Returns without a look while another thread takes a cut.
        """
        source = self._sources.get(entry.table.source)
        if source is None or not source.lock.acquire(blocking=False):
            return []
        try:
            return self._tried(entry.table.source, source, entry)
        finally:
            source.lock.release()

    def advance_all(self) -> Iterator[tuple[str, StoredCut]]:
        """Yields the cuts that were added now, with their sources, although no batch was merged.

        So the last changes before a quiet time get their cut, and what a dead process began is
        completed.
        """
        for name, source in self._sources.items():
            with source.lock:
                found = self._tried(name, source, None)
            yield from ((name, cut) for cut in found)

    def _tried(self, name: str, source: SourceCuts, entry: TableEntry | None) -> list[StoredCut]:
        try:
            return source.advance(entry)
        except Exception as error:  # other errors than ours may quote values
            said = message_of(error)
            _log.warning("%s: no cut was taken: %s", entry.table if entry else name, said)
            return []

    def kept(self, source: str) -> tuple[StoredCut, ...]:
        """Returns the kept cuts of a source, newest first. Raises as `CutLake.cuts` does."""
        of = self._sources[source]
        with of.lock:
            return of.kept()

    def standing(self) -> Iterator[tuple[str, LogCuts]]:
        """Yields the state of each log of each source. Raises as `SourceCuts.standing` does."""
        for name, source in self._sources.items():
            with source.lock:
                found = source.standing()
            yield from ((name, log) for log in found)
