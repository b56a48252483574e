"""Defines ``cdc-assets pause``, ``resume``, ``drop`` and ``reset``, by source and table."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from cdc_assets.operate import steering
from cdc_assets.operate.steering import Choice, Done, Order, Steered, chosen

F = TypeVar("F", bound=Callable[..., Any])


def _choosing(command: F) -> F:
    """Adds the options that select tables and the output's form."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="One JSON document."),
        click.option("--dry-run", is_flag=True, help="Only say what would be done."),
        click.option(
            "--table", "tables", multiple=True,
            help="This table: [source.][schema.]table. May be given more than once.",
        ),
        click.option("--source", help="All tables of this source, or those of it that are named."),
    ):  # fmt: skip
        command = option(command)
    return command


_EVERY = click.option("--all", "every", is_flag=True, help="All tables.")
_WHY = click.option("--why", default="", help="Kept with it, and shown wherever it is.")


@click.command()
@_choosing
@_EVERY
@_WHY
def pause(
    source: str | None, tables: tuple[str, ...], why: str, *, every: bool, dry_run: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Merge nothing into tables until they are resumed.

    They keep their places: offsets and rows stay as they are. No run is started for them, and a
    run that has one leaves it before its next batch. Readers notice nothing.
    """
    order = Order("cdc-assets pause", why, dry_run)
    _steer(steering.pause, Choice(source, tables, every), order, as_json=as_json)


@click.command()
@_choosing
@_EVERY
def resume(
    source: str | None, tables: tuple[str, ...], *, every: bool, dry_run: bool, as_json: bool
) -> None:
    """Continue tables that are paused or dropped, or that have stopped after failures.

    The failure of a failing table is cleared, so that it is tried at once.
    """
    order = Order("cdc-assets resume", dry_run=dry_run)
    _steer(steering.resume, Choice(source, tables, every), order, as_json=as_json)


@click.command()
@_choosing
@click.option("--lake", is_flag=True, help="Also take what the lake has of them out of it.")
@_WHY
def drop(
    source: str | None, tables: tuple[str, ...], why: str, *, lake: bool, dry_run: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """End the replication of tables. The lake keeps them, unless --lake is given.

    With --lake it lists what it removes, and then removes it: the table's records in quarantine,
    the tables kept beside it, and the table. Files stay. May be interrupted and run again.
    """
    command = "drop --lake" if lake else "drop"
    order = Order(f"cdc-assets {command}", why, dry_run)
    _remove(command, Choice(source, tables), order, as_json=as_json)


@click.command()
@_choosing
@_WHY
def reset(
    source: str | None, tables: tuple[str, ...], why: str, *, dry_run: bool, as_json: bool
) -> None:
    """Forget what the lake has of tables, and merge all of their logs again.

    Readers find no table until the first batch is merged, and not all rows until the last one is:
    `rebuild` avoids that. Refused if the log has lost its beginning. May be interrupted and run
    again.
    """
    order = Order("cdc-assets reset", why, dry_run)
    _remove("reset", Choice(source, tables), order, as_json=as_json)


def _remove(command: str, choice: Choice, order: Order, *, as_json: bool) -> None:
    from cdc_assets.config import load_config
    from cdc_assets.orchestration.instance import has_instance, open_instance
    from cdc_assets.orchestration.removing import Runs, run_removal

    config = load_config()
    told = _silent if as_json else _say
    with open_instance() as instance:
        tell, are_seen = (lambda text: click.echo(text, err=as_json)), has_instance()
        runs = Runs(config, instance, "", tell, are_seen=are_seen)
        steered = run_removal(config, command, choice, order, runs, told)
    end(steered, as_json=as_json)


def _steer(steer: Callable[..., Steered], choice: Choice, order: Order, *, as_json: bool) -> None:
    from cdc_assets.config import load_config
    from cdc_assets.operate.services import Services

    services = Services(load_config())
    told = _silent if as_json else _say
    end(steer(services, chosen(services, choice), order, told), as_json=as_json)


def end(steered: Steered, *, as_json: bool) -> None:
    """Prints the remaining output; exits with 1 if a table failed."""
    if as_json:
        click.echo(steered.to_json())
    elif not steered.done and not steered.failed:
        click.echo("no table is chosen")
    for table, why in steered.failed.items():
        click.echo(f"failed: {table}: {why}", err=True)
    sys.exit(1 if steered.failed else 0)


def _say(done: Done) -> None:
    click.echo(f"{done.table}: {done.words}")


def _silent(done: Done) -> None:
    """Prints nothing: with ``--json`` everything is printed at the end."""
