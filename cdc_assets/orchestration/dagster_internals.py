"""Imports the parts of Dagster that are not public, each with its reason; no other module may.

`make lint` refuses such an import elsewhere (`TID251`). So whoever takes a new version of Dagster
finds here what to check. Three groups of features depend on these parts:

- *executor*: the steps of a run as threads of one process. `dg.Executor` is public; the parts of
  which every executor is made are not. Without them each step needs a process of its own, with
  imports and a Spark session, and tables cannot share what is read of their topic.
- *command*: a run in a command's process by that executor. `JobDefinition.execute_in_process`
  replaces the executor, and `dg.execute_job` wants a job that another process can import. Without
  them a command merges one table after the other.
- *event log*: the tables of Dagster's SQL storage. Without them the event log grows for ever.

`docs/architecture/scheduling.md` compares all of them with the public API of Dagster 1.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

# command: a job that is not importable by name.
from dagster._core.definitions.job_base import InMemoryJob

# executor: process and steps of an engine event; the UI fails on an engine event without them.
# command: tells the failure of a table from the end of the run by a signal.
from dagster._core.events import EngineEventData, RunFailureReason

# executor: holds back signals while the run's resources are set up and torn down.
from dagster._core.execution.api import ExecuteRunWithPlanIterable

# executor: the argument of `dg.Executor.execute`, and the context that its steps share.
from dagster._core.execution.context.system import PlanExecutionContext, PlanOrchestrationContext

# executor: sets up the resources once for all steps.
from dagster._core.execution.context_creation_job import PlanExecutionContextManager

# command: executes a run by its job's own executor.
from dagster._core.execution.execute_in_process import core_execute_in_process

# executor: the state of all steps: which may begin, which is retried, which is done.
from dagster._core.execution.plan.active import ActiveExecution

# executor: calls the hooks that a project has attached to a step. (Private by name, too.)
from dagster._core.execution.plan.execute_plan import (
    _trigger_hook as hook_events,  # pyright: ignore[reportPrivateUsage]
)

# executor: executes one step, and yields its events.
from dagster._core.execution.plan.execute_plan import dagster_event_sequence_for_step

# executor: the steps' slots in pools.
from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext

# executor: the argument of `dg.Executor.execute`, and its steps.
from dagster._core.execution.plan.plan import ExecutionPlan
from dagster._core.execution.plan.step import ExecutionStep

# executor: the result of `dg.Executor.retries`.
from dagster._core.execution.retries import RetryMode

# liveness: `DagsterInstance.get_run_step_stats` answers with it. Without it a run whose step is
# silent cannot be told from one between two steps.
from dagster._core.execution.stats import StepEventStatus

if TYPE_CHECKING:
    from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage
    from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
    from sqlalchemy import Table

__all__ = [
    "ActiveExecution",
    "EngineEventData",
    "EventLog",
    "ExecuteRunWithPlanIterable",
    "ExecutionPlan",
    "ExecutionStep",
    "InMemoryJob",
    "InstanceConcurrencyContext",
    "PlanExecutionContext",
    "PlanExecutionContextManager",
    "PlanOrchestrationContext",
    "RetryMode",
    "RunFailureReason",
    "StepEventStatus",
    "core_execute_in_process",
    "dagster_event_sequence_for_step",
    "event_log",
    "hook_events",
]


class EventLog(NamedTuple):
    """The parts of Dagster's SQL event log that housekeeping deletes from.

    Attributes:
        sql: the class of all storages in SQL.
        sqlite: the class of the storage with a file for each run.
        events: the table of all events.
        checks: the table of the outcomes of checks, which outlive their runs.
        tags: the table of the tags of asset events.
        no_run: the run id of events without a run.
    """

    sql: type[SqlEventLogStorage]
    sqlite: type[SqliteEventLogStorage]
    events: Table
    checks: Table
    tags: Table
    no_run: str


def event_log() -> EventLog:
    """Imports Dagster's SQL event log, which brings 300 modules that only housekeeping needs."""
    from dagster._core.instance.utils import RUNLESS_RUN_ID
    from dagster._core.storage.event_log import schema
    from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage
    from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage

    return EventLog(
        SqlEventLogStorage,
        SqliteEventLogStorage,
        schema.SqlEventLogStorageTable,
        schema.AssetCheckExecutionsTable,
        schema.AssetEventTagsTable,
        RUNLESS_RUN_ID,
    )
