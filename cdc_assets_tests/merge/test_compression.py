"""Records are read however their producer has compressed them."""

from __future__ import annotations

import pytest

from cdc_assets.log.kafka import KafkaLog
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE, Make

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EACH = 50


@pytest.mark.stack
def test_every_codec_of_kafka_is_read_by_spark_and_by_the_client(pipeline: Make) -> None:
    made = pipeline()
    # The broker keeps what producers have chosen.
    made.create_topic(TABLE, **{"compression.type": "producer"})
    expected = {}
    for number, codec in enumerate(CODECS):
        rows = [{"id": number * EACH + n, "name": f"{codec} " * 20, "n": n} for n in range(EACH)]
        expected |= {row["id"]: row for row in rows}
        events = [event("c", row, 10 + n, commit=9) for n, row in enumerate(rows)]
        made.produce_as(TABLE, events, compression_type=codec, linger_ms="100")
    made.merge(TABLE)
    assert made.by_key(TABLE) == expected
    sample = KafkaLog(made.config.kafka.librdkafka()).sample(made.topic(TABLE), 1000)
    assert [each.coordinate.offset for each in sample] == list(range(EACH * len(CODECS)))
    assert all(b'"op":"c"' in (each.value or b"") for each in sample)
