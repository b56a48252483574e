"""Defines the command ``cdc-assets verify``."""

from __future__ import annotations

import sys
import uuid
from typing import TYPE_CHECKING

import click
from rich.console import Console

from cdc_assets.operate.comparable import NOT_COMPARED
from cdc_assets.operate.steering import Choice
from cdc_assets.orchestration.verifying import Wish, run_verify
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge.verifying.report import Report


@click.command()
@click.option(
    "--table", "tables", multiple=True,
    help="Only this table: [source.][schema.]table. May be given more than once.",
)  # fmt: skip
@click.option("--source", help="Only the tables of this source.")
@click.option("--repair", is_flag=True, help="Put right what differs, with the source's rows.")
@click.option("--dry-run", is_flag=True, help="With --repair: only say what would be put right.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def verify(
    tables: tuple[str, ...], source: str | None, *, repair: bool, dry_run: bool, as_json: bool
) -> None:
    """Compare lake tables with their source, while both change.

    Compares checksums of key ranges on both sides, and rows where these differ. Waits for changes
    that are under way, so something has to merge meanwhile: the daemon, or cdc-assets replicate.
    Prints the keys that differ and names of columns, never another value. Exits with 1 if a table
    differs, failed, or could not be judged completely. Tables with nothing to compare are named
    with the reason, and are no failure unless --table names them.
    """
    from cdc_assets.config import load_config

    progress, out = Console(stderr=True), Console()

    def say(entry: TableEntry, words: str) -> None:
        progress.print(f"{entry.table}: {words}", highlight=False, soft_wrap=True)

    def told(entry: TableEntry, report: Report) -> None:
        for line in [] if as_json else report.words():
            out.print(f"{entry.table}: {line}", highlight=False, markup=False, soft_wrap=True)

    choice = Choice(source, tables, every=not (source or tables))
    wish = Wish(choice, repair=repair and not dry_run)
    outcome = run_verify(load_config(), wish, f"verify-{uuid.uuid4()}", say, told)
    if as_json:
        print(outcome.to_json())
    for name, why in [] if as_json else outcome.not_compared.items():
        out.print(f"{name}: {NOT_COMPARED}{why}", highlight=False, markup=False, soft_wrap=True)
    for name, message in outcome.failed.items():
        click.echo(f"failed: {name}: {message}", err=True)
    if repair and dry_run and (count := outcome.to_put_right):
        click.echo(f"--repair would put right {count} keys", err=True)
    sys.exit(int(outcome.is_bad))
