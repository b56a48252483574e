"""What a snapshot says of latencies: until its changes are visible, as far as that is known."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from cdc_assets.effects import Moment, hooked
from cdc_assets.merge import BatchResult, Replicator
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.pipeline import Pipeline

pytestmark = pytest.mark.stack

SLOW_SECONDS = 3.0


def test_what_the_last_publish_took_is_a_part_of_it(pipeline: Callable[..., Pipeline]) -> None:
    world = made(pipeline)
    replicator = Replicator(world.config, world.spark)
    merged(world, replicator, "c", 1)

    def delays(point: str, moment: Moment) -> None:
        if (point, moment) == ("spark: publish rows", Moment.BEFORE):
            time.sleep(SLOW_SECONDS)

    with hooked(delays):
        merged(world, replicator, "u", 2)
    after = merged(world, replicator, "u", 3)
    assert after.latency.count_within(SLOW_SECONDS) == 0
    assert merged(world, replicator, "u", 4).latency.percentile(50) < after.latency.percentile(50)


def made(pipeline: Callable[..., Pipeline]) -> Pipeline:
    world = pipeline(tables={"public.t": {"primary_key": ["id"]}})
    world.create_topic("public.t")
    return world


def merged(world: Pipeline, replicator: Replicator, op: str, lsn: int) -> BatchResult:
    """One change, committed now."""
    now = round(time.time() * 1000)
    world.produce("public.t", [event(op, {"id": 1, "n": lsn}, lsn, commit=lsn - 1, at_ms=now)])
    (done,) = replicator.drain(
        world.entry("public.t"), window=None, run_id="test", budget_seconds=300
    )
    assert isinstance(done, BatchResult)
    return done
