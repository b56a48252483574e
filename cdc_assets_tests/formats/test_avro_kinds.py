"""What a topic holds, by its records, where the connector writes Avro."""

import json
from datetime import UTC, datetime

import pytest

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.values import RawRecord
from cdc_assets_tests.formats.debezium import debezium_avro
from cdc_assets_tests.formats.registry_server import running, schema_reply
from cdc_assets_tests.schema.avro_binary import encode

pytestmark = pytest.mark.unit

TEXT = ["null", "string"]
ROW = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "int"}]}


def record(**fields):
    listed = [{"name": name, "type": type_} for name, type_ in fields.items()]
    return {"type": "record", "name": "Record", "namespace": "shop", "fields": listed}


CASES = {
    TopicKind.CHANGES: (
        record(before=["null", ROW], after=["null", "shop.Value"], op="string"),
        {"before": (0, None), "after": (1, {"id": 1}), "op": "c"},
    ),
    TopicKind.HEARTBEATS: (record(ts_ms="long"), {"ts_ms": 5}),
    TopicKind.TRANSACTIONS: (
        record(status="string", id="string", event_count=["null", "long"]),
        {"status": "BEGIN", "id": "5:7", "event_count": (0, None)},
    ),
    TopicKind.MESSAGES: (
        record(op=TEXT, message=record(prefix=TEXT) | {"name": "Message"}),
        {"op": (1, "m"), "message": {"prefix": (1, "p")}},
    ),
    TopicKind.NOTIFICATIONS: (
        record(
            id="string",
            type="string",
            aggregate_type="string",
            additional_data=["null", {"type": "map", "values": TEXT}],
            timestamp="long",
        ),
        {
            "id": "1",
            "type": "COMPLETED",
            "aggregate_type": "Initial Snapshot",
            "additional_data": (1, {"connector_name": (1, "shop")}),
            "timestamp": 5,
        },
    ),
    TopicKind.SCHEMA_CHANGES: (
        record(databaseName=TEXT, ddl=TEXT),
        {"databaseName": (1, "shop"), "ddl": (1, "DROP TABLE x")},
    ),
}


def kind_of(value, *schemas):
    with running() as registry:
        for number, schema in enumerate(schemas, start=1):
            registry.replies[f"/schemas/ids/{number}"] = schema_reply(schema)
        at = datetime(2026, 3, 1, tzinfo=UTC)
        return debezium_avro(registry.url).kind(RawRecord(Coordinate("t", 0, 0), at, None, value))


@pytest.mark.parametrize("kind", CASES)
def test_each_kind_is_told_by_one_record(kind):
    schema, value = CASES[kind]
    assert kind_of(b"\x00\x00\x00\x00\x01" + encode(schema, value), schema) is kind


def test_a_signal_is_no_avro():
    """Whoever sends one writes JSON: the connector reads it without a converter."""
    signal = {"type": "execute-snapshot", "data": {"data-collections": ["public.orders"]}}
    assert kind_of(json.dumps(signal).encode()) is TopicKind.UNREADABLE
