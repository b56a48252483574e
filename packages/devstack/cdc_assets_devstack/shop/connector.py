"""Configures Debezium's connectors for the shop."""

from __future__ import annotations

import zlib
from pathlib import Path

from cdc_assets_devstack.converters import Converter, Json, converter_settings
from cdc_assets_devstack.layout import HOST, StackLayout
from cdc_assets_devstack.mariadb import CAPTURING_FILE, CAPTURING_USER

CONNECTOR = "shop"
_LARGEST = str(64 << 20)
MARIADB_CONNECTOR = "shopmy"
JSON = Json()
WITH_SCHEMAS = Json(value_schemas=True)
"""Records contain the types of their columns, so that no catalog has to be asked."""
EXACT = {"event.converting.failure.handling.mode": "fail"}
"""A value that Debezium cannot convert stops the connector, instead of becoming NULL."""
EXACT_NUMBERS = {"decimal.handling.mode": "string"}
"""For PostgreSQL's connector: a NaN arrives as a word, instead of stopping the connector."""
EXACT_DATES = {"enable.time.adjuster": "false", "driver.yearIsDateType": "false"}
"""For MariaDB's connector: the years 0 to 99 stay unchanged, and a ``year`` of 0 does not stop the
snapshot, as its driver makes a date of it otherwise."""


def connector_config(
    layout: StackLayout,
    *,
    database: str = "shop",
    prefix: str = CONNECTOR,
    converter: Converter = JSON,
) -> dict[str, str]:
    """Returns PostgreSQL's connector; register one name for each database and prefix.

    The publication covers all tables, so that a table created later is captured, too (the
    `filtered` mode lists only the tables that exist when the connector starts).

    Args:
        layout: the stack's layout.
        database: the database in the stack's PostgreSQL.
        prefix: the first part of the names of topics, slot and publication.
        converter: the form of keys and values. Avro needs the stack's part ``registry``.
    """
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.port": str(layout.ports.postgres),
        "database.user": "postgres",
        "database.password": _reference(layout.secret("postgres")),
        "database.dbname": database,
        "slot.name": f"cdc_assets_{prefix}",
        "publication.name": f"cdc_assets_{prefix}",
        "publication.autocreate.mode": "all_tables",
        "schema.include.list": "public",
        **_common(layout, prefix, converter),
    }


def mariadb_connector_config(
    layout: StackLayout,
    *,
    database: str = "shop",
    prefix: str = MARIADB_CONNECTOR,
    converter: Converter = WITH_SCHEMAS,
) -> dict[str, str]:
    """Returns MariaDB's connector; register one name for each database and prefix.

    Its user needs the right to read the database (`MariaDB.let_capture`). Topics are
    ``<prefix>.<database>.<table>``.

    Args:
        layout: the stack's layout.
        database: the database in the stack's MariaDB.
        prefix: the first part of the topic names, and the name of the schema history.
        converter: the form of keys and values.
    """
    return {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.port": str(layout.ports.mariadb),
        "database.user": CAPTURING_USER,
        "database.password": _reference(layout.secret(CAPTURING_FILE)),
        # Each reader of one server's binlog, like each replica, needs a number of its own.
        "database.server.id": str(1000 + zlib.crc32(prefix.encode()) % 2**31),
        "database.include.list": database,
        "schema.history.internal.kafka.bootstrap.servers": f"{HOST}:{layout.ports.kafka}",
        "schema.history.internal.kafka.topic": f"schema-history.{prefix}",
        **_common(layout, prefix, converter),
    }


def signal_settings(layout: StackLayout, prefix: str) -> dict[str, str]:
    """Returns settings for signals to a connector, and for its answers, in Kafka.

    It writes nothing to the database for them. No table's topic can have these topics' names.
    """
    return {
        "signal.enabled.channels": "kafka",
        "read.only": "true",
        "signal.kafka.topic": f"{prefix}-signal",
        "signal.kafka.bootstrap.servers": f"{HOST}:{layout.ports.kafka}",
        "signal.poll.interval.ms": "1000",
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": f"{prefix}-notifications",
    }


def _common(layout: StackLayout, prefix: str, converter: Converter) -> dict[str, str]:
    return {
        "database.hostname": HOST,
        "topic.prefix": prefix,
        "provide.transaction.metadata": "true",
        "skipped.operations": "none",  # by default truncates are not sent
        "heartbeat.interval.ms": "5000",
        "poll.interval.ms": "100",
        "topic.creation.default.partitions": "4",
        "topic.creation.default.replication.factor": "1",
        # Transactions are in order only within a partition: cuts need that.
        "topic.creation.groups": "transactions",
        "topic.creation.transactions.include": r".*\.transaction",
        "topic.creation.transactions.partitions": "1",
        # By default one value of a megabyte stops the connector.
        "topic.creation.default.max.message.bytes": _LARGEST,
        "producer.override.max.request.size": _LARGEST,
        **converter_settings(layout, converter),
    }


def _reference(secret: Path) -> str:
    """Returns a reference to a password in a file: Connect reads it there, and shows only this."""
    return f"${{directory:{secret.parent}:{secret.name}}}"
