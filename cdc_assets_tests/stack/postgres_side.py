"""PostgreSQL behind a source: what the tests do with it, and how they read it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import psycopg
from cdc_assets_devstack.shop.connector import connector_config
from cdc_assets_devstack.stack import LocalStack
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import set_json_loads
from psycopg.types.range import Range

from cdc_assets_tests.configuration import database_of
from cdc_assets_tests.stack.oracle import SourceTable
from cdc_assets_tests.waiting import until

_COLUMNS = """
SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_KEY = """
SELECT attname FROM pg_index, unnest(indkey::int2[]) WITH ORDINALITY AS part (number, place)
JOIN pg_attribute ON attnum = number
WHERE indrelid = %s::regclass AND attrelid = indrelid AND indisprimary ORDER BY place
"""
_DELIVERED = """
SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s
"""
_STREAMS = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"


@dataclass(frozen=True)
class PostgresSide:
    """One database."""

    dsn: str = field(repr=False)
    schema: str = "public"

    def configured(self, variable: str) -> Mapping[str, object]:
        """What a source's configuration says of it."""
        return database_of(variable)

    def connector(self, stack: LocalStack, prefix: str) -> dict[str, str]:
        """The settings of its connector."""
        name = conninfo_to_dict(self.dsn)["dbname"]
        return connector_config(stack.layout, database=str(name), prefix=prefix)

    def execute(self, *statements: str) -> None:
        """One transaction."""
        with psycopg.connect(self.dsn) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def table(self, name: str) -> SourceTable:
        """Read a table, types and key included, in one transaction."""
        return source_table(self.dsn, f"{self.schema}.{name}")

    def wait_until_delivered(self, stack: LocalStack, prefix: str) -> None:
        """Until Kafka has everything that was committed before this call.

        The connector confirms a position to its slot after Kafka has acknowledged the records
        up to it. Transactions on a table that it does not capture move it on when the others
        rest.
        """
        slot = self.connector(stack, prefix)["slot.name"]
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            # A slot that was made a moment ago is ahead of a snapshot that is still to be sent.
            until(
                lambda: connection.execute(_STREAMS, (slot,)).fetchone() == (True,),
                "Debezium streams",
                every_seconds=0.5,
            )
            here = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
            assert here is not None
            connection.execute("CREATE SCHEMA IF NOT EXISTS elsewhere")
            connection.execute("CREATE TABLE IF NOT EXISTS elsewhere.nudges (id int PRIMARY KEY)")

            def delivered() -> bool:
                connection.execute(
                    "INSERT INTO elsewhere.nudges SELECT count(*) FROM elsewhere.nudges"
                )
                return connection.execute(_DELIVERED, (here[0], slot)).fetchone() == (True,)

            until(delivered, f"Debezium delivers up to {here[0]}", every_seconds=0.5)


def source_table(dsn: str, name: str) -> SourceTable:
    """Read ``schema.name``, types and key included, in one transaction."""
    with psycopg.connect(dsn) as connection:
        set_json_loads(_text, connection)
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        types = dict(connection.execute(_COLUMNS, (name,)).fetchall())
        key = tuple(column for (column,) in connection.execute(_KEY, (name,)).fetchall())
        everything = sql.SQL("SELECT * FROM {}").format(sql.Identifier(*name.split(".")))
        found = [
            {column: _plain(value, types[column]) for column, value in zip(types, row, strict=True)}
            for row in connection.execute(everything)
        ]
    return SourceTable(types, key, found, _plain)


def _plain(value: object, source_type: str) -> object:
    """A value by the meaning of its PostgreSQL type, whichever side it was read from."""
    match value, source_type:
        case None, _:
            return None
        case list(), _:
            return [_plain(each, source_type.removesuffix("[]")) for each in value]
        case Range(), _:
            return str(value).replace(" ", "")
        case str(), "hstore":
            return json.loads(value if value.startswith("{") else _as_json(value))
        case uuid.UUID(), _:
            return str(value)
        case bytes(), "uuid":
            return str(uuid.UUID(bytes=value))
        case str(), "json" | "jsonb":
            return json.loads(value)
        case bytes() | bytearray() | memoryview(), _:
            return bytes(value)
        case datetime(tzinfo=None), "timestamp with time zone":
            return f"without a zone: {value}"
        case datetime(), "timestamp with time zone":
            return value.astimezone(UTC)
        case _:
            return value


def _as_json(pairs: str) -> str:
    """``"k"=>"v", …`` without anything that needs an escape."""
    return "{" + pairs.replace('"=>"', '": "') + "}"


def _text(document: str | bytes) -> str:
    """JSON as its text, like the lake has it: a text in it cannot be told from a document."""
    return document if isinstance(document, str) else document.decode()
