"""Reads Debezium's schema change events: of MySQL, MariaDB, SQL Server and Oracle.

They lie in a topic that is called as the connector's ``topic.prefix``. Each has the statement,
its place in the source's log and, where Debezium could parse the statement, the tables as they
are afterwards. https://debezium.io/documentation/reference/3.6/connectors/mysql.html
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from cdc_assets.changes.json_text import mapping
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.formats.ddl import read_statement
from cdc_assets.formats.debezium.kinds import kind_of_event
from cdc_assets.formats.sample import JsonObject
from cdc_assets.log.kinds import TopicKind
from cdc_assets.schema.ddl import Ddl, Statement

_DIALECTS: Final = {
    "mysql": "mysql",
    "mariadb": "mysql",
    "sqlserver": "tsql",
    "oracle": "oracle",
}
_PLACES: Final = ("file", "pos", "gtid", "scn", "commit_scn", "commit_lsn", "change_lsn")
_NO_SNAPSHOT: Final = (None, False, "false")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read_ddl(event: JsonObject, coordinate: Coordinate) -> Ddl | None:
    """The statement of an event; None for another event, or for one of a connector's snapshot.

    In a snapshot the connector tells how tables are made, which nobody has done just then.

    Args:
        event: without a schema around it.
        coordinate: of its record.
    """
    text, source = event.get("ddl"), mapping(event.get("source")) or {}
    is_change = kind_of_event(event) is TopicKind.SCHEMA_CHANGES
    if not is_change or source.get("snapshot") not in _NO_SNAPSHOT:
        return None
    tables = frozenset(_tables(event))
    if not isinstance(text, str) or not text:
        statement = Statement((), tables, is_read=not tables)
    else:
        dialect = _DIALECTS.get(str(source.get("connector")))
        schema = event.get("schemaName") or event.get("databaseName") or ""
        found = read_statement(text, dialect or "", str(schema))
        statement = replace(
            found, words=found.words | tables, is_read=found.is_read and bool(dialect)
        )
    return Ddl(
        text=text if isinstance(text, str) else "",
        statement=statement,
        position=" ".join(f"{n}={source[n]}" for n in _PLACES if source.get(n) is not None),
        at=_time(source.get("ts_ms")),
        coordinate=coordinate,
    )


def _tables(event: JsonObject) -> Iterator[str]:
    """The tables' names: of ``"db"."table"`` the last part."""
    changes = event.get("tableChanges")
    for change in changes if isinstance(changes, list) else ():
        for name in ("id", "previousId"):
            told = (mapping(change) or {}).get(name)
            if isinstance(told, str):
                yield told.removesuffix('"').rsplit('"', 1)[-1].casefold()


def _time(millis: object) -> datetime | None:
    if not isinstance(millis, int) or not 0 < millis < 253_402_300_800_000:  # the year 10000
        return None
    return _EPOCH + timedelta(milliseconds=millis)
