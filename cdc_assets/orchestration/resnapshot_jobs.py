"""`resnapshot_tables`: the command `cdc-assets resnapshot` as a job."""

# No `from __future__ import annotations`: Dagster reads the annotations of the bodies below.

from typing import Final, Literal

import dagster as dg
from pydantic import Field

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.discovery import replicated
from cdc_assets.operate.services import Services
from cdc_assets.orchestration.keys import table_key
from cdc_assets.orchestration.people import people_job
from cdc_assets.orchestration.resnapshotting import (
    Action,
    Outcome,
    Wish,
    run_resnapshot,
    run_steering,
)
from cdc_assets.orchestration.steering import Tables, require_done, teller
from cdc_assets.registry import Registry, TableEntry

RESNAPSHOT: Final = "resnapshot"
"""`cdc/mode` of these runs: they are a person's, and kept."""

READ_AGAIN: Final = "read_again"


class ResnapshotWish(Tables):
    """The tables to read again, and how."""

    via: Literal["read", "signal"] = Field(
        default="read", description="who reads: Spark (read), or their connector (signal)"
    )
    do: Literal["read_again", "pause", "resume", "stop"] = Field(
        default="read_again",
        description="pause, resume or stop what a connector reads by a signal",
    )
    anew: bool = Field(default=False, description="begin again, whatever an earlier one has done")
    dry_run: bool = Field(default=False, description="only say what would be done")


def resnapshot_job(config: ReplicationConfig, _: Registry) -> dg.JobDefinition:
    """Returns the job that reads tables again, as `cdc-assets resnapshot` does."""
    replication = config

    def read_again(context: dg.OpExecutionContext, config: ResnapshotWish) -> None:
        def say(entry: TableEntry, words: str) -> None:
            context.log.info(f"{entry.table}: {words}")

        choice = config.choice()
        if config.do != READ_AGAIN:
            action, told = Action(config.do), teller(context, replication)
            dry_run = config.dry_run
            require_done(run_steering(replication, choice, action, told, dry_run=dry_run))
            return
        wish = Wish(choice, config.via, anew=config.anew, dry_run=config.dry_run)
        outcome = run_resnapshot(replication, wish, context.run_id, say)
        _show(context, replication, outcome)

    about = (
        "Reads tables again from their live source, and puts right what the lake has of them. "
        "Newer changes win; rows that the source no longer has are removed. `via: signal` has "
        "their connector read them, which goes on whatever becomes of the run; `do` pauses, "
        "resumes or stops that. `dry_run` says what would be done. May be cancelled and "
        "started again: it goes on where it was."
    )
    return people_job(config, "resnapshot_tables", read_again, mode=RESNAPSHOT, about=about)


def _show(context: dg.OpExecutionContext, config: ReplicationConfig, outcome: Outcome) -> None:
    """Shows on the tables' pages what was done, and in the run's log what would be.

    Raises:
        dagster.Failure: names the tables that failed, or are not what their sources are.
    """
    known = {each.table: each for each in replicated(config, Services(config).registry.load())}
    for table, words in outcome.intended.items():
        context.log.info(f"{table}: {words}")
    for report in outcome.reports:
        text = "; ".join(report.words())
        context.log.info(f"{report.table}: {text}")
        if report.table in known:
            key = table_key(config, known[report.table])
            context.log_event(dg.AssetObservation(key, description=f"read again: {text}"))
    unfinished = {
        each.table: "; ".join(each.words()) for each in outcome.reports if not each.is_whole
    }
    failed = {**outcome.failed, **unfinished}
    if failed:
        text = "; ".join(f"{table}: {why}" for table, why in failed.items())
        raise dg.Failure(text, allow_retries=False)
