"""Reports a published batch: in the step's log, to the registry, on the table's page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc_assets.operate.ddl import among_rows
from cdc_assets.operate.discovery import add_seen
from cdc_assets.orchestration.sensors.ddl import observation
from cdc_assets.orchestration.table_run.step import TableStep

if TYPE_CHECKING:
    from cdc_assets.merge import BatchResult
    from cdc_assets.registry import TableEntry


def report_batch(step: TableStep, batch: BatchResult, of: TableEntry | None = None) -> None:
    """Logs a batch, registers the tables that it has found, and passes it on.

    Args:
        step: the step that has merged it.
        batch: the batch.
        of: the table that it was merged into, if that is not the step's own.

    Raises:
        UnreachableError: if the registry, Kafka or the catalog does not answer.
    """
    entry = of or step.entry
    step.context.log.info(
        f"{entry.table}: merged {batch.records} records "
        f"{' '.join(map(str, batch.ranges))} into {batch.target} "
        f"snapshot={batch.snapshot_id} in {batch.duration_seconds:.1f} s"
    )
    _report_others(step, entry, batch)
    for each in among_rows(step.services, entry, batch.statements):
        step.context.log_event(observation(step.config, each))
    if step.on_batch:
        step.on_batch(batch)


def _report_others(step: TableStep, entry: TableEntry, batch: BatchResult) -> None:
    """Adds tables that share the topic, and that discovery has not seen at the topic's ends."""
    if not batch.other_tables:
        return
    found = add_seen(step.services, entry, batch.other_tables, batch.of_others)
    for other in found.added:
        step.context.log.info(f"{other.table} was found in topic {other.topic}")
    for refused in found.refused:
        step.context.log.error(f"a table in topic {batch.topic} cannot be added: {refused}")
