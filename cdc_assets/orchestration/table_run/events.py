"""Builds the events of a table's batches, and the result of its step.

The numbers of all materializations of a table add up to what was merged: an event that merged
nothing says 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dagster as dg

from cdc_assets.operate.slo import pace_after
from cdc_assets.orchestration.keys import table_key
from cdc_assets.orchestration.metadata import (
    batch_metadata,
    materialization,
    pace_metadata,
    quiet_metadata,
)
from cdc_assets.orchestration.table_run.lag import lag_of
from cdc_assets.orchestration.table_run.step import TableStep
from cdc_assets.orchestration.table_run.step_checks import StepChecks
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge import BatchResult

Event = dg.AssetMaterialization | dg.MaterializeResult | dg.AssetObservation | dg.AssetCheckResult


def batch_event(
    step: TableStep, batch: BatchResult, of: TableEntry | None = None
) -> dg.AssetMaterialization:
    """Returns the materialization of a published batch.

    Args:
        step: the step that has merged it.
        batch: the batch.
        of: the table that it was merged into, if that is not the step's own.
    """
    entry = of or step.entry
    lag = lag_of(step, entry.topic, batch.end)
    pace = pace_after(step.config, step.entry.table, batch.slo, step.services.clock())
    metadata = {
        **batch_metadata(step.services.config, entry, batch, lag),
        **pace_metadata(pace),
    }
    key = table_key(step.config, entry)
    return materialization(key, batch.hour.key, metadata, batch.snapshot_id)


def last_events(
    step: TableStep, checks: StepChecks, last: BatchResult | None
) -> Iterator[dg.AssetMaterialization | dg.MaterializeResult[Any]]:
    """Makes the last batch the step's own materialization, if it belongs to its partition.

    Raises:
        CdcError: if the table's facts cannot be read.
    """
    if last is None or last.hour != step.windows[-1]:
        if last is not None:
            yield batch_event(step, last)
        yield quiet_result(step, checks)
        return
    event = batch_event(step, last)
    yield dg.MaterializeResult(
        metadata=event.metadata,
        data_version=dg.DataVersion(str(last.snapshot_id)) if last.snapshot_id else None,
        check_results=list(checks.results()),
    )


def quiet_result(step: TableStep, checks: StepChecks) -> dg.MaterializeResult[Any]:
    """Returns a result that merged nothing, with the checks unless they were yielded before.

    Raises:
        CdcError: if the table's facts cannot be read.
    """
    after = step.survey()
    snapshot = after.state.snapshot_id if after.state else None
    lag = lag_of(step, step.entry.topic, after.committed)
    return dg.MaterializeResult(
        metadata=quiet_metadata(after.committed, lag),
        data_version=dg.DataVersion(str(snapshot)) if snapshot else None,
        check_results=[] if checks.are_yielded else list(checks.results()),
    )
