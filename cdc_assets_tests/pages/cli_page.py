"""Generates ``docs/reference/cli.md`` from the commands themselves."""

# ruff: noqa: E501 (lines of a page)

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Final

import click

from cdc_assets.cli import cli

PROGRAM: Final = "cdc-assets"
HEAD: Final = """\
# Commands

Generated from the commands (`python -m cdc_assets_tests.pages`). `cdc-assets COMMAND --help` prints
the same.

`cdc-assets --config FILE COMMAND` names a configuration file for one call; otherwise
`$CDC_ASSETS_CONFIG`, otherwise `replication.yaml` in the working directory. `TABLE` is
`[source.][schema.]table`, as far as the name is unambiguous. With `--json`, standard output has one
document, and progress is on standard error.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a table failed and is named, a part did not answer, the result is not as requested, or the command was interrupted |
| 2 | wrong usage or configuration |

Each error ends with the address of its entry in [Errors](errors.md).
"""
EXAMPLES: Final[Mapping[str, str]] = {
    "accept-restart": "accept-restart orders",
    "adopt": "adopt orders --existing raw.shop_orders --dry-run",
    "assess": "assess --source shop",
    "compact": "compact orders --dry-run",
    "config check": "config check",
    "config env": "config env",
    "config schema": "config schema",
    "consistent list": "consistent list shop",
    "consistent sql": "consistent sql shop --at 2026-03-01T07:00",
    "dbt sources": "dbt sources",
    "demo": "demo --source mariadb --port 3001",
    "drop": "drop --table orders --lake --dry-run",
    "history": "history orders",
    "init": "init --kafka kafka:9092 --database postgres=SHOP_DSN --dry-run",
    "jars": "jars --path",
    "maintain": "maintain --table orders --dry-run",
    "metrics": "metrics --once",
    "pause": "pause --table orders --why 'the warehouse is moved'",
    "plan": "plan --table orders",
    "quarantine list": "quarantine list --table orders",
    "quarantine replay": "quarantine replay --table orders --offset 0:1234",
    "rebuild": "rebuild orders --from-source --dry-run",
    "replay": "replay --table orders --from 2026-03-01T07:00 --to 2026-03-01T09:00",
    "replicate": "replicate --until-caught-up",
    "reset": "reset --table orders --dry-run",
    "resnapshot": "resnapshot --table orders --dry-run",
    "resume": "resume --table orders",
    "rewind": "rewind orders --to 2026-03-01T07:15 --dry-run",
    "schema diff": "schema diff orders",
    "stack down": "stack down",
    "stack dsn": "stack dsn shop",
    "stack install": "stack install --verify",
    "stack mariadb": "stack mariadb shop",
    "stack psql": "stack psql shop",
    "stack status": "stack status",
    "stack up": "stack up postgres kafka",
    "status": "status --json",
    "verify": "verify --table orders",
}
"""An example of each command, which a test parses."""


def commands() -> dict[str, click.Command]:
    """All commands, by their words; not groups."""
    return dict(_commands(cli, ""))


def _commands(group: click.Command, before: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(group, click.Group):
        yield before, group
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if found is not None:
            yield from _commands(found, f"{before} {name}".strip())


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(_command(name, each) for name, each in commands().items())])


def _command(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"{PROGRAM} {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    about = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(command.help or ""))
    rows = "".join(_row(context, each) for each in command.params)
    table = f"\n| option | |\n|---|---|\n{rows}" if rows else ""
    example = f"\n```sh\n{PROGRAM} {EXAMPLES[name]}\n```\n"
    return f"## {name}\n\n`{PROGRAM} {name} {usage}`\n\n{_escaped(about)}\n{table}{example}"


def _row(context: click.Context, parameter: click.Parameter) -> str:
    record = parameter.get_help_record(context)
    if record is None or isinstance(parameter, click.Argument):
        return ""
    option, text = record
    return f"| `{option.replace('|', chr(92) + '|')}` | {_escaped(text)} |\n"


def _escaped(text: str) -> str:
    return re.sub(r"[|<>*]", lambda found: f"\\{found[0]}", text)
