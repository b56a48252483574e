"""Refuses a table's first batch if its rows would be wrong, or missing, unnoticed.

Asks only the database, Kafka and Kafka Connect. A part that does not answer is no reason to refuse:
a table that can be merged without it is merged. Cases that planning itself refuses are left to it.

Values are searched where the connector would send NULL in their place: among the first rows that
the database gives (``assess.rows``), and for seconds. What a search leaves out is reported: no
bounded one shows that a large table has no such value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, TypeVar

from cdc_assets.databases.postgres.server import OddValues, PostgresServer
from cdc_assets.databases.postgres.table import PostgresTable
from cdc_assets.errors import CdcError, TerminalError
from cdc_assets.operate.assess.connector import ExpectedConnector
from cdc_assets.operate.assess.connector_rules import judge_connector
from cdc_assets.operate.assess.database import judge_postgres
from cdc_assets.operate.assess.finding import Finding, Subject, accepted, ordered
from cdc_assets.operate.assess.gather import SourceFacts, read_log
from cdc_assets.operate.assess.table_facts import Table
from cdc_assets.operate.assess.tables import judge_table
from cdc_assets.operate.assess.topics import judge_topic
from cdc_assets.operate.services import Services
from cdc_assets.registry import TableEntry

T = TypeVar("T")

BY_PLANNING: Final = frozenset({
    "binlog_rows", "by_partition", "condition_unfit", "history_without_key", "log_begins_late",
    "refused_column",
    "refused_table", "row_filter",
    "silent_cascades", "silent_unlogged",
})  # fmt: skip
"""Findings that a batch's planning refuses with messages of its own."""


def require_assessed(services: Services, entry: TableEntry) -> tuple[str, ...]:
    """Refuses the first batch of a table whose rows would be wrong unnoticed.

    Returns:
        What was not searched, in words.

    Raises:
        TerminalError: with the findings and their remedies.
    """
    source, unsearched = entry.table.source, list[str]()
    found = accepted(
        _findings(services, entry, unsearched), services.config.source(source).assess.accept
    )
    stopping = [each for each in ordered(found) if each.stops and each.name not in BY_PLANNING]
    if not stopping:
        return tuple(unsearched)
    what = "; ".join(f"{each.problem}: {each.impact}" for each in stopping)
    names = ", ".join(dict.fromkeys(each.name for each in stopping))
    remedy = "; ".join(dict.fromkeys(each.remedy for each in stopping))
    accept = f"or sources.{source}.assess.accept: [{names}], if that is known"
    where, msg = (
        f"table={entry.table} topic={entry.topic}",
        f"assessed before its first batch: {what}",
    )
    raise TerminalError(msg, where=where, remedy=f"{remedy} ({accept})", page="assessed")


def _findings(services: Services, entry: TableEntry, unsearched: list[str]) -> Iterator[Finding]:
    known = SourceFacts(services, entry.table.source, [entry])
    of_source, of_table = Subject(known.name), Subject(known.name, entry.table)
    log = _unless_away(lambda: read_log(services, [entry.topic], with_records=False))
    if log is not None:
        yield from judge_topic(of_table, known.topic(entry, log, None))
    connectors = _unless_away(lambda: known.connectors)
    source, database = known.source, known.source.database
    expected = ExpectedConnector(
        of_source, source.format, source.connector, source.database is not None,
        reads_first=source.initial == "read",
    )  # fmt: skip
    for connector in connectors.found if connectors else ():
        yield from judge_connector(connector, expected)
    if database is None:
        return
    asked = _unless_away(lambda: known.server(database))
    server = asked[0] if asked else None
    if isinstance(server, PostgresServer):
        found = connectors.found if connectors else ()
        yield from judge_postgres(of_source, server, found, database.publication)
    table = _unless_away(lambda: known.table(entry, None, server))
    if table is not None:
        odd = _odd(known, entry, table, unsearched)
        yield from judge_table(of_table, replace(table, odd=odd))


def _odd(
    known: SourceFacts, entry: TableEntry, table: Table, unsearched: list[str]
) -> OddValues | None:
    """Searches a table's values if the connector sends NULL for some, and nobody accepts that."""
    source, connector, found = known.source, table.connector, table.found
    if source.database is None or not isinstance(found, PostgresTable) or connector is None:
        return None
    is_loud = connector.stops_at_values or not connector.sends_decimals
    if is_loud or "values_not_convertible" in source.assess.accept:
        return None
    rows, database = known.services.config.assess.rows, source.database
    odd = (_unless_away(lambda: known.odd(database, rows)) or {}).get(entry.at_source)
    if odd is None:
        unsearched.append("no value was searched for NaN and infinity: no right, or no time")
    elif odd.is_sample:
        unsearched.append(f"only {rows:,} rows were searched for NaN and infinity")
    return odd


def _unless_away(ask: Callable[[], T]) -> T | None:
    """Returns a part's answer; None if it does not answer, which is no reason to refuse."""
    try:
        return ask()
    except CdcError:
        return None
