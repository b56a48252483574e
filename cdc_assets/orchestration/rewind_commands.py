"""Defines the commands `history` and `rewind`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from cdc_assets.operate.history import PublishLine


@click.command()
@click.argument("table")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def history(table: str, limit: int, *, as_json: bool) -> None:
    """List TABLE's publishes, newest first, and whether it can be rewound to each of them.

    TABLE is [source.][schema.]table. Publishes that rewinds have replaced come last.
    """
    from cdc_assets.config import load_config
    from cdc_assets.operate.discovery import find_table
    from cdc_assets.operate.history import read_history
    from cdc_assets.operate.services import Services

    config = load_config()
    services = Services(config)
    entry = find_table(config, services.registry.load(), table)
    lines = read_history(services, entry).lines(limit)
    if as_json:
        publishes = [each.to_dict() for each in lines]
        document = {"table": str(entry.table), "lake_table": str(entry.target)}
        click.echo(json.dumps({**document, "publishes": publishes}, indent=2))
        return
    for each in lines:
        click.echo(_words(each))


@click.command()
@click.argument("table")
@click.option(
    "--to", default="",
    help="A snapshot, a time (ISO 8601; UTC unless it says another), offsets such as "
    "0:1234,1:77, or a tag before_rewind_<n>.",
)  # fmt: skip
@click.option("--undo", is_flag=True, help="To what the last rewind has replaced.")
@click.option("--forget", is_flag=True, help="Let go of what rewinds have replaced.")
@click.option(
    "--all-shards", is_flag=True, help="What else is merged into the lake table goes back, too."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def rewind(table: str, to: str, *, as_json: bool, **wishes: bool) -> None:
    """Rewind TABLE to an earlier publish: rows, offsets and remembered deletes, in one commit.

    The table continues from there: later changes are merged again. The replaced snapshot is kept,
    as a tag, until --forget. The command may be interrupted and run again. If a run publishes
    meanwhile, the command looks again.
    """
    from cdc_assets.config import load_config
    from cdc_assets.errors import ConfigError
    from cdc_assets.operate.rewind_goal import Goal
    from cdc_assets.orchestration.rewinding import Rewinding, run_rewind

    undo, all_shards, dry_run = (wishes[name] for name in ("undo", "all_shards", "dry_run"))
    if wishes["forget"] and (to or undo or all_shards):
        msg = "--forget excludes --to, --undo and --all-shards"
        raise ConfigError(msg, remedy="let go of what was kept by itself")
    goal = None if wishes["forget"] else Goal(to, undo=undo, all_shards=all_shards)
    wish = Rewinding(table, goal, dry_run)
    done = run_rewind(load_config(), wish, lambda line: click.echo(line, err=as_json))
    if as_json:
        click.echo(json.dumps({**done.to_dict(), "dry_run": dry_run}, indent=2))


def _words(line: PublishLine) -> str:
    said = line.published
    counts = ", ".join(f"{name} {n}" for name, n in said.counts.items() if n) or "no records"
    replaced = f" (replaced: {line.tag})" if line.tag else ""
    return (
        f"{line.snapshot}  {line.at:%Y-%m-%d %H:%M:%S}Z  {said.kind}  {said.start.to_json()} to "
        f"{said.offsets.to_json()}  {counts}  attempt {said.attempt}{replaced}\n    {line.words()}"
    )
