"""What a topic holds, by its records."""

import json
from datetime import UTC, datetime

import pytest

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.formats.debezium.kinds import kind_of_event
from cdc_assets.formats.debezium.notices import read_notice
from cdc_assets.log.kinds import TopicKind, kind_of_topic
from cdc_assets.log.values import RawRecord
from cdc_assets_tests.formats.debezium import debezium_json, debezium_json_with

pytestmark = pytest.mark.unit

CHANGE = {"before": None, "after": {"id": 1}, "source": {"connector": "postgresql"}, "op": "c"}
HEARTBEAT = {"ts_ms": 1760000000000}
NOTIFICATION = {
    "id": "71bcb573-5808-468e-9bbb-4f76ea145413",
    "type": "IN_PROGRESS",
    "aggregate_type": "Initial Snapshot",
    "additional_data": {"connector_name": "shop", "data_collections": "public.orders"},
    "timestamp": 1795356522500,
}
SIGNAL = {"id": "1", "type": "execute-snapshot", "data": {"data-collections": ["public.x"]}}
SAMPLES = {
    TopicKind.CHANGES: [
        CHANGE,
        {"op": "d"},
        {"after": {"id": 1}},
        {"op": "no operation that exists", "source": {}},
        {"op": "t", "source": {}},
        {"id": 1, "name": "flattened", "__op": "c"},
        {"id": 1, "name": "flattened", "__deleted": "false"},
        {"_id": 1, "name": "flattened by MongoDB's", "__deleted": True},
        {"after": '{"_id": 1}', "op": "c", "source": {"connector": "mongodb"}},
    ],
    TopicKind.TRANSACTIONS: [
        {"status": "BEGIN", "id": "571:53", "event_count": None, "data_collections": None},
        {"status": "END", "id": "24dadda4-7b7c-11ee:7", "ts_ms": 1, "event_count": 2},
    ],
    TopicKind.HEARTBEATS: [HEARTBEAT, {"ts_ms": 1, "ts_us": 2, "ts_ns": 3}],
    TopicKind.MESSAGES: [
        {"op": "m", "ts_ms": 1, "source": {}, "message": {"prefix": "foo", "content": "YmFy"}}
    ],
    TopicKind.SCHEMA_CHANGES: [
        {"source": {}, "databaseName": "inventory", "ddl": "CREATE TABLE x", "tableChanges": []},
        {"source": {}, "position": {}, "databaseName": "d", "ddl": "DROP TABLE x"},
    ],
    TopicKind.SIGNALS: [SIGNAL, {"type": "log", "data": {"message": "here"}}],
    TopicKind.NOTIFICATIONS: [
        NOTIFICATION,
        {name: value for name, value in NOTIFICATION.items() if name != "timestamp"},
        NOTIFICATION | {"type": "SKIPPED", "additional_data": None},
    ],
    TopicKind.OTHER: [{}, {"id": 1, "name": "unwrapped"}, {"status": "END"}, {"type": "x"}],
}
KIND = debezium_json().kind
UNREADABLE = [b"", b"no JSON", b"[1]", b"17", b"\x00\x00\x00\x00\x01avro", b"\xff", b"[" * 100_000]


def records(values):
    at = datetime(2026, 3, 1, tzinfo=UTC)
    return [RawRecord(Coordinate("t", 0, n), at, None, value) for n, value in enumerate(values)]


def kind_of(values, kind=KIND):
    return kind_of_topic(records(values), kind)


@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "inline schema"])
@pytest.mark.parametrize(
    ("kind", "event"), [(kind, event) for kind, events in SAMPLES.items() for event in events]
)
def test_each_kind_is_told_by_one_record(kind, event, wrapped):
    value = {"schema": {"type": "struct"}, "payload": event} if wrapped else event
    assert kind_of([None, json.dumps(value).encode()]) is kind


@pytest.mark.parametrize("value", UNREADABLE, ids=lambda value: repr(value[:12]))
def test_what_is_no_json_object_is_nothing_of_ours(value):
    assert kind_of([value]) is TopicKind.UNREADABLE


@pytest.mark.parametrize("odd", [{}, [], {"a": 1}, 1, None])
def test_a_field_of_another_type_makes_it_something_else(odd):
    assert kind_of_event({"status": odd}) is TopicKind.OTHER
    assert kind_of_event({"status": odd, "id": odd, "type": odd}) is TopicKind.OTHER
    assert read_notice({"aggregate_type": "Incremental Snapshot", "type": odd}) is None
    assert read_notice({"aggregate_type": odd, "type": odd}) is None


CLOUD_EVENT = {"specversion": "1.0", "iodebeziumop": "c", "data": {"after": {"id": 1}}}
ROWS = [
    {"id": 1, "name": "unwrapped"},
    {"id": 1, "status": "END", "customer": 7},
    {"id": 1, "type": "x", "data": "{}"},
    {"id": "1", "type": "execute-snapshot", "data": '{"data-collections": ["public.x"]}'},
    {"id": 1, "type": "x", "data": {"of": "a struct"}, "name": "one column more"},
    {"id": 1, "ddl": "CREATE TABLE x"},
]
NO_ROWS = [
    (TopicKind.HEARTBEATS, HEARTBEAT),
    (TopicKind.TRANSACTIONS, SAMPLES[TopicKind.TRANSACTIONS][0]),
    (TopicKind.SCHEMA_CHANGES, SAMPLES[TopicKind.SCHEMA_CHANGES][0]),
    (TopicKind.MESSAGES, SAMPLES[TopicKind.MESSAGES][0]),
    (TopicKind.SIGNALS, SIGNAL),
    (TopicKind.NOTIFICATIONS, NOTIFICATION),
    (TopicKind.OTHER, {}),
]


def test_a_cloud_event_is_a_change():
    assert kind_of([json.dumps(CLOUD_EVENT).encode()]) is TopicKind.CHANGES


@pytest.mark.parametrize("row", ROWS)
def test_flattened_rows_without_added_fields_are_told_by_the_configuration(row):
    declared = debezium_json_with({"flattened": True}).kind
    value = json.dumps(row).encode()
    assert kind_of([value]) is not TopicKind.CHANGES
    assert kind_of([value], declared) is TopicKind.CHANGES


@pytest.mark.parametrize(("kind", "event"), NO_ROWS)
def test_what_is_written_beside_flattened_rows_is_not_one(kind, event):
    declared = debezium_json_with({"flattened": True}).kind
    assert kind_of([json.dumps(event).encode()], declared) is kind


def test_one_change_among_other_things_makes_a_table():
    values = [b"no JSON", json.dumps(HEARTBEAT).encode(), json.dumps(CHANGE).encode()]
    assert kind_of(values) is TopicKind.CHANGES
    assert kind_of(values[1:2] + values[:1]) is TopicKind.HEARTBEATS


def test_a_topic_of_tombstones_says_nothing():
    assert kind_of([None, None]) is TopicKind.EMPTY
