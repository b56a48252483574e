"""A topic that does not exist any more is named by whatever looks for a place in it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.errors import LostRangeError
from cdc_assets.log.hours import HourWindow
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.merge.intake.planning.topics import Topics
from cdc_assets.registry import TableEntry
from cdc_assets_tests.configuration import NOWHERE

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
ENTRY = TableEntry(TableName("s", "public", "t"), "s.public.t", LakeName("n", "t"), NOW)


@pytest.mark.parametrize(
    "look",
    [
        lambda topics: topics.in_hour(ENTRY, HourWindow.starting(NOW)),
        lambda topics: topics.offsets_at(ENTRY, NOW),
        lambda topics: topics.marks(ENTRY),
    ],
    ids=["hour", "time", "bounds"],
)
def test_it_is_said_that_it_does_not_exist(
    look: Callable[[Topics], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KafkaLog, "window_offsets", lambda *_: {})
    monkeypatch.setattr(KafkaLog, "offsets_at", lambda *_: {})
    monkeypatch.setattr(KafkaLog, "settled_watermarks", lambda *_: None)
    topics = Topics(KafkaLog({"bootstrap.servers": NOWHERE}), lambda _: False)
    with pytest.raises(LostRangeError, match=r"does not exist any more.*topic=s\.public\.t"):
        look(topics)
