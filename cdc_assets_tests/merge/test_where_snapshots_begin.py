"""Publishes record where snapshots began in each partition, however that is learned."""

from __future__ import annotations

import pytest

from cdc_assets.changes.position import LowWatermarks
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

FIRST, SECOND = 890_000, 990_000


def read(id_: int, partition: int, lsn: int = FIRST) -> Message:
    return event("r", {"id": id_, "name": "read"}, lsn, partition=partition)


def made(id_: int, partition: int) -> Message:
    row = {"id": id_, "name": "made"}
    return event("c", row, 880_000 + id_, commit=870_000, partition=partition)


def begun(table: Pipeline) -> LowWatermarks:
    published = table.lake.history(table.entry(TABLE).target, 1)[0]
    starts = published.carried.snapshot_starts
    return {p: tuple((offset, lsn) for offset, lsn in each) for p, each in starts.items()}


@pytest.mark.parametrize(
    ("log", "starts"),
    [
        ([read(1, 0), read(2, 1)], {0: ((0, FIRST),), 1: ((0, FIRST),)}),
        ([read(1, 0), made(3, 1), read(2, 1)], {0: ((0, FIRST),), 1: ((1, FIRST),)}),
        pytest.param([read(1, 0), made(3, 1)], {0: ((0, FIRST),), 1: ()}, marks=profiles.in_soak),
        pytest.param(
            [read(1, 0), read(2, 1), read(1, 0, SECOND), read(2, 1, SECOND)],
            dict.fromkeys((0, 1), ((0, FIRST), (1, SECOND))),
            marks=profiles.in_soak,
        ),
    ],
    ids=["at once", "behind a change", "not there yet", "two in one batch"],
)
def test_in_the_first_batch(pipeline: Make, log: list[Message], starts: LowWatermarks) -> None:
    assert begun(start(pipeline, *log, partitions=2)) == starts


@profiles.in_soak
def test_in_later_batches(pipeline: Make) -> None:
    table = start(pipeline, read(1, 0), made(3, 1), partitions=2)
    table.produce(TABLE, [read(2, 1), read(3, 0)])
    table.merge(TABLE)
    assert begun(table) == {0: ((0, FIRST),), 1: ((1, FIRST),)}
    table.produce(TABLE, [read(1, 0, SECOND), read(2, 1, SECOND)])
    table.merge(TABLE)
    assert begun(table) == {0: ((0, FIRST), (2, SECOND)), 1: ((1, FIRST), (2, SECOND))}
