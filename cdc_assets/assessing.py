"""Defines the command ``cdc-assets assess``."""

from __future__ import annotations

import sys

import click

FAILED = 1


@click.command("assess")
@click.option("--source", help="Only this source and its tables.")
@click.option("--table", help="Only this table, and its source: [source.][schema.]table.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option(
    "--read-only", is_flag=True, help="Do not try whether files and tables can be written."
)
def assess(source: str | None, table: str | None, *, as_json: bool, read_only: bool) -> None:
    """Say whether sources, tables and columns can be replicated exactly: YES, PARTIAL, NO.

    Names each problem, its impact and what to do. Looks at the database, the connector, the topics,
    the catalog, the warehouse and Spark, and leaves nothing behind. Exits with 1 if the answer for
    a source or table is NO.
    """
    from cdc_assets.config import load_config
    from cdc_assets.operate.assess.render import render
    from cdc_assets.orchestration.assessing import Wanted, run_assess

    def say(what: str) -> None:
        click.echo(f"looking at {what}", err=True)

    wanted = Wanted(source, (table,) if table is not None else ())
    _, found = run_assess(load_config(), wanted, read_only=read_only, say=say)
    if as_json:
        click.echo(found.to_json())
    else:
        render(found)
    for at in found.failing:
        click.echo(f"failed: {at}: NO", err=True)
    if found.failing:
        sys.exit(FAILED)
