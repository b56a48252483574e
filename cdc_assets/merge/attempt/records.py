"""Reads the records of batches: from Kafka, or from what was read for several tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame

from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.merge.attempt.means import Means
from cdc_assets.merge.intake.read import WITH_HEADERS, read_ranges
from cdc_assets.merge.intake.shared_reading import Share, SharedReadings
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements.steps import Steps


@dataclass(frozen=True, slots=True)
class Records:
    """The records of batches.

    Attributes:
        means: of the tries.
    """

    means: Means

    def read(self, plan: BatchPlan, ranges: tuple[OffsetRange, ...]) -> DataFrame:
        """Returns the records in ranges of the plan's topic, as they are in Kafka.

        Args:
            plan: of the batch.
            ranges: half-open, one per partition, none empty.
        """
        options = self.means.config.kafka.spark_options()
        if self.means.planner.format(plan.entry).reads_headers(plan.layout):
            options = {**options, **WITH_HEADERS}
        return read_ranges(self.means.session(), plan.entry.topic, ranges, options)

    def share(self, plan: BatchPlan, shared: SharedReadings | None, steps: Steps) -> Share | None:
        """Returns the batch's records if they are read once for several tables, else None.

        Args:
            plan: of the batch.
            shared: the run's readings; None if each table reads alone.
            steps: measures the reading.
        """
        fmt = self.means.planner.format(plan.entry)
        if shared is None or not shared.is_for(plan.entry, fmt):
            return None
        with steps.step("read the topic"):
            read = partial(self.read, plan, plan.ranges)
            return shared.share(plan, fmt, self.means.session(), read)
