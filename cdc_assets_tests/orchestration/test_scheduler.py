"""Who of a run's tables works when. No Spark and no Kafka: places and the log's ends are given."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

import pytest

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.offsets import OffsetVector, total_length
from cdc_assets.changes.slo import SloTarget
from cdc_assets.config.platform import RunsConfig
from cdc_assets.errors import UnreachableError
from cdc_assets.orchestration.scheduler import (
    Ends,
    RunIsOverError,
    StayConditions,
    TableScheduler,
    Turn,
    WorkerSlot,
)
from cdc_assets.registry import TableEntry
from cdc_assets_tests.waiting import until

pytestmark = pytest.mark.unit

SOON = RunsConfig(look_seconds=0.005, every_seconds=0, idle_seconds=600, most_seconds=600)


@dataclass
class Spot:
    """A place that nobody works in really."""

    forgotten: bool = False

    def forget(self) -> None:
        self.forgotten = True


def new_slot() -> WorkerSlot:
    return cast("WorkerSlot", Spot())


def entry(table: str) -> TableEntry:
    name = TableName("shop", "public", table)
    return TableEntry(name, table, LakeName("shop", table), datetime.now(UTC))


@dataclass
class Group:
    """A run's tables, each in a thread; ``begun``: who has a turn now, in the order they came."""

    scheduler: TableScheduler
    begun: list[str] = field(default_factory=list[str])
    may_end: dict[str, threading.Event] = field(default_factory=dict[str, threading.Event])
    threads: list[threading.Thread] = field(default_factory=list[threading.Thread])
    over: list[str] = field(default_factory=list[str])
    taken: dict[str, Turn] = field(default_factory=dict[str, Turn])

    def start(self, *tables: str) -> None:
        for table in tables:
            self.may_end[table] = threading.Event()
            thread = threading.Thread(target=self._turn, args=(table,), daemon=True)
            self.threads.append(thread)
            queued = self.scheduler.queued
            thread.start()
            until(
                lambda t=table, q=queued: t in self.begun or self.scheduler.queued > q or self.over
            )

    def _turn(self, table: str) -> None:
        try:
            with self.scheduler.turn(table, entry(table)) as turn:
                self.taken[table] = turn
                self.begun.append(table)
                assert self.may_end[table].wait(20)
        except RunIsOverError:
            self.over.append(table)

    def end(self, table: str) -> None:
        self.may_end[table].set()

    def wait_for(self, *tables: str) -> None:
        until(lambda: sorted(self.begun) == sorted(tables), f"{tables} have begun: {self.begun}")

    def join(self) -> None:
        for each in self.may_end.values():
            each.set()
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive()


@contextmanager
def group(topics: dict[str, str], places: int) -> Iterator[Group]:
    made = Group(TableScheduler(topics, new_slot, places, None))
    yield made
    made.join()


def test_so_many_tables_work_as_there_are_places_and_the_others_wait_in_order() -> None:
    with group({t: t for t in "abcd"}, 2) as run:
        run.start("a", "b", "c", "d")
        assert run.begun == ["a", "b"]
        run.end("b")
        run.wait_for("a", "b", "c")
        assert run.taken["c"].slot is run.taken["b"].slot
        assert run.taken["c"].slot is not run.taken["a"].slot
        run.end("a")
        run.wait_for("a", "b", "c", "d")


def test_tables_of_a_topic_take_turns_in_one_place_and_share_what_is_read() -> None:
    with group({"a": "t", "b": "t", "c": "other"}, 3) as run:
        run.start("a", "b", "c")
        assert run.begun == ["a", "c"]
        run.end("a")
        run.wait_for("a", "b", "c")
        assert run.taken["a"].slot is run.taken["b"].slot
        assert run.taken["a"].readings is run.taken["b"].readings
        assert run.taken["c"].readings is not run.taken["a"].readings


def test_none_has_a_second_turn_before_each_of_its_topic_has_had_one() -> None:
    with group({"a": "t", "b": "t"}, 2) as run:
        run.start("a")
        first = run.taken["a"].readings
        run.end("a")
        until(lambda: run.scheduler.free == 1)
        run.start("a")
        assert run.begun == ["a"]
        run.start("b")
        run.wait_for("a", "b")
        run.end("b")
        run.wait_for("a", "b", "a")
        assert run.taken["b"].readings is first
        assert run.taken["a"].readings is not first


def test_a_turn_that_failed_is_had_again_in_the_same_round() -> None:
    scheduler = TableScheduler({"a": "t", "b": "t"}, new_slot, 1, None)
    seen: list[Turn] = []

    def fails() -> None:
        with scheduler.turn("a", entry("a")) as turn:
            seen.append(turn)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    with scheduler.turn("a", entry("a")) as turn:
        assert turn.readings is seen[0].readings


def test_who_leaves_is_not_waited_for() -> None:
    scheduler = TableScheduler({"a": "t", "b": "t"}, new_slot, 1, None)
    with scheduler.turn("a", entry("a")) as turn:
        first = turn.readings
    scheduler.leave("b", entry("b"))
    with scheduler.turn("a", entry("a")) as turn:
        assert turn.readings is not first


def test_who_has_left_waits_for_no_turn() -> None:
    scheduler = TableScheduler({"a": "t"}, new_slot, 1, None)
    scheduler.leave("a", entry("a"))
    with pytest.raises(RunIsOverError), scheduler.turn("a", entry("a")):
        pass


def test_who_waits_for_a_turn_is_told_when_the_run_stops() -> None:
    with group({t: t for t in "ab"}, 1) as run:
        run.start("a", "b")
        run.scheduler.stop()
        until(lambda: run.over == ["b"])
        with pytest.raises(RunIsOverError), run.scheduler.turn("a", entry("a")):
            pass


def test_places_are_given_back_in_the_end() -> None:
    made: list[Spot] = []

    def place() -> WorkerSlot:
        made.append(Spot())
        return cast("WorkerSlot", made[-1])

    scheduler = TableScheduler({"a": "a"}, place, 3, None)
    with scheduler.turn("a", entry("a")):
        pass
    scheduler.close()
    assert [each.forgotten for each in made] == [True]


# ── runs that stay ───────────────────────────────────────────────────────────────────────────


@dataclass
class Log:
    """Topics of one partition, and what is asked of them."""

    ends: dict[str, int] = field(default_factory=dict[str, int])
    asked: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    wanted: bool = False
    is_down: bool = False

    def look(self, topics: Iterable[str]) -> Ends:
        self.asked.append(tuple(topics))
        if self.is_down:
            raise UnreachableError("no answer", where="Kafka", remedy="start it")
        return {t: OffsetVector.of({0: self.ends[t]}) for t in topics if t in self.ends}

    def scheduler(self, runs: RunsConfig, *tables: str) -> TableScheduler:
        stay = StayConditions(runs, self.look, lambda: self.wanted)
        return TableScheduler({t: t for t in tables}, new_slot, 2, stay)


def rests(
    scheduler: TableScheduler,
    table: str,
    committed: int,
    runs: RunsConfig = SOON,
    *,
    topic: str | None = None,
) -> Ends | None:
    with scheduler.turn(table, entry(table)):
        pass
    done, topic = OffsetVector.of({0: committed}), topic or table
    pace = runs.pace(SloTarget(95, 300, 24), 1)

    def due_in(ends: Ends, rested: float) -> float | None:
        return runs.wait(total_length(done.ranges_to(ends[topic])), rested, pace)

    return scheduler.wait_idle(table, [topic], due_in)


def test_a_table_rests_until_its_topic_has_more() -> None:
    log = Log({"a": 5, "b": 7})
    scheduler = log.scheduler(SOON, "a", "b")
    found: dict[str, Ends | None] = {}
    threads = [
        threading.Thread(target=lambda t=t: found.update({t: rests(scheduler, t, log.ends[t])}))
        for t in "ab"
    ]
    for thread in threads:
        thread.start()
    until(lambda: ("a", "b") in log.asked, "both are asked for at once")
    assert found == {}
    log.ends["b"] = 8
    threads[1].join(20)
    assert found == {"b": {t: OffsetVector.of({0: log.ends[t]}) for t in "ab"}}
    scheduler.end()
    threads[0].join(20)
    assert found["a"] is None


def test_a_run_that_ends_waits_for_no_table_that_has_not_come() -> None:
    stay = StayConditions(SOON, Log({"t": 5}).look, lambda: False)
    scheduler = TableScheduler({"a": "t", "b": "t"}, new_slot, 2, stay)
    had: list[str] = []

    def turn(table: str) -> None:
        with scheduler.turn(table, entry(table)):
            had.append(table)

    turn("a")
    waiting = threading.Thread(target=turn, args=("a",), daemon=True)
    waiting.start()
    until(lambda: scheduler.queued == 1)
    scheduler.end()
    waiting.join(20)
    assert had == ["a", "a"]
    turn("a")
    turn("b")
    assert had == ["a", "a", "a", "b"], "one that comes late has its turn, too"


@pytest.mark.parametrize(
    "runs",
    [SOON.model_copy(update={name: 0.05}) for name in ("idle_seconds", "most_seconds")],
    ids=["idle", "age"],
)
def test_a_run_is_over_once_it_was_idle_or_is_old(runs: RunsConfig) -> None:
    assert rests(Log({"a": 5}).scheduler(runs, "a"), "a", 5) is None


def test_a_run_is_over_for_another_ones_sake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_assets.orchestration.scheduler.HAND_OVER_SECONDS", 0.0)
    assert rests(Log({"a": 5}, wanted=True).scheduler(SOON, "a"), "a", 5) is None


def test_a_run_is_over_once_a_table_that_was_let_go_is_wanted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cdc_assets.orchestration.scheduler.HAND_OVER_SECONDS", 0.0)
    asked: list[bool] = []

    def is_back() -> bool:
        asked.append(len(asked) == 3)
        return asked[-1]

    scheduler = Log({"a": 5}).scheduler(SOON, "a", "b")
    scheduler.on_released(is_back)
    assert rests(scheduler, "a", 5) is None
    assert asked == [False, False, False, True], "it stays until then"


def test_a_run_is_over_when_kafka_does_not_answer() -> None:
    assert rests(Log({"a": 5}, is_down=True).scheduler(SOON, "a"), "a", 5) is None


def test_a_few_changes_wait_and_many_do_not() -> None:
    runs = RunsConfig(every_seconds=5, many_changes=100)
    pace = runs.pace(SloTarget(95, 300, 24), 1)
    assert [runs.wait(n, 4.5, pace) for n in (0, 1, 99, 100)] == [None, 0.5, 0.5, 0.0]
    assert [runs.wait(n, 5.0, pace) for n in (0, 1, 99, 100)] == [None, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("within_seconds", "budget_left", "seconds"),
    [
        (300, 1, 75),
        (300, 0.5, 37.5),
        (300, 0.08, 6),
        (300, 0, 6),
        (300, -3, 6),
        (3600, 1, 900),
        (8, 1, 2),
        (8, -1, 2),
        (24, 0.5, 6),
    ],
)
def test_the_promise_says_how_often_a_table_is_merged(
    within_seconds: float, budget_left: float, seconds: float
) -> None:
    pace = RunsConfig().pace(SloTarget(95, within_seconds, 24), budget_left)
    assert pace.seconds == pytest.approx(seconds)
    fixed = RunsConfig(every_seconds=11).pace(SloTarget(95, within_seconds, 24), budget_left)
    assert (fixed.seconds, fixed.why) == (11, "runs.every_seconds")


def test_a_run_stays_while_changes_wait_for_their_turn() -> None:
    now = [100.0]
    log = Log({"a": 6})
    runs = SOON.model_copy(update={"every_seconds": 75.0, "idle_seconds": 60.0})
    stay = StayConditions(runs, log.look, lambda: False)
    scheduler = TableScheduler({"a": "a"}, new_slot, 1, stay, clock=lambda: now[0])
    found: list[Ends | None] = []
    thread = threading.Thread(target=lambda: found.append(rests(scheduler, "a", 5, runs)))
    thread.start()
    for now[0] in (150.0, 174.0):
        looks = len(log.asked)
        until(lambda looks=looks: len(log.asked) > looks + 1)
        assert scheduler.stays, now
    now[0] = 175.0
    thread.join(20)
    assert found == [{"a": OffsetVector.of({0: 6})}]
    scheduler.stop()


def test_tables_of_one_topic_are_due_together() -> None:
    now = [100.0]
    log = Log({"t": 6})
    slow = SOON.model_copy(update={"every_seconds": 75.0})
    stay = StayConditions(slow, log.look, lambda: False)
    both = {"a": "t", "b": "t"}
    scheduler = TableScheduler(both, new_slot, 1, stay, clock=lambda: now[0])
    found: dict[str, Ends | None] = {}

    def rest(table: str, every_seconds: float) -> None:
        runs = slow.model_copy(update={"every_seconds": every_seconds})
        found[table] = rests(scheduler, table, 5, runs, topic="t")

    threads = [threading.Thread(target=rest, args=each) for each in (("a", 6.0), ("b", 75.0))]
    for each in threads:
        each.start()
    until(lambda: scheduler.idle == len(both))
    now[0] = 106.0
    for each in threads:
        each.join(20)
    assert found == {table: {"t": OffsetVector.of({0: 6})} for table in both}
    scheduler.stop()


def test_a_table_that_rests_is_told_for_how_long() -> None:
    now = [100.0]
    log = Log({"a": 6})
    runs = SOON.model_copy(update={"every_seconds": 5.0})
    stay = StayConditions(runs, log.look, lambda: False)
    scheduler = TableScheduler({"a": "a"}, new_slot, 1, stay, clock=lambda: now[0])
    found: list[Ends | None] = []
    thread = threading.Thread(target=lambda: found.append(rests(scheduler, "a", 5, runs)))
    thread.start()
    until(lambda: len(log.asked) > 1)
    assert found == []
    now[0] = 105.0
    thread.join(20)
    assert found == [{"a": OffsetVector.of({0: 6})}]
    scheduler.stop()
