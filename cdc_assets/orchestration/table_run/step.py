"""Holds what all parts of a table's work share: its present entry, its turn, its services.

Two things change while a step runs, so that its parts ask for them at each use. `TableStep.entry`
is replaced when the table was renamed at its source. `TableStep.services` are those of the place
in which the table has its turn, and a spare set between its turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import dagster as dg

from cdc_assets.config import ReplicationConfig, SourceConfig
from cdc_assets.log.hours import HourWindow
from cdc_assets.operate.services import Services
from cdc_assets.operate.survey import TableSurvey, survey
from cdc_assets.orchestration.places import Place
from cdc_assets.orchestration.staying import turns_of
from cdc_assets.orchestration.table_run.intention import Intention, intention_of
from cdc_assets.orchestration.turns import Turn, Turns
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge import BatchResult
    from cdc_assets.merge.intake.shared_reading import SharedReadings
    from cdc_assets.orchestration.resources import ReplicationSpark

OnBatch = Callable[["BatchResult"], None]


@dataclass
class TableStep:
    """One table's step in a run.

    Attributes:
        context: the step's context.
        config: the configuration.
        entry: the table's present entry in the registry; another entry is of the same table.
        spark: the resource with the run's sessions.
        on_batch: receives each batch; a run that has it does not stay.
        idle: a spare set of services, for brief use without a turn.
    """

    context: dg.AssetExecutionContext
    config: ReplicationConfig
    entry: TableEntry
    spark: ReplicationSpark
    on_batch: OnBatch | None = None
    idle: Services = field(init=False)
    _turn: Turn | None = field(default=None, init=False)
    _deadline: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.idle = Services(self.config)

    # ── the run ──────────────────────────────────────────────────────────────────────────

    @property
    def name(self) -> str:
        """The table's name among the turns; the step's name, as the table's own may change."""
        return self.context.op_execution_context.op.name

    @property
    def intention(self) -> Intention:
        """The reason why the run was started."""
        return intention_of(self.context.run)

    @cached_property
    def windows(self) -> tuple[HourWindow, ...]:
        """The hours of the run's partitions."""
        return tuple(HourWindow.from_key(key) for key in self.context.partition_keys)

    @cached_property
    def turns(self) -> Turns:
        """The turns of the run's tables."""
        return turns_of(self.context, self.config, self.spark, may_stay=self.on_batch is None)

    # ── the table's turn ─────────────────────────────────────────────────────────────────

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """Waits for a turn, and yields it: a place to work, and limited time.

        Raises:
            RunIsOverError: if the run is told to stop before.
        """
        with self.turns.turn(self.name, self.entry) as turn:
            self._turn, self._deadline = turn, time.monotonic() + self.source.batch.drain_seconds
            try:
                yield turn
            except Exception:
                turn.place.forget()  # the session may be what failed; the next turn opens another
                raise
            finally:
                self._turn = None

    def leave(self) -> None:
        """Leaves the run: the table has no more turns."""
        self.turns.leave(self.name, self.entry)

    @property
    def place(self) -> Place:
        """The place of the present turn."""
        return self._now.place

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
        """The place's services; without a turn, the spare set."""
        return self._turn.place.services if self._turn else self.idle

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
