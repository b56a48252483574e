"""Selects the tables of a command, and collects its results for all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from cdc_assets.changes.names import TableName
from cdc_assets.errors import CdcError, ConfigError
from cdc_assets.operate.discovery import find_table, replicated
from cdc_assets.operate.services import Services
from cdc_assets.registry import Registry, TableEntry

UNTOLD: Final = "which tables? Nothing is chosen"


@dataclass(frozen=True, slots=True)
class Choice:
    """The tables that a person selects.

    Attributes:
        source: selects the tables of this source; None selects those of every source.
        tables: selects only these, written as ``[source.][schema.]table``.
        every: selects all tables if neither source nor table is given.
    """

    source: str | None = None
    tables: tuple[str, ...] = ()
    every: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """The result for one table.

    Attributes:
        entry: the table's registry entry.
        changed: whether the command changed anything, or would have in a dry run.
        words: the result in words.
    """

    entry: TableEntry
    changed: bool
    words: str

    @property
    def table(self) -> TableName:
        """The table."""
        return self.entry.table


@dataclass
class Steered:
    """The results for all tables; ``failed`` holds the reasons."""

    command: str
    dry_run: bool
    done: list[Done] = field(default_factory=list[Done])
    failed: dict[TableName, str] = field(default_factory=dict[TableName, str])

    def to_json(self) -> str:
        """Returns the document that ``--json`` prints."""
        tables = [
            {"table": str(each.table), "changed": each.changed, "did": each.words}
            for each in self.done
        ]
        failed = {str(table): why for table, why in self.failed.items()}
        document = {
            "command": self.command,
            "dry_run": self.dry_run,
            "tables": tables,
            "failed": failed,
        }
        return json.dumps(document, indent=2)


@dataclass(frozen=True, slots=True)
class Order:
    """The circumstances of a command.

    Attributes:
        by: its author, such as a command or a job's run.
        why: the reason, in that person's words.
        dry_run: whether only to say what would be done.
    """

    by: str
    why: str = ""
    dry_run: bool = False


Say = Callable[[Done], None]
"""A callback that receives each table's result as soon as there is one."""


def chosen(services: Services, choice: Choice) -> tuple[TableEntry, ...]:
    """Returns the tables that a person selects.

    Raises:
        ConfigError: if nothing was chosen, the source is not configured, or a table is not
            replicated, or not of that source.
    """
    entries = replicated(services.config, services.registry.load())
    if choice.source is not None:
        services.config.source(choice.source)
        entries = tuple(each for each in entries if each.table.source == choice.source)
    elif not choice.tables and not choice.every:
        raise ConfigError(UNTOLD, remedy="give --table, --source, or --all where there is one")
    if not choice.tables:
        return tuple(entries)
    there = Registry.of(entries)
    found = dict.fromkeys(find_table(services.config, there, text) for text in choice.tables)
    return tuple(found)


def each_of(
    entries: Iterable[TableEntry],
    command: str,
    order: Order,
    one: Callable[[TableEntry], Done],
    say: Say,
) -> Steered:
    """Applies a command to each table; a failure does not affect the other tables."""
    steered = Steered(command, order.dry_run)
    for entry in entries:
        try:
            done = one(entry)
        except CdcError as error:
            steered.failed[entry.table] = str(error)
            continue
        steered.done.append(done)
        say(done)
    return steered
