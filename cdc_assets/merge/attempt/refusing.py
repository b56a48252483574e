"""Decides what becomes of a batch's records that cannot be merged."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from cdc_assets.merge.apply.refusals import KeptApart, Refusals, Stopping
from cdc_assets.merge.attempt.means import Means
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.tables.quarantine import Quarantine
from cdc_assets.registry import TableEntry


def refusals_of(means: Means, plan: BatchPlan, raw: Callable[[], DataFrame]) -> Refusals:
    """Returns the handler of these records: it stops the table, or keeps them in quarantine.

    Args:
        means: of the tries.
        plan: of the batch.
        raw: reads its records as they are in Kafka.
    """
    source, withheld = means.source(plan.entry), _withholds(means, plan.entry)
    if source.bad_records == "fail" or withheld:
        return Stopping(plan, may_set_aside=not withheld)
    quarantine = Quarantine(means.session(), means.catalog, plan.entry.table.source)
    return KeptApart(quarantine, plan, raw, source.quarantine, means.clock)


def _withholds(means: Means, entry: TableEntry) -> bool:
    """Returns whether quarantine, which keeps whole records, may show what must not be seen.

    In a topic of many tables the table of a broken record is unknown.
    """
    source = means.source(entry)
    if means.planner.format(entry).has_many_tables:
        return source.withholds
    return source.overrides(entry.table).withholds
