"""Holds what every step of a batch's execution uses, whatever the batch's plan becomes.

Values: a batch under the plan that it has by now, and the result of one pass over it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import SparkSession

from cdc_assets.lake import Lake
from cdc_assets.merge.fold.changeset import ChangeSet, Knowledge
from cdc_assets.merge.fold.summary import Folded
from cdc_assets.merge.intake.decoding import BatchDecoder
from cdc_assets.merge.intake.observe import BatchFigures
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements.deadline import Steps
from cdc_assets.merge.tables.lookups import KeyLookups
from cdc_assets.merge.tables.side_table import SideTable
from cdc_assets.merge.tables.tombstones import Tombstones
from cdc_assets.schema.types import TableSchema


@dataclass(frozen=True, slots=True)
class BatchContext:
    """The means by which one batch is executed.

    Attributes:
        spark: the session.
        catalog: name of the lake's catalog.
        lake: the catalog, and tables' metadata.
        side: the side table of the batch's table.
        clock: wall clock.
        steps: measures.
    """

    spark: SparkSession
    catalog: str
    lake: Lake
    side: SideTable
    clock: Callable[[], datetime]
    steps: Steps

    def lookups(self, batch: PlannedBatch, columns: tuple[str, ...] | None = None) -> KeyLookups:
        """Returns look-ups of keys in the lake.

        Args:
            batch: under its plan.
            columns: columns of a row that may be asked for; None for those that its changes may
                leave alone.
        """
        wanted, plan = batch.changes.omittable if columns is None else columns, batch.plan
        return KeyLookups(self.spark, self.catalog, plan, wanted, self.tombstones(plan.schema))

    def tombstones(self, schema: TableSchema) -> Tombstones:
        """Returns the remembered deletes of a table with these columns."""
        return Tombstones(self.side, schema)


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A batch under its plan; another plan makes another one.

    Attributes:
        decoder: of its records.
        changes: of the decoder; keeps where snapshots begin, once that was read.
    """

    decoder: BatchDecoder
    changes: ChangeSet

    @classmethod
    def of(cls, decoder: BatchDecoder) -> PlannedBatch:
        """Returns the batch of a decoder, of whose changes nothing was read yet."""
        return cls(decoder, ChangeSet(decoder, decoder.plan))

    @property
    def plan(self) -> BatchPlan:
        """The plan."""
        return self.decoder.plan

    def replanned(self, plan: BatchPlan) -> PlannedBatch:
        """Returns the same batch under another plan."""
        return PlannedBatch.of(replace(self.decoder, plan=plan))


@dataclass(frozen=True, slots=True)
class Pass:
    """The result of one pass over a batch, which reads and folds it once.

    Attributes:
        batch: under its plan; replaced if the pass shows that the plan must change.
        knowledge: facts that the fold was made with.
        folded: the newest change of each key, cached.
        figures: of the records.
    """

    batch: PlannedBatch
    knowledge: Knowledge
    folded: Folded
    figures: BatchFigures

    @property
    def plan(self) -> BatchPlan:
        """The plan of the batch."""
        return self.batch.plan

    @property
    def may_rise(self) -> bool:
        """Whether a snapshot in the batch may give changes other positions, once it is learned."""
        return self.figures.min_floating is not None
