"""Holds what every step of a batch's execution uses, whatever the batch's plan becomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import SparkSession

from cdc_assets.lake import Lake
from cdc_assets.merge.fold.passes import PlannedBatch
from cdc_assets.merge.statements.steps import Steps
from cdc_assets.merge.tables.known import Known
from cdc_assets.merge.tables.side import SideTable
from cdc_assets.merge.tables.tombstones import Tombstones
from cdc_assets.schema.types import TableSchema


@dataclass(frozen=True, slots=True)
class Means:
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

    def known(self, batch: PlannedBatch, columns: tuple[str, ...] | None = None) -> Known:
        """Returns look-ups of keys in the lake.

        Args:
            batch: under its plan.
            columns: columns of a row that may be asked for; None for those that its changes may
                leave alone.
        """
        wanted, plan = batch.changes.unset_able if columns is None else columns, batch.plan
        return Known(self.spark, self.catalog, plan, wanted, self.tombstones(plan.schema))

    def tombstones(self, schema: TableSchema) -> Tombstones:
        """Returns the remembered deletes of a table with these columns."""
        return Tombstones(self.side, schema)
