"""Finds the tables that are to be read from their databases (`initial: read`).

A connector without a snapshot makes a table's topic with the table's first change, which may never
come. So these tables are found in their database's catalog: those whose topics would be the
source's, by the connector's prefix and the configured patterns. Where Kafka Connect is known,
tables that the connector leaves out are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets.changes.names import TableName
from cdc_assets.config import SourceConfig
from cdc_assets.errors import CdcError, ConfigError
from cdc_assets.formats.names import spellings
from cdc_assets.operate.services import Services
from cdc_assets.registry import Registry, TableEntry, Taken


def tables_to_read(
    services: Services, known: Registry
) -> tuple[tuple[TableEntry, ...], tuple[CdcError, ...]]:
    """Returns an entry for each such table that the registry lacks, and what prevents finding some.

    A table that is registered under another topic, or by a former name, stays as it is.
    """
    registered = {*known.tables, *(each.at_source for each in known)}
    found: list[TableEntry] = []
    problems: list[CdcError] = []
    for name, source in services.config.sources.items():
        if not source.reads_some_first:
            continue
        try:
            listed = _listed(services, name, source)
            topics = [each.topic for each in listed]
            alone = [each for each in listed if topics.count(each.topic) == 1]
            problems += (_one_topic(each) for each in listed if each not in alone)
            found += _captured(services, [e for e in alone if e.table not in registered])
        except CdcError as problem:
            problems.append(problem)
    return tuple(found), tuple(problems)


def _listed(services: Services, name: str, source: SourceConfig) -> list[TableEntry]:
    """Returns an entry for each of the database's tables that is to be read.

    Raises:
        CdcError: if the database does not answer, or no topic is a table's.
    """
    from cdc_assets.databases.kinds import catalog_of

    fmt = services.formats[name]
    if fmt.has_many_tables:
        what = f"initial: read needs a topic for each table, which {source.format} has not"
        raise ConfigError(what, where=f"sources.{name}", remedy="write initial: log")
    tables = catalog_of(source.database).listed() if source.database is not None else ()
    named = (TableName(name, schema, table) for schema, table in tables)
    found = (_entry(services, each) for each in named if source.reads_first(each))
    return [
        each
        for each in found
        if fmt.topics.includes(each.topic)
        and (
            each.table.qualified in source.tables
            or not fmt.topics.looks_like_side_topic(each.topic)
        )
    ]


def _entry(services: Services, table: TableName) -> TableEntry:
    source = services.config.source(table.source)
    topic = spellings(f"{source.topics.prefix}.{table.qualified}")[-1]
    taken = Taken.UNLESS_NAMED if services.formats[table.source].names_tables else Taken.ALL
    return TableEntry(table, topic, source.lake_name(table), services.clock(), taken=taken)


def _captured(services: Services, entries: Sequence[TableEntry]) -> Sequence[TableEntry]:
    """Returns the entries of tables that the source's connector captures, as far as that is known.

    Raises:
        CdcError: if Kafka Connect does not answer, or does not have that connector.
    """
    from cdc_assets.log.connect import captures, connect_of, described_connector

    if not entries or connect_of(services.config, entries[0].table.source) is None:
        return entries
    _, settings = described_connector(services.config, entries[0])
    return [e for e in entries if captures(settings, e.table.schema, e.table.name)]


def _one_topic(entry: TableEntry) -> ConfigError:
    """Returns the error of a table whose topic Kafka cannot name unlike another table's."""
    what = f"changes of {entry.table} and of another table come in one topic"
    remedy = "write initial: log for both, or exclude the topic (topics.exclude)"
    return ConfigError(what, where=f"topic={entry.topic}", remedy=remedy)
