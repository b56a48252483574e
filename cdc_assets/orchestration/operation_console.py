"""Opens the console of an operation's command: its Spark session, and its side of Dagster."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.effects import effect
from cdc_assets.operate.services import Services
from cdc_assets.operations.maintain import UpkeepOptions
from cdc_assets.operations.operation import Report, Tables
from cdc_assets.operations.running import Say
from cdc_assets.operations.session import Host
from cdc_assets.orchestration.instance import has_instance, open_instance
from cdc_assets.orchestration.maintaining import maintained
from cdc_assets.orchestration.operation_jobs import checks_of, hand_over, observation
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.registry import TableEntry

UNSEEN: Final = (
    "$DAGSTER_HOME is not set: runs that stay with the table are not told, and find it out with "
    "its next record; nor do its assets show it"
)


@dataclass(frozen=True, slots=True)
class CommandConsole:
    """The process of a command, with the instance of $DAGSTER_HOME if there is one.

    Attributes:
        config: the configuration.
        instance: receives observations and runs.
        host: the process, as operations use it.
    """

    config: ReplicationConfig
    instance: dg.DagsterInstance
    host: Host

    def observe(self, report: Report) -> None:
        """Records a report's observations, which belong to no run."""
        for each in report.observations:
            with effect("dagster: event"):
                self.instance.report_runless_asset_event(observation(self.config, each))

    def materialize(self, options: UpkeepOptions, tables: Tables, say: Say) -> Report:
        """Maintains a lake table by materializing its asset, in a run of its own.

        Raises:
            CdcError: if the step fails.
        """
        return maintained(self.config, self.instance, tables, options, say, self.host.run_id)


@contextmanager
def open_console(services: Services) -> Iterator[CommandConsole]:
    """Opens the console of a command, and closes what the command has used of it."""
    config, spark = services.config, spark_resource(services.config)
    with open_instance() as instance:

        def handed_over(tables: Sequence[TableEntry]) -> str:
            hand_over(config, instance, tables)
            return "" if has_instance() else UNSEEN

        host = Host(
            uuid.uuid4().hex,
            spark.session,
            spark.forget,
            hand_over=handed_over,
            check_source=checks_of(services, spark, instance),
        )
        try:
            yield CommandConsole(config, instance, host)
        finally:
            spark.forget()
