"""Deletes old runs, and what else of the event log would grow for ever.

A busy table has a run every few seconds, and Dagster keeps each run's events (about 200 KB
with SQLite) until the run is deleted. Only runs that a sensor started are deleted, never
those of people. The record of merged hours is kept, see `sensors.slo`.
What belongs to no run, or outlives it, is the matter of `cdc_assets.orchestration.event_log`.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of the bodies below.

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.known_tables import replicated
from cdc_assets.operate.services import utc_now
from cdc_assets.orchestration import liveness
from cdc_assets.orchestration.keys import (
    CHECK_ASSESSED,
    CHECK_MATCHES,
    CHECKS,
    HOUSEKEEPING,
    MAINTENANCE,
    TAG_MODE,
    TAG_REPLICATION,
    TAIL,
    VERIFY,
    consistent_key,
    mode_tags,
    named,
    table_key,
)
from cdc_assets.orchestration.manual_jobs import require_offered
from cdc_assets.orchestration.mount import schedule_status
from cdc_assets.registry import Registry

PAGE: Final = 100
EVENTS_PER_RUN: Final = 4
SETTLED: Final = timedelta(hours=1)
"""How long after its last event the file of a deleted run stays, for whoever still reads it."""
SUCCEEDED: Final = (dg.DagsterRunStatus.SUCCESS,)
FAILED: Final = (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


class Retention(dg.Config):
    """The retention of runs that a sensor started, and of checks' outcomes and notices.

    At most ``at_most`` runs are deleted at once, and four times as many events.
    """

    succeeded_hours: float = 6
    failed_hours: float = 7 * 24
    checks_hours: float = 7 * 24
    at_most: int = 5_000


def housekeeping_schedule(config: ReplicationConfig, loaded: Registry) -> dg.ScheduleDefinition:
    """Returns the schedule that deletes old runs and events every half hour."""
    return dg.ScheduleDefinition(
        job=housekeeping_job(config, loaded),
        cron_schedule="*/30 * * * *",
        default_status=schedule_status(config),
        description="Deletes old runs and events, so that the event log does not grow for ever.",
    )


def housekeeping_job(config: ReplicationConfig, loaded: Registry) -> dg.JobDefinition:
    """Returns the job that deletes old runs and events."""
    replication, name, assets = config, config.name, pruned_assets(config, loaded)

    @dg.op(name=named(config, "delete_old_runs"))
    def delete_old_runs(context: dg.OpExecutionContext, config: Retention) -> None:
        require_offered(context.run, replication, HOUSEKEEPING)
        from cdc_assets.orchestration.event_log import prune_events, remove_files_of_deleted_runs

        deleted = prune(context.instance, config, name)
        liveness.tidy(replication.home, alive=[context.run_id])
        now, instance = utc_now(), context.instance
        before = now - timedelta(hours=config.checks_hours)
        events = prune_events(instance, assets, before, EVENTS_PER_RUN * config.at_most)
        files = remove_files_of_deleted_runs(instance, now - SETTLED)
        context.log.info(f"Deleted {deleted} old runs, {events} events and {files} files of runs")

    @dg.job(name=named(config, "housekeeping"), tags=mode_tags(config, HOUSEKEEPING))
    def housekeeping() -> None:
        delete_old_runs()

    return housekeeping


def pruned_assets(
    config: ReplicationConfig, loaded: Registry
) -> Mapping[dg.AssetKey, Sequence[str]]:
    """Returns the assets that have events without a run, each with the names of its checks."""
    names = (*CHECKS, CHECK_ASSESSED, CHECK_MATCHES)
    tables = (table_key(config, entry) for entry in replicated(config, loaded))
    cuts = (
        consistent_key(config, name) for name, each in config.sources.items() if each.consistent
    )
    return {**dict.fromkeys(tables, names), **dict.fromkeys(cuts, ())}


def prune(instance: dg.DagsterInstance, retention: Retention, name: str = "") -> int:
    """Deletes runs older than the retention, and returns their number.

    Args:
        instance: the instance to delete from.
        retention: the greatest age of runs.
        name: the name of the replication whose runs they are; empty for the one without a name.
    """
    tags = {
        TAG_MODE: [TAIL, MAINTENANCE, HOUSEKEEPING, VERIFY],
        **({TAG_REPLICATION: name} if name else {}),
    }
    ages = ((SUCCEEDED, retention.succeeded_hours), (FAILED, retention.failed_hours))
    left = retention.at_most
    for statuses, hours in ages:
        old = dg.RunsFilter(
            statuses=list(statuses), tags=tags, created_before=utc_now() - timedelta(hours=hours)
        )
        left -= _delete(instance, old, name, left)
    return retention.at_most - left


def _delete(instance: dg.DagsterInstance, old: dg.RunsFilter, name: str, limit: int) -> int:
    """Deletes page by page, after the last run that stays: a deleted run cannot be a cursor."""
    deleted, cursor = 0, None
    while runs := instance.get_runs(old, cursor=cursor, limit=PAGE):
        for run in runs:
            if run.tags.get(TAG_REPLICATION, "") != name:
                cursor = run.run_id
                continue
            if deleted == limit:
                return deleted
            instance.delete_run(run.run_id)
            instance.compute_log_manager.delete_logs(prefix=[run.run_id])
            deleted += 1
    return deleted
