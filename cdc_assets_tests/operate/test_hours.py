from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.log.hours import HourWindow
from cdc_assets.operate.hours import hours_to_read
from cdc_assets_tests.world import NOW, World

pytestmark = pytest.mark.stack

HOUR = timedelta(hours=1)


def hour_to_read(world: World, topic: str, *offsets: int) -> HourWindow:
    position = OffsetVector.of(dict(enumerate(offsets)))
    return hours_to_read(world.services.log, {topic: position}, NOW)[topic]


def test_reading_hour_by_hour_always_gets_on_and_reads_everything(world: World) -> None:
    """Whatever order the timestamps are in, also before the first hour and in the future."""
    rng = random.Random(7)
    topic = world.topic("orders", partitions=2)
    for partition in (0, 1):
        world.produce(topic, times(rng, 40), partition)
    end = world.services.log.watermarks([topic])[topic].end
    position, hours = OffsetVector(), []

    while position.ranges_to(end):
        hour = hours_to_read(world.services.log, {topic: position}, NOW)[topic]
        current = hour.start <= NOW < hour.end
        cut = (
            end if current else world.services.log.offsets_at([topic], [hour.end])[topic, hour.end]
        )
        assert position.ranges_to(cut), f"no headway in {hour} at {position}"
        position = position.merged_max(cut)
        hours.append(hour)

    assert hours == sorted(set(hours))


def times(rng: random.Random, count: int) -> Sequence[datetime]:
    around = [NOW + HOUR * rng.uniform(-90, 3) for _ in range(count)]
    ancient = [datetime(2020, 1, 1, tzinfo=NOW.tzinfo)]
    return [*ancient, *around]


def test_months_without_records_are_skipped_at_once(world: World) -> None:
    topic = world.topic("orders")
    world.produce(topic, [NOW - 60 * 24 * HOUR, NOW - 5 * HOUR])

    assert hour_to_read(world, topic, 0).key == "2026-01-03-12:00"
    assert hour_to_read(world, topic, 1).key == "2026-03-04-07:00"
