"""Debezium's PostgreSQL connector for the shop."""

from __future__ import annotations

from cdc_assets.devstack.converters import Converter, Json, converter_settings
from cdc_assets.devstack.layout import HOST, StackLayout

CONNECTOR = "shop"
JSON = Json()


def connector_config(
    layout: StackLayout,
    *,
    database: str = "shop",
    prefix: str = "shop",
    converter: Converter = JSON,
) -> dict[str, str]:
    """The configuration to register under a name of its own for each database and prefix.

    The publication covers all tables, so that a table created later is captured too (the
    `filtered` mode lists the tables of the moment the connector starts). The password stays
    in its file: Connect reads it there, and shows only the reference.

    Args:
        layout: of the stack.
        database: which database of the stack's PostgreSQL.
        prefix: first part of the topic names, and of slot and publication.
        converter: how it writes keys and values. Avro needs the stack's part ``registry``.
    """
    password = layout.secret("postgres")
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": HOST,
        "database.port": str(layout.ports.postgres),
        "database.user": "postgres",
        "database.password": f"${{directory:{password.parent}:{password.name}}}",
        "database.dbname": database,
        "topic.prefix": prefix,
        "slot.name": f"cdc_assets_{prefix}",
        "publication.name": f"cdc_assets_{prefix}",
        "publication.autocreate.mode": "all_tables",
        "schema.include.list": "public",
        "provide.transaction.metadata": "true",
        "skipped.operations": "none",  # by default truncates are not sent
        "heartbeat.interval.ms": "5000",
        "poll.interval.ms": "100",
        "topic.creation.default.partitions": "4",
        "topic.creation.default.replication.factor": "1",
        **converter_settings(layout, converter),
    }
