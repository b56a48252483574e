"""Every request of a batch to Spark is in a step, which has a deadline and translates errors."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from pyspark.sql.connect.client import SparkConnectClient

from cdc_assets.merge.batch import BatchExecution
from cdc_assets.merge.statements.deadline import Steps
from cdc_assets_tests.merge.changing_table import KINDS, started
from cdc_assets_tests.merge.events import event, tombstone, truncate
from cdc_assets_tests.merge.one_table import TABLE, Make
from cdc_assets_tests.pipeline import Message
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

REQUESTS: Final = ("_execute", "_execute_and_fetch_as_iterator", "_analyze", "config")
HARMLESS: Final = {"could_release", "__del__", "is_debugging_enabled"}
"""Requests whose failure is only logged, as they release what the server keeps; and one that
PySpark makes once in a process, at the first column."""


class Watched:
    """The requests that batches make outside their steps, by the code that makes them."""

    def __init__(self) -> None:
        self.outside: set[str] = set()
        self.inside = 0
        self._running = 0
        self._steps = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    @contextmanager
    def step(self, step: Any) -> Iterator[None]:
        self._steps += 1
        try:
            with step:
                yield
        finally:
            self._steps -= 1

    def asked(self) -> None:
        if self._steps:
            self.inside += 1
        elif self._running:
            frames = traceback.extract_stack()
            if not HARMLESS & {each.name for each in frames}:
                own = [f for f in frames if "/cdc_assets/" in f.filename]
                self.outside.add(f"{own[-1].filename}:{own[-1].lineno} {own[-1].line}")


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    found = Watched()

    def asking(method: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*args: Any, **named: Any) -> Any:
            found.asked()
            return method(*args, **named)

        return ask

    for name in REQUESTS:
        monkeypatch.setattr(SparkConnectClient, name, asking(getattr(SparkConnectClient, name)))
    run, step = BatchExecution.run, Steps.step

    def running(self: BatchExecution) -> object:
        with found.running():
            return run(self)

    monkeypatch.setattr(BatchExecution, "run", running)
    monkeypatch.setattr(
        Steps, "step", lambda self, *args, **named: found.step(step(self, *args, **named))
    )
    return found


def test_of_a_table_with_a_key(pipeline: Make, watched: Watched) -> None:
    world = started(pipeline)
    for kind in (KINDS[0], *(KINDS if profiles.is_soak() else KINDS[::2])):
        world.pipeline.produce(TABLE, kind(world.source))
        world.settle()
        world.check(kind.__name__)
    assert watched.outside == set()
    assert watched.inside


def sent(lsn: int) -> tuple[Message, ...]:
    """Changes of all kinds: of a snapshot, before it, late, deleted, truncated."""
    at = 1000 * lsn
    return (
        event("r", {"id": 1, "name": "read"}, at),
        event("u", {"id": 1, "name": "in flight"}, at - 1),
        event("c", {"id": 2, "name": "made"}, at + 20, commit=at + 10),
        truncate(at + 40, commit=at + 30),
        event("c", {"id": 3, "name": "late"}, at + 60, commit=at + 50),
        event("c", {"id": 4, "name": "here"}, at + 80, commit=at + 70),
        event("d", {"id": 4, "name": "here"}, at + 100, commit=at + 90),
        tombstone(4),
        tombstone(3),
    )


@profiles.in_soak
@pytest.mark.parametrize("mode", ["mirror", "changelog", "history"])
def test_in_each_mode(pipeline: Make, watched: Watched, mode: str) -> None:
    made = pipeline(bad_records="quarantine", tables={TABLE: {"mode": mode}})
    made.create_topic(TABLE)
    for lsn in (1, 2):
        made.produce(TABLE, sent(lsn))
        made.merge(TABLE)
    made.produce(TABLE, sent(2))
    made.merge(TABLE)
    assert watched.outside == set()
    assert watched.inside


@profiles.in_soak
def test_of_a_table_without_a_key(pipeline: Make, watched: Watched) -> None:
    def keyless(op: str, name: str, at: int) -> Message:
        return event(op, {"id": 1, "name": name}, at, commit=at - 5, order=1, key=())

    made = pipeline()
    made.create_topic(TABLE)
    made.produce(TABLE, [keyless("c", "a", 10), keyless("c", "b", 20)])
    made.merge(TABLE)
    made.produce(TABLE, [keyless("d", "a", 30), keyless("c", "b", 20), keyless("c", "c", 40)])
    made.merge(TABLE)
    made.produce(TABLE, [truncate(50, commit=45), keyless("c", "d", 60)])
    made.merge(TABLE)
    assert watched.outside == set()
    assert watched.inside
