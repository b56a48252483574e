"""From topics to tables: what matches the configuration and is not in the registry yet."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TerminalError
from cdc_assets.log.discovery import match_topics
from cdc_assets.operate.services import Services
from cdc_assets.registry import Registry, TableEntry


@dataclass(frozen=True, slots=True)
class Discovery:
    """What one look at Kafka found.

    ``refused`` are the tables that could not be added, with the reason: two tables whose
    rows would land in one Iceberg table.
    """

    registry: Registry
    added: tuple[TableEntry, ...]
    refused: tuple[TerminalError, ...] = ()


def discover(services: Services) -> Discovery:
    """Add the tables of new topics to the registry.

    A table that cannot be added does not keep the others out.

    Raises:
        UnreachableError: if Kafka or the registry does not answer.
    """
    known = services.registry.load()
    new = tuple(entry for entry in matching_entries(services) if entry.table not in known.tables)
    if not new:
        return Discovery(known, ())
    try:
        return Discovery(services.registry.add(new), new)
    except TerminalError:
        return _one_by_one(services, new)


def matching_entries(services: Services) -> tuple[TableEntry, ...]:
    """An entry for each topic that is a table's, known or not."""
    topics = services.log.topics()
    now = services.clock()
    return tuple(
        TableEntry(table, topic, source.lake_name(table), now)
        for name, source in services.config.sources.items()
        for table, topic in match_topics(source, name, topics)
    )


def replicated(config: ReplicationConfig, registry: Registry) -> tuple[TableEntry, ...]:
    """The registry's tables whose source is (still) configured."""
    return tuple(entry for entry in registry if entry.table.source in config.sources)


def find_table(config: ReplicationConfig, registry: Registry, text: str) -> TableEntry:
    """The table that a person means by ``source.schema.table``, ``schema.table`` or ``table``.

    Raises:
        TerminalError: if it is none, or more than one.
    """
    entries = replicated(config, registry)
    found = [entry for entry in entries if text in _spellings(entry.table)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(str(entry.table) for entry in (found or entries)) or "none yet"
    what = f"{text!r} names {'more than one table' if found else 'no replicated table'}"
    raise TerminalError(what, remedy=f"one of: {names}")


def _spellings(table: TableName) -> tuple[str, ...]:
    return (str(table), table.qualified, table.name)


def _one_by_one(services: Services, new: tuple[TableEntry, ...]) -> Discovery:
    added: list[TableEntry] = []
    refused: list[TerminalError] = []
    for entry in new:
        try:
            services.registry.add([entry])
            added.append(entry)
        except TerminalError as error:
            refused.append(error)
    return Discovery(services.registry.load(), tuple(added), tuple(refused))
