"""Schedules the tables of a run.

- As many tables work at the same time as the run has places; the others wait in a queue.
- Tables of one topic work in *rounds*, one after the other and in one place, so that they share
  its records (`cdc_assets.merge.intake.shared_reading`): none begins a second turn before
  each of them has had its first.
- In a run that stays, a table that has caught up *rests* until its topics have moved and it is
  due. One thread watches the topics of all resting tables, with one request to Kafka. Tables of one
  topic are due together: their round waits for each of them anyway.

A run stays until its tables have had nothing to do for a while, until it has reached its age or
the end of its hour, until another run wants one of its tables, or until it is told to stop.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.config.platform import RunsConfig
from cdc_assets.errors import CdcError
from cdc_assets.orchestration.places import Place
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge.intake.shared_reading import SharedReadings

Ends = Mapping[str, OffsetVector]
"""The topics' ends, by topic."""

DueIn = Callable[[Ends, float], float | None]
"""Returns in how many seconds a table is due, and None if it has nothing to do.

By the topics' ends, and the seconds since its last turn began.
"""

Look = Callable[[Iterable[str]], Ends]

WANTED_SECONDS: Final = 3.0
"""How often to check whether another run wants one of the tables."""

_log: Final = logging.getLogger(__name__)


class RunIsOverError(Exception):
    """The run was told to stop before a table had its turn, or the table has left it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A table's turn: its place, and the records of its topic that its round has read already."""

    place: Place
    readings: SharedReadings


@dataclass
class _Round:
    """One round of the tables of a topic, which share its records.

    Attributes:
        left: the tables that have not had their turn in this round.
        readings: the records read so far.
        place: the place of the first of them, which all others must use, too.
        working: whether one of them has its turn now.
    """

    left: set[str]
    readings: SharedReadings
    place: Place | None = None
    working: bool = False


@dataclass
class _Waiting:
    """A table in the queue; ``place`` is the place assigned to it."""

    table: str
    place: Place | None = None
    called: threading.Event = field(default_factory=threading.Event)


@dataclass
class _Resting:
    """A table that has caught up.

    Attributes:
        topics: the topics whose ends decide whether it is due.
        due_in: decides by these ends.
        ends: the ends by which it became due.
        called: set once it is due or the run is over.
    """

    topics: frozenset[str]
    due_in: DueIn
    ends: Ends | None = None
    called: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class Stay:
    """The conditions under which a run stays.

    Attributes:
        runs: the configuration of runs.
        look: returns the ends of topics.
        is_wanted: returns whether the run has to end for another run's sake, or because its hour
            is over.
    """

    runs: RunsConfig
    look: Look
    is_wanted: Callable[[], bool]


class Turns:
    """The turns of one run's tables.

    Args:
        topics: by table of the run (the name of its step), its topic.
        new_place: creates a place.
        places: the greatest number of places.
        stay: the conditions of staying; None in a run whose tables end once they have caught up.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        topics: Mapping[str, str],
        new_place: Callable[[], Place],
        places: int,
        stay: Stay | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._topics, self._stay, self._clock = topics, stay, clock
        self._new_place, self._most = new_place, places
        self._lock = threading.Lock()
        self._members = {topic: {t for t in topics if topics[t] == topic}
                         for topic in topics.values()}  # fmt: skip
        self._rounds = {topic: self._round(topic) for topic in self._members}
        self._places: list[Place] = []
        self._free: list[Place] = []
        self._queue: list[_Waiting] = []
        self._resting: dict[str, _Resting] = {}
        self._turned: dict[str, float] = {}
        self._let_go: list[Callable[[], bool]] = []
        self._looker: threading.Thread | None = None
        self._began = self._moved = clock()
        self._over = threading.Event()
        self._stopped = False

    @property
    def stays(self) -> bool:
        """Whether tables may rest."""
        return self._stay is not None and not self._over.is_set()

    @property
    def is_over(self) -> bool:
        """Whether the run is told to end, or to stop."""
        return self._stopped or self._over.is_set()

    @property
    def is_stopped(self) -> bool:
        """Whether no table is to begin another batch."""
        return self._stopped

    @property
    def queued(self) -> int:
        """The number of tables that wait for a place."""
        return len(self._queue)

    @property
    def free(self) -> int:
        """The number of places that no table uses."""
        return len(self._free)

    @property
    def resting(self) -> int:
        """The number of tables that rest."""
        return len(self._resting)

    def is_alone(self, table: str) -> bool:
        """Returns whether the run has no other table."""
        return len(self._topics) == 1 and table in self._topics

    # ── turns ────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def turn(self, table: str, entry: TableEntry) -> Iterator[Turn]:
        """Waits for a table's turn, and yields it. A turn that raises may be repeated.

        Raises:
            RunIsOverError: if the run is told to stop before, or the table has left it.
        """
        place, round_ = self._begin(table)
        is_done = False
        try:
            yield Turn(place, round_.readings)
            is_done = True
        finally:
            if is_done:
                round_.readings.leave(entry)
            self._end(table, place, round_, is_done=is_done)

    def leave(self, table: str, entry: TableEntry) -> None:
        """Removes a table, which has no more turns."""
        with self._lock:
            topic = self._topics[table]
            self._members[topic].discard(table)
            round_ = self._rounds[topic]
            was_left = table in round_.left
            round_.left.discard(table)
            self._close(topic)
            self._assign()
        if was_left:
            round_.readings.leave(entry)

    def let_go(self, is_back: Callable[[], bool]) -> None:
        """Records that a table has left because people want nothing to be merged into it.

        Once they want it merged again, the run ends, so that the next run takes the table.
        """
        with self._lock:
            self._let_go.append(is_back)

    def _begin(self, table: str) -> tuple[Place, _Round]:
        mine = _Waiting(table)
        with self._lock:
            if self._stopped or table not in self._members[self._topics[table]]:
                raise RunIsOverError
            self._queue.append(mine)
            self._close(self._topics[table])
            self._assign()
        mine.called.wait()
        if mine.place is None:
            raise RunIsOverError
        return mine.place, self._rounds[self._topics[table]]

    def _end(self, table: str, place: Place, round_: _Round, *, is_done: bool) -> None:
        with self._lock:
            round_.working = False
            if is_done:
                round_.left.discard(table)
                self._close(self._topics[table])
            self._free.append(place)
            self._moved = self._clock()
            self._assign()

    def _assign(self) -> None:
        """Assigns places to the tables that have waited longest and can use them."""
        for waiting in self._queue[:]:
            round_ = self._rounds[self._topics[waiting.table]]
            if round_.working or waiting.table not in round_.left:
                continue
            place = self._place_for(round_)
            if place is None:
                continue
            round_.place, round_.working = place, True
            self._queue.remove(waiting)
            self._moved = self._turned[waiting.table] = self._clock()
            waiting.place = place
            waiting.called.set()

    def _place_for(self, round_: _Round) -> Place | None:
        if round_.place is not None:
            if round_.place not in self._free:
                return None
            self._free.remove(round_.place)
            return round_.place
        if self._free:
            return self._free.pop()
        if len(self._places) == self._most:
            return None
        self._places.append(self._new_place())
        return self._places[-1]

    def _close(self, topic: str) -> None:
        """Begins the next round once each table has had its turn in this one.

        A run that is to end waits for none that has not come for its turn: it may never come.
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

    # ── rests ────────────────────────────────────────────────────────────────────────────

    def rest(self, table: str, topics: Iterable[str], due_in: DueIn) -> Ends | None:
        """Waits until a table is due.

        Args:
            table: the table, which has caught up.
            topics: the topics to watch.
            due_in: decides by their ends; called in another thread.

        Returns:
            The topics' ends; None if the run is over.
        """
        mine = _Resting(frozenset(topics), due_in)
        with self._lock:
            if self._stay is None or self._over.is_set():
                return None
            self._resting[table] = mine
            if self._looker is None:
                self._looker = threading.Thread(
                    target=self._look_on, args=(self._stay,), name="topics", daemon=True
                )
                self._looker.start()
        mine.called.wait()
        return mine.ends

    def end(self) -> None:
        """Ends the run: resting tables leave now, the others after their turn."""
        with self._lock:
            self._over.set()
            for each in self._resting.values():
                each.called.set()
            self._resting.clear()
            for topic in self._rounds:
                self._close(topic)
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
        """Gives up all places. Call it once no table works."""
        self.stop()
        for place in self._places:
            place.forget()

    def _look_on(self, stay: Stay) -> None:
        asked = self._clock()
        while not self._over.wait(stay.runs.look_seconds):
            try:
                self._wake(stay)
                if self._is_spent(stay.runs):
                    self.end()
                elif self._clock() - asked >= WANTED_SECONDS:
                    asked = self._clock()
                    if stay.is_wanted() or self._is_back():
                        self.end()
            except CdcError as error:
                _log.warning("the run ends, as it cannot look after its topics: %s", error)
                self.end()
            except Exception:
                _log.exception("the run ends, as it cannot look after its topics")
                self.end()

    def _is_back(self) -> bool:
        with self._lock:
            let_go = tuple(self._let_go)
        return any(is_back() for is_back in let_go)

    def _wake(self, stay: Stay) -> None:
        with self._lock:
            resting = {t: (each, self._turned[t]) for t, each in self._resting.items()}
        topics = {topic for each, _ in resting.values() for topic in each.topics}
        if not topics:
            return
        ends, now = stay.look(sorted(topics)), self._clock()
        waits = {table: each.due_in(ends, now - at) for table, (each, at) in resting.items()}
        behind = {table: wait for table, wait in waits.items() if wait is not None}
        due_topics = {self._topics[table] for table, wait in behind.items() if wait <= 0}
        due = [table for table in behind if self._topics[table] in due_topics]
        with self._lock:
            if behind:
                self._moved = now
            for table in due:
                if (each := self._resting.pop(table, None)) is not None:
                    each.ends = ends
                    each.called.set()

    def _is_spent(self, runs: RunsConfig) -> bool:
        with self._lock:
            is_idle = len(self._free) == len(self._places) and not self._queue
        now = self._clock()
        return now - self._began >= runs.most_seconds or (
            is_idle and now - self._moved >= runs.idle_seconds
        )
