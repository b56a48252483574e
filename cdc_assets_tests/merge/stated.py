"""Records of MariaDB's: of rows, and of statements in a topic of their own."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka.cimpl import NewTopic

from cdc_assets_tests.merge.inline import in_schema
from cdc_assets_tests.merge.one_table import Make
from cdc_assets_tests.pipeline import Message, Pipeline

TABLE = "shop.t"


def source(pos: int, server: int = 7) -> dict[str, Any]:
    return {
        "connector": "mariadb",
        "ts_ms": 1_760_000_000_000 + (server - 7) * 3_600_000 + pos * 1000,
        "snapshot": "false",
        "server_id": server,
        "gtid": f"0-{server}-{pos}",
        "file": "binlog.000001",
        "pos": pos,
        "row": 0,
    }


def change(op: str, pos: int, row: dict[str, Any], **at: int) -> Message:
    """Of a table with a key ``id``."""
    images = {"before": row if op == "d" else None, "after": None if op == "d" else row}
    value = json.dumps({**images, "source": source(pos, **at), "op": op}, separators=(",", ":"))
    key = json.dumps({"id": row["id"]}, separators=(",", ":"))
    return Message(key.encode(), value.encode())


def with_schema(message: Message, *names: str) -> Message:
    """With a schema of the row; ``id`` is a number and the others are texts."""
    fields = [
        {"field": n, "type": "int32" if n == "id" else "string", "optional": n != "id"}
        for n in names
    ]
    row = {"type": "struct", "optional": True, "fields": fields}
    images = [{**row, "field": "before"}, {**row, "field": "after"}]
    made = in_schema(message, {"type": "struct", "fields": images})
    key = {"type": "struct", "fields": fields[:1]}
    return Message(in_schema(Message(None, message.key), key).value, made.value)


def statement(pos: int, text: str, *names: str) -> Message:
    table = {"columns": [{"name": each} for each in names]} if names else None
    told = {
        "source": source(pos),
        "ts_ms": 1_760_000_000_000,
        "databaseName": "shop",
        "ddl": text,
        "tableChanges": [{"type": "ALTER", "id": '"shop"."t"', "table": table}],
    }
    return Message(None, json.dumps(told).encode())


def of_another(number: int) -> list[Message]:
    """Statements on other tables."""
    return [statement(900 + n, f"CREATE TABLE other_{n} (id int)") for n in range(number)]


MADE = [
    statement(1, "CREATE TABLE t (id int PRIMARY KEY, name text)", "id", "name"),
]
OLD = [change("c", 100, {"id": 1, "name": "old"}), change("c", 200, {"id": 2, "name": "old"})]


def started(pipeline: Make, **of_source: object) -> Pipeline:
    """With a topic of statements, which is called as the prefix."""
    made = pipeline(**of_source)
    made.create_topic(TABLE)
    for future in made.admin.create_topics([NewTopic(made.prefix, 1, 1)]).values():
        future.result(30)
    return made


def tell(made: Pipeline, *statements: Message) -> None:
    for each in statements:
        made.producer.produce(made.prefix, value=each.value, partition=0)
    assert made.producer.flush(30) == 0
