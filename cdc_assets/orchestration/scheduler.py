"""Schedules the tables of a run: which of them works, and in which worker slot.

- As many tables work at the same time as the run has slots; the others wait in a queue. A slot has
  a Spark session and connections. A session carries settings such as Iceberg's snapshot properties,
  and Kafka's clients serve one thread: so tables that are merged at the same time have a slot each.
- Tables of one topic work in *rounds*, one after the other and in one slot, so that they share its
  records (`cdc_assets.merge.intake.shared_reading`): none begins a second turn before each of them
  has had its first.
- In a run that stays, a table that has caught up is *idle* until its topics have moved and the
  table is due. One thread watches the topics of all idle tables, with one request to Kafka. Tables
  of one topic are due together: their round waits for each of them anyway.

A run stays until its tables have had nothing to do for a while, until it has reached its age or the
end of its hour, until another run wants one of its tables, or until it is stopped.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.config import ReplicationConfig
from cdc_assets.config.platform import RunsConfig
from cdc_assets.errors import CdcError
from cdc_assets.operate.discovery import Discovery, add_seen
from cdc_assets.operate.services import Services
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_assets.merge import Replicator
    from cdc_assets.merge.attempt import Connections
    from cdc_assets.merge.intake.shared_reading import SharedReadings
    from cdc_assets.merge.intake.witnesses import Witnesses
    from cdc_assets.operate.cuts import ConsistentCuts

Ends = Mapping[str, OffsetVector]
"""The topics' ends, by topic."""

DueIn = Callable[[Ends, float], float | None]
"""Returns in how many seconds a table is due, and None if it has nothing to do.

By the topics' ends, and the seconds since its last turn began.
"""

ReadEnds = Callable[[Iterable[str]], Ends]

HAND_OVER_SECONDS: Final = 3.0
"""How often to check whether another run wants one of the tables."""

_log: Final = logging.getLogger(__name__)


class RunIsOverError(Exception):
    """The run was stopped before a table had its turn, or the table has left the run."""


class WorkerSlot:
    """Provides a Spark session and connections for one table at a time, in one thread.

    A slot outlives a turn: the next table finds its session warm and its connections open.

    Attributes:
        services: of the configuration.
        cuts: of the arguments.
        discoveries: of other tables, found by batches and not reported yet, each with the topic.

    Args:
        config: the configuration.
        new_session: opens a session.
        witnesses: the witnesses by which the run's batches prove completeness; None for none.
        cuts: the cuts of sources that the run's batches take; None for none.
    """

    def __init__(
        self,
        config: ReplicationConfig,
        new_session: Callable[[], SparkSession],
        witnesses: Witnesses | None = None,
        cuts: ConsistentCuts | None = None,
    ) -> None:
        self._witnesses = witnesses
        self.cuts = cuts
        self._new_session = new_session
        self._session: SparkSession | None = None
        self.services = Services(config)
        self.discoveries: list[tuple[str, Discovery]] = []

    def session(self) -> SparkSession:
        """Returns the session; opens a session if there is none."""
        if self._session is None:
            self._session = self._new_session()
        return self._session

    @cached_property
    def connections(self) -> Connections:
        """The connections of the services."""
        from cdc_assets.formats.histories import Histories
        from cdc_assets.merge.attempt import Connections

        log, lake = self.services.log, self.services.lake
        return Connections(log, lake, Histories(log), self._witnesses, self.cuts, self._register)

    def _register(self, entry: TableEntry, names: Sequence[str], changes: int) -> None:
        found = add_seen(self.services, entry, names, changes)
        self.discoveries.append((entry.topic, found))

    @cached_property
    def replicator(self) -> Replicator:
        """The replicator that merges with this slot's session."""
        from cdc_assets.merge import Replicator

        config, clock = self.services.config, self.services.clock
        return Replicator(config, self.session, clock=clock, connections=self.connections)

    def forget(self) -> None:
        """Gives up the session, usable or not; the next use opens a new one."""
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(Exception):  # the session may be what has just failed
                session.stop()


@dataclass(frozen=True, slots=True)
class Turn:
    """A table's turn: its slot, and the records of its topic that its round has read already."""

    slot: WorkerSlot
    readings: SharedReadings


@dataclass
class _Round:
    """One round of the tables of a topic, which share its records.

    Attributes:
        left: the tables that have not had their turn in this round.
        readings: the records read so far.
        slot: the slot of the first table, which all others must use, too.
        working: whether a table of the round has its turn now.
    """

    left: set[str]
    readings: SharedReadings
    slot: WorkerSlot | None = None
    working: bool = False


@dataclass
class _Queued:
    """A table in the queue; ``slot`` is the slot assigned to it."""

    table: str
    slot: WorkerSlot | None = None
    called: threading.Event = field(default_factory=threading.Event)


@dataclass
class _Idle:
    """A table that has caught up.

    Attributes:
        topics: the topics whose ends decide whether the table is due.
        due_in: decides by these ends.
        ends: the ends by which the table became due.
        called: set once the table is due or the run is over.
    """

    topics: frozenset[str]
    due_in: DueIn
    ends: Ends | None = None
    called: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class StayConditions:
    """The conditions under which a run stays.

    Attributes:
        runs: the configuration of runs.
        read_ends: returns the ends of topics.
        must_end: returns whether the run has to end for another run's sake, or because its hour is
            over.
        cuts: the cuts of sources that the run's batches take; None for none.
    """

    runs: RunsConfig
    read_ends: ReadEnds
    must_end: Callable[[], bool]
    cuts: ConsistentCuts | None = None


class TableScheduler:
    """Assigns turns and worker slots to the tables of one run.

    Args:
        topics: by table of the run (the name of its step), its topic.
        new_slot: creates a worker slot.
        max_slots: the greatest number of slots.
        stay: the conditions of staying; None in a run whose tables end once they have caught up.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        topics: Mapping[str, str],
        new_slot: Callable[[], WorkerSlot],
        max_slots: int,
        stay: StayConditions | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._topics, self._stay, self._clock = topics, stay, clock
        self._new_slot, self._max_slots = new_slot, max_slots
        self._lock = threading.Lock()
        self._members = {topic: {t for t in topics if topics[t] == topic}
                         for topic in topics.values()}  # fmt: skip
        self._rounds = {topic: self._round(topic) for topic in self._members}
        self._slots: list[WorkerSlot] = []
        self._free: list[WorkerSlot] = []
        self._queue: list[_Queued] = []
        self._idle: dict[str, _Idle] = {}
        self._turn_began: dict[str, float] = {}
        self._released: list[Callable[[], bool]] = []
        self._watcher: threading.Thread | None = None
        self._began = self._last_active = clock()
        self._over = threading.Event()
        self._stopped = False

    @property
    def stays(self) -> bool:
        """Whether tables may be idle in this run."""
        return self._stay is not None and not self._over.is_set()

    def is_awaited(self, entry: TableEntry, committed: OffsetVector) -> bool:
        """Returns whether a cut waits for a table, which must reach the cut's boundary."""
        cuts = self._stay.cuts if self._stay else None
        return cuts is not None and cuts.of(entry, committed) is not None

    @property
    def is_over(self) -> bool:
        """Whether the run is to end, or to stop."""
        return self._stopped or self._over.is_set()

    @property
    def is_stopped(self) -> bool:
        """Whether no table is to begin another batch."""
        return self._stopped

    @property
    def queued(self) -> int:
        """The number of tables that wait for a slot."""
        return len(self._queue)

    @property
    def free(self) -> int:
        """The number of slots that no table uses."""
        return len(self._free)

    @property
    def idle(self) -> int:
        """The number of tables that wait until they are due."""
        return len(self._idle)

    def is_alone(self, table: str) -> bool:
        """Returns whether the run has no other table."""
        return len(self._topics) == 1 and table in self._topics

    # ── turns ────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def turn(self, table: str, entry: TableEntry) -> Iterator[Turn]:
        """Waits for a table's turn, and yields it. A turn that raises may be repeated.

        Raises:
            RunIsOverError: if the run is stopped before, or the table has left the run.
        """
        slot, round_ = self._begin(table)
        is_done = False
        try:
            yield Turn(slot, round_.readings)
            is_done = True
        finally:
            if is_done:
                round_.readings.leave(entry)
            self._end(table, slot, round_, is_done=is_done)

    def leave(self, table: str, entry: TableEntry) -> None:
        """Removes a table, which has no more turns."""
        with self._lock:
            topic = self._topics[table]
            self._members[topic].discard(table)
            round_ = self._rounds[topic]
            was_left = table in round_.left
            round_.left.discard(table)
            self._close_round(topic)
            self._assign()
        if was_left:
            round_.readings.leave(entry)

    def on_released(self, is_released: Callable[[], bool]) -> None:
        """Registers a table that has left because people hold it: nothing may be merged into it.

        Once the table is released, the run ends, so that the next run takes the table.
        """
        with self._lock:
            self._released.append(is_released)

    def _begin(self, table: str) -> tuple[WorkerSlot, _Round]:
        mine = _Queued(table)
        with self._lock:
            if self._stopped or table not in self._members[self._topics[table]]:
                raise RunIsOverError
            self._queue.append(mine)
            self._close_round(self._topics[table])
            self._assign()
        mine.called.wait()
        if mine.slot is None:
            raise RunIsOverError
        return mine.slot, self._rounds[self._topics[table]]

    def _end(self, table: str, slot: WorkerSlot, round_: _Round, *, is_done: bool) -> None:
        with self._lock:
            round_.working = False
            if is_done:
                round_.left.discard(table)
                self._close_round(self._topics[table])
            self._free.append(slot)
            self._last_active = self._clock()
            self._assign()

    def _assign(self) -> None:
        """Assigns slots to the tables that have waited longest and can use them."""
        for queued in self._queue[:]:
            round_ = self._rounds[self._topics[queued.table]]
            if round_.working or queued.table not in round_.left:
                continue
            slot = self._slot_for(round_)
            if slot is None:
                continue
            round_.slot, round_.working = slot, True
            self._queue.remove(queued)
            self._last_active = self._turn_began[queued.table] = self._clock()
            queued.slot = slot
            queued.called.set()

    def _slot_for(self, round_: _Round) -> WorkerSlot | None:
        if round_.slot is not None:
            if round_.slot not in self._free:
                return None
            self._free.remove(round_.slot)
            return round_.slot
        if self._free:
            return self._free.pop()
        if len(self._slots) == self._max_slots:
            return None
        self._slots.append(self._new_slot())
        return self._slots[-1]

    def _close_round(self, topic: str) -> None:
        """Begins the topic's next round once each table has had its turn in this one.

        A run that is to end waits for no table that has not come for its turn: it may never come.
        """
        round_ = self._rounds[topic]
        left = round_.left
        if self._over.is_set():
            left = left.intersection(each.table for each in self._queue)
        if not left and not round_.working:
            self._rounds[topic] = self._round(topic)

    def _round(self, topic: str) -> _Round:
        from cdc_assets.merge.intake.shared_reading import SharedReadings

        members = set(self._members[topic])
        count = len(members)
        return _Round(members, SharedReadings(lambda _: count))

    # ── idle tables ──────────────────────────────────────────────────────────────────────

    def wait_idle(self, table: str, topics: Iterable[str], due_in: DueIn) -> Ends | None:
        """Waits until a table is due.

        Args:
            table: the table, which has caught up.
            topics: the topics to watch.
            due_in: decides by their ends; called in another thread.

        Returns:
            The topics' ends; None if the run is over.
        """
        mine = _Idle(frozenset(topics), due_in)
        with self._lock:
            if self._stay is None or self._over.is_set():
                return None
            self._idle[table] = mine
            if self._watcher is None:
                self._watcher = threading.Thread(
                    target=self._watch, args=(self._stay,), name="topics", daemon=True
                )
                self._watcher.start()
        mine.called.wait()
        return mine.ends

    def end(self) -> None:
        """Ends the run: idle tables leave now, the others after their turn."""
        with self._lock:
            self._over.set()
            for each in self._idle.values():
                each.called.set()
            self._idle.clear()
            for topic in self._rounds:
                self._close_round(topic)
            self._assign()

    def stop(self) -> None:
        """Ends the run as `end` does; tables that wait for a turn do not get it."""
        with self._lock:
            self._stopped = True
            for each in self._queue:
                each.called.set()
            self._queue.clear()
        self.end()

    def close(self) -> None:
        """Gives up the sessions of all slots. Call it once no table works."""
        self.stop()
        for slot in self._slots:
            slot.forget()

    def _watch(self, stay: StayConditions) -> None:
        checked = self._clock()
        while not self._over.wait(stay.runs.look_seconds):
            try:
                self._call_due(stay)
                if self._is_spent(stay.runs):
                    self.end()
                elif self._clock() - checked >= HAND_OVER_SECONDS:
                    checked = self._clock()
                    if stay.must_end() or self._has_released():
                        self.end()
            except CdcError as error:
                _log.warning("the run ends, as it cannot look after its topics: %s", error)
                self.end()
            except Exception:
                _log.exception("the run ends, as it cannot look after its topics")
                self.end()

    def _has_released(self) -> bool:
        """Returns whether people have released a table that has left the run."""
        with self._lock:
            released = tuple(self._released)
        return any(is_released() for is_released in released)

    def _call_due(self, stay: StayConditions) -> None:
        """Calls the idle tables that are due by the ends of their topics."""
        with self._lock:
            idle = {t: (each, self._turn_began[t]) for t, each in self._idle.items()}
        topics = {topic for each, _ in idle.values() for topic in each.topics}
        if not topics:
            return
        ends, now = stay.read_ends(sorted(topics)), self._clock()
        waits = {table: each.due_in(ends, now - began) for table, (each, began) in idle.items()}
        behind = {table: wait for table, wait in waits.items() if wait is not None}
        due_topics = {self._topics[table] for table, wait in behind.items() if wait <= 0}
        due = [table for table in behind if self._topics[table] in due_topics]
        with self._lock:
            if behind:
                self._last_active = now
            for table in due:
                if (each := self._idle.pop(table, None)) is not None:
                    each.ends = ends
                    each.called.set()

    def _is_spent(self, runs: RunsConfig) -> bool:
        """Returns whether the run has reached its age, or was idle for too long."""
        with self._lock:
            is_idle = len(self._free) == len(self._slots) and not self._queue
        now = self._clock()
        return now - self._began >= runs.most_seconds or (
            is_idle and now - self._last_active >= runs.idle_seconds
        )
