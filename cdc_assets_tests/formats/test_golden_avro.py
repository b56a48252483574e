"""What Debezium wrote as Avro becomes the rows that its JSON of the same changes becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cdc_assets.errors import TerminalError
from cdc_assets_tests.formats import golden_records as golden
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy.profiles import in_soak

pytestmark = pytest.mark.stack

Make = Callable[..., Pipeline]
TABLES = [
    "public.kinds",
    *(
        pytest.param(f"public.{name}", marks=in_soak)
        for name in ("orders", "large", "customers", "payments", "ended")
    ),
]
WAYS = ["headers_content_id", "headers_global_id"]


def rows(made: Pipeline, table: str, messages: list[Message]) -> list[dict[str, Any]]:
    made.create_topic(table)
    made.produce(table, messages)
    made.merge(table)
    return made.rows(table)


def of_json(pipeline: Make, table: str) -> list[dict[str, Any]]:
    records = golden.load(golden.INLINE)["records"]
    return rows(pipeline(), table, golden.messages(records, table))


@pytest.mark.parametrize("table", TABLES)
def test_avro_becomes_the_rows_of_json(pipeline: Make, table: str) -> None:
    said = golden.load(golden.AVRO)
    with golden.confluent_registry(said["schemas"]) as registry:
        made = pipeline(format="debezium-avro", schema_registry={"url": registry.url})
        found = rows(made, table, golden.messages(said["records"], table))
    assert found == of_json(pipeline, table)


@in_soak
@pytest.mark.parametrize("way", WAYS)
def test_ids_in_headers_are_read(pipeline: Make, way: str) -> None:
    said = golden.load(golden.APICURIO)
    records = golden.messages(said["ways"][way]["records"], "public.orders")
    with golden.apicurio_registry(said["artifacts"]) as url:
        registry = {"url": url, "api": "apicurio"}
        made = pipeline(format="debezium-avro", schema_registry=registry)
        found = rows(made, "public.orders", records)
    assert found == of_json(pipeline, "public.orders")


@in_soak
def test_a_record_that_names_no_schema_stops_the_table_at_its_place(pipeline: Make) -> None:
    said = golden.load(golden.AVRO)
    records = golden.messages(said["records"], "public.orders")
    with golden.confluent_registry(said["schemas"]) as registry:
        made = pipeline(format="debezium-avro", schema_registry={"url": registry.url})
        made.create_topic("public.orders")
        made.produce("public.orders", [*records, Message(b"1", b'{"op":"c"}')])
        with pytest.raises(TerminalError, match="does not begin with 0x00") as caught:
            made.merge("public.orders")
    assert f"offset={len(records)}" in str(caught.value)
