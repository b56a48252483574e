"""``cdc-assets``: the command line.

Exit codes: 0 done, 1 a table failed (named) or a part did not answer, 2 bad usage or
configuration. Heavy modules are imported by the command that needs them, so that help and
completion are quick.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from cdc_assets.errors import CdcError, ConfigError, frames_of
from cdc_assets.local_stack import DEVSTACK, require
from cdc_assets.reference import explained

if TYPE_CHECKING:
    from cdc_assets.config import ReplicationConfig
    from cdc_assets.operate.services import Services

CONFIG_VARIABLE: Final = "CDC_ASSETS_CONFIG"
FAILED: Final = 1
USAGE: Final = 2

MOUNTED: Final[Mapping[str, tuple[str, str]]] = {
    "assess": (
        "cdc_assets.assessing",
        "Say whether tables can be replicated exactly: YES, PARTIAL, NO.",
    ),
    "consistent": (
        "cdc_assets.operate.consistent_command",
        "Read all tables of a source as of one commit: list, sql.",
    ),
    "dbt": ("cdc_assets.orchestration.dbt", "For dbt: a sources.yml with the assets' keys."),
    "jars": (
        "cdc_assets.operate.jars_command",
        "Print the jars and settings that a Spark server needs.",
    ),
    "init": (
        "cdc_assets.operate.init",
        "Write a commented replication.yaml from the topics and databases found.",
    ),
    "stack": ("cdc_assets_devstack.cli", "The local stack: up, down, status."),
    "metrics": ("cdc_assets.operate.metrics", "Serve or print metrics for Prometheus."),
    "demo": ("cdc_assets_devstack.demo", "A shop database under load, replicated live."),
}


OPERATIONS: Final[Mapping[str, tuple[str, str]]] = {
    "accept-restart": (
        "cdc_assets.operations.accept_restart.operation.ACCEPT_RESTART",
        "Resume after a source's restart: restored, upgraded by dump, RESETLOGS, or recreated.",
    ),
    "adopt": (
        "cdc_assets.operations.adopt.operation.ADOPT",
        "Take over an Iceberg table that another tool made, as the lake table of TABLE.",
    ),
    "compact": (
        "cdc_assets.operations.compact.COMPACT",
        "Compact the lake table of TABLE at once, to the end.",
    ),
    "drop": (
        "cdc_assets.operations.drop.operation.DROP",
        "End the replication of tables; --lake: remove them there.",
    ),
    "history": (
        "cdc_assets.operations.rewind.operation.HISTORY",
        "List a table's commits, and which of them it can be rewound to.",
    ),
    "maintain": (
        "cdc_assets.operations.maintain.MAINTAIN",
        "Maintain lake tables: compact, expire snapshots, rewrite manifests, remove left branches.",
    ),
    "rebuild": (
        "cdc_assets.operations.rebuild.operation.REBUILD",
        "Rebuild TABLE as a shadow table, and swap the shadow table in at once.",
    ),
    "pause": (
        "cdc_assets.operations.steering.PAUSE",
        "Pause tables. Rows and offsets stay as they are.",
    ),
    "reset": (
        "cdc_assets.operations.drop.operation.RESET",
        "Remove tables from the lake, and merge their logs again.",
    ),
    "resume": (
        "cdc_assets.operations.steering.RESUME",
        "Resume paused, dropped or stopped tables.",
    ),
    "resnapshot": (
        "cdc_assets.operations.resnapshot.operation.RESNAPSHOT",
        "Read tables again from their live source; newer changes win.",
    ),
    "rewind": (
        "cdc_assets.operations.rewind.operation.REWIND",
        "Rewind a table to an earlier commit, and resume from there.",
    ),
    "verify": (
        "cdc_assets.operations.verify.VERIFY",
        "Compare lake tables with their sources.",
    ),
}


QUARANTINE_OPERATIONS: Final[Mapping[str, tuple[str, str]]] = {
    "replay": (
        "cdc_assets.operations.quarantine.REPLAY_QUARANTINE",
        "Merge quarantined records again, after the cause of their rejection was corrected.",
    ),
}


class MountedGroup(click.Group):
    """Imports some commands of a group only when a user calls them.

    Args:
        mounted: module and help of commands, by name.
        operations: path and help of operations, by name.
        kwargs: of a group.
    """

    def __init__(
        self,
        *,
        mounted: Mapping[str, tuple[str, str]],
        operations: Mapping[str, tuple[str, str]],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._mounted, self._operations = mounted, operations

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, without importing."""
        return sorted({*super().list_commands(ctx), *self._mounted, *self._operations})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a mounted command, or make that of an operation."""
        if cmd_name in self._operations:
            return _operation_command(self._operations[cmd_name][0])
        if cmd_name not in self._mounted:
            return super().get_command(ctx, cmd_name)
        module = self._mounted[cmd_name][0]
        if module.startswith(DEVSTACK):
            require(DEVSTACK, "the local stack is", "demo")
        return getattr(import_module(module), cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in the help, without importing."""
        own = {name: command.get_short_help_str(80) for name, command in self.commands.items()}
        rows = own | {
            name: text for name, (_, text) in {**self._mounted, **self._operations}.items()
        }
        with formatter.section("Commands"):
            formatter.write_dl(sorted(rows.items()))


@click.group(cls=MountedGroup, mounted=MOUNTED, operations=OPERATIONS)
@click.option("--config", type=click.Path(), help=f"Configuration file; else ${CONFIG_VARIABLE}.")
@click.version_option(package_name="cdc-assets")
def cli(config: str | None) -> None:
    """Keep Apache Iceberg tables equal to the tables of operational databases."""
    if config is not None:
        os.environ[CONFIG_VARIABLE] = str(config)


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def status(*, as_json: bool) -> None:
    """Per table: state, committed offsets, lag in changes and seconds, SLO, last error."""
    from cdc_assets.operate.services import Services
    from cdc_assets.operate.status import read_status

    found = read_status(Services(_config()))
    if as_json:
        click.echo(found.to_json())
    else:
        from cdc_assets.operate.render import render_status

        render_status(found)
    for problem in found.problems:
        click.echo(f"error: {explained(problem)}", err=True)
    if found.failing or found.problems:
        sys.exit(FAILED)


@cli.command()
@click.option("--source", help="Only the tables of this source.")
@click.option("--table", help="Only this table: [source.][schema.]table.")
@click.option(
    "--until-caught-up", is_flag=True, help="Continue until every record logged so far is merged."
)
def replicate(source: str | None, table: str | None, *, until_caught_up: bool) -> None:
    """Merge due tables, with the same assets as Dagster's daemon, without the daemon.

    Runs appear in the Dagster instance of $DAGSTER_HOME, if set. Failed tables are retried
    immediately.
    """
    from cdc_assets.orchestration.merge_commands import Selection, run_replicate

    selection = Selection(source=source, table=table, until_caught_up=until_caught_up)
    _exit(run_replicate(_config(), selection))


@cli.command()
@click.option("--table", required=True, help="The table: [source.][schema.]table.")
@click.option("--from", "first", required=True, help="First hour, such as 2026-03-01T07:00 (UTC).")
@click.option("--to", "last", required=True, help="Last hour, included.")
def replay(table: str, first: str, last: str) -> None:
    """Merge hours of the log once more. Changes nothing unless the table differs from its log."""
    from cdc_assets.orchestration.merge_commands import run_replay

    _exit(run_replay(_config(), table, first, last))


@cli.command()
@click.option("--table", help="Only this table: [source.][schema.]table.")
def plan(table: str | None) -> None:
    """Print the plan of each table's next batch, and change nothing."""
    from cdc_assets.orchestration.merge_commands import run_plan

    _exit(run_plan(_config(), table))


@cli.group()
def schema() -> None:
    """Compare the lake's columns with the source's."""


@schema.command("diff")
@click.argument("table")
def diff(table: str) -> None:
    """Print how the next records would change TABLE's columns, and change nothing.

    TABLE is [source.][schema.]table. Compares the lake's columns with the database's, or without
    database: with the last records'. Exits with 1 if the table would stop.
    """
    from cdc_assets.operate.schema_drift import schema_diff

    found = schema_diff(_config(), table)
    for line in found.lines:
        click.echo(line)
    if found.stops:
        sys.exit(FAILED)


@cli.group(cls=MountedGroup, mounted={}, operations=QUARANTINE_OPERATIONS)
def quarantine() -> None:
    """List or replay the records that could not be merged."""


@quarantine.command("list")
@click.option("--source", help="Only records of this source.")
@click.option("--table", help="Only records of this table: [source.][schema.]table.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Maximum number of records.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def list_(source: str | None, table: str | None, limit: int, *, as_json: bool) -> None:
    """List each record's offset and why it could not be merged. Never prints a record's content."""
    from cdc_assets.operate.quarantine import QuarantineScope, list_quarantined
    from cdc_assets.operate.services import Services

    listing = list_quarantined(Services(_config()), QuarantineScope(source, table), limit)
    if as_json:
        click.echo(listing.to_json())
    else:
        from cdc_assets.operate.render import render_quarantine

        render_quarantine(listing)


def _operation_command(path: str) -> click.Command:
    from cdc_assets.operations.command import Console, command_of

    module, _, name = path.rpartition(".")
    operation = getattr(import_module(module), name)

    def open_console(services: Services) -> AbstractContextManager[Console]:
        from cdc_assets.orchestration.operation_console import open_console

        return open_console(services)

    return command_of(operation, _config, open_console)


@cli.group("config")
def config_group() -> None:
    """The configuration file."""


@config_group.command("schema")
def config_schema() -> None:
    """Print the JSON Schema of the configuration, for editors and checks."""
    from cdc_assets.config import ReplicationConfig

    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    click.echo(json.dumps({**dialect, **ReplicationConfig.model_json_schema()}, indent=2))


@config_group.command("check")
def config_check() -> None:
    """Read the configuration and print its errors and deprecated keys. Connects to nothing."""
    from cdc_assets.config.load import config_file, deprecations_of

    config = _config()
    for warning in deprecations_of(config_file()):
        click.echo(f"warning: {warning}", err=True)
    sources = ", ".join(config.sources) or "none"
    click.echo(f"{config.path}: correct; sources: {sources}")


@config_group.command("env")
def config_env() -> None:
    """Print the file's environment variables as a component's defs.yaml declares them.

    Paste the lines into defs.yaml: then `dg list env` lists the variables, and `dg check yaml
    --validate-requirements` finds undeclared ones.
    """
    from cdc_assets.config.load import config_file, requirements_of

    click.echo(requirements_of(config_file()), nl=False)


def _config() -> ReplicationConfig:
    from cdc_assets.config import load_config

    return load_config()


def _exit(failed: Mapping[Any, str]) -> NoReturn:
    for table, message in failed.items():
        click.echo(f"failed: {table}: {message}", err=True)
    sys.exit(FAILED if failed else 0)


def main() -> NoReturn:
    """The program: an error is a line, not a traceback, whose texts might quote rows or secrets."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal without the letters of a name shows \\u…
            stream.reconfigure(errors="backslashreplace", line_buffering=True)
    try:
        cli.main(prog_name="cdc-assets", standalone_mode=True)
    except ConfigError as error:
        _end(explained(error), USAGE)
    except CdcError as error:
        _end(explained(error), FAILED)
    except OSError as error:
        _end(_of_system(error), FAILED)
    except Exception as error:
        _end(f"{explained(error)}; the lines of code:\n{frames_of(error)}", FAILED)
    sys.exit(0)


def _end(message: str, code: int) -> NoReturn:
    click.echo(f"error: {message}", err=True)
    sys.exit(code)


def _of_system(error: OSError) -> str:
    """Returns the system call's refusal and its file; never the texts of network clients."""
    refused = isinstance(error, PermissionError)
    remedy = "work as the user that owns it, or set another `home`" if refused else ""
    place = str(error.filename) if error.filename else ""
    what = error.strerror or f"unexpected {type(error).__qualname__}"
    return str(CdcError(what, where=place, remedy=remedy))


if __name__ == "__main__":
    main()
