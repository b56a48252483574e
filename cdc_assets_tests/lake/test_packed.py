"""What a publish stores: little, and all of it."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_assets.changes.latency import OVERFLOW, LatencyHistogram
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.slo import SloTarget, SloWindow
from cdc_assets.errors import TerminalError
from cdc_assets.lake import carried
from cdc_assets.lake.carried import Carried, SideMark
from cdc_assets.lake.packed import PACKED, of_columns, to_columns, unpack
from cdc_assets.lake.properties import OFFSETS, PREFIX, Published

NOW = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)
LSN = 0x15A << 32

NUMBERS = st.integers(0, 2**63 - 1)
PARTITIONS = st.integers(0, 2000)
POSITIONS = st.lists(NUMBERS, min_size=1, max_size=5).map(
    lambda numbers: "".join(f"{number:016X}" for number in numbers)
)
VECTORS = st.dictionaries(PARTITIONS, NUMBERS, max_size=30)
STARTS = st.lists(st.tuples(st.integers(-1, 2**63 - 1), NUMBERS), max_size=3).map(tuple)
WINDOWS = st.dictionaries(
    st.integers(490_000, 500_000),
    st.dictionaries(st.integers(0, OVERFLOW), st.integers(1, 10**9), min_size=1, max_size=20).map(
        LatencyHistogram.from_counts
    ),
    max_size=26,
).map(lambda hours: SloWindow(tuple(sorted(hours.items()))))
PUBLISHED = st.builds(
    Published,
    offsets=VECTORS.map(OffsetVector.of),
    start=VECTORS.map(OffsetVector.of),
    topic=st.text(max_size=9),
    topic_id=st.just("id"),
    cluster_id=st.just("cluster"),
    attempt=st.just("attempt"),
    run=st.text(max_size=9),
    kind=st.sampled_from(["tail", "replay"]),
    published_at=st.just(NOW),
    carried=st.builds(
        Carried,
        applied=st.dictionaries(PARTITIONS, POSITIONS, max_size=30)
        | st.dictionaries(PARTITIONS, st.sampled_from(["0A", "ff", ""]), max_size=3),
        partitions=PARTITIONS,
        partitions_seen=PARTITIONS,
        snapshot_starts=st.dictionaries(PARTITIONS, STARTS, max_size=30),
        max_tombstone=POSITIONS | st.just(""),
        max_truncate=POSITIONS | st.just(""),
        numbering=st.sampled_from(["", '{"0":{}}']),
        side=st.none() | st.builds(SideMark, NUMBERS | st.none(), st.sampled_from(["", "side"])),
        generation=st.integers(0, 3),
        filled=st.sampled_from([(), ("a", "b")]),
        last_merged=st.dictionaries(
            PARTITIONS, st.tuples(NUMBERS, st.integers(0, 2**32 - 1)), max_size=30
        ),
    ),
    slo=WINDOWS,
    valid_through=st.none() | st.just(NOW - timedelta(milliseconds=1)),
)


@cache
def busy_window(over_hours: int, seed: int) -> SloWindow:
    """The latencies of each of these hours."""
    rng = random.Random(seed)
    target, slo = SloTarget(95, 300, over_hours), SloWindow()
    for ago in range(over_hours, -1, -1):
        at = NOW - timedelta(hours=ago)
        spread = (rng.lognormvariate(math.log(6), 0.7) for _ in range(4000))
        many = LatencyHistogram.from_counts(
            {bucket: 90 * count for bucket, count in LatencyHistogram.of(spread).buckets}
        )
        slo = slo.add(at, many).kept(at, target)
    return slo


def busy(partitions: int, over_hours: int, seed: int = 7) -> Published:
    """A table with 100 changes a second, whose latencies are spread over a minute."""
    rng = random.Random(seed)
    end = {partition: rng.randrange(10**9, 2 * 10**9) for partition in range(partitions)}
    slo = busy_window(over_hours, seed)

    def position(partition: int) -> str:
        numbers = (LSN + rng.randrange(10**6), LSN + rng.randrange(10**6), end[partition] - 1)
        return "".join(f"{number:016X}" for number in numbers)

    return Published(
        offsets=OffsetVector.of(end),
        start=OffsetVector.of({p: offset - rng.randrange(200) for p, offset in end.items()}),
        topic="shop.public.order_lines",
        topic_id="uGx3nV4pQkW0mB1sT7yZ9a",
        cluster_id="kHf8sJ2lRzO4pX6cV0bN3w",
        attempt="3f0e2a3c9b7d4c6e8f1a2b3c",
        run="0b7f0f0e-6a52-4b4e-9b1a-6b1f6f0e2a3c",
        kind="tail",
        published_at=NOW,
        carried=Carried(
            applied={partition: position(partition) for partition in end},
            partitions=partitions,
            partitions_seen=partitions,
            snapshot_starts=dict.fromkeys(end, ((-1, LSN),)),
            max_tombstone=position(0),
            side=SideMark(rng.randrange(2**63)),
            last_merged={
                p: (offset - 1, rng.randrange(2**32 if partitions <= 16 else 2**12))
                for p, offset in end.items()
            },
        ),
        counts={"records": 100, "inserted": 20, "updated": 70, "deleted": 10, "rejected": 0,
                "quarantined": 0},
        slo=slo,
        valid_through=NOW,
    )  # fmt: skip


def size(published: Published) -> int:
    return sum(len(name) + len(text) for name, text in published.to_properties().items())


@pytest.mark.slow
@pytest.mark.parametrize("over_hours", [1, 24, 25, 7 * 24])
@pytest.mark.parametrize(("partitions", "below"), [(4, 1_500), (64, 3_500), (1_000, 20_000)])
def test_a_publish_stores_little_whatever_the_window(
    partitions: int, below: int, over_hours: int
) -> None:
    made = busy(partitions, over_hours)
    assert len(made.slo.hours) >= min(over_hours, 14)
    assert size(made) < below


@pytest.mark.unit
def test_offsets_of_few_partitions_can_be_read_as_they_are() -> None:
    few, many = busy(16, 1), busy(17, 1)
    assert few.to_properties()[OFFSETS] == few.offsets.to_json()
    assert json.loads(many.to_properties()[OFFSETS]) == {}
    assert Published.from_properties(many.to_properties()).offsets == many.offsets


@pytest.mark.unit
def test_a_version_that_cannot_unpack_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    said = busy(4, 1).to_properties()
    monkeypatch.setattr(carried, "KNOWN", carried.KNOWN - {PACKED})
    with pytest.raises(TerminalError, match=r"packed.*upgrade"):
        Carried.from_json(said[PREFIX + carried.PROPERTY])


@pytest.mark.unit
def test_what_was_cut_is_refused() -> None:
    said = busy(4, 24).to_properties()
    text = said[PREFIX + PACKED]
    for cut in (text[: len(text) // 2], "", "0" * 9, "\N{SNOWMAN}"):
        with pytest.raises(ValueError):  # noqa: PT011
            Published.from_properties(said | {PREFIX + PACKED: cut})


@pytest.mark.unit
def test_it_can_stand_in_any_text_of_json() -> None:
    text = busy(1_000, 24).to_properties()[PREFIX + PACKED]
    assert text.isascii()
    assert json.dumps(text) == f'"{text}"'
    assert unpack(text)["start"]


@pytest.mark.property
@settings(deadline=None)
@given(PUBLISHED)
def test_all_that_is_written_is_read(published: Published) -> None:
    found = Published.from_properties(published.to_properties())
    assert found == published
    assert found.to_properties() == published.to_properties()


@pytest.mark.property
@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), PUBLISHED, min_size=1))
def test_what_is_said_of_other_shards_is_read(newest: dict[str, Published]) -> None:
    head: Published | None = None
    for shard, each in newest.items():
        others = head.others_than(shard) if head else {}
        said = replace(each, shard=shard, others=others).to_properties()
        head = Published.from_properties(said)
    assert head is not None
    for shard, each in newest.items():
        found = head.of_shard(shard)
        assert found is not None
        assert replace(found, shard="", others={}) == each


@pytest.mark.property
@given(st.dictionaries(PARTITIONS, st.lists(st.integers(), max_size=4), max_size=20))
def test_columns_are_rows(rows: dict[int, list[int]]) -> None:
    assert of_columns(to_columns(rows)) == rows
