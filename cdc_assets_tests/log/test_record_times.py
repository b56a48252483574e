"""Times that no calendar has: a producer may write any number of milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import OffsetSpec

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.retention import FOR_EVER
from cdc_assets.log.hours import hour_of
from cdc_assets.log.kafka import KafkaLog
from cdc_assets_tests.broker import Broker

pytestmark = pytest.mark.unit

MILLIS = {
    "microseconds": 1_767_225_600_000_000,
    "the year 10000": 253_402_300_800_000,
    "the most": 2**63 - 1,
    "the least": -(2**63),
}


@dataclass
class Consumer:
    """A client that finds one record, with this time."""

    millis: int
    is_read: bool = False

    def __getattr__(self, _: str) -> Callable[..., list[Any]]:
        return lambda *_args, **_kwargs: []

    def poll(self, _: float) -> Any:
        if self.is_read:
            return None
        self.is_read = True
        said = {
            "error": None, "topic": "t", "partition": 0, "offset": 0, "key": b"k", "value": b"v",
            "headers": None, "timestamp": (1, self.millis),
        }  # fmt: skip
        return SimpleNamespace(**{name: lambda each=each: each for name, each in said.items()})


@pytest.mark.parametrize("millis", MILLIS.values(), ids=MILLIS.keys())
def test_a_record_of_any_time_is_read(monkeypatch: pytest.MonkeyPatch, millis: int) -> None:
    Broker({"t": 1}).answer_for(monkeypatch)
    monkeypatch.setattr("cdc_assets.log.reader.Consumer", lambda _: Consumer(millis))
    log = KafkaLog({"bootstrap.servers": "kafka:9092"})
    (time,) = log.first_unread({"t": OffsetVector()}).values()
    assert time is not None
    assert hour_of(time).end.tzinfo is UTC
    for age in (FOR_EVER, -FOR_EVER):
        assert time + age  # what is added to it stays within Python's calendar


@pytest.mark.parametrize("at", [datetime(1970, 1, 1, tzinfo=UTC), datetime(8999, 1, 1, tzinfo=UTC)])
def test_an_ordinary_time_stays(monkeypatch: pytest.MonkeyPatch, at: datetime) -> None:
    Broker({"t": 1}).answer_for(monkeypatch)
    millis = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    monkeypatch.setattr("cdc_assets.log.reader.Consumer", lambda _: Consumer(millis))
    log = KafkaLog({"bootstrap.servers": "kafka:9092"})
    assert log.first_unread({"t": OffsetVector()}) == {"t": at}


@pytest.mark.parametrize("millis", [-1, -2, -3, -86_400_000])
def test_before_1970_is_the_logs_beginning(monkeypatch: pytest.MonkeyPatch, millis: int) -> None:
    """Brokers take the first three for the log's end, begin and newest time; others they refuse."""
    specs = list[OffsetSpec]()

    class Asked(Broker):
        def list_offsets(self, asked: Any, **rest: Any) -> Any:
            specs.extend(asked.values())
            return super().list_offsets(asked, **rest)

    Asked({"t": 1}).answer_for(monkeypatch)
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
    KafkaLog({"bootstrap.servers": "kafka:9092"}).offsets_at(["t"], [at])
    assert {*specs} == {OffsetSpec.earliest(), OffsetSpec.latest()}
