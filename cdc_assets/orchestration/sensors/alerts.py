"""Defines the sensor `alerts`, which posts runs that failed for other reasons than their tables.

Each is posted once. What the receiver does not accept is kept, and `watch` posts it once it does.
`watch` reports a failing table, once and not at each attempt. Messages contain no data.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError
from cdc_assets.operate.known_tables import replicated
from cdc_assets.operate.receivers import Receiver, deliver, receivers_of
from cdc_assets.operate.services import utc_now
from cdc_assets.operate.unsent import UnsentAlerts
from cdc_assets.orchestration.keys import is_of, named, table_key
from cdc_assets.orchestration.mount import mount_of, sensor_status
from cdc_assets.registry import Registry

MOST: Final = 20
"""The most tables and steps that a message lists: receivers refuse what is too long."""

WILL_RETRY_TAG: Final = "dagster/will_retry"


def alert_sensor(config: ReplicationConfig, loaded: Registry) -> dg.SensorDefinition:
    """Returns the sensor that posts failed runs, unless Dagster will retry them by itself.

    Without a receiver it does nothing. In a project with other definitions it posts only runs of
    this replication, whoever started them.
    """
    mine = frozenset(table_key(config, entry) for entry in replicated(config, loaded))

    def is_mine(run: dg.DagsterRun) -> bool:
        whole = mount_of(config) is None
        return whole or is_of(config, run) or not mine.isdisjoint(run.asset_selection or ())

    @dg.run_failure_sensor(
        name=named(config, "alerts"),
        default_status=sensor_status(config),
        minimum_interval_seconds=30,
        description="Posts runs that failed otherwise than by a table to the receivers of alerts.",
    )
    def alerts(context: dg.RunFailureSensorContext) -> None:
        # A reason to skip would end Dagster's tick: there would be one failed run in each.
        run = context.dagster_run
        why = _why_not(context) if is_mine(run) else "it is not of this replication"
        receivers = receivers_of(config.alerts)
        if why or not receivers:
            context.log.info(f"Run {run.run_id} failed; {why or 'alerts have no receiver'}")
            return
        alert = alert_of(context)
        with ThreadPoolExecutor(len(receivers)) as pool:
            problems = [*pool.map(partial(_problem, alert), receivers)]
        for receiver, problem in zip(receivers, problems, strict=True):
            if problem is not None:
                unsent = UnsentAlerts.of_registry(config.registry, receiver.name)
                unsent.keep(run.run_id, alert, utc_now())
                context.log.warning(f"Run {run.run_id} failed; `watch` posts it later: {problem}")

    return alerts


def _problem(alert: dict[str, Any], receiver: Receiver) -> CdcError | None:
    """Returns why a receiver has not accepted an alert; None if it has."""
    try:
        deliver(receiver, alert)
    except CdcError as problem:
        return problem
    return None


def _why_not(context: dg.RunFailureSensorContext) -> str:
    """Returns why a failed run of this replication is not posted; empty if it is."""
    if context.dagster_run.tags.get(WILL_RETRY_TAG, "").lower() == "true":
        return "it will be retried"
    return "`watch` tells of its tables" if _is_reported_by_tables(context) else ""


def alert_of(context: dg.RunFailureSensorContext) -> dict[str, Any]:
    """Returns the message. It quotes only descriptions that this project wrote: no row values."""
    run = context.dagster_run
    steps = [_step(event) for event in context.get_step_failure_events()]
    tables = sorted(key.to_user_string() for key in run.asset_selection or ())
    words = [each["what"] for each in steps[:MOST]]
    words += [f"and {len(steps) - MOST} more steps"] if len(steps) > MOST else []
    what = "; ".join(words) or "the run ended without finishing its steps"
    return {
        "text": f"cdc_assets: run {run.run_id} failed: {what}",
        "run_id": run.run_id,
        "job": run.job_name,
        "partition": run.tags.get("dagster/partition"),
        "tables": tables[:MOST],
        "table_count": len(tables),
        "failures": steps[:MOST],
    }


def _is_reported_by_tables(context: dg.RunFailureSensorContext) -> bool:
    """Returns whether only tables' steps failed, whose failures are recorded."""
    steps = [_step(event) for event in context.get_step_failure_events()]
    return bool(steps) and all("kind" in each and "table" in each for each in steps)


def _step(event: dg.DagsterEvent) -> dict[str, str]:
    data = event.step_failure_data
    failure = data.user_failure_data
    metadata = failure.metadata if failure else {}
    described = failure.description if failure and "kind" in metadata else None
    shown = {name: str(metadata[name].value) for name in ("table", "kind") if name in metadata}
    what = described or f"step {event.step_key} failed ({_error_class(event)})"
    return {"step": event.step_key or "", "what": what, **shown}


def _error_class(event: dg.DagsterEvent) -> str:
    error = event.step_failure_data.error
    while error and error.cause:
        error = error.cause
    return (error.cls_name if error else None) or "unknown error"
