"""Reads tables from MySQL's or MariaDB's catalog, and the server's binlog settings.

Generated columns, stored or virtual, and invisible ones are in the binlog: with row images that
are full, changes hold all columns that `information_schema` lists.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

import pymysql

from cdc_assets.changes.names import TableName
from cdc_assets.databases.facts import Facts
from cdc_assets.databases.mysql.dsn import Dsn, parse_dsn
from cdc_assets.databases.mysql.text_types import describe_text_table
from cdc_assets.databases.mysql.type_text import MysqlType, parse_column_type
from cdc_assets.databases.mysql.types import MysqlColumn, describe_table, with_unsigned
from cdc_assets.errors import CdcError, TerminalError, UnreachableError
from cdc_assets.schema.described import Described
from cdc_assets.schema.modes import ConnectorModes
from cdc_assets.schema.types import MAX_DECIMAL_DIGITS

CONNECT_SECONDS: Final = 10
READ_SECONDS: Final = 60

_PASSING: Final = frozenset({
    1021, 1037, 1038, 1040, 1041, 1053, 1158, 1159, 1160, 1161, 1203, 1205, 1213, 1317, 1927,
    2002, 2003, 2005, 2006, 2013, 2055, 3024,
})  # fmt: skip
"""Error numbers that pass: connection, resources, shutdown, time-outs, interrupted queries."""

_TLS_FAILED: Final = 2026

_VARIABLES: Final = (
    "log_bin",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_value_options",
    "binlog_row_metadata",
    "binlog_transaction_compression",
)
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_DOUBLE: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?e[+-]?[0-9]+")
_DIGIT: Final = re.compile(r"[0-9]")
_FLOAT_DIGITS: Final = 6
"""As many as the catalog has of a ``float``: the value may have had more."""
_QUOTED: Final = re.compile(r"'((?:[^'\\]|'')*)'")
_GENERATED: Final = ("STORED GENERATED", "VIRTUAL GENERATED")
"""In ``EXTRA``. ``DEFAULT_GENERATED`` is another thing: a default that is an expression."""


@dataclass(frozen=True, slots=True)
class BinlogSettings:
    """The server's global settings for its binlog, in lower case.

    A session may have others (``SET SESSION binlog_row_image``,
    ``binlog_transaction_compression``), which nobody can see.

    Attributes:
        is_written: ``log_bin``. A server without a binlog is not the connector's: a replica
            that is asked in its place. Nothing is known of the other's settings then.
        row_format: ``binlog_format``; "" of a server that has only one.
        row_image: ``binlog_row_image``.
        row_values: ``binlog_row_value_options``, of MySQL.
        row_metadata: ``binlog_row_metadata``.
        compression: ``binlog_transaction_compression``, of MySQL 8.0.20 and later.
    """

    is_written: bool = True
    row_format: str = "row"
    row_image: str = "full"
    row_values: str = ""
    row_metadata: str = ""
    compression: str = ""

    def fault(self) -> tuple[str, str] | None:
        """Says why readers do not get whole rows in their order, and the remedy; None if they do.

        The events in a compressed transaction have no places of their own. Debezium gives all of
        them the transaction's, with rows that count from 0 again in each; Maxwell up to 1.44
        passes over the whole transaction (zendesk/maxwell#2254).
        """
        if not self.is_written:
            return None
        if self.row_format not in {"row", ""}:
            return (
                f"the server's binlog_format is {self.row_format}",
                "SET GLOBAL binlog_format=ROW",
            )
        if self.row_image not in {"full", ""}:  # "": servers before it was a choice
            what = (
                f"the server's binlog_row_image is {self.row_image}: changes lack columns, and "
                "nothing tells these from columns that are NULL"
            )
            return what, "SET GLOBAL binlog_row_image=FULL"
        if "partial_json" in self.row_values:
            what = "the server writes changed parts of JSON values only (PARTIAL_JSON)"
            return what, "SET GLOBAL binlog_row_value_options=''"
        if self.compression in {"on", "1"}:
            what = (
                "the server compresses transactions in its binlog (binlog_transaction_compression):"
                " their changes have no places of their own, by which they could be ordered, and "
                "some readers pass over them"
            )
            return what, "SET GLOBAL binlog_transaction_compression=OFF"
        return None


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table as the catalog has it; generated and invisible columns included.

    Partitions are the server's own affair here: changes come under the table's name.

    Attributes:
        is_versioned: a system-versioned table of MariaDB.
        binlog: what the server writes of its changes.
        facts: of its columns.
        identity: none: the catalog has no number of a table that every ALTER leaves alone.
    """

    columns: tuple[MysqlColumn, ...]
    primary_key: tuple[str, ...]
    comment: str = ""
    is_versioned: bool = False
    binlog: BinlogSettings = BinlogSettings()
    root: tuple[str, str] | None = None
    partitions: tuple[tuple[str, str], ...] = ()
    facts: Mapping[str, Facts] = field(default_factory=dict[str, Facts])
    identity: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(column.name for column in self.columns)

    def unpublished(self, publication: str | None) -> dict[str, str]:
        """Columns whose changes no event holds: none, the binlog has all."""
        del publication
        return {}

    def filters_rows(self, publication: str | None) -> bool:
        """Returns whether the server leaves rows out of the binlog: it cannot."""
        del publication
        return False

    def sent_by_partition(self, publication: str | None) -> bool:
        """Returns whether changes come under the partitions' names: never."""
        del publication
        return False

    def require_told(self, key: tuple[str, ...], where: str) -> None:
        """Refuses a table whose events do not hold whole rows, not what they say, or no order.

        Args:
            key: the lake table's; full row images hold any.
            where: coordinates for the error.

        Raises:
            TerminalError: if it is one.
        """
        del key
        if self.is_versioned:
            what = (
                "it is system-versioned: the binlog has its deletes as updates, and a row for "
                "each of its old versions"
            )
            raise TerminalError(what, where=where, remedy="ALTER TABLE … DROP SYSTEM VERSIONING")
        self.require_whole(where)

    def require_whole(self, where: str) -> None:
        """Refuses it while the server's settings are such; a session may have others.

        Raises:
            TerminalError: with the statement that changes the setting.
        """
        fault = self.binlog.fault()
        if fault is not None:
            what, statement = fault
            remedy = f"{statement} for all sessions, then take a new snapshot of the table"
            raise TerminalError(what, where=where, remedy=remedy)

    def described(self, modes: ConnectorModes) -> Described:
        """Describes all columns as a connector with these modes writes them."""
        return describe_table(self.columns, self.primary_key, modes, comment=self.comment)

    def corrected(
        self, told: Described, names: Collection[str], modes: ConnectorModes
    ) -> Described:
        """Adds the integers that have no sign, see `with_unsigned`."""
        del modes
        return with_unsigned(told, (each for each in self.columns if each.name in names))

    def described_as_text(self, zone: str | None) -> Described:
        """Describes all columns as a format of texts writes them; see `describe_text_table`."""
        return describe_text_table(self.columns, self.primary_key, zone=zone, comment=self.comment)


def read_tables(dsn: str, tables: Iterable[TableName]) -> dict[TableName, CatalogTable]:
    """Reads the catalog. Tables that do not exist are left out, and those without any right on.

    Raises:
        UnreachableError: if the database does not answer; names it without the password.
        TerminalError: if it refuses the login or the query.
        ConfigError: if the DSN cannot be parsed.
    """
    wanted = {(table.schema, table.name): table for table in tables}
    about = {"schemas": _each(wanted, 0), "names": _each(wanted, 1)}
    rows, settings = asked(dsn, (_QUERY, about), (_SETTINGS, {"names": _VARIABLES}))
    binlog = _binlog(dict(settings))
    by_table = groupby(rows, key=lambda row: (row[0], row[1]))
    found = {name: _table([row[2:] for row in group], binlog) for name, group in by_table}
    # More tables than asked for: other pairs of schema and name, and on some servers names that
    # differ in case, which they do not in the binlog.
    return {wanted[name]: table for name, table in found.items() if name in wanted}


def existing_tables(dsn: str, tables: Iterable[TableName]) -> frozenset[TableName]:
    """Returns which of some tables exist, without reading their columns.

    Raises:
        CdcError: as `read_tables`.
    """
    wanted = {(table.schema, table.name): table for table in tables}
    (rows,) = asked(dsn, (_EXISTING, {"schemas": _each(wanted, 0), "names": _each(wanted, 1)}))
    return frozenset(wanted[name] for name in rows if name in wanted)


def all_tables(dsn: str) -> tuple[tuple[str, str], ...]:
    """Returns schema and name of every table of the DSN's database, or of all but the server's own.

    Raises:
        CdcError: as `read_tables`.
    """
    (rows,) = asked(dsn, (_LISTED, {"schema": parse_dsn(dsn).database}))
    return tuple((schema, name) for schema, name in rows)


def asked(dsn: str, *queries: tuple[str, Mapping[str, Any]]) -> list[tuple[tuple[Any, ...], ...]]:
    """Returns the answers to some queries.

    Raises:
        CdcError: as `read_tables`.
    """
    server = parse_dsn(dsn)
    arguments = server.tls.arguments()
    found: list[tuple[tuple[Any, ...], ...]] = []
    try:
        with connected(server, arguments) as connection, connection.cursor() as cursor:
            for query, parameters in queries:
                cursor.execute(query, parameters)
                found.append(cursor.fetchall())
    except pymysql.Error as error:
        raise translated(error, server.address) from error
    except RuntimeError as error:  # PyMySQL without its optional package
        raise without_cryptography(server.address) from error
    return found


_EXISTING: Final = """
SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES
WHERE TABLE_SCHEMA IN %(schemas)s AND TABLE_NAME IN %(names)s
  AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')
"""


_LISTED: Final = """
SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES
WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')
  AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')
  AND (%(schema)s = '' OR TABLE_SCHEMA = %(schema)s)
ORDER BY 1, 2
"""


_QUERY: Final = """
SELECT t.TABLE_SCHEMA, t.TABLE_NAME, t.TABLE_TYPE, t.TABLE_COMMENT,
       c.COLUMN_NAME, c.COLUMN_TYPE, c.IS_NULLABLE, c.COLUMN_COMMENT, c.EXTRA, k.SEQ_IN_INDEX,
       c.COLUMN_DEFAULT, VERSION() LIKE '%%MariaDB%%'
FROM information_schema.TABLES t
JOIN information_schema.COLUMNS c
  ON c.TABLE_SCHEMA = t.TABLE_SCHEMA AND c.TABLE_NAME = t.TABLE_NAME
LEFT JOIN information_schema.STATISTICS k
  ON k.TABLE_SCHEMA = c.TABLE_SCHEMA AND k.TABLE_NAME = c.TABLE_NAME
 AND k.COLUMN_NAME = c.COLUMN_NAME AND k.INDEX_NAME = 'PRIMARY'
WHERE t.TABLE_SCHEMA IN %(schemas)s AND t.TABLE_NAME IN %(names)s
  AND t.TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')
ORDER BY t.TABLE_SCHEMA, t.TABLE_NAME, c.ORDINAL_POSITION
"""
_SETTINGS: Final = "SHOW GLOBAL VARIABLES WHERE Variable_name IN %(names)s"


def _each(pairs: Iterable[tuple[str, str]], place: int) -> tuple[str, ...]:
    """Returns each schema (0) or name (1) once; SQL knows no empty list."""
    return tuple(dict.fromkeys(pair[place] for pair in pairs)) or ("",)


def connected(
    server: Dsn, tls: Mapping[str, Any], read_seconds: float = READ_SECONDS
) -> pymysql.Connection[Any]:
    """Opens a connection, whose texts are of utf8mb4."""
    return pymysql.connect(
        host=server.host,
        port=server.port,
        user=server.user,
        password=server.password.encode(),
        database=server.database or None,
        charset="utf8mb4",
        connect_timeout=CONNECT_SECONDS,
        read_timeout=read_seconds,
        write_timeout=READ_SECONDS,
        **tls,
    )


def _table(rows: Sequence[Sequence[Any]], binlog: BinlogSettings) -> CatalogTable:
    """Returns the table of its columns' rows, which begin with what they say of the table."""
    table_type, comment = rows[0][0], rows[0][1]
    places = {row[2]: row[7] for row in rows if row[7] is not None}
    return CatalogTable(
        tuple(_column(row[2:7], row[8]) for row in rows),
        tuple(sorted(places, key=places.__getitem__)),
        comment or "",
        table_type == "SYSTEM VERSIONED",
        binlog,
        facts={row[2]: _facts(row[3], row[4] == "NO", row[6], *row[8:10]) for row in rows},
    )


def _facts(
    type_text: str, not_null: bool, extra: str, default: str | None, is_mariadb: bool
) -> Facts:
    """Returns facts by the present default: no catalog keeps the one at the column's addition.

    MariaDB writes defaults as SQL has them, MySQL their values.
    """
    type_, words = parse_column_type(type_text), extra.lower()
    if "auto_increment" in words or "generated" in words:
        return Facts(is_untold=True)
    if default is None or (is_mariadb and default.upper() == "NULL"):
        is_other = _implies_another(type_)
        return Facts(is_implied=not_null and not is_other, is_untold=not_null and is_other)
    if type_.name == "float" and len(_DIGIT.findall(default)) >= _FLOAT_DIGITS:
        return Facts(is_untold=True)
    is_number = _NUMBER.fullmatch(default) or (
        type_.name == "double" and _DOUBLE.fullmatch(default)
    )
    if not is_mariadb or is_number:
        return Facts(existing=default)
    text = _QUOTED.fullmatch(default)
    return Facts(existing=text[1].replace("''", "'")) if text else Facts(is_untold=True)


def _implies_another(type_: MysqlType) -> bool:
    """Returns whether rows have another value than an empty text or 0 without a default."""
    is_long = type_.name == "decimal" and type_.arguments[:1] > (MAX_DECIMAL_DIGITS,)
    return type_.name in {"enum", "json"} or is_long


def _column(about: Sequence[Any], default: str | None) -> MysqlColumn:
    name, type_text, nullable, comment, extra = about
    words = extra.upper()
    return MysqlColumn(
        name,
        type_text,
        nullable == "NO",
        comment or "",
        any(each in words for each in _GENERATED),
        "INVISIBLE" in words,
        default is not None and default.upper() != "NULL",
    )


def _binlog(variables: Mapping[str, str]) -> BinlogSettings:
    written, *others = (variables.get(name, "").lower() for name in _VARIABLES)
    return BinlogSettings(written in {"on", "1"}, *others)


def translated(error: pymysql.Error, address: str) -> CdcError:
    """Sorts errors by what to do. Does not repeat the server's text: it may quote statements."""
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    where = f"database {address}"
    if number == _TLS_FAILED or isinstance(
        getattr(error, "original_exception", None), ssl.SSLError
    ):
        msg = "no encrypted connection to the database came about"
        remedy = "check the DSN's ssl-mode and ssl-ca, and the server's certificate"
        return TerminalError(msg, where=where, remedy=remedy)
    if number in _PASSING or isinstance(error, pymysql.InterfaceError):
        msg = "the database does not answer"
        remedy = "check that it runs and accepts connections at this address"
        return UnreachableError(msg, where=where, remedy=remedy)
    msg = f"the database refused (error {number})"
    remedy = "check the user, its password, its rights and the database's name"
    return TerminalError(msg, where=where, remedy=remedy)


def without_cryptography(address: str) -> TerminalError:
    """Explains that PyMySQL lacks its optional package."""
    msg = "the server's way of logging in (caching_sha2_password) needs an encrypted connection"
    remedy = "add ?ssl-mode=required to the DSN, or install the Python package cryptography"
    return TerminalError(msg, where=f"database {address}", remedy=remedy)
