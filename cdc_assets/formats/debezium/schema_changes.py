"""Reads Debezium's schema change events: of MySQL, MariaDB, SQL Server and Oracle.

They are in a topic named like the connector's ``topic.prefix``. Each has the statement, its
position in the source's log and, where Debezium could parse the statement, the tables as they are
afterwards. SQL Server's have no statement. https://debezium.io/documentation/reference/3.6/connectors/mysql.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from cdc_assets.changes.json_text import mapping, natural, string
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.formats.ddl import read_statement
from cdc_assets.formats.debezium.kinds import kind_of_event
from cdc_assets.formats.foreign_keys import KeyChanges, key_changes
from cdc_assets.formats.sample import JsonObject
from cdc_assets.formats.times import time_of_millis
from cdc_assets.log.kinds import TopicKind
from cdc_assets.schema.ddl import Ddl, Relation, Statement, TableChange, TableChangeKind

_DIALECTS: Final = {
    "mysql": "mysql",
    "mariadb": "mysql",
    "oracle": "oracle",
}
_NO_STATEMENT: Final = "N/A"
"""Sent by SQL Server's connector for a statement, if not null."""

_PLACES: Final = ("file", "pos", "gtid", "scn", "commit_scn", "commit_lsn", "change_lsn")
_OF_BINLOGS: Final = ("mysql", "mariadb")
_QUOTED: Final = re.compile(r'"([^"]*(?:""[^"]*)*)"')
_FILE: Final = re.compile(r"(?s).+\.([0-9]{1,10})")
_NO_SNAPSHOT: Final = (None, False, "false")


def read_ddl(event: JsonObject, coordinate: Coordinate) -> Ddl | None:
    """Returns the statement of an event; None for another event.

    Args:
        event: without a schema around it.
        coordinate: of its record.
    """
    text, source = event.get("ddl"), mapping(event.get("source")) or {}
    is_change = kind_of_event(event) is TopicKind.SCHEMA_CHANGES
    if not is_change:
        return None
    tables, is_of_snapshot = frozenset(_names(event)), source.get("snapshot") not in _NO_SNAPSHOT
    if is_of_snapshot:  # thousands of CREATE statements, whose effects are not needed
        keys = _with_keys(event, text) if source.get("connector") in _OF_BINLOGS else ()
        statement = Statement(tuple(keys), tables)
    elif not isinstance(text, str) or not text:
        statement = Statement((), tables, is_read=not tables)
    elif text == _NO_STATEMENT and source.get("connector") == "sqlserver":
        statement = Statement((), tables)
    else:
        dialect = _DIALECTS.get(str(source.get("connector")))
        schema = event.get("schemaName") or event.get("databaseName") or ""
        found = read_statement(text, dialect or "", str(schema))
        statement = replace(
            found, words=found.words | tables, is_read=found.is_read and bool(dialect)
        )
    return Ddl(
        text=string(text),
        statement=statement,
        position=" ".join(f"{n}={source[n]}" for n in _PLACES if source.get(n) is not None),
        at=time_of_millis(source.get("ts_ms")),
        coordinate=coordinate,
        tells_tables=isinstance(event.get("tableChanges"), list),
        after=dict(_after(event)),
        place=_place(source),
        is_of_snapshot=is_of_snapshot,
    )


def _with_keys(event: JsonObject, text: object) -> Iterator[TableChange]:
    """Yields the table that a snapshot shows, if foreign keys change rows of it."""
    keys = key_changes(text) if isinstance(text, str) else KeyChanges()
    for table in dict(_after(event)) if keys.added else ():
        yield TableChange(TableChangeKind.ALTERED, table, cascades=keys.added)


def _tables(event: JsonObject) -> Iterator[JsonObject]:
    changes = event.get("tableChanges")
    yield from map(mapping, changes if isinstance(changes, list) else ())


def _names(event: JsonObject) -> Iterator[str]:
    """Yields the names of the tables, in lower case."""
    for change in _tables(event):
        for name in ("id", "previousId"):
            if found := _parts(change.get(name)):
                yield found[-1].casefold()


def _after(event: JsonObject) -> Iterator[tuple[Relation, tuple[str, ...]]]:
    """Yields tables and their columns afterwards, from Debezium's own parser."""
    for change in _tables(event):
        parts = _parts(change.get("id"))
        columns = mapping(change.get("table")).get("columns")
        if len(parts) < 2 or not isinstance(columns, list):
            continue
        names = [mapping(each).get("name") for each in columns]
        if all(isinstance(name, str) for name in names):
            yield Relation(parts[-2], parts[-1]), tuple(map(str, names))


def _parts(id_: object) -> list[str]:
    """Splits ``"db"."table"``, or ``"db"."schema"."table"``; a quote in a name is doubled."""
    found = _QUOTED.findall(id_) if isinstance(id_, str) else []
    return [name.replace('""', '"') for name in found]


def _place(source: JsonObject) -> tuple[int, int] | None:
    """Returns number and position of a binlog's file, as in positions of changes."""
    file, position = source.get("file"), natural(source.get("pos"))
    found = _FILE.fullmatch(file) if isinstance(file, str) else None
    if source.get("connector") not in _OF_BINLOGS or found is None or not position:
        return None
    return int(found[1]), position
