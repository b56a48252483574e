"""Values that the lake gives back to the database that they came from.

Each value of the lake is cast to its column's type by the database itself, and compared there, as
PyIceberg reads it and as Spark does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

import psycopg
import pymysql

from cdc_assets.merge.statements import sql
from cdc_assets_tests.lake_view import read_rows
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.kinds import TABLE, Kind, Kinds
from cdc_assets_tests.stack.mariadb_side import connect
from cdc_assets_tests.stack.replicated import Replicated


def require_given_back(
    database: Replicated, spark: Session, kinds: Kinds, *, key: str = "id"
) -> None:
    """All rows of the table ``kinds``, as both readers see them.

    Args:
        database: the source, and its lake.
        spark: to read with.
        kinds: all columns but the key; others in the lake are left alone.
        key: the column of the primary key.
    """
    target, catalog = database.entry(TABLE).target, database.config.lake.catalog.name
    read = {
        "PyIceberg": read_rows(database.config, target),
        "Spark": spark().table(sql.table(catalog, target)).toArrow().to_pylist(),
    }
    with _asking(database.dsn) as asking:
        for reader, found in read.items():
            wrong = _differing(asking, found, kinds, key)
            assert not wrong, f"{reader}: " + "; ".join(wrong)


@dataclass(frozen=True)
class _Asking:
    """A database that is asked.

    Attributes:
        ask: for the first row of a query, with values by name.
        text: what it casts a value to, to compare it.
        back: of a value, as SQL reads it as a type.
    """

    ask: Callable[[str, Mapping[str, object]], tuple[object, ...] | None]
    text: str
    back: str


def _asking(dsn: str) -> AbstractContextManager[_Asking]:
    return _asking_mariadb(dsn) if dsn.startswith("mysql://") else _asking_postgres(dsn)


@contextmanager
def _asking_postgres(dsn: str) -> Iterator[_Asking]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield _Asking(
            lambda query, given: connection.execute(query.encode(), given).fetchone(),
            "text",
            "{}::{type}",
        )


@contextmanager
def _asking_mariadb(dsn: str) -> Iterator[_Asking]:
    with connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:

        def ask(query: str, given: Mapping[str, object]) -> tuple[object, ...] | None:
            cursor.execute(query, {name: _for_mariadb(each) for name, each in given.items()})
            return cursor.fetchone()

        yield _Asking(ask, "char", "{}")


def _differing(
    asking: _Asking, found: Sequence[Mapping[str, Any]], kinds: Kinds, key: str
) -> list[str]:
    """Columns, each with a row of the lake that does not give the source's value back."""
    count = asking.ask(f"SELECT count(*) FROM {TABLE}", {})
    told = (len({row[key] for row in found}), len(found), *(count or ()))
    wrong = [] if len(set(told)) == 1 else [f"keys, rows, rows of the source: {told}"]
    for name, kind in kinds.items():
        differences = (_difference(asking, row, name, kind, key) for row in found)
        wrong += islice((each for each in differences if each), 1)
    return wrong


def _difference(
    asking: _Asking, row: Mapping[str, Any], name: str, kind: Kind, key: str
) -> str | None:
    value = row.get(name, "no such column")
    here = kind.here.replace("{}", name)
    back = (kind.back or asking.back.replace("{type}", kind.type)).replace("{}", "%(value)s")
    query = (
        f"SELECT CAST({here} AS {asking.text}),"
        f" CAST({back if value is not None else 'NULL'} AS {asking.text})"
        f" FROM {TABLE} WHERE {key} = %(key)s"
    )
    try:
        asked = asking.ask(query, {"value": _plain(value), "key": row[key]})
    except (psycopg.Error, pymysql.MySQLError) as error:
        asked = ("", str(error))
    expected, given = asked or ("no row", "")
    if expected == given:
        return None
    told = f"{expected!r:.60} here, {value!r:.60} in the lake: {given!r:.80}"
    return f"{name} ({kind.type}) of {row[key]}: {told}"


def _plain(value: Any) -> Any:
    """Of a struct its fields, without the number of the reference system, or the only one."""
    if not isinstance(value, Mapping):
        return value
    fields = [each for name, each in value.items() if name != "srid"]
    return fields if len(fields) > 1 else fields[0]


def _for_mariadb(value: object) -> object:
    """Instants as UTC has them, the fields of a struct with a blank between them."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return " ".join(map(str, value)) if isinstance(value, list) else value
