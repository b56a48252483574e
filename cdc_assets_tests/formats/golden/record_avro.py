"""Records what Debezium writes as Avro and as JSON for the same changes of one database.

Run it with ``python -m cdc_assets_tests.formats.golden.record_avro``, after ``cdc-assets stack
install connect kafka registry``. It starts a local stack of its own, makes a database
(``before.sql``), registers one connector for each way of writing, lets ``changes.sql`` happen,
and replaces the files beside it:

* ``debezium_avro_confluent.json``: Avro, whole schemas, ids before the data in 4 bytes.
  ``schemas`` holds the registry's answers to ``GET /schemas/ids/{id}``.
* ``debezium_avro_apicurio.json``: of few tables, four other ways (`OTHER_WAYS`), each with its
  ``records``. ``artifacts`` holds all versions of all subjects with both of their ids.
* ``debezium_json_schema.json`` and ``debezium_json_bare.json``: Debezium's JSON with and
  without schemas.
* ``tables.json``: the rows that the database had at the end, as ``to_jsonb`` writes them.

All of them have the default of a column where the database has NULL (``kinds.with_money`` of 2,
later 12): the Avro converter does that, and so JSON is told to do it too.

A record is ``{topic, partition, offset, timestamp_ms, headers, key, value}``. Keys, values and
the values of headers are base64, except that JSON is text. Of each connector the topics of
tables and that of transactions are kept, in the order of topic, partition, offset. Positions,
times, transaction ids and ids of schemas differ from one recording to the next.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import psycopg
from cdc_assets_devstack import local_http
from cdc_assets_devstack.converters import Avro, Converter, Json, SchemaId, Wire
from cdc_assets_devstack.layout import StackLayout
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.registry import own_url
from cdc_assets_devstack.shop.connector import connector_config
from cdc_assets_devstack.stack import LocalStack
from confluent_kafka import Consumer, Message, TopicPartition

from cdc_assets_tests.waiting import until

HERE = Path(__file__).parent
CHECKOUT_JARS = HERE.parents[2] / ".cdc" / "jars"
DATABASE = "golden"
SHOP_SCHEMA = files("cdc_assets_devstack.shop") / "postgres.sql"


@dataclass(frozen=True, slots=True)
class Recording:
    """One connector: ``prefix`` is its name and the first part of its topics."""

    prefix: str
    converter: Converter
    tables: tuple[str, ...] = ()

    @property
    def config(self) -> dict[str, str]:
        """What differs from the shop's connector: one partition, so that offsets agree."""
        listed = ",".join(f"public.{table}" for table in self.tables)
        return {
            "topic.creation.default.partitions": "1",
            **({"table.include.list": listed} if listed else {}),
        }

    def text(self, content: bytes | None) -> str | None:
        """Bytes as they go into the file."""
        if content is None:
            return None
        return content.decode() if isinstance(self.converter, Json) else as_base64(content)


CONFLUENT = Recording("avro", Avro())
WITH_SCHEMAS = Recording("withschema", Json(value_schemas=True, nulls=False))
BARE = Recording("bare", Json(key_schemas=False, nulls=False))
WHOLE = (CONFLUENT, WITH_SCHEMAS, BARE)
FEW_TABLES = ("ended", "kinds", "orders")
BOTH = ("key", "value")
OTHER_WAYS = {
    "eight_bytes_global_id": Recording("eight", Avro(Wire.APICURIO, SchemaId.GLOBAL), FEW_TABLES),
    "headers_content_id": Recording("headers", Avro(Wire.HEADERS), FEW_TABLES),
    "headers_global_id": Recording(
        "headersglobal", Avro(Wire.HEADERS, SchemaId.GLOBAL), FEW_TABLES
    ),
    "confluent_references": Recording("references", Avro(references=True), FEW_TABLES),
}


def main() -> None:
    """Record everything anew."""
    with tempfile.TemporaryDirectory() as home:
        stack = LocalStack(StackLayout(Path(home), pick_free_ports(), jars=CHECKOUT_JARS))
        try:
            stack.up(["postgres", "connect", "registry"])
            record(stack)
        finally:
            stack.down()


def record(stack: LocalStack) -> None:
    """Make the database, let everything happen, write the files."""
    make_database(stack)
    dsn = stack.postgres.dsn(DATABASE)
    recordings = (*WHOLE, *OTHER_WAYS.values())
    for each in recordings:
        register(stack, each)
    before = rows_of(dsn)
    for each in recordings:
        until(lambda each=each: has_snapshot(stack, each, before), f"snapshot of {each.prefix}")
    last = let_happen(dsn)
    for each in recordings:
        until(lambda each=each: has_ended(stack, each, last), f"last change of {each.prefix}")
    write("tables", rows_of(dsn))
    write_whole(stack)
    write_other_ways(stack)


def make_database(stack: LocalStack) -> None:
    """The tables and their first rows."""
    with psycopg.connect(stack.postgres.dsn(), autocommit=True) as server:
        server.execute(f"CREATE DATABASE {DATABASE}".encode())
    with psycopg.connect(stack.postgres.dsn(DATABASE)) as database:
        database.execute(SHOP_SCHEMA.read_bytes())
        database.execute((HERE / "before.sql").read_bytes())


def register(stack: LocalStack, recording: Recording) -> None:
    """Start its connector."""
    config = connector_config(
        stack.layout, database=DATABASE, prefix=recording.prefix, converter=recording.converter
    )
    stack.register_connector(recording.prefix, {**config, **recording.config})


def let_happen(dsn: str) -> str:
    """Each paragraph of ``changes.sql`` in a transaction; returns the id of the last."""
    transaction = ""
    with psycopg.connect(dsn) as database:
        for paragraph in (HERE / "changes.sql").read_text().split("\n\n")[1:]:
            database.execute(paragraph.encode())
            row = database.execute("SELECT pg_current_xact_id()::text").fetchone()
            transaction = str(row and row[0])
            database.commit()
    return transaction


def rows_of(dsn: str) -> dict[str, list[object]]:
    """All rows of all tables, in the order of their first columns."""
    with psycopg.connect(dsn) as database:
        tables = database.execute(
            "SELECT relname FROM pg_stat_user_tables WHERE schemaname = 'public' ORDER BY 1"
        ).fetchall()
        return {
            table: [
                row
                for (row,) in database.execute(
                    f'SELECT to_jsonb(t) FROM "{table}" t ORDER BY 1'.encode()
                )
            ]
            for (table,) in tables
        }


def has_snapshot(stack: LocalStack, recording: Recording, rows: Mapping[str, list[object]]) -> bool:
    """Whether as many records arrived as there were rows."""
    expected = {
        f"{recording.prefix}.public.{table}": len(found)
        for table, found in rows.items()
        if found and table in (recording.tables or rows)
    }
    found = records_of(stack, recording)
    return expected == {
        topic: sum(each.topic() == topic for each in found)
        for topic in {str(each.topic()) for each in found}
    }


def has_ended(stack: LocalStack, recording: Recording, transaction: str) -> bool:
    """Whether the end of a transaction arrived; Avro too writes text as it is."""
    ends = (each.value() or b"" for each in records_of(stack, recording, "transaction"))
    return any(f"{transaction}:".encode() in end and b"END" in end for end in ends)


def records_of(stack: LocalStack, recording: Recording, topic: str = "") -> list[Message]:
    """What its topics hold, in the order of topic, partition, offset."""
    settings = {
        "bootstrap.servers": stack.kafka.address,
        "group.id": "recorder",
        "enable.auto.commit": "false",
    }
    consumer = Consumer(settings)
    try:
        found = read(consumer, partitions(consumer, f"{recording.prefix}.{topic}"))
    finally:
        consumer.close()
    return sorted(found, key=lambda each: (each.topic(), each.partition(), each.offset()))


def partitions(consumer: Consumer, beginning: str) -> list[TopicPartition]:
    """Those of all topics whose names begin so."""
    topics = consumer.list_topics(timeout=10).topics
    return [
        TopicPartition(name, number, 0)
        for name in topics
        if name.startswith(beginning)
        for number in topics[name].partitions
    ]


def read(consumer: Consumer, chosen: list[TopicPartition]) -> list[Message]:
    """What lies in partitions up to what are their ends now."""
    ends = [consumer.get_watermark_offsets(each, timeout=10)[1] for each in chosen]
    consumer.assign(chosen)
    found: list[Message] = []
    while len(found) < sum(ends):
        found.extend(consumer.consume(sum(ends) - len(found), timeout=0.1))
    return found


def write_whole(stack: LocalStack) -> None:
    """The files of the connectors that capture every table."""
    avro = kept(stack, CONFLUENT)
    ids = {
        id_before(base64.b64decode(each[part]), 4) for each in avro for part in BOTH if each[part]
    }
    schemas = {
        str(each): ask(f"{stack.registry.confluent_url}/schemas/ids/{each}") for each in sorted(ids)
    }
    settings = settings_of(stack, CONFLUENT)
    write("debezium_avro_confluent", {"settings": settings, "schemas": schemas, "records": avro})
    for name, each in (("schema", WITH_SCHEMAS), ("bare", BARE)):
        content = {"settings": settings_of(stack, each), "records": kept(stack, each)}
        write(f"debezium_json_{name}", content)


def write_other_ways(stack: LocalStack) -> None:
    """The file of the four other ways."""
    ways = {
        name: {"settings": settings_of(stack, each), "records": kept(stack, each)}
        for name, each in OTHER_WAYS.items()
    }
    write("debezium_avro_apicurio", {"artifacts": artifacts(stack), "ways": ways})


def kept(stack: LocalStack, recording: Recording) -> list[dict[str, Any]]:
    """Its records as they go into a file."""
    return [
        {
            "topic": each.topic(),
            "partition": each.partition(),
            "offset": each.offset(),
            "timestamp_ms": each.timestamp()[1],
            "headers": [[name, as_base64(bytes(value))] for name, value in each.headers() or ()],
            "key": recording.text(each.key()),
            "value": recording.text(each.value()),
        }
        for each in records_of(stack, recording)
    ]


def artifacts(stack: LocalStack) -> dict[str, list[dict[str, Any]]]:
    """All that the registry has of the other ways: subject, and its versions from the first."""
    own = f"{own_url(stack.layout)}/groups/default/artifacts"
    prefixes = tuple(f"{each.prefix}." for each in OTHER_WAYS.values())
    found = ask(f"{own}?limit=500")["artifacts"]
    names = sorted(each["artifactId"] for each in found)
    shared = ("event.", "io.debezium.")
    return {
        name: [
            version(f"{own}/{name}/versions/{each['version']}", each)
            for each in versions(own, name)
        ]
        for name in names
        if name.startswith((*prefixes, *shared))
    }


def versions(own: str, name: str) -> Iterable[Mapping[str, Any]]:
    """A subject's versions, the first one first."""
    return sorted(ask(f"{own}/{name}/versions")["versions"], key=lambda each: each["globalId"])


def version(url: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """One version: its ids, its schema as text, and what that refers to."""
    content = local_http.request("GET", f"{url}/content", seconds=10)
    content.raise_for_status()
    return {
        **{name: known[name] for name in ("version", "globalId", "contentId")},
        "schema": content.text,
        "references": ask(f"{url}/references"),
    }


def ask(url: str) -> Any:
    """The registry's answer."""
    answer = local_http.request("GET", url, seconds=10)
    answer.raise_for_status()
    return answer.json()


def settings_of(stack: LocalStack, recording: Recording) -> dict[str, str]:
    """How it was told to write, without places."""
    config = connector_config(stack.layout, converter=recording.converter)
    return {
        name: value
        for name, value in sorted(config.items())
        if "converter" in name and "url" not in name
    }


def id_before(content: bytes, size: int) -> int:
    """The id after the magic byte."""
    assert content[0] == 0
    return int.from_bytes(content[1 : 1 + size], "big")


def as_base64(content: bytes) -> str:
    """Bytes as text."""
    return base64.b64encode(content).decode()


def write(name: str, content: object) -> None:
    """Replace a file."""
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (HERE / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
