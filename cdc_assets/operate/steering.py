"""Carries out `pause` and `resume`: writes people's wishes for tables, which mergers obey.

Neither touches the lake, Kafka or a run. A paused table keeps its place: its offsets are those of
its newest publish, and it continues from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from cdc_assets.changes.names import TableName
from cdc_assets.desired import Removal, Wanted, Wish
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


def pause(services: Services, entries: Iterable[TableEntry], order: Order, say: Say) -> Steered:
    """Stops merging into these tables; they keep their places."""

    def one(entry: TableEntry) -> Done:
        desired = services.desired.of(entry.table)
        if desired.held is not None and desired.paused is None:
            return Done(entry, changed=False, words="is dropped, or being reset, already")
        if desired.paused is not None:
            words = f"is paused already, {desired.paused.words()}"
            return Done(entry, changed=False, words=words)
        if not order.dry_run:
            wanted = Wanted(services.clock(), order.by, order.why)
            services.desired.put(entry.table, Wish.PAUSED, wanted)
        words = "paused: no run is started for it; one that has it lets it go before its next batch"
        return Done(entry, changed=True, words=_would(order, words))

    return each_of(entries, "pause", order, one, say)


def resume(services: Services, entries: Iterable[TableEntry], order: Order, say: Say) -> Steered:
    """Lets paused, dropped and stopped tables continue at once."""

    def one(entry: TableEntry) -> Done:
        desired, table = services.desired.of(entry.table), entry.table
        for command, wanted in (("drop --lake", desired.dropped), ("reset", desired.reset)):
            if wanted is not None and wanted.removal is Removal.BEGUN:
                what = f"{command} has begun, and some of the table may be gone already"
                raise CdcError(what, remedy=f"cdc-assets {command} --table {table} ends it")
        failure = services.failures.load_one(table)
        wishes = [wish for wish in (Wish.DROPPED, Wish.PAUSED, Wish.RESET) if desired.get(wish)]
        has_failed = failure is not None and not failure.is_waiting
        if not order.dry_run:
            if has_failed:
                services.failures.clear(table)
            for wish in wishes:
                services.desired.remove(table, wish)
        parts = [f"resumed: it was {wish.value} {_said(desired.get(wish))}" for wish in wishes]
        if failure is not None and has_failed:
            was = "had stopped" if failure.stopped else "fails"
            parts.append(f"is tried again at once: it {was}, {failure.attempts} attempts")
        if not parts:
            return Done(entry, changed=False, words="is neither paused nor dropped, nor fails")
        return Done(entry, changed=True, words=_would(order, "; ".join(parts)))

    return each_of(entries, "resume", order, one, say)


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


def _said(wanted: Wanted | None) -> str:
    return wanted.words() if wanted else ""


def _would(order: Order, words: str) -> str:
    return f"would be {words}" if order.dry_run else words
