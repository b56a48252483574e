"""Whatever a record of ``debezium-json`` holds, it is a change or a rejection, in all dialects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
    assert sum(counts.values()) - counts["rejected"] > 20
