"""Holds the facts that all parts of a table's step share: its entry, its turn, its services.

Two facts change while a step runs, so that its parts read them at each use. `TableStep.entry` is
replaced when the table was renamed at its source. `TableStep.services` are those of the worker slot
in which the table has its turn, and a spare set between its turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property
from typing import TYPE_CHECKING, Final

import dagster as dg

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig, SourceConfig
from cdc_assets.desired import NOTHING, TableDirectives
from cdc_assets.errors import HeldError
from cdc_assets.log.hours import HourWindow, hour_of
from cdc_assets.operate.services import Services
from cdc_assets.operate.states import held_words
from cdc_assets.operate.survey import TableSurvey, survey
from cdc_assets.orchestration.hand_over import scheduler_of
from cdc_assets.orchestration.keys import REPLAY, TAG_MODE, TAIL
from cdc_assets.orchestration.scheduler import TableScheduler, Turn, WorkerSlot
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge import BatchResult
    from cdc_assets.merge.intake.shared_reading import SharedReadings
    from cdc_assets.orchestration.resources import ReplicationSpark

OnBatch = Callable[["BatchResult"], None]

BACKFILL_TAG: Final = "dagster/backfill"
RANGE_TAG: Final = "dagster/asset_partition_range_start"

LOOK_SECONDS: Final = 2.0
"""How often a long turn reads the table's directives."""
YIELD_SECONDS: Final = 0.5
"""How often a table that waits for another writer's publish reads its directives."""


class Intention(Enum):
    """The reason why a run was started, which decides what it merges.

    Attributes:
        TAIL: a sensor or a command started the run. It merges from the committed offsets to the end
            of the log, hour by hour, until caught up or out of time. In a run with other tables,
            only up to the log's end at the start of the turn, so that no busy table keeps the
            others waiting; with other tables of its topic, only as far as these have read, see
            `cdc_assets.merge.intake.shared_reading`. A run of a sensor stays: a table has turn
            after turn in it, see `cdc_assets.orchestration.scheduler`.
        REPLAY: a backfill, or a range of partitions; also a run of a backfill that is started
            again, from which Dagster takes the tag once the backfill has ended. The run merges
            the chosen hours once more, then those of their records that were not merged yet.
        BY_HAND: a person chose one partition. The run merges like a tail; if that hour is over and
            held nothing new, it replays the hour.
    """

    TAIL = auto()
    REPLAY = auto()
    BY_HAND = auto()


def intention_of(run: dg.DagsterRun, instance: dg.DagsterInstance) -> Intention:
    """Reads the intention from a run's tags; an explicit tag wins."""
    mode = run.tags.get(TAG_MODE)
    if mode == TAIL:
        return Intention.TAIL
    if mode == REPLAY or BACKFILL_TAG in run.tags or RANGE_TAG in run.tags:
        return Intention.REPLAY
    first = instance.get_run_by_id(run.root_run_id) if run.root_run_id else None
    return Intention.REPLAY if first and BACKFILL_TAG in first.tags else Intention.BY_HAND


class DirectiveWatch:
    """Reads the directives for one table while a run merges it, rarely enough to be cheap.

    Nothing is merged into a table that people hold (paused or dropped): a tail leaves it, before
    its next batch at the latest; the others fail, and say how to resume the table. A writer that
    leases the table to publish has it wait before its next turn, and end its turn before its next
    batch.

    Args:
        services: the services that store the directives.
        table: the table.
    """

    def __init__(self, services: Services, table: TableName) -> None:
        self._services, self._table = services, table
        self._directives: TableDirectives = NOTHING
        self._looked = float("-inf")

    def wait_for_publish(self, scheduler: TableScheduler) -> None:
        """Waits as long as another writer leases the table for a publish of its own.

        That is before a turn, not in it: other tables may use the slot. The lease expires within a
        minute, unless it is renewed.
        """
        while self._read().yields is not None and not scheduler.is_over:
            time.sleep(YIELD_SECONDS)

    def hold(self, intention: Intention) -> str:
        """Says why people hold the table; empty if they do not.

        Raises:
            HeldError: if they do, and a person has asked for this very run.
        """
        said = held_words(self._table, self._read(LOOK_SECONDS))
        if said and intention is not Intention.TAIL:
            what, _, remedy = said.partition(" → ")
            raise HeldError(what, where=f"table={self._table}", remedy=remedy)
        return said

    def is_released(self) -> bool:
        """Returns whether people no longer hold the table; may be called in another thread."""
        return self._services.desired.of(self._table).held is None

    @property
    def ends_turn(self) -> bool:
        """Whether no further batch is wanted; False without a look soon after the last one."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return False
        found = self._read()
        return found.held is not None or found.yields is not None

    def _read(self, within: float = 0.0) -> TableDirectives:
        """Returns the directives as of ``within`` seconds ago at most."""
        if time.monotonic() - self._looked >= within:
            self._directives = self._services.desired.of(self._table)
            self._looked = time.monotonic()
        return self._directives


@dataclass
class TableStep:
    """One table's step in a run.

    Attributes:
        context: the step's context.
        config: the configuration.
        entry: the table's present entry in the registry; another entry is of the same table.
        spark: the resource with the run's sessions.
        on_batch: receives each batch; a run that has it does not stay.
        spare: a spare set of services, for brief use without a turn.
        directives: the directives for the table.
    """

    context: dg.AssetExecutionContext
    config: ReplicationConfig
    entry: TableEntry
    spark: ReplicationSpark
    on_batch: OnBatch | None = None
    spare: Services = field(init=False)
    directives: DirectiveWatch = field(init=False)
    _turn: Turn | None = field(default=None, init=False)
    _deadline: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.spare = Services(self.config)
        self.directives = DirectiveWatch(self.spare, self.entry.table)

    # ── the run ──────────────────────────────────────────────────────────────────────────

    @property
    def name(self) -> str:
        """The table's name in the scheduler: the step's, as the table's own may change."""
        return self.context.op_execution_context.op.name

    @cached_property
    def intention(self) -> Intention:
        """The reason why the run was started."""
        return intention_of(self.context.run, self.context.instance)

    @cached_property
    def windows(self) -> tuple[HourWindow, ...]:
        """The hours of the run's partitions; the present one if it has none."""
        if not self.has_partition:
            return (hour_of(self.services.clock(), self.entry.hours_from),)
        return tuple(HourWindow.from_key(key) for key in self.context.partition_keys)

    @property
    def has_partition(self) -> bool:
        """Whether the run has partitions; another program may start one without."""
        return self.context.has_partition_key or self.context.has_partition_key_range

    @cached_property
    def scheduler(self) -> TableScheduler:
        """The scheduler of the run's tables."""
        may_stay = self.on_batch is None
        return scheduler_of(self.context, self.config, self.spark, may_stay=may_stay)

    # ── the table's turn ─────────────────────────────────────────────────────────────────

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """Waits for a turn, and yields it: a worker slot, and limited time.

        Raises:
            RunIsOverError: if the run is stopped before.
        """
        with self.scheduler.turn(self.name, self.entry) as turn:
            self._turn, self._deadline = turn, time.monotonic() + self.source.batch.drain_seconds
            try:
                yield turn
            except Exception:
                turn.slot.forget()  # the session may be what failed; the next turn opens another
                raise
            finally:
                self._turn = None

    def leave(self) -> None:
        """Leaves the run: the table has no more turns."""
        self.scheduler.leave(self.name, self.entry)

    @property
    def slot(self) -> WorkerSlot:
        """The worker slot of the present turn."""
        return self._now.slot

    @property
    def readings(self) -> SharedReadings:
        """The records of its topic that were read already in the round of the present turn."""
        return self._now.readings

    @property
    def seconds_left(self) -> float:
        """The rest of the present turn's time for taking new batches."""
        return max(0.0, self._deadline - time.monotonic())

    @property
    def _now(self) -> Turn:
        if self._turn is None:
            msg = "a table works in its turn only"
            raise RuntimeError(msg)
        return self._turn

    # ── the table ────────────────────────────────────────────────────────────────────────

    @property
    def services(self) -> Services:
        """The slot's services; without a turn, the spare set."""
        return self._turn.slot.services if self._turn else self.spare

    @property
    def source(self) -> SourceConfig:
        """The configuration of the table's source."""
        return self.services.config.source(self.entry.table.source)

    def survey(self, *, ages: bool = False) -> TableSurvey:
        """Surveys the table.

        Args:
            ages: whether to ask Kafka for the age of the oldest unread record.

        Raises:
            CdcError: if Kafka or the catalog does not answer, or the table cannot be read.
        """
        return survey(self.services, [self.entry], ages=ages).complete().tables[0]

    def is_over(self, window: HourWindow) -> bool:
        """Returns whether an hour is over."""
        return window.is_closed(self.services.clock())
