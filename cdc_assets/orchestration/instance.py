"""Opens Dagster's instance for commands, which run assets without the daemon.

With $DAGSTER_HOME the runs are recorded in that instance and appear in its UI; without it no record
of them is kept, only the merged rows.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

import dagster as dg

from cdc_assets.effects import effect

QUIET: Final = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def has_instance() -> bool:
    """Returns whether $DAGSTER_HOME names an instance; without it no run of others is seen."""
    return bool(os.environ.get("DAGSTER_HOME"))


@contextmanager
def open_instance() -> Iterator[dg.DagsterInstance]:
    """Opens the instance of $DAGSTER_HOME; without it an ephemeral one."""
    if has_instance():
        with dg.DagsterInstance.get() as instance:
            yield instance
    else:
        with dg.DagsterInstance.ephemeral() as instance:
            yield instance


def reason_of(event: dg.DagsterEvent) -> str:
    """Returns why a step has failed, for people."""
    data: Any = event.step_failure_data
    failure = data.user_failure_data
    described = failure.description if failure else None
    if described:
        return described.partition(": ")[2]  # the table is named beside it
    return f"failed ({data.error.cls_name if data.error else 'unknown error'})"


def run_limit(instance: dg.DagsterInstance) -> int | None:
    """Returns the most runs that the instance executes at once; None if it has no limit."""
    queue = instance.get_concurrency_config().run_queue_config
    limit = queue.max_concurrent_runs if queue else 0
    return limit if limit > 0 else None


def has_slot(run: dg.DagsterRun) -> bool:
    """Returns whether an unfinished run takes one of the instance's slots, as it is not queued."""
    return run.status is not dg.DagsterRunStatus.QUEUED


def limit_pools(instance: dg.DagsterInstance, names: Collection[str]) -> None:
    """Gives pools without a limit of their own the limit 1; leaves those that somebody has set.

    A limit that only comes from the instance's default is not one of their own.
    """
    storage = instance.event_log_storage
    if not storage.supports_global_concurrency_limits:
        return
    own = {each.name for each in storage.get_pool_limits() if not each.from_default}
    for name in sorted(set(names) - own):
        with effect("dagster: pool"):
            storage.set_concurrency_slots(name, 1)
