"""What the first records of YugabyteDB tell, and how their cells are taken off."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cdc_assets.changes.position import Scheme
from cdc_assets.formats.debezium.inline import schema_text
from cdc_assets.formats.layout import Layout
from cdc_assets.formats.spark_hash import spark_hash
from cdc_assets.formats.yugabyte.debezium import has_cells, without_cells
from cdc_assets.log.kinds import TopicKind
from cdc_assets.schema.types import Primitive
from cdc_assets_tests.formats.yugabyte import TABLE, cells, event, record, schema_of, text, yugabyte

KEY = cells({"id": 1})
CREATE = event("c", 1, after={"id": 1, "name": "one", "n": 7})
UPDATE = event("u", 2, after={"id": 1, "name": ..., "n": None})
COLUMNS = {"id": "int32", "name": "string", "n": "int64"}

pytestmark = pytest.mark.unit


def wrapped(payload, schema=None):
    return {"schema": schema or schema_of(COLUMNS), "payload": payload}


def plain(event_):
    """Without cells, as a transformation leaves it."""
    off = {
        name: {column: cell and cell["value"] for column, cell in event_[name].items()}
        for name in ("before", "after")
        if event_[name]
    }
    return {**event_, **off}


def test_a_column_without_a_cell_is_null_for_who_looks_at_values():
    found = json.loads(without_cells(record(KEY, UPDATE)).value)
    assert found["after"] == {"id": 1, "name": None, "n": None}
    assert json.loads(without_cells(record(KEY, UPDATE)).key) == {"id": 1}


def test_a_cell_that_is_not_set_holds_nothing():
    unset = {**CREATE, "after": {"id": {"value": 1, "set": True}, "n": {"value": 9, "set": False}}}
    assert json.loads(without_cells(record(KEY, unset)).value)["after"] == {"id": 1, "n": None}


@pytest.mark.parametrize("value", [b"", b"[]", b"{", b'"a"', b"\xff", None])
def test_what_is_no_object_stays_as_it_is(value):
    raw = replace(record(None, None), key=value, value=value)
    assert without_cells(raw) == raw


@pytest.mark.parametrize("image", [3, "a", [], {"id": 3}, {"id": {"value": 1}}, {"id": {"set": 1}}])
def test_what_is_no_cell_stays_as_it_is(image):
    found = json.loads(without_cells(record(KEY, {**CREATE, "after": image})).value)
    assert found["after"] == image


@pytest.mark.parametrize(
    ("event_", "expected"),
    [
        (CREATE, True),
        (UPDATE, True),
        (plain(CREATE), False),
        (event("d", 3), None),
        (event("u", 3, after={"id": ...}), None),
    ],
    ids=["create", "update", "plain", "no image", "no cell"],
)
def test_cells_are_told_by_the_columns_that_are_there(event_, expected):
    assert has_cells(event_) is expected


def test_types_are_those_of_the_values_inside_the_inline_schema():
    found = yugabyte().look([record(wrapped(KEY, {"fields": []}), wrapped(CREATE))], TABLE)
    assert found.dialect == "cells-inline"
    types = {column.name: column.type for column in found.described.columns}
    expected = [Primitive.INT, Primitive.STRING, Primitive.LONG]
    assert types == dict(zip(COLUMNS, expected, strict=True))


def test_the_key_of_an_inline_schema_is_taken_from_its_columns():
    key_schema = {"type": "struct", "fields": schema_of({"id": "int32"})["fields"][0]["fields"]}
    found = yugabyte().look([record(wrapped(KEY, key_schema), wrapped(CREATE))], TABLE)
    assert found.described.key == ("id",)
    assert found.keys == ({"id": 1},)


def test_without_schemas_rows_and_keys_are_seen_as_values():
    found = yugabyte().look([record(KEY, CREATE), record(KEY, UPDATE)], TABLE)
    assert (found.dialect, found.described) == ("cells", None)
    assert found.rows == ({"id": 1, "name": "one", "n": 7}, {"id": 1, "name": None, "n": None})
    assert found.is_keyed_by(("id",))
    assert found.scheme is Scheme.YUGABYTE


def test_a_column_that_is_called_schema_does_not_make_a_key_one_with_a_schema():
    key = cells({"schema": "a", "payload": "b"})
    assert json.loads(without_cells(record(key, None)).key) == {"schema": "a", "payload": "b"}


def test_rows_of_a_snapshot_have_the_order_of_changes():
    last = "9223372036854775807:9223372036854775807:TEFTVA==:2147483647:9223372036854775807"
    read = event("r", 1, after={"id": 1, "name": "one", "n": 7})
    read["source"]["lsn"] = last
    assert yugabyte().look([record(KEY, read)], TABLE).scheme is Scheme.YUGABYTE


def test_logical_replication_is_ordered_as_postgresql_is():
    change = json.loads(text(CREATE))
    change["source"] |= {"connector": "postgresql", "lsn": 5, "sequence": '["4","5"]'}
    assert yugabyte().look([record(KEY, change)], TABLE).scheme is Scheme.POSTGRES


def test_records_without_cells_have_the_dialects_of_debezium_json():
    fmt = yugabyte()
    assert fmt.look([record({"id": 1}, plain(CREATE))], TABLE).dialect == "bare"
    found = fmt.look([record({"id": 1}, event("d", 1)), record({"id": 1}, plain(CREATE))], TABLE)
    assert found.dialect == "bare"
    assert fmt.look([record({"id": 1}, event("d", 1))], TABLE).dialect == "cells"


def test_cells_of_cassandra_are_told_by_its_connector():
    written = {"value": 1, "deletion_ts": None, "set": True}
    update = {"op": "u", "after": {"id": written}, "source": {"connector": "cassandra"}}
    assert yugabyte().look([record({"id": 1}, update)], TABLE).dialect == "cassandra"


def test_a_record_is_told_by_the_text_of_its_own_schema():
    raw = record(KEY, wrapped(UPDATE))
    found = yugabyte().written(raw, Layout("cells-inline"))
    assert found.number == spark_hash(schema_text(raw.value))
    assert found.described.names == tuple(COLUMNS)


def test_a_schema_that_is_none_of_an_envelope_is_of_no_change():
    fmt = yugabyte()
    for schema in ({"type": "string"}, 3, {"type": "struct", "fields": [{"field": "after"}]}):
        raw = record(KEY, {"schema": schema, "payload": UPDATE})
        assert fmt.written(raw, Layout("cells-inline")) is None


def test_updates_leave_columns_out_unless_the_configuration_says_otherwise():
    assert yugabyte().leaves_out
    assert not yugabyte(record_type="full").leaves_out


def test_a_row_counts_outside_of_the_transaction_of_its_tablet():
    block = {"id": "a", "total_order": 1, "data_collection_order": 1}
    of_grpc = record(KEY, {**CREATE, "transaction": block})
    assert yugabyte().mark(of_grpc, only_partition=True).place is None
    postgres = {**CREATE["source"], "connector": "postgresql", "lsn": 5, "sequence": '["4","5"]'}
    of_slot = record(KEY, {**CREATE, "transaction": block, "source": postgres})
    assert yugabyte().mark(of_slot, only_partition=True).place == 1
    assert yugabyte().mark(record(KEY, None), only_partition=True) is None


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (CREATE, TopicKind.CHANGES),
        (wrapped(CREATE), TopicKind.CHANGES),
        ({"status": "BEGIN", "id": "1"}, TopicKind.TRANSACTIONS),
        ({"ts_ms": 1}, TopicKind.HEARTBEATS),
        (cells({"id": 1}), TopicKind.OTHER),
    ],
    ids=["change", "with schema", "transaction", "heartbeat", "flattened"],
)
def test_kinds(value, kind):
    assert yugabyte().kind(record(None, value)) is kind
