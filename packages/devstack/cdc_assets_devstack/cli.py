"""Defines ``cdc-assets stack``: installs, starts, stops and shows the local stack."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from cdc_assets.errors import TerminalError
from cdc_assets_devstack import environment, jars
from cdc_assets_devstack.layout import StackLayout
from cdc_assets_devstack.part import (
    PartOfOthersError,
    PartState,
    PartStatus,
    StartInterruptedError,
)
from cdc_assets_devstack.postgres import bin_folder
from cdc_assets_devstack.progress import install_progress, start_progress
from cdc_assets_devstack.stack import DEFAULT_PARTS, LocalStack, StackStatus

if TYPE_CHECKING:
    from cdc_assets.config import ReplicationConfig

_STYLES = {
    PartState.READY: "green",
    PartState.STARTING: "yellow",
    PartState.STOPPED: "dim",
    PartState.DIED: "bold red",
}
_INSTALLABLE = (*jars.PARTS, *jars.OPTIONAL_PARTS)
_home_option = click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of local state; else the configuration's, else ./.cdc",
)


@click.group()
def stack() -> None:
    """Run PostgreSQL, Kafka, Kafka Connect with Debezium and Spark on this machine, no Docker.

    MariaDB and a schema registry are optional: `stack up mariadb`, `stack up registry`.

    Ports and the folder come from the configuration file, if there is one.
    """
    environment.forget_other_databases()


@stack.command()
@click.argument("parts", nargs=-1, metavar="[PART]...", type=click.Choice(_INSTALLABLE))
@_home_option
@click.option("--verify", is_flag=True, help="Compare every jar with its recorded checksum.")
@click.option(
    "--record-checksums", is_flag=True, help="Record new checksums, after a change of a manifest."
)
def install(
    parts: Sequence[str], home: Path | None, *, verify: bool, record_checksums: bool
) -> None:
    """Download the JVM pieces of the default parts, or of the named ones."""
    layout = chosen_layout(home)
    if record_checksums:
        jars.record_checksums(layout)
        return
    resolved = install_jars(layout, parts or jars.PARTS, verify=verify)
    click.echo(f"resolved: {', '.join(resolved)}" if resolved else "nothing to do: all in place")


@stack.command()
@click.argument("parts", nargs=-1, metavar="[PART]...")
@_home_option
def up(parts: Sequence[str], home: Path | None) -> None:
    """Start the stack, or only some parts and what they need; wait until they are ready."""
    from cdc_assets_devstack.configured import stack_of

    config, layout = configuration(), chosen_layout(home)
    chosen = stack_of(config, layout) if config else LocalStack(layout)
    install_jars(layout, [part for part in parts if part in jars.OPTIONAL_PARTS])
    show(start_all(chosen, parts or DEFAULT_PARTS), chosen)


@stack.command()
@_home_option
@click.option("--force", is_flag=True, help="Also what another configuration started.")
def down(home: Path | None, *, force: bool) -> None:
    """Stop every part, and the demo; data stays."""
    chosen = LocalStack(chosen_layout(home))
    with Console(stderr=True).status("stopping"):
        spared = chosen.down(spare_others=not force)
    if spared:
        msg = f"not stopped: {'; '.join(spared)}"
        raise PartOfOthersError(
            msg,
            where=f"home={chosen.layout.home}",
            remedy="name its configuration with `cdc-assets --config`, or use --force",
            page="not-stopped",
        )
    click.echo("stopped")


@stack.command()
@_home_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def status(home: Path | None, *, as_json: bool) -> None:
    """Show each part: state, address, process, memory, log; the end of the log if it died."""
    chosen = LocalStack(chosen_layout(home))
    found = chosen.status()
    if as_json:
        click.echo(found.to_json())
    else:
        show(found, chosen)


@stack.command()
@click.argument("database", default="shop")
@click.option(
    "--of", "server", type=click.Choice(["postgres", "mariadb"]), default="postgres",
    show_default=True, help="Which server.",
)  # fmt: skip
@_home_option
def dsn(database: str, server: str, home: Path | None) -> None:
    """Print a database's DSN, including the password: export SHOP_DSN=$(…)."""
    chosen = LocalStack(chosen_layout(home))
    click.echo((chosen.postgres if server == "postgres" else chosen.mariadb).dsn(database))


@stack.command()
@click.argument("database", default="postgres")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@_home_option
def psql(database: str, arguments: Sequence[str], home: Path | None) -> None:
    """Open PostgreSQL's shell on a database; further arguments (after --) go to psql."""
    postgres = LocalStack(chosen_layout(home)).postgres
    # The environment, not the command line: that would show the password to other users.
    env = {**os.environ, "PGPASSWORD": postgres.password}
    host, port = postgres.address.split(":")
    argv = ["psql", "-h", host, "-p", port, "-U", "postgres", *arguments, database]
    os.execve(bin_folder() / "psql", argv, env)  # noqa: S606 - psql takes over this process


@stack.command()
@click.argument("database", default="mysql")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@_home_option
def mariadb(database: str, arguments: Sequence[str], home: Path | None) -> None:
    """Open MariaDB's shell on a database; further arguments (after --) go to mariadb."""
    server = LocalStack(chosen_layout(home)).mariadb
    env = {**os.environ, "MYSQL_PWD": server.password}
    host, port = server.address.split(":")
    where = ("--skip-ssl", "-h", host, "-P", port, "-u", "root")
    argv = ["mariadb", "--no-defaults", *where, *arguments, database]
    program = server.programs / "bin" / "mariadb"
    if not program.exists():
        msg = "MariaDB has never been started here"
        raise TerminalError(msg, where=str(program), remedy="cdc-assets stack up mariadb")
    os.execve(program, argv, env)  # noqa: S606 - mariadb takes over this process


def configuration() -> ReplicationConfig | None:
    """Loads the configuration file; None if there is none."""
    if os.environ.get("CDC_ASSETS_CONFIG") or Path("replication.yaml").exists():
        from cdc_assets.config import load_config

        return load_config()
    return None


def chosen_layout(home: Path | None) -> StackLayout:
    """Returns paths and ports of the configuration, or the defaults; ``home`` overrides them."""
    from cdc_assets_devstack.configured import layout_of

    config = configuration()
    layout = layout_of(config) if config else StackLayout(Path(".cdc"))
    return replace(layout, home=home.absolute()) if home else layout


def install_jars(
    layout: StackLayout, parts: Sequence[str] = jars.PARTS, *, verify: bool = False
) -> tuple[str, ...]:
    """Installs missing jars, with a progress bar per part."""
    with install_progress() as on_progress:
        return jars.install(layout, parts, verify=verify, on_progress=on_progress)


def start_all(chosen: LocalStack, parts: Sequence[str] = DEFAULT_PARTS) -> StackStatus:
    """Starts parts, with a progress line per part.

    Raises:
        StartInterruptedError: on Ctrl-C; says how to stop what was started.
    """
    try:
        with start_progress() as on_progress:
            return chosen.up(parts, on_progress)
    except KeyboardInterrupt:
        msg, remedy = "interrupted: what was started stays up", "to stop it: cdc-assets stack down"
        raise StartInterruptedError(msg, remedy=remedy) from None


def show(found: StackStatus, chosen: LocalStack) -> None:
    """Prints a table of the parts, then how to connect, and the end of a dead part's log."""
    console = Console()
    console.print(_table(found.parts))
    hints = _how_to_connect(chosen)
    for part in found.parts:
        if part.config and part.config != chosen.layout.owner:
            console.print(f"[dim]{part.name}:[/] started for {part.config}", soft_wrap=True)
        if part.state is PartState.READY:
            console.print(f"[dim]{part.name}:[/] {hints[part.name]()}", soft_wrap=True)
        if part.state is PartState.DIED:
            console.print(f"[bold red]{part.name} died[/]; the end of its log:")
            console.print(part.last_words, markup=False, highlight=False, soft_wrap=True)


def _table(parts: Sequence[PartStatus]) -> Table:
    table = Table("part", "state", "address", "pid", "memory", box=None)
    table.add_column("log", overflow="fold")
    for part in parts:
        memory = f"{part.memory_bytes / 2**20:.0f} MiB" if part.memory_bytes else ""
        state = f"[{_STYLES[part.state]}]{part.state}[/]"
        log = os.path.relpath(part.log)
        table.add_row(part.name, state, part.address, str(part.pid or ""), memory, log)
    return table


def _how_to_connect(chosen: LocalStack) -> dict[str, Callable[[], str]]:
    return {
        "postgres": lambda: "cdc-assets stack psql",
        "mariadb": lambda: "cdc-assets stack mariadb",
        "kafka": lambda: f"bootstrap.servers={chosen.kafka.address}",
        "connect": lambda: f"curl http://{chosen.connect.address}/connectors",
        "spark": lambda: (
            f"sc://localhost:{chosen.spark.endpoint.port}/;token=$(cat "
            f"{os.path.relpath(chosen.layout.secret('spark'))})"
        ),
        "registry": lambda: f"curl {chosen.registry.confluent_url}/subjects",
    }


if __name__ == "__main__":
    stack()
