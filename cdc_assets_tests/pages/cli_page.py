"""Generates ``docs/reference/cli.md`` from the commands themselves."""

# ruff: noqa: E501 (lines of a page)

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import click

from cdc_assets.cli import cli

PROGRAM: Final = "cdc-assets"
COMMON: Final = 3
"""So many commands with the same option show it once, in the page's head."""
HEAD: Final = """\
# Commands

Generated from the commands (`python -m cdc_assets_tests.pages`), as `cdc-assets COMMAND --help`
prints them.

`cdc-assets --config FILE COMMAND` names the configuration file; else `$CDC_ASSETS_CONFIG`, else
`replication.yaml` in the working directory. `TABLE` is `[source.][schema.]table`, as far as the name
is unambiguous. With `--json`, standard output has one document, and progress is on standard error.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a table failed, a part did not answer, the result is not as requested, or interrupted |
| 2 | wrong usage or configuration |

Each error ends with the address of its entry in [Errors](errors.md).

## Common options

{common}"""
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
    common = common_options()
    head = HEAD.format(common="".join(common))
    return "\n".join([head, *(_command(name, each, common) for name, each in commands().items())])


def common_options() -> tuple[str, ...]:
    """The lines of options that many commands have with the same words, the most frequent first."""
    counts = Counter(row for name, each in commands().items() for row in _rows(name, each))
    found = dict[str, str]()
    for row, count in counts.most_common():
        if count >= COMMON:
            found.setdefault(_option(row), row)
    return tuple(found.values())


def _command(name: str, command: click.Command, common: Sequence[str]) -> str:
    about = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(command.help or ""))
    rows = _rows(name, command)
    shared = ", ".join(_option(each) for each in rows if each in common)
    last = f"- common: {shared}" if shared else ""
    options = "".join(each for each in rows if each not in common) + last
    usage = " ".join(command.collect_usage_pieces(_context(name, command)))
    parts = [
        f"## {name}",
        f"`{PROGRAM} {name} {usage}`" if usage != "[OPTIONS]" else "",
        _escaped(re.sub(r"TABLE is [^ ]+table\. ", "", about)),
        options.strip(),
        f"```sh\n{PROGRAM} {EXAMPLES[name]}\n```",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _context(name: str, command: click.Command) -> click.Context:
    return click.Context(command, info_name=f"{PROGRAM} {name}")


def _rows(name: str, command: click.Command) -> list[str]:
    """A line for each option of a command; options with the same words share one."""
    context, options = _context(name, command), dict[str, list[str]]()
    for each in command.params:
        record = each.get_help_record(context)
        if record is not None and not isinstance(each, click.Argument):
            options.setdefault(record[1], []).append(f"`{record[0]}`")
    return [f"- {', '.join(each)}: {_escaped(text)}\n" for text, each in options.items()]


def _option(row: str) -> str:
    found = re.match(r"- `(--[a-z-]+)", row)
    assert found is not None
    return f"`{found[1]}`"


def _escaped(text: str) -> str:
    return re.sub(r"[<>*]", lambda found: f"\\{found[0]}", text)
