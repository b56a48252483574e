"""A guard: one corner case of replication, with all that a batch does about it.

A guard overrides the hooks that its case needs. `cdc_assets.merge.guards.guards` walks over all of
them, in their order, at six places of a batch's execution; the order and its reasons are in
docs/guards.md.
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
from cdc_assets.merge.intake.observe import Watched
from cdc_assets.merge.plan.outcome import Replan
from cdc_assets.merge.plan.plan import BatchPlan


@dataclass(frozen=True, slots=True)
class Setting:
    """What the guards of one batch work with.

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
    """The batch is folded again, under this plan: its changes have other positions now.

    What was learned by the old positions does not count any more.
    """

    plan: BatchPlan


class Guard:
    """A guard of one batch. Use once.

    Args:
        setting: of the batch.
    """

    case: ClassVar[str]
    """Why a batch is read once more, of a guard for which it may be."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.means = setting.means

    @contextmanager
    def look(self, step: str) -> Iterator[None]:
        """Measures a step that reads the batch's records once more, and notes why."""
        self.means.steps.note(self.case)
        with self.means.steps.step(step):
            yield

    def require(self, batch: PlannedBatch) -> None:
        """Checks a plan before anything is read.

        Raises:
            CdcError: if the batch must not be merged as it is planned.
        """

    def watch(self, batch: PlannedBatch, watched: Watched) -> Watched:
        """Adds what the guard wants counted in the pass that decodes and folds the batch."""
        return watched

    def aggregates(self, batch: PlannedBatch) -> Mapping[str, Expression]:
        """Returns what the guard wants to know of all changes of a key, by columns of the fold."""
        return {}

    def judge(self, this: Pass) -> Pass | Refold | Replan:
        """Judges a pass over the batch, before the table is changed.

        Returns:
            The pass, possibly with a completed plan, to go on; `Refold` to fold it again; a fact
            that the plan did not know, to plan it again.

        Raises:
            CdcError: if the table must stop.
        """
        return this

    def learn(self, this: Pass, known: Knowledge) -> Knowledge:
        """Adds what a pass shows that the fold needs to know; the same object if that is nothing.

        The table has the columns of the plan by now. If a guard has learned anything, the batch is
        folded once more.

        Args:
            this: the first pass that all guards have let go on.
            known: what the guards before this one have learned.
        """
        return known

    def settle(self, last: Pass) -> Pass:
        """Checks or completes the last pass, before anything is refused or written.

        Raises:
            CdcError: if the batch must not be applied.
        """
        return last

    def carry(self, carried: Carried, last: Pass) -> Carried:
        """Adds what the guard must know of this batch when it sees the next one.

        Args:
            carried: state of the table after the batch, with its highest positions.
            last: the pass that was applied.
        """
        return carried
