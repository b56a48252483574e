"""How a table's publishes follow one another, and that it is looked at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.log.values import Watermarks
from cdc_assets.operate.contiguity import Contiguity, outside
from cdc_assets_tests.configuration import NOWHERE
from cdc_assets_tests.faults import faults
from cdc_assets_tests.world import World, entry_of

pytestmark = pytest.mark.unit

LOADS = "lake: load table"


def test_publishes_of_a_head_that_was_looked_at_are_not_read_again(tmp_path: Path) -> None:
    world = World(tmp_path, NOWHERE)
    entry, lake = entry_of("orders", world.config), world.services.lake

    def looked() -> tuple[Contiguity, int]:
        state = lake.state(entry.target)
        with faults() as seen:
            return world.services.contiguities.of(entry, state), seen.seen[LOADS]

    assert looked() == (Contiguity(), 0), "there is no table"
    world.publish(entry.target, {0: 0}, {0: 2})
    world.publish(entry.target, {0: 2}, {0: 4})
    assert looked() == (Contiguity(2), 1)
    assert looked() == (Contiguity(2), 0)
    world.publish(entry.target, {0: 5}, {0: 9})
    found, loads = looked()
    assert (found.publishes, loads) == (3, 1)
    assert ["starts at 5" in each and "ended at 4" in each for each in found.gaps] == [True]


def test_publishes_are_those_of_the_head_that_was_seen(tmp_path: Path) -> None:
    world = World(tmp_path, NOWHERE)
    entry = entry_of("orders", world.config)
    world.publish(entry.target, {0: 0}, {0: 2})
    seen = world.services.lake.state(entry.target)
    world.publish(entry.target, {0: 3}, {0: 4})
    assert world.services.contiguities.of(entry, seen) == Contiguity(1)


@pytest.mark.parametrize(
    ("committed", "words"),
    [
        ({0: 5}, []),
        ({0: 4}, []),
        ({0: 3}, ["offsets [3,4) left the log"]),
        ({0: 8}, []),
        ({0: 9}, ["committed 9 is beyond the log's end 8"]),
    ],
)
def test_committed_offsets_lie_within_the_log(committed: dict[int, int], words: list[str]) -> None:
    marks = Watermarks(OffsetVector.of({0: 4}), OffsetVector.of({0: 8}))
    found = outside(OffsetVector.of(committed), marks)
    assert len(found) == len(words)
    assert all(said in each for said, each in zip(words, found, strict=True))
    assert outside(OffsetVector.of(committed), None) == ["the topic does not exist any more"]
