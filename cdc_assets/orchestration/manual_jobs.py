"""Makes the jobs that users start from the launchpad: one op each, in the run's own process.

They have in common that a run is alive for others as long as it works, wherever it works.
Upkeep, which sensors and schedules start, refuses the runs of people if it is not offered to them.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of the ops' bodies.

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

import dagster as dg
from pydantic import Field, create_model

from cdc_assets.config import ReplicationConfig
from cdc_assets.operations.options import Options
from cdc_assets.orchestration import liveness
from cdc_assets.orchestration.keys import TAG_PROCESS, mode_tags, named

JobConfig = TypeVar("JobConfig", bound=dg.Config)

_NOT_BY_HAND: Final = (
    "dagster/sensor_name",
    "dagster/schedule_name",
    "dagster/from_automation_condition",
    TAG_PROCESS,
)
"""A run that was started by no person in the UI has one of these tags."""


def require_offered(run: dg.DagsterRun, config: ReplicationConfig, job: str) -> None:
    """Refuses a run of upkeep that a person has started, unless `operations.from_ui` offers it.

    Raises:
        dagster.Failure: if it is refused.
    """
    if config.operations.offers(job) or any(each in run.tags for each in _NOT_BY_HAND):
        return
    what = (
        f"{named(config, job)} was started by hand, and operations.from_ui does not offer it: "
        f"add {job} there, or leave it to the sensor or schedule"
    )
    raise dg.Failure(what, allow_retries=False)


def manual_job(
    config: ReplicationConfig,
    name: str,
    body: Callable[[dg.OpExecutionContext, JobConfig], None],
    *,
    mode: str,
    about: str,
) -> dg.JobDefinition:
    """Returns a job of one op.

    Args:
        config: the replication's configuration.
        name: the job's name, without the replication's.
        body: what the op does; the op has its name. Its parameter ``config`` is the launchpad's.
        mode: `cdc/mode` of the job's runs. Housekeeping keeps them, as no sensor starts them.
        about: the job's description.
    """
    replication = config

    @wraps(body)
    def alive(context: dg.OpExecutionContext, config: JobConfig) -> None:
        with liveness.at_work(context, replication, is_whole_run=True):
            body(context, config)

    work = dg.op(name=named(config, body.__name__))(alive)

    @dg.job(
        name=named(config, name),
        description=about,
        tags=mode_tags(config, mode),
        executor_def=dg.in_process_executor,  # the lock is the whole run's
    )
    def job() -> None:
        work()

    return job


def config_of(options: type[Options]) -> type[dg.Config]:
    """Returns the configuration of an op with the options' fields, defaults and descriptions."""
    fields: dict[str, Any] = {}
    for name, each in options.model_fields.items():
        default = ... if each.is_required() else each.get_default()
        fields[name] = each.annotation, Field(default=default, description=each.description)
    return create_model(f"{options.__name__}InJob", __base__=dg.Config, **fields)
