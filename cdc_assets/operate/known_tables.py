"""Finds tables in the registry: the replicated ones, one by its name, and why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import ConfigError
from cdc_assets.formats.registered import formats_of
from cdc_assets.naming import some_of
from cdc_assets.operate.judged_kinds import is_shown
from cdc_assets.operate.services import Services
from cdc_assets.registry import OtherTopic, Registry, TableEntry

_NAMED: Final = 10


def replicated(config: ReplicationConfig, registry: Registry) -> tuple[TableEntry, ...]:
    """Returns the registry's tables whose source is (still) configured."""
    return tuple(entry for entry in registry if entry.table.source in config.sources)


def as_registered(services: Services, entries: Sequence[TableEntry]) -> tuple[TableEntry, ...]:
    """Returns these tables' present entries; one that the registry lacks by now stays as it is.

    Definitions are loaded once; a table is renamed, or marked as dropped, afterwards.

    Raises:
        UnreachableError: if the registry does not answer.
    """
    known = {each.table: each for each in services.registry.load()}
    return tuple(known.get(each.table, each) for each in entries)


def not_tables(config: ReplicationConfig, registry: Registry) -> tuple[OtherTopic, ...]:
    """Returns the topics that the configuration still matches, and that are no tables."""
    formats = formats_of(config)
    return tuple(
        each for each in registry.others
        if any(is_shown(fmt, name, each) for name, fmt in formats.items())
    )  # fmt: skip


def find_table(config: ReplicationConfig, registry: Registry, text: str) -> TableEntry:
    """Finds a table by ``source.schema.table``, ``schema.table`` or ``table``.

    Raises:
        ConfigError: if no table has that name, or several do.
    """
    entries = replicated(config, registry)
    found = [entry for entry in entries if text in _spellings(entry.table)]
    if len(found) == 1:
        return found[0]
    what = f"{text!r} names {'more than one table' if found else 'no replicated table'}"
    raise ConfigError(what, remedy=_which_table(text, found or entries))


def selected(
    config: ReplicationConfig, registry: Registry, source: str | None, table: str | None
) -> tuple[TableEntry, ...]:
    """Returns the replicated tables of a source, or one of them; None for any source or table.

    Raises:
        ConfigError: if the source is not configured, or not one of its tables has that name.
    """
    entries = replicated(config, registry)
    if source is not None:
        config.source(source)
        entries = tuple(each for each in entries if each.table.source == source)
    return entries if table is None else (find_table(config, Registry.of(entries), table),)


def _which_table(text: str, entries: Sequence[TableEntry]) -> str:
    """Returns the remedy for a name that is none: the tables that are meant, likeliest first."""
    if not entries:
        return "none is known yet: start cdc-assets replicate first"
    by_spelling = {each: entry for entry in entries for each in _spellings(entry.table)}
    close = get_close_matches(text, by_spelling, n=_NAMED)
    likely = dict.fromkeys(str(by_spelling[each].table) for each in close)
    names = dict.fromkeys([*likely, *(str(entry.table) for entry in entries)])
    return f"one of: {some_of(names, _NAMED)}"


def _spellings(table: TableName) -> tuple[str, ...]:
    return (str(table), table.qualified, table.name)


def why_no_tables(services: Services) -> ConfigError:
    """Returns why no table is known: nothing is configured, nothing matches, or nobody has looked.

    Raises:
        UnreachableError: if Kafka does not answer.
    """
    if not services.formats:
        what = "no table is known: no source is configured"
        return ConfigError(what, where="sources", remedy="add one; cdc-assets init writes them")
    topics = services.log.topics()
    names = [each.topics for each in services.formats.values()]
    matching = [topic for topic in topics if any(each.includes(topic) for each in names)]
    if matching:
        what = f"no table is known yet: {len(matching):,} of Kafka's {len(topics):,} topics match"
        return ConfigError(what, remedy="start Dagster with its sensors, or cdc-assets replicate")
    what = f"no table is known: none of Kafka's {len(topics):,} topics matches"
    where = ", ".join(f"sources.{name}.topics" for name in services.formats)
    remedy = "see that the connector writes, and that topics.include matches whole topic names"
    return ConfigError(what, where=where, remedy=remedy)
