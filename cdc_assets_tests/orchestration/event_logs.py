"""Fills Dagster's event log with what `replication_slo` writes, at times of its choosing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import dagster as dg
from dagster._core.events import DagsterEvent, DagsterEventType, StepMaterializationData
from dagster._core.events.log import EventLogEntry
from dagster._core.instance.utils import RUNLESS_JOB_NAME, RUNLESS_RUN_ID

from cdc_assets.config.platform import RunsConfig
from cdc_assets.log.hours import hour_of
from cdc_assets.operate.contiguity import Contiguity
from cdc_assets.operate.schema_drift import Drift
from cdc_assets.operate.status import TableStatus
from cdc_assets.orchestration.checks import (
    CheckVerdict,
    SloFacts,
    offsets_verdict,
    schema_verdict,
    slo_verdict,
)
from cdc_assets.orchestration.metadata import Lag, materialization, quiet_metadata


def verdicts_of(status: TableStatus, key: dg.AssetKey) -> Sequence[CheckVerdict]:
    """The outcomes of the three checks of a table."""
    assert status.slo
    facts = SloFacts(
        status.survey,
        status.target,
        status.slo,
        status.at,
        RunsConfig().pace(status.target, status.slo.budget_left),
        status.connector,
        status.completeness,
    )
    return (
        offsets_verdict(key, status.survey, Contiguity(100)),
        slo_verdict(key, facts),
        schema_verdict(key, status.survey, Drift()),
    )


def evaluated(verdict: CheckVerdict, at: datetime) -> EventLogEntry:
    """An outcome without a run."""
    evaluation = verdict.evaluation()
    kind = DagsterEventType.ASSET_CHECK_EVALUATION
    return _entry(DagsterEvent(kind.value, RUNLESS_JOB_NAME, event_specific_data=evaluation), at)


def closed(status: TableStatus, key: dg.AssetKey, at: datetime) -> EventLogEntry:
    """The materialization that closes the hour before."""
    hour = hour_of(at - timedelta(hours=1)).key
    metadata = {**quiet_metadata(status.survey.committed, Lag(0, 0.0)), "hour_closed": True}
    return made(materialization(key, hour, metadata, 4_711_000_000_000), at)


def made(event: dg.AssetMaterialization, at: datetime) -> EventLogEntry:
    """A materialization without a run."""
    data = StepMaterializationData(event)
    kind = DagsterEventType.ASSET_MATERIALIZATION
    return _entry(DagsterEvent(kind.value, RUNLESS_JOB_NAME, event_specific_data=data), at)


def an_hour(status: TableStatus, key: dg.AssetKey, at: datetime) -> Iterator[EventLogEntry]:
    """What an idle table's hour writes."""
    yield closed(status, key, at)
    for each in verdicts_of(status, key):
        yield evaluated(each, at)


def _entry(event: DagsterEvent, at: datetime) -> EventLogEntry:
    return EventLogEntry(
        error_info=None, level="debug", user_message="", run_id=RUNLESS_RUN_ID,
        timestamp=at.timestamp(), dagster_event=event,
    )  # fmt: skip
