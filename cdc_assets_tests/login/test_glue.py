"""Schemas of AWS Glue Schema Registry, and records as its serializers frame them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from uuid import UUID

import pytest

from cdc_assets.config.schema_registry import SchemaRegistryConfig
from cdc_assets.errors import CdcError, LoginRefusedError, TerminalError, UnreachableError
from cdc_assets.formats.registry import SchemaRegistry
from cdc_assets.formats.wire_id import (
    Framed,
    Framing,
    IdKind,
    SchemaId,
    Side,
    Unframed,
    framing_of,
    read_frame,
)
from cdc_assets_tests.formats import golden_records as golden
from cdc_assets_tests.formats.test_wire_id import record
from cdc_assets_tests.login import glue as servers
from cdc_assets_tests.login.glue import REGION, Glue, framed, of_confluent
from cdc_assets_tests.login.identity import SECRET_KEY, as_aws
from cdc_assets_tests.pipeline import Pipeline
from cdc_assets_tests.toy.profiles import in_soak

VERSION = UUID("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63")
SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def glue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Glue]:
    as_aws(monkeypatch)
    with servers.running() as running:
        yield running


def registry(glue: Glue, **keys: object) -> SchemaRegistry:
    said = {"url": glue.url, "api": "glue", "region": REGION, "timeout_seconds": 5, **keys}
    return SchemaRegistry(SchemaRegistryConfig.model_validate(said))


def id_of(version: UUID) -> SchemaId:
    return SchemaId(version.int, IdKind.VERSION)


@pytest.mark.unit
@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("packed", [False, True])
def test_a_uuid_and_a_byte_that_says_how_it_is_compressed_come_before_the_data(side, packed):
    data = framed(VERSION, b"payload", packed=packed)
    wanted = Framed(Framing.GLUE, id_of(VERSION), b"payload")
    assert read_frame(record(**{side: data}), side, of_glue=True) == wanted
    assert str(wanted.schema_id) == str(VERSION)


@pytest.mark.unit
@pytest.mark.parametrize(
    "data",
    [
        b"", b"\3", b"\3\0" + bytes(15), b"\3\1" + bytes(20), b"\0\0\0\0\1data-of-confluents",
        b'{"id": 1, "name": "a row of JSON"}', b"\3\5" + bytes(20),
        framed(VERSION, b"payload", packed=True)[:-1],
    ],
)  # fmt: skip
def test_other_bytes_have_no_schema(data):
    assert isinstance(read_frame(record(data), Side.VALUE, of_glue=True), Unframed)


@pytest.mark.unit
def test_data_that_grows_beyond_any_record_is_refused(monkeypatch):
    monkeypatch.setattr("cdc_assets.formats.wire_id.MOST_INFLATED", 1000)
    assert isinstance(read_frame(record(framed(VERSION, bytes(1000), packed=True)), Side.VALUE,
                                 of_glue=True), Framed)  # fmt: skip
    found = read_frame(record(framed(VERSION, bytes(1001), packed=True)), Side.VALUE, of_glue=True)
    assert isinstance(found, Unframed)
    assert "larger than 1,000 bytes" in found.reason


@pytest.mark.unit
def test_only_a_source_of_glue_has_such_records():
    data = record(framed(VERSION, b"payload"))
    assert isinstance(read_frame(data, Side.VALUE), Unframed)
    assert framing_of([data], Side.VALUE, of_glue=True) is Framing.GLUE


@pytest.mark.slow
def test_a_schema_is_read_once_by_its_version(glue):
    version = glue.register(json.dumps(SCHEMA))
    found = registry(glue)
    before = glue.asked
    assert [found.schema(id_of(version), "t") for _ in range(3)] == [SCHEMA] * 3
    assert glue.asked == before + 1
    found.ask()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("refusal", "kind", "words"),
    [
        ("", TerminalError, "does not know the schema version"),
        ("AccessDeniedException", LoginRefusedError, "glue:GetSchemaVersion"),
        ("ExpiredTokenException", LoginRefusedError, "renew the credentials"),
        ("ThrottlingException", UnreachableError, "ThrottlingException"),
        ("ValidationException", TerminalError, "refuses the request"),
    ],
)
def test_a_refusal_is_sorted_by_what_to_do(glue, monkeypatch, refusal, kind, words):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    glue.refusal = refusal
    with pytest.raises(kind, match=words) as caught:
        registry(glue).schema(id_of(VERSION), "t")
    assert type(caught.value) is kind
    assert f"registry=glue.{REGION}" in str(caught.value)
    assert str(VERSION) in str(caught.value)
    assert SECRET_KEY not in str(caught.value)


@pytest.mark.slow
def test_a_renewed_key_is_used_after_a_refusal(glue, monkeypatch):
    version = glue.register(json.dumps(SCHEMA))
    found = registry(glue)
    found.ask()
    glue.secret = "renewed"
    with pytest.raises(LoginRefusedError, match="UnrecognizedClientException"):
        found.schema(id_of(version), "t")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "renewed")
    assert found.schema(id_of(version), "t") == SCHEMA


@pytest.mark.slow
def test_who_has_no_identity_or_reaches_nobody_is_told(glue, monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(UnreachableError, match="EndpointConnectionError"):
        registry(glue, url="http://127.0.0.1:1").ask()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(UnreachableError, match="NoCredentialsError"):
        registry(glue).ask()


@pytest.mark.unit
@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"api": "glue", "username": "a", "password": {"env": "B"}}, "AWS's credentials"),
        ({"api": "glue", "token": {"env": "B"}}, "AWS's credentials"),
        ({"url": "http://r", "region": "x"}, "region is of api: glue"),
        ({"api": "apicurio"}, "url is missing"),
    ],
)
def test_keys_that_do_not_go_with_glue_are_refused(said, words):
    with pytest.raises(ValueError, match=words):
        SchemaRegistryConfig.model_validate(said)


@pytest.mark.unit
def test_glue_needs_no_url(monkeypatch):
    as_aws(monkeypatch)
    found = SchemaRegistry(SchemaRegistryConfig.model_validate({"api": "glue", "region": REGION}))
    assert found.is_glue
    with pytest.raises(CdcError, match="the region"):
        SchemaRegistry(SchemaRegistryConfig.model_validate({"api": "glue"})).ask()


@in_soak
@pytest.mark.stack
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "compressed"])
def test_what_glue_has_framed_becomes_the_rows_of_json(
    glue: Glue, pipeline: Callable[..., Pipeline], packed: bool
) -> None:
    said, table = golden.load(golden.AVRO), "public.kinds"
    schemas = said["schemas"]
    messages = [
        of_confluent(glue, schemas, each, packed=packed)
        for each in golden.messages(said["records"], table)
    ]
    access = {"api": "glue", "region": REGION, "url": glue.url}
    made = pipeline(format="debezium-avro", schema_registry=access)
    plain = pipeline()
    wanted = golden.messages(golden.load(golden.INLINE)["records"], table)
    for each, written in ((made, messages), (plain, wanted)):
        each.create_topic(table)
        each.produce(table, written)
        each.merge(table)
    assert made.rows(table) == plain.rows(table)
    assert made.rows(table)
