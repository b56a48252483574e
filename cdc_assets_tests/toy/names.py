"""Tables that are named like topics which are none, and those topics."""

from __future__ import annotations

from typing import Final

TABLES: Final = (
    "public.transaction",
    "public.transactions",
    "public.message",
    "public.heartbeat",
    "public.offsets",
    "connect.status",
    "connect.offsets",
    "transaction.message",
    "message.transaction",
)
"""Legal names of PostgreSQL's, as ``schema.table``."""


def table_topic(prefix: str, table: str) -> str:
    """The topic with the changes of a table."""
    return f"{prefix}.{table}"


def side_topics(prefix: str) -> tuple[str, ...]:
    """What Debezium, Connect and Kafka keep beside the tables of a connector."""
    return (
        prefix,
        f"{prefix}.transaction",
        f"{prefix}.message",
        f"__debezium-heartbeat.{prefix}",
        f"schemahistory.{prefix}",
        "connect-configs",
        "connect-offsets",
        "connect-status",
        "__consumer_offsets",
        "__transaction_state",
        "_schemas",
    )
