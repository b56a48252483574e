"""What Debezium wrote of one database in several formats: recorded by ``golden/record_avro.py``."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cdc_assets_tests.formats.registry_server import RegistryServer, Reply, document, running
from cdc_assets_tests.pipeline import Message

GOLDEN = Path(__file__).parent / "golden"
AVRO = "debezium_avro_confluent"
INLINE = "debezium_json_schema"
BARE = "debezium_json_bare"
APICURIO = "debezium_avro_apicurio"


def load(name: str) -> dict:
    """A file as it was recorded."""
    return json.loads((GOLDEN / f"{name}.json").read_text())


def messages(records: list, table: str) -> list[Message]:
    """The records of a table, ``schema.table``."""
    return [_message(each) for each in records if each["topic"].endswith(f".{table}")]


def _message(record: dict) -> Message:
    """JSON is kept as text, everything else in base64."""
    headers = tuple((name, base64.b64decode(value or "")) for name, value in record["headers"])
    return Message(_bytes(record["key"]), _bytes(record["value"]), record["partition"], headers)


def _bytes(text: str | None) -> bytes | None:
    if text is None:
        return None
    return text.encode() if text.startswith("{") else base64.b64decode(text)


@contextmanager
def confluent_registry(schemas: dict) -> Iterator[RegistryServer]:
    """A registry with these schemas, ``{id: {"schema": …}}``; its ``url`` is the base."""
    with running() as server:
        server.replies = {f"/schemas/ids/{id_}": _said(said) for id_, said in schemas.items()}
        yield server


def _said(said: dict) -> Reply:
    """Some files have the schema as text, as a registry does, others as an object."""
    schema = said["schema"]
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return document({**said, "schema": text})


@contextmanager
def apicurio_registry(artifacts: dict) -> Iterator[str]:
    """Apicurio's own interface to these artifacts: its base."""
    base = "/apis/registry/v3"
    with running() as server:
        for each in (version for versions in artifacts.values() for version in versions):
            for kind in ("content", "global"):
                path = f"{base}/ids/{kind}Ids/{each[f'{kind}Id']}"
                server.replies[path] = Reply(200, each["schema"].encode())
                server.replies[f"{path}/references"] = document([])
        yield f"{server.url}{base}"
