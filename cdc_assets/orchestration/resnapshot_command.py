"""``cdc-assets resnapshot``."""

from __future__ import annotations

import sys
import uuid

import click

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.steering import Choice, Done
from cdc_assets.orchestration.resnapshotting import (
    Action,
    Outcome,
    Via,
    Wish,
    run_resnapshot,
    run_steering,
)
from cdc_assets.registry import TableEntry


@click.command()
@click.option(
    "--table", "tables", multiple=True,
    help="This table: [source.][schema.]table. May be given more than once.",
)  # fmt: skip
@click.option("--source", help="All tables of this source, or those of it that are named.")
@click.option("--all", "every", is_flag=True, help="All tables.")
@click.option(
    "--via", type=click.Choice(["read", "signal"]), default="read", show_default=True,
    help="read: Spark reads the tables, by JDBC. signal: their connector does, beside its stream.",
)  # fmt: skip
@click.option("--anew", is_flag=True, help="Begin again, whatever an earlier one has done.")
@click.option("--pause", "action", flag_value="pause", help="Pause what the connector reads.")
@click.option("--resume", "action", flag_value="resume", help="Let it go on.")
@click.option("--stop", "action", flag_value="stop", help="End it.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def resnapshot(
    tables: tuple[str, ...],
    source: str | None,
    via: Via,
    action: str | None,
    *,
    as_json: bool,
    **wishes: bool,
) -> None:
    """Read tables again from their live source, and put right what the lake has of them.

    In waves of their keys, as of one moment each, in parallel, without a lock. Newer changes win,
    and rows that the source no longer has are removed. What is under way is waited for, so
    something has to merge beside it: the daemon, or cdc-assets replicate. May be interrupted and
    run again: it goes on where it was. Exits with 1 if a table failed, or if some of its rows could
    not be put right.

    With --via signal the connector reads them, by an incremental snapshot, which goes on in it
    whatever becomes of this command: run it again to follow it, or --pause, --resume or --stop it.
    """
    from cdc_assets.config import load_config

    if action is not None and via != "signal":
        what = f"--{action} is of snapshots by the connector: give --via signal"
        raise click.UsageError(what)
    every, anew, dry_run = (wishes[name] for name in ("every", "anew", "dry_run"))
    choice, config = Choice(source, tables, every), load_config()
    if action is not None:
        _steer(config, choice, Action(action), dry_run=dry_run, as_json=as_json)
        return

    def say(entry: TableEntry, words: str) -> None:
        click.echo(f"{entry.table}: {words}", err=True)

    wish = Wish(choice, via, anew=anew, dry_run=dry_run)
    outcome = run_resnapshot(config, wish, f"resnapshot-{uuid.uuid4()}", say)
    _print(outcome, as_json=as_json)
    sys.exit(int(outcome.is_bad))


def _steer(
    config: ReplicationConfig, choice: Choice, action: Action, *, dry_run: bool, as_json: bool
) -> None:
    def say(done: Done) -> None:
        click.echo(f"{done.table}: {done.words}", err=as_json)

    steered = run_steering(config, choice, action, say, dry_run=dry_run)
    if as_json:
        click.echo(steered.to_json())
    for table, why in steered.failed.items():
        click.echo(f"failed: {table}: {why}", err=True)
    sys.exit(int(bool(steered.failed)))


def _print(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        click.echo(outcome.to_json())
    else:
        for report in outcome.reports:
            for line in report.words():
                click.echo(f"{report.table}: {line}")
        for table, words in outcome.intended.items():
            click.echo(f"{table}: {words}")
        if not (outcome.reports or outcome.intended or outcome.failed):
            click.echo("no table is chosen")
    for table, why in outcome.failed.items():
        click.echo(f"failed: {table}: {why}", err=True)
