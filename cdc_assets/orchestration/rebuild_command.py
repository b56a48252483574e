"""``cdc-assets rebuild``."""

from __future__ import annotations

import sys

import click

from cdc_assets.orchestration.rebuilding import Via, Wish, run_rebuild


@click.command()
@click.argument("table")
@click.option(
    "--from-source", is_flag=True,
    help="Read the rows from the source's database, by Spark, and merge the log over them: where "
    "the log has lost a part of what happened.",
)  # fmt: skip
@click.option(
    "--from-snapshot", is_flag=True,
    help="The log no longer begins with the table's beginning: read on from now, and wait for "
    "a new snapshot.",
)  # fmt: skip
@click.option(
    "--via", type=click.Choice(["hand", "signal"]), default="hand", show_default=True,
    help="Who starts that snapshot: a person, or a signal of ours, which is followed then.",
)  # fmt: skip
@click.option("--snapshot-done", is_flag=True, help="That snapshot is complete.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--abandon", is_flag=True, help="Drop what was built so far.")
@click.option("--forget", is_flag=True, help="Let go of what earlier rebuilds have replaced.")
@click.option(
    "--verify/--no-verify", default=True, show_default=True,
    help="Compare it with its source in the end, where that has a database.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def rebuild(table: str, via: Via, *, as_json: bool, **wishes: bool) -> None:
    """Build TABLE anew beside the old one and swap it in at once.

    Readers see a whole table throughout. May be interrupted and run again; the old rows are
    kept, as a tag, until --forget. Exits with 1 while it waits for a snapshot, and if what was
    built differs from its source.
    """
    from cdc_assets.config import load_config

    def say(words: str) -> None:
        click.echo(f"{table}: {words}", err=as_json)

    outcome = run_rebuild(load_config(), table, Wish(via=via, **wishes), say)
    if as_json:
        click.echo(outcome.to_json())
    sys.exit(int(not outcome.is_done))
