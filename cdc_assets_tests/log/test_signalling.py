"""Signals and notifications are found, also in topics that were made again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from cdc_assets.changes.offsets import Coordinate, OffsetVector
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.notices import Notice, NoticeKind
from cdc_assets.log.reader import Place, Span
from cdc_assets.log.signal_channel import SignalChannel
from cdc_assets.log.signalling import Signalling
from cdc_assets.log.values import RawRecord, Watermarks

pytestmark = pytest.mark.unit

CHANNEL = SignalChannel("shop", "shop", "shop-signal", "shop-notifications")
SENT = datetime(2026, 3, 4, tzinfo=UTC)


class Kept:
    """Topics of one partition, each with the records that it keeps from an offset on."""

    def __init__(self, begin: int, *values: str) -> None:
        self.begin, self.values = begin, values

    def watermarks(self, topics: list[str]) -> dict[str, Watermarks]:
        begin, end = ({0: at} for at in (self.begin, self.begin + len(self.values)))
        return {each: Watermarks(OffsetVector.of(begin), OffsetVector.of(end)) for each in topics}

    def part(self, spans: dict[Place, Span]) -> list[RawRecord]:
        return [
            RawRecord(Coordinate(topic, 0, offset), SENT, None, value.encode())
            for (topic, _), (start, end) in spans.items()
            for offset, value in enumerate(self.values, self.begin)
            if start <= offset and (end is None or offset < end)
        ]


def signalling(kept: Kept) -> Signalling:
    def notice_of(record: RawRecord) -> Notice:
        return Notice(NoticeKind.STARTED, "shop", id=(record.value or b"").decode())

    return Signalling(cast("KafkaLog", kept), dict[str, Any](), CHANNEL, notice_of)


@pytest.mark.parametrize(
    ("since", "found", "is_sent"),
    [
        pytest.param(0, ["a", "b"], True, id="older ones have expired"),
        pytest.param(8, ["b"], False, id="from an offset on"),
        pytest.param(9, [], False, id="nothing new"),
        pytest.param(40, ["a", "b"], True, id="the topic was made again"),
    ],
)
def test_what_came_since_an_offset_is_found(since: int, found: list[str], is_sent: bool) -> None:
    notices, at = signalling(Kept(7, "a", "b")).notices(OffsetVector.of({0: since}))
    assert ([each.id for each in notices], at) == (found, OffsetVector.of({0: 9}))
    signals = signalling(Kept(7, '{"id": "a"}', '{"id": "b"}'))
    assert signals.is_sent("a", since) is is_sent


def test_the_last_notices_before_an_offset_are_found() -> None:
    recent = signalling(Kept(0, *map(str, range(2_000)))).recent(OffsetVector.of({0: 1_500}))
    assert [each.id for each in recent] == [*map(str, range(500, 1_500))]
