"""Runs ``cdc-assets demo``: a shop under load, replicated live, until Ctrl-C.

1. Install the JVM pieces. 2. Start the stack. 3. Create the shop and register its connector.
4. Start the load and Dagster. 5. Watch: a part that dies is named and restarted. 6. Stop
everything. All data stays, so the next demo continues where this one stopped.

A demo that was killed leaves its processes running. The next one takes them over, or replaces
those whose settings have changed. Two demos never share a folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import click
from rich.console import Console

from cdc_assets.config import ReplicationConfig, Secret, load_config
from cdc_assets.config.load import CONFIG_VARIABLE, DEFAULT_FILE
from cdc_assets.errors import ConfigError
from cdc_assets_devstack import environment, jars
from cdc_assets_devstack.configured import stack_of
from cdc_assets_devstack.demo_lock import only_demo
from cdc_assets_devstack.demo_parts import Dagster, ShopLoadProcess
from cdc_assets_devstack.demo_source import SHOP, DemoSource, Server, demo_source
from cdc_assets_devstack.demo_watch import ConnectorWatch, Follow, Watch
from cdc_assets_devstack.layout import HOST
from cdc_assets_devstack.part import Part, StartInterruptedError
from cdc_assets_devstack.progress import install_progress, start_progress
from cdc_assets_devstack.stack import LocalStack

FILES: Final = {
    Server.POSTGRES: Path(DEFAULT_FILE),
    Server.MARIADB: Path("replication-mariadb.yaml"),
}
"""The configurations, in the working folder; copies of them are in this folder."""


@click.command()
@click.option("--rate", default=20.0, show_default=True, help="Row changes per second.")
@click.option("--port", default=3000, show_default=True, help="Port of Dagster's webserver.")
@click.option(
    "--source", "server", type=click.Choice([each.value for each in Server]),
    default=Server.POSTGRES.value, show_default=True,
    help=f"Where the shop is; MariaDB's configuration is {FILES[Server.MARIADB]}, unless one is "
    "named.",
)  # fmt: skip
def demo(rate: float, port: int, server: str) -> None:
    """Run a shop database under load and replicate it live; Ctrl-C stops all parts.

    A folder without a configuration gets one.
    """
    if CONFIG_VARIABLE in os.environ:
        config = load_config()
    else:
        config = load_config(written(FILES[Server(server)]))
    shown = Demo(config, rate, port, Server(server))
    environment.forget_other_databases()
    with _call_on_signals(shown.interrupt):
        shown.run()


def written(file: Path) -> Path:
    """Returns a configuration's file; writes it where there is none."""
    if not file.exists():
        shutil.copy(Path(__file__).with_name(file.name), file)
        click.echo(f"wrote {file}, the configuration of what follows")
    return file


class Demo:
    """All processes of the demo.

    Args:
        config: the replication, whose stack is started.
        rate: row changes per second.
        port: the port of Dagster's webserver.
        server: the server with the shop.
    """

    def __init__(
        self, config: ReplicationConfig, rate: float, port: int, server: Server = Server.POSTGRES
    ) -> None:
        self.config = config
        self.stack = stack_of(config)
        self.source = demo_source(server, self.stack)
        layout = self.stack.layout
        self.load = ShopLoadProcess(layout, self.source.dsn, rate)
        file = _config_file(config)
        env = {
            **environment.named_in(file),
            **_database_variables(config, self.source.dsn),
            "CDC_ASSETS_CONFIG": str(file),
        }
        self.dagster = Dagster(layout, port, file.with_name("dagster.yaml"), env)
        self._beside: tuple[Part, ...] = (self.load, self.dagster)
        self._leave = threading.Event()
        self._console = Console()
        needed = [part for part in self.stack.parts if part.name in self.source.parts]
        self._watches = (
            Watch((*needed, *self._beside), self._say),
            ConnectorWatch(self.stack.connect, self.source.connector, self._say),
            Follow(layout.log(self.load.name), self._say),
        )

    def interrupt(self) -> None:
        """Ends the demo, also in the middle of the start."""
        self._leave.set()
        for part in (*self.stack.parts, *self._beside):
            part.interrupt.set()

    def run(self) -> None:
        """Starts, watches until interrupted, stops.

        Raises:
            TerminalError: another demo runs in this folder, or something cannot be started.
            PartDiedError: a part keeps dying; names it and ends with its log.
            PartStoppedError: another command stopped a part. In each case the rest is stopped.
        """
        with only_demo(self.stack.layout, f"http://{HOST}:{self.dagster.port}"):
            try:
                self.start()
                self._show_guide()
                while not self._leave.wait(1):
                    self.watch()
            except StartInterruptedError:
                self._console.print("interrupted")
            finally:
                with self._console.status("stopping; data stays for the next time"):
                    spared = self.stop()
            for each in spared:
                self._console.print(f"left running: {each}", soft_wrap=True, highlight=False)
            self._console.print("stopped; the next demo in this folder continues from here")

    def start(self) -> None:
        """Does steps 1 to 4."""
        for part in self._beside:
            part.require_startable()
        with install_progress() as on_jars:
            jars.install(self.stack.layout, self.source.jars, on_progress=on_jars)
        with start_progress() as on_part:
            self.stack.up(self.source.parts, on_part)
            missing = self.source.prepare(self.stack)
            for part in self._beside:
                part.bring_up(on_part)
        if missing:
            self._say(
                f"the shop lacks {', '.join(missing)}, and is left as it is; for a new one, and a "
                f"new lake: {self.stack.layout.without_data}"
            )

    def watch(self) -> None:
        """Checks everything once.

        Raises:
            PartDiedError: a part keeps dying; names it and ends with its log.
            PartStoppedError: another command stopped a part.
        """
        for each in self._watches:
            each.look()

    def stop(self) -> tuple[str, ...]:
        """Stops the demo's parts, then the stack; returns others' parts, which keep running."""
        return self.stack.down(spare_others=True)

    def _say(self, line: str) -> None:
        self._console.print(line, soft_wrap=True, markup=False, highlight=False)

    def _show_guide(self) -> None:
        """Prints the guide unwrapped, so that its lines can be copied."""
        self._console.rule("cdc_assets demo")
        guide = _guide(self.dagster.url, self.stack, self.config, self.source)
        self._console.print(guide, soft_wrap=True, highlight=False)
        self._console.rule()


def _guide(url: str, stack: LocalStack, config: ReplicationConfig, source: DemoSource) -> str:
    home, program = os.path.relpath(stack.layout.home), _program(config)
    invited = "\n".join(f"  {each};\n      {then}" for each, then in source.invited.items())
    catalog, namespace = config.lake.catalog.uri, f"{source.connector}_{source.schema}"
    return f"""\
[bold]Dagster[/]      {url}   assets, checks, runs; each table of the shop is an asset
[bold]Shop[/]         {program} {source.opened_by}   {source.address}
[bold]Kafka[/]        {stack.kafka.address}   topics {source.connector}.{source.schema}.*
[bold]Debezium[/]     http://{stack.connect.address}/connectors/{source.connector}/status
[bold]Logs, data[/]   {home}/logs   {home}

[bold]Look at the replication[/]
  {program} status

[bold]Alter its tables[/]: the replication follows
{invited}
and see what the next records will change
  {_variables(program, config, source)}{program} schema diff TABLE

[bold]Query the lake[/] with PyIceberg
  from pyiceberg.catalog import load_catalog
  lake = load_catalog("lake", type="sql", uri="{catalog}", warehouse="{config.lake.warehouse}")
  lake.load_table("{namespace}.orders").scan(limit=10).to_pandas()
or with Spark
  from pyspark.sql import SparkSession
  token = open("{home}/secrets/spark").read()
  spark = SparkSession.builder.remote(
      f"sc://localhost:{stack.spark.endpoint.port}/;token={{token}}").getOrCreate()
  spark.sql("SELECT status, count(*) FROM lake.{namespace}.orders GROUP BY status").show()

Ctrl-C stops everything; the data stays."""  # noqa: S608 - text for a person


def _variables(program: str, config: ReplicationConfig, source: DemoSource) -> str:
    """Returns the assignments with the shop's DSN to put before a command that asks it."""
    other = "" if source.server is Server.POSTGRES else f" --of {source.server.value}"
    dsn = f"$({program} stack dsn {SHOP}{other})"
    return "".join(f'{name}="{dsn}" ' for name in _database_variables(config, ""))


def _program(config: ReplicationConfig) -> str:
    """Returns the command for this program: its name if the shell would find it, else its path."""
    name = "cdc-assets" if shutil.which("cdc-assets") else os.path.relpath(sys.argv[0])
    is_usual = config.path == Path(DEFAULT_FILE).absolute()
    return (
        name
        if is_usual or config.path is None
        else f"{name} --config {os.path.relpath(config.path)}"
    )


def _config_file(config: ReplicationConfig) -> Path:
    if config.path is None:
        msg = "the demo needs a configuration file"
        raise ConfigError(msg, remedy="name one in $CDC_ASSETS_CONFIG")
    return config.path


def _database_variables(config: ReplicationConfig, dsn: str) -> dict[str, str]:
    """Returns the variables from which the configuration reads DSNs, set to the shop's DSN."""
    databases = (source.database for source in config.sources.values())
    secrets = (each.dsn for each in databases if each and isinstance(each.dsn, Secret))
    return {each.env: dsn for each in secrets if each.env}


@contextmanager
def _call_on_signals(leave: Callable[[], None]) -> Iterator[None]:
    """Calls a function on Ctrl-C and SIGTERM, instead of an interruption at any point.

    Handling SIGINT also matters for the children: a program started in the background ignores
    it, and its children would inherit that; a signal handled here has its default again in a child.
    """

    def handle(_number: int, _frame: FrameType | None) -> None:
        leave()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    demo()
