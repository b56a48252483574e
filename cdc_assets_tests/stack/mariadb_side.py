"""MariaDB behind a source: what the tests do with it, and how they read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from urllib.parse import urlsplit

from cdc_assets_devstack import local_http
from cdc_assets_devstack.mariadb import connect, quote
from cdc_assets_devstack.shop.connector import mariadb_connector_config
from cdc_assets_devstack.stack import LocalStack

from cdc_assets_tests.stack.oracle import SourceTable
from cdc_assets_tests.waiting import until

_COLUMNS = """
SELECT column_name, data_type FROM information_schema.columns
WHERE table_schema = database() AND table_name = %s ORDER BY ordinal_position
"""
_KEY = """
SELECT column_name FROM information_schema.key_column_usage
WHERE table_schema = database() AND table_name = %s AND constraint_name = 'PRIMARY'
ORDER BY ordinal_position
"""


@dataclass(frozen=True)
class MariaDBSide:
    """One database."""

    dsn: str = field(repr=False)

    @property
    def schema(self) -> str:
        """The database: MariaDB has no schemas in it."""
        return urlsplit(self.dsn).path.removeprefix("/")

    def configured(self, variable: str) -> Mapping[str, object]:
        """Its catalog is asked; types come from the records too, which carry their schemas."""
        return {"database": {"kind": "mariadb", "dsn": {"env": variable}}}

    def connector(self, stack: LocalStack, prefix: str) -> dict[str, str]:
        """The settings of its connector, whose user may read the database from now on.

        By heartbeats it stores its place while the others rest.
        """
        stack.mariadb.let_capture(self.schema)
        usual = mariadb_connector_config(stack.layout, database=self.schema, prefix=prefix)
        return {**usual, "heartbeat.interval.ms": "500"}

    def execute(self, *statements: str) -> None:
        """One transaction, but for statements that end one by themselves."""
        with connect(self.dsn) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def wait_until_delivered(self, stack: LocalStack, prefix: str) -> None:
        """Until Kafka has everything that was committed before this call.

        The connector stores its place in the binlog after Kafka has acknowledged the records up
        to it. Transactions in a database that it does not capture move it on when the others
        rest. A connector that has failed, as some time after its server was killed, is started
        again.
        """
        with connect(self.dsn, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW BINLOG STATUS")
            file, position, *_ = cursor.fetchone() or ("", 0)
            cursor.execute("CREATE DATABASE IF NOT EXISTS elsewhere")
            cursor.execute("CREATE TABLE IF NOT EXISTS elsewhere.nudges (at timestamp(6))")

            def delivered() -> bool:
                cursor.execute("INSERT INTO elsewhere.nudges VALUES (current_timestamp(6))")
                if stack.connect.state_of(prefix).failure is not None:
                    stack.connect.restart(prefix)
                here = _stored_offset(stack, prefix)
                # In that file: after RESET MASTER an older place may have a higher number.
                return here.get("file") == file and here["pos"] >= position

            until(delivered, f"Debezium delivers up to {file}:{position}", every_seconds=0.5,
                  within_seconds=120)  # fmt: skip

    def table(self, name: str) -> SourceTable:
        """Read a table, types and key included, in one transaction."""
        with connect(self.dsn) as connection, connection.cursor() as cursor:
            cursor.execute(_COLUMNS, (name,))
            types = dict(cursor.fetchall())
            cursor.execute(_KEY, (name,))
            key = tuple(column for (column,) in cursor.fetchall())
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            cursor.execute(f"SELECT {', '.join(map(quote, types))} FROM {quote(name)}")
            found = [
                {c: _read(value, types[c]) for c, value in zip(types, row, strict=True)}
                for row in cursor.fetchall()
            ]
        return SourceTable(types, key, found, _plain)


def _stored_offset(stack: LocalStack, connector: str) -> Mapping[str, object]:
    """Where a connector's stream would go on; {} while it takes its snapshot."""
    url = f"http://{stack.connect.address}/connectors/{connector}/offsets"
    stored = local_http.request("GET", url, seconds=10).json()["offsets"]
    offset = stored[0]["offset"] if stored else {}
    return {} if "snapshot" in offset else offset


def _read(value: object, source_type: str) -> object:
    """As the driver gives it, with the zone of the session, which is UTC."""
    if isinstance(value, datetime) and source_type == "timestamp":
        return value.replace(tzinfo=UTC)
    return value


def _plain(value: object, source_type: str) -> object:
    """A value by the meaning of its MariaDB type, whichever side it was read from."""
    match value, source_type:
        case datetime(tzinfo=None), "timestamp":
            return f"without a zone: {value}"
        case datetime(), "timestamp":
            return value.astimezone(UTC)
        case Decimal(), "bigint" if value == int(value):  # unsigned ones, in the lake
            return int(value)
        case _:
            return value
