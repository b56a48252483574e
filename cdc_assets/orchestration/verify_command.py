"""``cdc-assets verify``."""

from __future__ import annotations

import sys

import click

from cdc_assets.orchestration.verifying import Wish, run_verify


@click.command()
@click.option("--table", help="Only this table: [source.][schema.]table.")
@click.option("--source", help="Only the tables of this source.")
@click.option("--repair", is_flag=True, help="Put right what differs, with the source's rows.")
@click.option("--dry-run", is_flag=True, help="With --repair: only say what would be put right.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def verify(
    table: str | None, source: str | None, *, repair: bool, dry_run: bool, as_json: bool
) -> None:
    """Compare lake tables with their source, while both change.

    Checksums of ranges of keys on both sides, and rows where these differ. What is under way is
    waited for, so something has to merge beside it: the daemon, or cdc-assets replicate. Prints
    the keys that differ and names of columns, never another value. Exits with 1 if a table
    differs, failed, or could not be judged whole.
    """
    from cdc_assets.config import load_config

    wish = Wish(source=source, table=table, repair=repair and not dry_run, as_json=as_json)
    outcome = run_verify(load_config(), wish)
    for name, message in outcome.failed.items():
        click.echo(f"failed: {name}: {message}", err=True)
    if repair and dry_run and (count := outcome.to_put_right):
        click.echo(f"--repair would put right {count} keys", err=True)
    sys.exit(int(outcome.is_bad))
