"""MongoDB's documents as Avro: refused with the reason, instead of waited for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.formats.sample import Sample
from cdc_assets.log.values import RawRecord
from cdc_assets_tests.formats.debezium import debezium_avro
from cdc_assets_tests.formats.registry_server import running, schema_reply
from cdc_assets_tests.schema.avro_binary import encode

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 1, tzinfo=UTC)
JSON = {"type": "string", "connect.name": "io.debezium.data.Json", "connect.version": 1}
ROW = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "int"}]}


def seen(image: object, value: dict[str, Any]) -> Sample:
    """What one event with such a row image shows."""
    fields = [{"name": "after", "type": ["null", image]}, {"name": "op", "type": "string"}]
    schema = {"type": "record", "name": "Envelope", "fields": fields}
    with running() as registry:
        registry.replies["/schemas/ids/1"] = schema_reply(schema)
        data = b"\x00\x00\x00\x00\x01" + encode(schema, value)
        record = RawRecord(Coordinate("crm.shop.customers", 0, 0), NOW, None, data)
        return debezium_avro(registry.url).look([record], TableName("crm", "shop", "customers"))


@pytest.mark.parametrize(
    ("image", "value"),
    [
        (JSON, {"after": (1, '{"_id": 1}'), "op": "c"}),
        (JSON, {"after": (0, None), "op": "d"}),
        ("string", {"after": (1, '{"_id": 1}'), "op": "c"}),
    ],
    ids=["a create", "a delete", "without connect's names"],
)
def test_documents_are_refused_and_the_format_that_reads_them_is_named(image, value) -> None:
    refusal = seen(image, value).refusal
    assert refusal is not None
    assert "documents" in refusal.what
    assert "debezium-json" in refusal.remedy


def test_rows_are_not_documents() -> None:
    assert seen(ROW, {"after": (1, {"id": 1}), "op": "c"}).refusal is None
