"""A Glue Schema Registry, moto's, that takes only requests signed by the tests' identity."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from cdc_assets_tests.elsewhere.signed import is_signed
from cdc_assets_tests.login.identity import KEY, SECRET_KEY
from cdc_assets_tests.pipeline import Message

REGION = "eu-west-1"


@dataclass
class Glue:
    """The running one.

    Attributes:
        url: of its endpoint.
        secret: the key that requests must be signed with; may be replaced.
        refusal: an error that it answers with instead; "" for none.
        asked: how many requests it had.
    """

    url: str = ""
    secret: str = SECRET_KEY
    refusal: str = ""
    asked: int = 0
    _known: dict[str, UUID] = field(default_factory=dict)

    def register(self, schema: str) -> UUID:
        """The version of a schema of its own."""
        if schema not in self._known:
            client = boto3.client("glue", region_name=REGION, endpoint_url=self.url)
            name = f"schema{uuid4().hex}"
            made = client.create_schema(SchemaName=name, DataFormat="AVRO",
                                        Compatibility="NONE", SchemaDefinition=schema)  # fmt: skip
            self._known[schema] = UUID(made["SchemaVersionId"])
        return self._known[schema]


def framed(version: UUID, data: bytes, *, packed: bool = False) -> bytes:
    """What AWS's serializer writes."""
    return (
        bytes([3, 5 if packed else 0]) + version.bytes + (zlib.compress(data) if packed else data)
    )


def of_confluent(
    glue: Glue, schemas: Mapping[str, Any], message: Message, *, packed: bool = False
) -> Message:
    """A message of Confluent's framing in Glue's, its schemas registered there."""

    def side(data: bytes | None) -> bytes | None:
        if data is None or data[:1] != b"\0":
            return data
        said = schemas[str(int.from_bytes(data[1:5], "big"))]["schema"]
        text = said if isinstance(said, str) else json.dumps(said)
        return framed(glue.register(text), data[5:], packed=packed)

    return Message(side(message.key), side(message.value), message.partition)


@contextmanager
def running() -> Iterator[Glue]:
    """Serve it."""
    glue, app = Glue(), DomainDispatcherApplication(create_backend_app)

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        glue.asked += 1
        is_ours = is_signed(environ, KEY, glue.secret)
        refusal = glue.refusal or ("" if is_ours else "UnrecognizedClientException")
        if not refusal:
            return app(environ, start)
        start("400 Bad Request", [("Content-Type", "application/x-amz-json-1.1")])
        return [json.dumps({"__type": refusal, "message": glue.secret}).encode()]

    server = make_server("127.0.0.1", 0, answer, threaded=True)
    glue.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield glue
    finally:
        server.shutdown()
        server.server_close()
