"""Selects tables in a job, and reports the results for them on their pages."""

import dagster as dg
from pydantic import Field

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate import steering
from cdc_assets.operate.steering import Choice, Done, Steered
from cdc_assets.orchestration.keys import table_key


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
