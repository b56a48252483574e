"""A guard: one corner case of replication, with all that a batch does about it.

A guard overrides the hooks that its case needs. `cdc_assets.merge.guards.guards` walks over all of
them, in their order, at six places of a batch's execution; the order and its reasons are in
docs/architecture/guards.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame

from cdc_assets.lake.carried import Carried
from cdc_assets.merge.fold.changeset import Knowledge
from cdc_assets.merge.fold.context import BatchContext, Pass, PlannedBatch
from cdc_assets.merge.intake.observe import OptionalFigures
from cdc_assets.merge.plan.outcome import Replan
from cdc_assets.merge.plan.plan import BatchPlan


@dataclass(frozen=True, slots=True)
class Setting:
    """The shared objects with which the guards of one batch work.

    Attributes:
        batch: as its execution begins.
        means: of its execution.
        context: the record before each range, raw; None if there are none.
        unread: for a table's first batch, all records that the log held, raw; None if their keys
            were checked for another table of the topic.
        require_whole: of `cdc_assets.merge.intake.planning.Pending`.
    """

    batch: PlannedBatch
    means: BatchContext
    context: DataFrame | None
    unread: DataFrame | None
    require_whole: Callable[[Mapping[int, int]], None]


@dataclass(frozen=True, slots=True)
class Refold:
    """A verdict to fold the batch again, under this plan, which gives its changes other positions.

    What was learned by the old positions does not count any more.
    """

    plan: BatchPlan


class Guard:
    """A guard of one batch. Use once.

    Args:
        setting: of the batch.
    """

    case: ClassVar[str]
    """The reason for which a guard may read a batch once more."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.means = setting.means

    @contextmanager
    def look(self, step: str) -> Iterator[None]:
        """Measures a step that reads the batch's records once more, and notes the reason."""
        self.means.steps.note(self.case)
        with self.means.steps.step(step):
            yield

    def require(self, batch: PlannedBatch) -> None:
        """Checks a plan before anything is read.

        Raises:
            CdcError: if the batch must not be merged as it is planned.
        """

    def watch(self, batch: PlannedBatch, watched: OptionalFigures) -> OptionalFigures:
        """Adds the figures that the guard needs from the pass that decodes and folds the batch."""
        return watched

    def aggregates(self, batch: PlannedBatch) -> Mapping[str, Expression]:
        """Returns the aggregates over all changes of a key that the guard needs, by column."""
        return {}

    def judge(self, this: Pass) -> Pass | Refold | Replan:
        """Judges a pass over the batch, before the table is changed.

        Returns:
            The pass, possibly with a completed plan, to proceed; `Refold` to fold the batch again;
            a fact unknown to the plan, to plan the batch again.

        Raises:
            CdcError: if the table must stop.
        """
        return this

    def learn(self, this: Pass, known: Knowledge) -> Knowledge:
        """Adds a pass's facts that the fold needs; returns the same object without such facts.

        The table has the columns of the plan by now. If a guard has learned a fact, the batch is
        folded once more.

        Args:
            this: the first pass with which all guards let the batch proceed.
            known: the facts that earlier guards have learned.
        """
        return known

    def settle(self, last: Pass) -> Pass:
        """Checks or completes the last pass, before anything is refused or written.

        Raises:
            CdcError: if the batch must not be applied.
        """
        return last

    def carry(self, carried: Carried, last: Pass) -> Carried:
        """Adds the facts about this batch that the guard needs for the next batch.

        Args:
            carried: state of the table after the batch, with its highest positions.
            last: the pass that was applied.
        """
        return carried
