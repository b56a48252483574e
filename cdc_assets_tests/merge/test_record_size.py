"""Large records are merged, and those above the bound are refused before anything parses them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cdc_assets.errors import RejectedRecordError
from cdc_assets.lake.quarantined import QuarantineLake
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.kinds import TopicKind
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

MEGA = 1_000_000
MOST = 24 * MEGA
TOPIC = {"max.message.bytes": str(64 * MEGA)}
CLIENT = {"message_max_bytes": str(64 * MEGA)}


def row(id_: int, size: int) -> dict[str, Any]:
    """Of so many bytes, in two columns."""
    return {"id": id_, "one": "x" * (size // 2), "other": "ü" * (size // 4)}


def created(id_: int, size: int) -> Message:
    """``ü`` takes six bytes in the record and two in the lake."""
    message = event("c", row(id_, size), 10 * id_, commit=10 * id_ - 1)
    assert message.value is not None
    return replace(message, value=message.value.replace(b"\\u00fc", "ü".encode()))


def of_size(pipeline: Make, *messages: Message, **source: Any) -> Pipeline:
    made = pipeline(batch={"max_record_bytes": MOST}, **source)
    made.create_topic(TABLE, **TOPIC)
    made.produce_as(TABLE, messages, **CLIENT)
    return made


@profiles.in_soak
def test_records_of_megabytes_are_merged_up_to_the_bound(pipeline: Make) -> None:
    sizes = {1: MEGA, 2: 20 * MEGA, 3: 10}
    made = of_size(pipeline, *(created(*each) for each in sizes.items()))
    made.merge(TABLE)
    assert made.by_key(TABLE) == {id_: row(id_, size) for id_, size in sizes.items()}
    made.produce(TABLE, [created(4, 26 * MEGA)])
    expected = r"max_record_bytes\).*partition=0 offset=3"
    with pytest.raises(RejectedRecordError, match=expected) as stopped:
        made.merge(TABLE)
    assert stopped.value.page == "record-too-large"
    assert set(made.by_key(TABLE)) == set(sizes)


@profiles.in_soak
def test_what_is_too_large_is_kept_and_merged_once_the_bound_is_raised(pipeline: Make) -> None:
    large, small = created(1, 9_000), created(2, 10)
    most = {"batch": {"max_record_bytes": 5_000}}
    made = start(pipeline, large, small, bad_records="quarantine", **most)
    assert made.by_key(TABLE) == {2: row(2, 10)}

    size = len(large.value or b"") + len(large.key or b"")
    (kept,), total = QuarantineLake(made.config).quarantined(made.prefix, TABLE, 10)
    assert (total, kept.coordinate.offset) == (1, 0)
    assert kept.reason == f"the record has {size} bytes, more than 5000 (batch.max_record_bytes)"

    entry = made.entry(TABLE)
    again = made.replicator().replay_quarantined(entry, None, run_id="still")
    assert again is not None
    assert [reason for _, reason in again.rejected] == [kept.reason]
    raised = replace(made, source={"batch": {"max_record_bytes": 20_000}})
    done = raised.replicator().replay_quarantined(entry, None, run_id="raised")
    assert done is not None
    assert len(done.merged) == 1
    assert made.by_key(TABLE) == {1: row(1, 9_000), 2: row(2, 10)}, "from the bytes kept"


def test_where_few_records_are_read_those_that_are_too_large_say_nothing(pipeline: Make) -> None:
    made = of_size(pipeline, created(1, 26 * MEGA), created(2, 20 * MEGA))
    topic, conf = made.topic(TABLE), made.config.kafka.librdkafka()
    log = KafkaLog(conf, largest=made.config.max_record_bytes)
    large, small = log.sample(topic, 10)
    assert (large.key, large.value) == (b'{"id": 1}', b"")
    assert len(small.value or b"") > 20 * MEGA
    (first,) = log.edges([topic])[topic][:1]
    assert first.value == b""
    seen: list[int] = []

    def kind(record: object) -> TopicKind:
        seen.append(len(getattr(record, "value", b"")))
        return TopicKind.UNREADABLE

    log.kinds([topic], kind)
    assert max(seen) < MOST
