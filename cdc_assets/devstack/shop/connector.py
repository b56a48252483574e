"""Debezium's connectors for the shop."""

from __future__ import annotations

import zlib
from pathlib import Path

from cdc_assets.devstack.converters import Converter, Json, converter_settings
from cdc_assets.devstack.layout import HOST, StackLayout
from cdc_assets.devstack.mariadb import CAPTURING_FILE, CAPTURING_USER

CONNECTOR = "shop"
MARIADB_CONNECTOR = "shopmy"
JSON = Json()
WITH_SCHEMAS = Json(value_schemas=True)
"""Records tell the types of their columns, so that no catalog has to be asked."""
EXACT = {"event.converting.failure.handling.mode": "fail"}
"""A value that Debezium cannot convert stops the connector, and does not become NULL."""
EXACT_DATES = {"enable.time.adjuster": "false"}
"""Of MariaDB's: the years 0 to 99 stay what they are."""


def connector_config(
    layout: StackLayout,
    *,
    database: str = "shop",
    prefix: str = CONNECTOR,
    converter: Converter = JSON,
) -> dict[str, str]:
    """PostgreSQL's: to register under a name of its own for each database and prefix.

    The publication covers all tables, so that a table created later is captured too (the
    `filtered` mode lists the tables of the moment the connector starts).

    Args:
        layout: of the stack.
        database: which database of the stack's PostgreSQL.
        prefix: first part of the topic names, and of slot and publication.
        converter: how it writes keys and values. Avro needs the stack's part ``registry``.
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
    """MariaDB's: to register under a name of its own for each database and prefix.

    Its user must have been allowed to read the database (`MariaDB.let_capture`). Topics are
    ``<prefix>.<database>.<table>``.

    Args:
        layout: of the stack.
        database: which database of the stack's MariaDB.
        prefix: first part of the topic names, and name of the schema history.
        converter: how it writes keys and values.
    """
    return {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.port": str(layout.ports.mariadb),
        "database.user": CAPTURING_USER,
        "database.password": _reference(layout.secret(CAPTURING_FILE)),
        # Of all that read one server's binlog, as replicas do, each needs a number of its own.
        "database.server.id": str(1000 + zlib.crc32(prefix.encode()) % 2**31),
        "database.include.list": database,
        "schema.history.internal.kafka.bootstrap.servers": f"{HOST}:{layout.ports.kafka}",
        "schema.history.internal.kafka.topic": f"schema-history.{prefix}",
        **_common(layout, prefix, converter),
    }


def signal_settings(layout: StackLayout, prefix: str) -> dict[str, str]:
    """Lets a connector be signalled in Kafka, and tell there what becomes of it.

    It writes nothing to the database for that. Its topics are named as no table's could be.
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
        **converter_settings(layout, converter),
    }


def _reference(secret: Path) -> str:
    """A password stays in its file: Connect reads it there, and shows only this."""
    return f"${{directory:{secret.parent}:{secret.name}}}"
