"""Makes the click command of an operation."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import click

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.services import Services
from cdc_assets.operations.operation import Operation, Progress, Report, Tables
from cdc_assets.operations.options import constant_values, parameters
from cdc_assets.operations.running import Runner, Say
from cdc_assets.operations.session import Host

AnyOperation = Operation[Any, Any]


class Console(Protocol):
    """The process of a command, which records in Dagster what its operations do."""

    @property
    def host(self) -> Host:
        """The process, as operations use it."""
        ...

    def observe(self, report: Report) -> None:
        """Records a report's observations."""
        ...

    def materialize(self, options: Any, tables: Tables, say: Say) -> Report:
        """Carries an operation with assets of its own out by materializing one of them."""
        ...


OpenConsole = Callable[[Services], AbstractContextManager[Console]]


def command_of(
    operation: AnyOperation, load: Callable[[], ReplicationConfig], open_console: OpenConsole
) -> click.Command:
    """Returns the command.

    It exits with 1 if a table failed or is not as was asked for. With ``--json`` standard output
    has one document, and progress is on standard error.

    Args:
        operation: the operation.
        load: loads the configuration.
        open_console: opens the process's side of Dagster.
    """

    def body(*, as_json: bool, **values: object) -> None:
        options = operation.options(**values, **constant_values(operation.options))
        operation.check_command(options)
        apart = as_json or operation.is_progress_apart

        def say(progress: Progress) -> None:
            click.echo(progress.words, err=apart)

        def on_report(report: Report) -> None:
            for line in () if as_json else report.lines:
                click.echo(line)
            if operation.is_observed and not operation.is_look:
                console.observe(report)

        services = Services(load())
        with open_console(services) as console:

            def work(tables: Tables) -> Report:
                return console.materialize(options, tables, say)

            asset_work = work if operation.is_asset else None
            runner = Runner(services, console.host, say, on_report, asset_work)
            results = runner.run(operation, options)
        if as_json:
            click.echo(json.dumps(operation.document(options, results), indent=2))
        elif not results.reports and not results.failed:
            click.echo(operation.if_empty)
        for table, why in results.failed.items():
            click.echo(f"failed: {table}: {why}", err=True)
        sys.exit(int(results.is_bad))

    as_json = click.Option(["--json", "as_json"], is_flag=True, help="One JSON document.")
    return click.Command(
        operation.name,
        callback=body,
        params=[*parameters(operation.options), as_json],
        help=inspect.getdoc(operation),
    )
