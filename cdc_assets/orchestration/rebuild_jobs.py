"""`rebuild_table`: the command `cdc-assets rebuild` as a job."""

# No `from __future__ import annotations`: Dagster reads the annotations of the bodies below.

from typing import Final, Literal

import dagster as dg
from pydantic import Field

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError, message_of
from cdc_assets.operate.discovery import find_table
from cdc_assets.operate.services import Services
from cdc_assets.orchestration.keys import table_key
from cdc_assets.orchestration.people import people_job
from cdc_assets.orchestration.rebuilding import Outcome, Wish, run_rebuild
from cdc_assets.registry import Registry

REBUILD: Final = "rebuild"
"""`cdc/mode` of these runs: they are a person's, and kept."""


class RebuildWish(dg.Config):
    """The table to rebuild, and how."""

    table: str = Field(description="[source.][schema.]table")
    from_source: bool = Field(default=False, description="read the rows from the source's database")
    from_snapshot: bool = Field(default=False, description="wait for a new snapshot in the log")
    via: Literal["hand", "signal"] = Field(
        default="hand", description="who starts it: a person, or a signal to the connector"
    )
    snapshot_done: bool = Field(default=False, description="that snapshot is complete")
    dry_run: bool = Field(default=False, description="only say what would be done")
    abandon: bool = Field(default=False, description="drop what was built so far")
    forget: bool = Field(default=False, description="let go of what rebuilds have replaced")
    verify: bool = Field(default=True, description="compare it with its source in the end")


def rebuild_job(config: ReplicationConfig, _: Registry) -> dg.JobDefinition:
    """Returns the job that builds a table anew, as `cdc-assets rebuild` does."""
    replication = config

    def build_anew(context: dg.OpExecutionContext, config: RebuildWish) -> None:
        def say(words: str) -> None:
            context.log.info(f"{config.table}: {words}")

        wish = Wish(**{name: said for name, said in config.model_dump().items() if name != "table"})
        try:
            outcome = run_rebuild(replication, config.table, wish, say, context.instance)
        except CdcError as error:
            what = f"{config.table}: {message_of(error)}"
            raise dg.Failure(what, allow_retries=False) from None
        _show(context, replication, outcome)

    about = (
        "Builds a table anew beside the old one and swaps it in at once: from its log, from "
        "the rows of its live source (`from_source`), or from a snapshot that the connector is "
        "asked for (`from_snapshot`, `via: signal`). `dry_run` says what would be done. May "
        "be cancelled and started again: it goes on where it was."
    )
    return people_job(config, "rebuild_table", build_anew, mode=REBUILD, about=about)


def _show(context: dg.OpExecutionContext, config: ReplicationConfig, outcome: Outcome) -> None:
    """Shows on the table's page what was done.

    Raises:
        dagster.Failure: if it waits for a snapshot, or differs from its source.
    """
    entry = find_table(config, Services(config).registry.load(), str(outcome.table))
    if outcome.swapped:
        text = f"built anew: {outcome.rows:,} rows read, {outcome.records:,} records merged"
        context.log_event(dg.AssetObservation(table_key(config, entry), description=text))
    if not outcome.is_done:
        what = f"{outcome.table}: {outcome.said}"
        raise dg.Failure(what, allow_retries=False)
