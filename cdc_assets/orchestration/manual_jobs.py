"""Makes the jobs that users start from the launchpad: one op each, in the run's own process.

They have in common that a run is alive for others as long as it works, wherever it works.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of the ops' bodies.

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.orchestration import liveness
from cdc_assets.orchestration.keys import mode_tags, named

JobConfig = TypeVar("JobConfig", bound=dg.Config)


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
