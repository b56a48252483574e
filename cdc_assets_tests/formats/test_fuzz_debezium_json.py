"""Whatever a record of ``debezium-json`` holds, it is a change or a rejection, in all dialects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import Column

from cdc_assets.formats.debezium.json import DebeziumJson
from cdc_assets.formats.spec import ReadSpec
from cdc_assets_tests.formats.debezium import debezium_json_with
from cdc_assets_tests.formats.decoding import Bytes, table_of
from cdc_assets_tests.formats.fuzz import require_told
from cdc_assets_tests.formats.test_golden import bytes_of
from cdc_assets_tests.pipeline import Session

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parent / "golden" / "debezium-json"
DIALECTS = [
    "postgresql-3.6", "bare-inline", "flat", "flat-inline", "flat-without-fields", "cloudevents",
    "cloudevents-inline", "mongodb-3.6", "mongodb-inline-3.6", "mysql-3.6", "oracle-3.6",
    "sqlserver-3.6", "key-text", "key-long",
]  # fmt: skip


@pytest.mark.parametrize("name", DIALECTS)
def test_every_record_is_a_change_or_a_rejection(spark: Session, name: str) -> None:
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    good = [
        Bytes(bytes_of(each.get("key")), bytes_of(each["value"]))
        for each in golden["records"]
        if "reject" not in each["change"]
    ]
    fmt = debezium_json_with(golden.get("connector", {}))
    table = table_of(fmt, good, tuple(golden.get("primary_key", ())))
    counts = require_told(spark, fmt, table, good, count=300)
    assert counts["rejected"] > 20
    assert counts["stopped"] == 0
    assert sum(counts.values()) - counts["rejected"] > 20


class Raising(DebeziumJson):
    """As a reader that is not careful: it raises where there is nothing to read."""

    def document(self, spec: ReadSpec) -> Column:
        from pyspark.sql import functions as F

        found = super().document(spec)
        raised = F.raise_error("no JSON").cast("string")
        is_bad = found.getField("unreadable").isNotNull()
        return F.when(F.when(is_bad, raised).isNull(), found)


def test_the_record_because_of_which_a_reader_raises_is_found(spark: Session) -> None:
    good = [Bytes(b'{"id":1}', b'{"op":"c","after":{"id":1,"n":1},"source":{}}')]
    table = table_of(debezium_json_with({}), good)
    fmt = Raising(debezium_json_with({}).source)
    with pytest.raises(AssertionError, match="raises: Bytes"):
        require_told(spark, fmt, table, good, count=30)
