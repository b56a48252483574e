"""The guards of a batch, in their order, and the walks over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column as Expression

from cdc_assets.lake.carried import Carried
from cdc_assets.merge.fold.changeset import Knowledge
from cdc_assets.merge.fold.context import Pass, PlannedBatch
from cdc_assets.merge.guards.ambiguous_positions import SharedPlaces
from cdc_assets.merge.guards.changed_keys import ChangedKeys
from cdc_assets.merge.guards.columns import UnplannedColumns
from cdc_assets.merge.guards.guard import Guard, Refold, Setting
from cdc_assets.merge.guards.key_partitions import Settling
from cdc_assets.merge.guards.key_schemas import KeySchemas
from cdc_assets.merge.guards.lone_tombstones import LoneTombstones
from cdc_assets.merge.guards.lost_values import LostValues
from cdc_assets.merge.guards.low_watermarks import Snapshots
from cdc_assets.merge.guards.moved_keys import MovedKeys
from cdc_assets.merge.guards.other_tables import OtherTables
from cdc_assets.merge.guards.placeholders import Placeholders
from cdc_assets.merge.guards.restarts import RestartedSource
from cdc_assets.merge.guards.scattered_keys import ScatteredKeys
from cdc_assets.merge.guards.statements import DdlStatements
from cdc_assets.merge.guards.unfinished import UnfinishedTransactions
from cdc_assets.merge.guards.unknown_schemas import UnknownSchemas
from cdc_assets.merge.intake.observe import OptionalFigures
from cdc_assets.merge.plan.outcome import Replan

GUARDS: Final[Sequence[type[Guard]]] = (
    OtherTables,
    UnknownSchemas,
    DdlStatements,
    UnplannedColumns,
    RestartedSource,
    LostValues,
    Snapshots,
    ChangedKeys,
    LoneTombstones,
    Placeholders,
    KeySchemas,
    MovedKeys,
    Settling,
    UnfinishedTransactions,
    ScatteredKeys,
    SharedPlaces,
)
"""The guards in the order in which they judge; docs/architecture/guards.md says why."""


class Guards:
    """The guards of one batch. Use once.

    Args:
        setting: of the batch.
    """

    def __init__(self, setting: Setting) -> None:
        self._all = [kind(setting) for kind in GUARDS]

    def require(self, batch: PlannedBatch) -> None:
        """Checks a plan before anything is read; see `Guard.require`."""
        for guard in self._all:
            guard.require(batch)

    def figures(self, batch: PlannedBatch) -> OptionalFigures:
        """Returns the guards' figures of a batch's pass, in addition to the usual ones."""
        figures = OptionalFigures(others=batch.decoder.format.has_many_tables)
        for guard in self._all:
            figures = guard.watch(batch, figures)
        return figures

    def aggregates(self, batch: PlannedBatch) -> dict[str, Expression]:
        """Returns the guards' aggregates over all changes of a key, as columns of the fold."""
        return {
            name: each
            for guard in self._all
            for name, each in guard.aggregates(batch).items()
        }  # fmt: skip

    def verdict(self, this: Pass) -> Pass | Refold | Replan:
        """Returns the guards' verdict on a pass: the first other than to proceed, or the pass."""
        for guard in self._all:
            verdict = guard.judge(this)
            if isinstance(verdict, Refold):
                guard.means.steps.note(guard.case)
            if not isinstance(verdict, Pass):
                return verdict
            this = verdict
        return this

    def knowledge(self, this: Pass) -> Knowledge:
        """Returns the guards' knowledge after a pass; the same object without new facts."""
        known = this.knowledge
        for guard in self._all:
            before, known = known, guard.learn(this, known)
            if known is not before:
                guard.means.steps.note(guard.case)  # the batch is folded once more
        return known

    def completed(self, last: Pass) -> Pass:
        """Has each guard check or complete the last pass."""
        for guard in self._all:
            last = guard.settle(last)
        return last

    def carried(self, carried: Carried, last: Pass) -> Carried:
        """Adds the facts about the batch that guards need for the next batch."""
        for guard in self._all:
            carried = guard.carry(carried, last)
        return carried
