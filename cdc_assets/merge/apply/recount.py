"""Publishes how many records of a table lie in quarantine, where nothing else is published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from pyspark.sql import SparkSession

from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.lake import Lake
from cdc_assets.merge.apply.branch import Branch
from cdc_assets.merge.apply.publish import Publisher
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.plan.requeue import Requeue
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated


def publish_count(
    spark: Callable[[], SparkSession],
    catalog: str,
    lake: Lake,
    plan: BatchPlan,
    requeue: Requeue,
    now: datetime,
) -> None:
    """Publishes the number, without rows, unless the newest publish has it.

    Args:
        spark: gives the session.
        catalog: of the table.
        lake: of the table.
        plan: of a replay that merges nothing.
        requeue: the table's records in quarantine.
        now: aware time.

    Raises:
        ConflictError, OutcomeUnknownError: see `Publisher.publish`.
    """
    before, entry = plan.published, plan.entry
    if before is None or before.counts.get("quarantined", 0) == requeue.held:
        return
    published = replace(
        before,
        start=before.offsets,
        attempt=plan.attempt,
        run=plan.run_id,
        kind=PublishKind.REPLAY,
        published_at=now,
        carried=replace(before.carried, missing=requeue.missing),
        counts={"records": 0, "quarantined": requeue.held},
        others=plan.state.others if plan.state else {},
    )
    publisher = Publisher(spark(), catalog, lake, plan)
    branch = Branch(publisher)
    with branch.dropped_on_failure(), translated("publish the count", plan.where):
        nothing = spark().table(sql.table(catalog, entry.target)).limit(0)
        branch.write(nothing, published.to_properties())
    branch.publish()
