"""Opens the console of an operation's command: its Spark session, and its side of Dagster."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property

import dagster as dg

from cdc_assets.effects import effect
from cdc_assets.operate.services import Services
from cdc_assets.operations.maintain import UpkeepOptions
from cdc_assets.operations.operation import Report, Tables
from cdc_assets.operations.running import Say
from cdc_assets.operations.session import Host, SourceCheck
from cdc_assets.orchestration.instance import has_instance, open_instance
from cdc_assets.orchestration.maintaining import maintained
from cdc_assets.orchestration.operation_jobs import checks_of, observation
from cdc_assets.orchestration.other_runs import OtherRuns
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.registry import TableEntry


class CommandConsole:
    """The process of a command, with the instance of $DAGSTER_HOME if there is one.

    The instance receives observations and runs. It is opened at its first use, so that `pause`
    needs no database of Dagster's.

    Attributes:
        host: the process, as operations use it.
    """

    def __init__(self, services: Services) -> None:
        self._services, self._config, self._opened = services, services.config, ExitStack()
        self._spark = spark_resource(self._config)
        self.host = Host(
            uuid.uuid4().hex,
            self._spark.session,
            self._spark.forget,
            hand_over=self._hand_over,
            require_runs_seen=self._require_seen,
            wait_for_runs=self._wait,
            check_source=self._check_source,
        )

    @cached_property
    def _instance(self) -> dg.DagsterInstance:
        return self._opened.enter_context(open_instance())

    @cached_property
    def _runs(self) -> OtherRuns:
        return OtherRuns(self._config, self._instance, "", are_seen=has_instance())

    def _hand_over(self, tables: Sequence[TableEntry]) -> str:
        return self._runs.hand_over(tables)

    def _require_seen(self) -> Iterator[str]:
        return self._runs.require_seen()

    def _wait(self, entry: TableEntry) -> Iterator[str]:
        return self._runs.wait(entry)

    def _check_source(self, entry: TableEntry, say: Callable[[str], None]) -> SourceCheck | None:
        return checks_of(self._services, self._spark, self._instance)(entry, say)

    def close(self) -> None:
        """Closes what the command has used."""
        self._spark.forget()
        self._opened.close()

    def observe(self, report: Report) -> None:
        """Records a report's observations, which belong to no run."""
        for each in report.observations:
            with effect("dagster: event"):
                self._instance.report_runless_asset_event(observation(self._config, each))

    def materialize(self, options: UpkeepOptions, tables: Tables, say: Say) -> Report:
        """Maintains a lake table by materializing its asset, in a run of its own.

        Raises:
            CdcError: if the step fails.
        """
        return maintained(self._config, self._instance, tables, options, say, self.host.run_id)


@contextmanager
def open_console(services: Services) -> Iterator[CommandConsole]:
    """Opens the console of a command, and closes what the command has used of it."""
    console = CommandConsole(services)
    try:
        yield console
    finally:
        console.close()
