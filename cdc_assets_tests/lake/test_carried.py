"""The state that goes from batch to batch: written by older and newer versions too."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_assets.changes.missing import MOST, Missing
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.slo import SloWindow
from cdc_assets.errors import TerminalError
from cdc_assets.lake.carried import Carried, SideMark
from cdc_assets.lake.properties import Published

WRITTEN_BY_0_1 = Path(__file__).with_name("published_by_0_1")
CARRIED = Carried(
    applied={0: "0A", 3: "0B"},
    partitions=2,
    partitions_seen=4,
    settles_at=OffsetVector.of({0: 5, 1: 9}),
    settled_at="09",
    key_schemas=(-5, 7),
    snapshot_starts={0: ((-1, 10), (7, 20)), 1: ()},
    max_tombstone="0C",
    max_truncate="0D",
    numbering='{"0":{}}',
    side=SideMark(42),
    read_at="0E",
    read_from=OffsetVector.of({0: 7, 3: 1}),
    own_from=OffsetVector.of({0: 5}),
    missing=Missing(frozenset({(0, 7), (0, 9), (3, 0)})),
)


def document() -> dict[str, Any]:
    return json.loads(CARRIED.to_json())


@pytest.mark.unit
def test_what_is_written_is_read() -> None:
    assert Carried.from_json(CARRIED.to_json()) == CARRIED
    nothing = replace(CARRIED, side=SideMark(None), missing=Missing())
    assert Carried.from_json(nothing.to_json()) == nothing


@pytest.mark.unit
def test_more_missing_records_than_a_snapshot_should_hold_are_not_told() -> None:
    many = Missing(frozenset((0, offset) for offset in range(MOST + 1)))
    assert Carried.from_json(replace(CARRIED, missing=many).to_json()).missing is None


@pytest.mark.unit
def test_a_field_that_an_older_version_did_not_write_takes_its_default() -> None:
    for name in document().keys() - {"needs"}:
        older = document()
        del older[name]
        assert Carried.from_json(json.dumps(older)) == replace(
            CARRIED, **{name: getattr(Carried(), name)}
        )


@pytest.mark.unit
def test_a_field_of_a_newer_version_is_overlooked_unless_it_is_needed() -> None:
    newer = document() | {"colour": "blue"}
    assert Carried.from_json(json.dumps(newer)) == CARRIED
    with pytest.raises(TerminalError, match=r"newer version.*colour.*upgrade"):
        Carried.from_json(json.dumps(newer | {"needs": ["colour", "side"]}))


@pytest.mark.unit
@pytest.mark.parametrize("name", ["keyed", "keyless", "soft"])
def test_a_publish_of_version_0_1_is_read(name: str) -> None:
    summaries = json.loads((WRITTEN_BY_0_1 / f"{name}.json").read_text())["snapshots"]
    published = [Published.from_properties(each) for each in summaries if each]
    assert published
    for each in published:
        assert each.carried.side is None
        assert each.carried.partitions
        assert set(each.carried.applied) <= set(each.offsets.as_dict())
        assert Published.from_properties(each.to_properties()) == each
    assert bool(published[-1].carried.max_tombstone) == (name != "soft")
    if name == "keyed":
        assert published[-1].carried.snapshot_starts == {0: ((-1, 10),), 1: ((-1, 10),)}
        assert published[-1].carried.max_truncate


# ── several tables in one ─────────────────────────────────────────────────────────────────


def published(shard: str, offset: int, before: Published | None) -> Published:
    """A publish of a shard on the head that another left."""
    return Published(
        offsets=OffsetVector.of({0: offset}),
        start=OffsetVector(),
        topic=f"t.{shard}",
        topic_id="id",
        cluster_id="cluster",
        attempt=f"{shard}{offset}",
        run="",
        kind="tail",
        published_at=datetime(2026, 11, 22, tzinfo=UTC),
        carried=replace(CARRIED, max_truncate=f"{offset:02X}"),
        slo=SloWindow(),
        shard=shard,
        others=before.others_than(shard) if before else {},
    )


@pytest.mark.property
@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 99)), min_size=1, max_size=12))
def test_each_publish_says_of_every_shard_what_its_own_newest_said(
    turns: list[tuple[str, int]],
) -> None:
    newest: dict[str, Published] = {}
    head: Published | None = None
    for shard, offset in turns:
        said = published(shard, offset, head).to_properties()
        head = newest[shard] = Published.from_properties(said)
        assert head.to_properties() == said
        for each in "abc":
            found = head.of_shard(each)
            known = newest.get(each)
            assert (found is None) == (known is None)
            if found and known:
                assert replace(found, others={}) == replace(known, others={})
                assert set(found.others) == set(newest) - {each}
    assert head is not None
    assert head.of_shard("") is None


@pytest.mark.unit
@pytest.mark.parametrize(
    "missing",
    [None, Missing(), Missing(frozenset({(1, 5), (1, 6)}))],
    ids=["untold", "none", "two"],
)
def test_a_snapshot_tells_which_records_are_missing(missing: Missing | None) -> None:
    """That none is has to be told from that nobody knows."""
    said = replace(published("", 1, None), carried=replace(CARRIED, missing=missing))
    assert Published.from_properties(said.to_properties()).carried.missing == missing


@pytest.mark.unit
def test_a_table_of_one_source_table_has_no_shards() -> None:
    alone = replace(published("", 1, None), others={})
    assert not [name for name in alone.to_properties() if "shard" in name]
    assert alone.of_shard("") is alone
    assert alone.of_shard("a") is None
    assert json.loads(alone.carried.to_json())["needs"] == []
    (said,) = (v for k, v in published("a", 1, None).to_properties().items() if "carried" in k)
    assert "shards" in json.loads(said)["needs"], "an older version must not overlook them"
