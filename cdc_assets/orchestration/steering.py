"""Defines the jobs `pause_tables`, `resume_tables`, `drop_tables` and `reset_tables`.

They do the same as the commands. A person starts them from the UI's launchpad, and names the tables
there. The results are in the run's log and, as an observation, on each table's page.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of the bodies below.

from collections.abc import Callable, Sequence
from typing import Final

import dagster as dg
from pydantic import Field

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate import steering
from cdc_assets.operate.services import Services
from cdc_assets.operate.steering import Choice, Done, Order, Steered, chosen
from cdc_assets.orchestration.keys import table_key
from cdc_assets.orchestration.people import people_job
from cdc_assets.orchestration.removing import Runs, run_removal
from cdc_assets.registry import Registry, TableEntry

STEERING: Final = "steering"
"""`cdc/mode` of these runs: a person started them, so housekeeping keeps them."""

Steer = Callable[[Services, Sequence[TableEntry], Order, steering.Say], Steered]


class Named(dg.Config):
    """Tables that are selected by name, or by their source."""

    tables: list[str] = Field(default=[], description="[source.][schema.]table, any number of them")
    source: str | None = Field(default=None, description="all of a source, or those of it")

    def choice(self) -> Choice:
        """Returns the selection of tables."""
        return Choice(self.source, tuple(self.tables))


class Tables(Named):
    """The selected tables, which may be all."""

    every: bool = Field(default=False, description="all tables, where neither is given")

    def choice(self) -> Choice:
        """Returns the selection of tables."""
        return Choice(self.source, tuple(self.tables), self.every)


class Reasoned(dg.Config):
    """The reason, and whether to do it."""

    why: str = Field(default="", description="kept with it, and shown wherever it is")
    dry_run: bool = Field(default=False, description="only say what would be done")


class Steering(Tables, Reasoned):
    """The selected tables, and the reason."""


class Removal(Named, Reasoned):
    """The named tables, and the reason. Nothing is ever removed of all tables at once."""


class Dropped(Removal):
    """The named tables, the reason, and whether to drop them from the lake, too."""

    lake: bool = Field(default=False, description="also take them out of the lake")


def pause_job(config: ReplicationConfig, _: Registry) -> dg.JobDefinition:
    """Returns the job that does what `cdc-assets pause` does."""
    replication, about = config, "Merge nothing into tables."

    def pause(context: dg.OpExecutionContext, config: Steering) -> None:
        _steer(context, replication, steering.pause, config)

    return people_job(config, "pause_tables", pause, mode=STEERING, about=about)


def resume_job(config: ReplicationConfig, _: Registry) -> dg.JobDefinition:
    """Returns the job that does what `cdc-assets resume` does."""
    replication, about = config, "Go on with paused or stopped tables."

    def resume(context: dg.OpExecutionContext, config: Steering) -> None:
        _steer(context, replication, steering.resume, config)

    return people_job(config, "resume_tables", resume, mode=STEERING, about=about)


def _steer(
    context: dg.OpExecutionContext, config: ReplicationConfig, steer: Steer, wish: Steering
) -> None:
    services, order = Services(config), _order(context, wish)
    require_done(steer(services, chosen(services, wish.choice()), order, teller(context, config)))


def drop_job(config: ReplicationConfig, _: Registry) -> dg.JobDefinition:
    """Returns the job that does what `cdc-assets drop` does."""
    replication, about = config, "End the replication of tables."

    def drop(context: dg.OpExecutionContext, config: Dropped) -> None:
        _remove(context, replication, "drop --lake" if config.lake else "drop", config)

    return people_job(config, "drop_tables", drop, mode=STEERING, about=about)


def reset_job(config: ReplicationConfig, _: Registry) -> dg.JobDefinition:
    """Returns the job that does what `cdc-assets reset` does."""
    replication = config
    about = "Forget what the lake has of tables, and merge all of their logs again."

    def reset(context: dg.OpExecutionContext, config: Removal) -> None:
        _remove(context, replication, "reset", config)

    return people_job(config, "reset_tables", reset, mode=STEERING, about=about)


def _remove(
    context: dg.OpExecutionContext, config: ReplicationConfig, command: str, wish: Removal
) -> None:
    order = _order(context, wish)
    runs = Runs(config, context.instance, context.run_id, context.log.info)
    done = run_removal(config, command, wish.choice(), order, runs, teller(context, config))
    require_done(done)


def _order(context: dg.OpExecutionContext, wish: Reasoned) -> Order:
    return Order(f"{context.job_name} {context.run_id}", wish.why, wish.dry_run)


def teller(context: dg.OpExecutionContext, config: ReplicationConfig) -> steering.Say:
    """Returns a callback that reports results in the log and on the tables' pages."""

    def told(done: Done) -> None:
        context.log.info(f"{done.table}: {done.words}")
        if done.changed:
            observed = dg.AssetObservation(table_key(config, done.entry), description=done.words)
            context.log_event(observed)

    return told


def require_done(done: Steered) -> None:
    """Fails the run if a table failed, and names the failed tables.

    Raises:
        dagster.Failure: if a table failed.
    """
    if done.failed:
        text = "; ".join(f"{table}: {why}" for table, why in done.failed.items())
        raise dg.Failure(text, allow_retries=False)


STEERING_JOBS: Final = (pause_job, resume_job, drop_job, reset_job)
"""All jobs of this module."""
