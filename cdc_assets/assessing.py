"""Defines the command ``cdc-assets assess``."""

from __future__ import annotations

import sys

import click

from cdc_assets.operations.options import AssessOptions, parameters

FAILED = 1


@click.command("assess", params=[*parameters(AssessOptions)])
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def assess(*, as_json: bool, **values: object) -> None:
    """Say whether sources, tables and columns can be replicated exactly: YES, PARTIAL, NO.

    Names each problem, its impact and what to do. Looks at database, connector, topics, catalog,
    warehouse and Spark, and leaves nothing behind. Exits with 1 at a NO.
    """
    from cdc_assets.config import load_config
    from cdc_assets.config.load import config_file, deprecations_of
    from cdc_assets.operate.render import render_assessment
    from cdc_assets.orchestration.assessing import run_assess

    def say(what: str) -> None:
        click.echo(f"looking at {what}", err=True)

    config = load_config()
    for warning in deprecations_of(config_file()):
        click.echo(f"warning: {warning}", err=True)
    _, found = run_assess(config, AssessOptions.model_validate(values), say=say)
    if as_json:
        click.echo(found.to_json())
    else:
        render_assessment(found)
    for at in found.failing:
        click.echo(f"failed: {at}: NO", err=True)
    if found.failing:
        sys.exit(FAILED)
