"""The schema registry, and a connector that writes Avro with its schemas there."""

import json
import os
import signal
import socket
from dataclasses import replace

import psutil
import psycopg
import pytest
from cdc_assets_devstack import jars, local_http
from cdc_assets_devstack.converters import Avro, Json, SchemaId, Wire, converter_settings
from cdc_assets_devstack.layout import StackLayout
from cdc_assets_devstack.part import PartState
from cdc_assets_devstack.process import RunningProcess
from cdc_assets_devstack.registry import Registry
from cdc_assets_devstack.shop.connector import connector_config
from confluent_kafka import Consumer, TopicPartition

from cdc_assets.errors import TerminalError
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until

NAME = "avro_pets"
SCHEMA = {"type": "record", "name": "Pet", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture(scope="module")
def stack(stack_parts):
    """The tests' stack with its registry, which no other module needs."""
    local = stack_parts("postgres", "connect", "registry")
    yield local
    local.registry.stop()


@pytest.fixture(scope="module")
def records(stack):
    """Keys and values of both rows of a table as a connector wrote them in Avro."""
    with psycopg.connect(stack.postgres.dsn(), autocommit=True) as server:
        server.execute(f"CREATE DATABASE {NAME}")
    with psycopg.connect(stack.postgres.dsn(NAME), autocommit=True) as database:
        database.execute("CREATE TABLE pets (id bigint PRIMARY KEY, name text DEFAULT 'none')")
        database.execute("INSERT INTO pets VALUES (1, 'Rex'), (2, NULL)")
    config = connector_config(stack.layout, database=NAME, prefix=NAME, converter=Avro())
    stack.register_connector(NAME, {**config, "topic.creation.default.partitions": "1"})
    yield both(stack, NAME)
    stack.connect.unregister(NAME)


def both(stack, prefix):
    """The records of both rows, which are waited for."""
    topic = f"{prefix}.public.pets"
    return until(lambda: len(found := read(stack, topic)) == 2 and found, f"records of {topic}")


def read(stack, topic):
    """Key and value of every record there is now."""
    settings = {"bootstrap.servers": stack.kafka.address, "group.id": NAME}
    consumer = Consumer({**settings, "enable.auto.commit": "false"})
    try:
        if topic not in consumer.list_topics(timeout=10).topics:
            return []
        partition = TopicPartition(topic, 0, 0)
        end = consumer.get_watermark_offsets(partition, timeout=10)[1]
        consumer.assign([partition])
        found = consumer.consume(end, timeout=10)
        return [(each.key(), each.value()) for each in found]
    finally:
        consumer.close()


def register(registry: Registry, subject: str, schema: object) -> int:
    url = f"{registry.confluent_url}/subjects/{subject}/versions"
    answer = local_http.request("POST", url, seconds=10, json={"schema": json.dumps(schema)})
    answer.raise_for_status()
    return answer.json()["id"]


def schema_of(registry: Registry, schema_id: int) -> dict:
    url = f"{registry.confluent_url}/schemas/ids/{schema_id}"
    answer = local_http.request("GET", url, seconds=10)
    answer.raise_for_status()
    return json.loads(answer.json()["schema"])


@pytest.mark.stack
def test_it_answers_as_confluents_registry_does(stack):
    schema_id = register(stack.registry, "pets-value", SCHEMA)
    assert register(stack.registry, "pets-value", SCHEMA) == schema_id
    assert schema_of(stack.registry, schema_id) == SCHEMA
    subjects = local_http.request("GET", f"{stack.registry.confluent_url}/subjects", seconds=10)
    assert "pets-value" in subjects.json()


@pytest.mark.stack
def test_a_schema_it_does_not_know_is_said_in_confluents_words(stack):
    url = f"{stack.registry.confluent_url}/schemas/ids/999999"
    answer = local_http.request("GET", url, seconds=10)
    assert (answer.status_code, answer.json()["error_code"]) == (404, 40403)


@pytest.mark.stack
def test_it_listens_on_the_loopback_interface_only(stack):
    process = psutil.Process(stack.status()["registry"].pid)
    listening = [c.laddr for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert stack.registry.port in {each.port for each in listening}
    assert {each.ip for each in listening} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


@in_soak
@pytest.mark.stack
def test_a_schema_that_it_gave_an_id_survives_a_kill(stack):
    """Killed at once: the id may be in a record already."""
    schema_id = register(stack.registry, "killed-value", {**SCHEMA, "name": "Killed"})
    killed = RunningProcess.read(stack.layout.pidfile("registry"))
    os.kill(killed.pid, signal.SIGKILL)
    until(lambda: not killed.alive, "the registry has ended")
    assert stack.status()["registry"].state is PartState.DIED
    stack.up(["registry"])
    assert schema_of(stack.registry, schema_id)["name"] == "Killed"
    assert register(stack.registry, "next-value", {**SCHEMA, "name": "Next"}) > schema_id


@pytest.mark.stack
def test_a_connectors_record_has_the_magic_byte_and_the_id_of_its_schema(stack, records):
    key, value = records[0]
    assert (key[0], value[0]) == (0, 0)
    key_schema = schema_of(stack.registry, int.from_bytes(key[1:5], "big"))
    assert key_schema["connect.name"] == f"{NAME}.public.pets.Key"
    assert key[5:] == b"\x02"  # the long 1
    value_schema = schema_of(stack.registry, int.from_bytes(value[1:5], "big"))
    assert value_schema["connect.name"] == f"{NAME}.public.pets.Envelope"
    after = next(f for f in value_schema["fields"] if f["name"] == "before")["type"][1]
    assert [field["name"] for field in after["fields"]] == ["id", "name"]
    # No row before, one after: the long 1, and a text of three bytes (it has a default, which
    # is of the first type of its union).
    assert value[5:].startswith(b"\x00\x02\x02\x00\x06Rex")


@pytest.mark.stack
def test_a_connector_that_writes_json_runs_beside_it_and_keeps_the_null_of_a_column_with_a_default(
    stack, records
):
    assert records
    name = f"{NAME}_json"
    config = connector_config(stack.layout, database=NAME, prefix=name)
    try:
        stack.register_connector(name, {**config, "topic.creation.default.partitions": "1"})
        rows = [json.loads(value)["after"] for _, value in both(stack, name)]
        assert rows == [{"id": 1, "name": "Rex"}, {"id": 2, "name": None}]
    finally:
        stack.connect.unregister(name)


@pytest.mark.stack
def test_a_taken_port_is_said_before_it_starts(stack, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        ports = replace(stack.layout.ports, registry=server.getsockname()[1])
        part = Registry(StackLayout(tmp_path, ports))
        with pytest.raises(TerminalError, match=r"which registry needs.*stack\.ports\.registry"):
            part.require_startable()


@pytest.mark.unit
def test_without_its_files_the_command_that_installs_them_is_named(tmp_path):
    layout = StackLayout(tmp_path, jars=tmp_path / "none")
    with pytest.raises(TerminalError, match="run `cdc-assets stack install registry`"):
        jars.require_installed(layout, "registry")


@pytest.mark.unit
@pytest.mark.parametrize(
    ("avro", "handler", "headers", "ids"),
    [
        (Avro(), "Default4ByteIdHandler", "false", "contentId"),
        (Avro(Wire.APICURIO, SchemaId.GLOBAL), "Legacy8ByteIdHandler", "false", "globalId"),
        (Avro(Wire.HEADERS), "Default4ByteIdHandler", "true", "contentId"),
    ],
)
def test_each_way_of_naming_a_schema_is_a_setting_of_keys_and_values(
    tmp_path, avro, handler, headers, ids
):
    settings = converter_settings(StackLayout(tmp_path), avro)
    for side in ("key", "value"):
        of_side = f"{side}.converter.apicurio.registry"
        assert settings[f"{of_side}.id-handler"] == f"io.apicurio.registry.serde.{handler}"
        assert settings[f"{of_side}.headers.enabled"] == headers
        assert settings[f"{of_side}.use-id"] == ids
        assert settings[f"{of_side}.url"] == "http://127.0.0.1:18081/apis/registry/v3"


@pytest.mark.unit
def test_json_carries_schemas_where_it_is_told(tmp_path):
    settings = converter_settings(StackLayout(tmp_path), Json(value_schemas=True))
    assert settings["value.converter.schemas.enable"] == "true"
    assert settings["key.converter.schemas.enable"] == "true"


@pytest.mark.unit
@pytest.mark.parametrize(("nulls", "replaced"), [(True, "false"), (False, "true")])
def test_json_keeps_the_null_of_a_column_with_a_default_unless_told(tmp_path, nulls, replaced):
    settings = converter_settings(StackLayout(tmp_path), Json(nulls=nulls))
    assert settings["value.converter.replace.null.with.default"] == replaced
