"""How often a warm micro-batch asks a catalog that is elsewhere, and what for.

A REST catalog with a login and files in S3, both on this machine. Such catalogs take 100 to 500 ms
for a commit, where SQLite takes a few: what counts is how often they are asked.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Final

from cdc_assets_devstack.configured import layout_of, stack_of
from cdc_assets_devstack.layout import StackLayout
from cdc_assets_devstack.ports import pick_free_ports
from pyspark.sql import SparkSession

from cdc_assets.config import ReplicationConfig
from cdc_assets.effects import Moment, hooked
from cdc_assets.lake.side import NAMESPACE
from cdc_assets.merge import BatchResult
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.orchestration.scheduler import WorkerSlot
from cdc_assets_tests.bench.figures import Figures
from cdc_assets_tests.bench.world import World
from cdc_assets_tests.configuration import on_ports, write
from cdc_assets_tests.elsewhere.front import Front, Request
from cdc_assets_tests.elsewhere.lake import lake_elsewhere
from cdc_assets_tests.merge.events import event, tombstone
from cdc_assets_tests.pipeline import Message, Pipeline

TABLE: Final = "public.t"
ROWS: Final = 1_000
CHANGES: Final = 20
WARM_UPS: Final = 3
GOAL: Final = "≤ 8"
SLOW_SECONDS: Final = 0.2
TURN: Final = "look whether there is more"


def measure(world: World) -> Iterator[Figures]:
    """Batches with updates only, and with deletes."""
    world.say("a REST catalog, S3 and a Spark server for them are started")
    home = world.home / "elsewhere"
    home.mkdir()
    with lake_elsewhere(StackLayout(home)) as lake:
        ports = {**pick_free_ports().as_dict(), "kafka": world.stack.layout.ports.kafka}
        document = on_ports(world.stack.layout.ports.of(ports), lake=lake.document, sources={})
        config = write(home / "replication.yaml", document)
        stack = stack_of(config, layout_of(config))
        try:
            stack.up(["spark"])
            yield from _figures(OneTable(config, lake.front), world.scale.repeats)
        finally:
            stack.down()


def _figures(table: OneTable, repeats: int) -> Iterator[Figures]:
    try:
        table.merge(table.inserts())
        kinds = {"updates": table.updates, "updates and deletes": table.deletes}
        for _ in range(WARM_UPS):
            for messages in kinds.values():
                table.merge(messages())
        rows, seconds = [], []
        for name, messages in kinds.items():
            turns = [table.merge(messages()) for _ in range(repeats)]
            rows.extend(_row(name, turns))
            with table.slowly():
                slow = [table.merge(messages()).seconds for _ in range(repeats)]
            total = median(len(turn.asked) for turn in turns)
            seconds.append({
                "batch": name,
                "requests": total,
                "goal": GOAL,
                "s": round(median(turn.seconds for turn in turns), 2),
                f"s, each request {SLOW_SECONDS:g} s longer": round(median(slow), 2),
            })  # fmt: skip
        yield Figures("Catalog requests of a warm turn with one micro-batch", seconds)
        yield Figures("What for", rows)
    finally:
        table.close()


class Turn:
    """One, and what it asked the catalog: client, kind of request, and at which point."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.seconds = 0.0


def _row(batch: str, turns: Sequence[Turn]) -> Iterator[dict[str, object]]:
    """How often each is asked in the median turn, in the order of a batch."""
    usual = sorted(turns, key=lambda turn: len(turn.asked))[len(turns) // 2]
    for (client, kind, point), count in Counter(usual.asked).items():
        yield {"batch": batch, "at": point, "by": client, "request": kind, "times": count}


class OneTable:
    """A table whose changes are written to Kafka without a database, merged as a run does it."""

    def __init__(self, config: ReplicationConfig, front: Front) -> None:
        self._front = front
        self._spark = spark_resource(config)
        self._place: WorkerSlot | None = None
        self._pipeline = Pipeline(config, self._session, config.home)
        self._pipeline.create_topic(TABLE)
        self._lsn, self._next = 1_000, 0

    def inserts(self) -> list[Message]:
        """The rows that the table begins with."""
        return [self._insert() for _ in range(ROWS)]

    def updates(self) -> list[Message]:
        """Of some of them."""
        return [self._event("u", self._next - 1 - n) for n in range(CHANGES)]

    def deletes(self) -> list[Message]:
        """Of the newest rows, beside new rows and updates."""
        gone = self._next - 1
        return [*self.updates(), self._event("d", gone), tombstone(gone), self._insert()]

    def merge(self, messages: list[Message]) -> Turn:
        """One turn, in which they are one batch."""
        self._pipeline.produce(TABLE, messages)
        turn, at, begun = Turn(), TURN, time.perf_counter()
        seen = len(self._front.requests)

        def look(point: str, moment: Moment) -> None:
            nonlocal at, seen
            if moment is Moment.BEFORE:
                seen = self._collect(turn, at, seen)
                at = point
            else:
                seen = self._collect(turn, point, seen)
                at = f"after {point}"

        with hooked(look):
            entry = self._pipeline.entry(TABLE)
            drained = self._placed.replicator.drain(
                entry, window=None, run_id="bench", budget_seconds=600
            )
            batches = [each for each in drained if isinstance(each, BatchResult)]
        self._collect(turn, at, seen)
        turn.seconds = time.perf_counter() - begun
        if len(batches) != 1:
            msg = f"{len(messages)} records were to be one batch, not {len(batches)}"
            raise RuntimeError(msg)
        return turn

    @contextmanager
    def slowly(self) -> Iterator[None]:
        """With a catalog that is far away."""
        self._front.delay_seconds = SLOW_SECONDS
        yield
        self._front.delay_seconds = 0.0

    def close(self) -> None:
        """Give the session back."""
        if self._place is not None:
            self._place.forget()

    def _session(self) -> SparkSession:
        return self._placed.session()

    @property
    def _placed(self) -> WorkerSlot:
        if self._place is None:
            self._place = WorkerSlot(self._pipeline.config, self._spark.new_session)
        return self._place

    def _collect(self, turn: Turn, point: str, since: int) -> int:
        new = self._front.requests[since:]
        turn.asked.extend((each.client, _asked(each), point) for each in new)
        return since + len(new)

    def _insert(self) -> Message:
        self._next += 1
        return self._event("c", self._next - 1)

    def _event(self, op: str, id_: int) -> Message:
        self._lsn += 8
        row = {"id": id_, "name": f"{op}{self._lsn}"}
        return event(op, row, self._lsn, commit=self._lsn - 8)


def _asked(request: Request) -> str:
    """For the table of figures; SQL's name of a branch is looked for as a table's first."""
    if request.table.startswith("branch_"):
        return f"{request.kind} (no such table)"
    return f"{request.kind} (side table)" if request.namespace == NAMESPACE else request.kind
