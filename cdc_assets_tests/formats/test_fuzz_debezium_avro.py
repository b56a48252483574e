"""Whatever a record of ``debezium-avro`` holds, it is a change or a rejection."""

from __future__ import annotations

import pytest

from cdc_assets.config import SourceConfig
from cdc_assets.formats.registered import format_of
from cdc_assets_tests.formats import golden_records as golden
from cdc_assets_tests.formats.decoding import Bytes, table_of
from cdc_assets_tests.formats.fuzz import require_told
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.toy.profiles import in_soak

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("table", [pytest.param("public.kinds", marks=in_soak), "public.orders"])
def test_every_record_is_a_change_or_a_rejection(spark: Session, table: str) -> None:
    said = golden.load(golden.AVRO)
    found = golden.messages(said["records"], table)
    good = [Bytes(each.key, each.value) for each in found if each.value is not None]
    with golden.confluent_registry(said["schemas"]) as registry:
        source = {
            "format": "debezium-avro",
            "topics": {"include": [".*"]},
            "schema_registry": {"url": registry.url},
        }
        fmt = format_of(SourceConfig.model_validate(source))
        counts = require_told(spark, fmt, table_of(fmt, good), good, count=300)
    assert counts["rejected"] > 20
    assert sum(counts.values()) - counts["rejected"] - counts["stopped"] > 20
