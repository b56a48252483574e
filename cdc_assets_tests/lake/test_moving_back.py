"""A catalog in a database: one row changes, if nothing else has changed since the look."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cdc_assets.changes.names import LakeName
from cdc_assets.errors import ConflictError
from cdc_assets.lake import Lake
from cdc_assets.lake.moving_back import after, moved_back, next_file
from cdc_assets.lake.past import Past
from cdc_assets_tests.configuration import NOWHERE
from cdc_assets_tests.lake_view import open_catalog
from cdc_assets_tests.world import World

pytestmark = pytest.mark.unit

OWN = re.compile("cdc_[0-9a-f]{32}")
NAME = LakeName("shop_public", "orders")
BRANCH = {"snapshot-id": 3, "type": "branch"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A table of three publishes."""
    made = World(tmp_path, NOWHERE)
    for n in range(3):
        made.publish(NAME, {0: n}, {0: n + 1})
    return made


def look(world: World) -> Past:
    found = Lake(world.config).past(NAME)
    assert found is not None
    return found


def test_a_publish_is_taken_back_until_its_table_goes_forth_again(world: World) -> None:
    lake, past = Lake(world.config), look(world)
    newest, _, oldest = (each.published.attempt for each in past.line)
    assert [lake.is_taken_back(NAME, each) for each in (oldest, newest)] == [False, False]
    assert lake.is_taken_back(NAME, "of the table before"), "nothing of this one has expired"
    assert lake.is_taken_back(LakeName("shop_public", "none"), newest)
    lake.move_back(past, past.line[-1].snapshot, OWN)
    assert [lake.is_taken_back(NAME, each) for each in (oldest, newest)] == [False, True]
    world.publish(NAME, {0: 1}, {0: 2})
    assert lake.is_taken_back(NAME, newest)
    lake.move_back(look(world), past.head, OWN)
    assert not lake.is_taken_back(NAME, newest)


def test_nothing_tells_of_a_publish_that_has_expired(world: World) -> None:
    table = open_catalog(world.config).load_table((NAME.namespace, NAME.name))
    first = look(world).line[-1]
    table.maintenance.expire_snapshots().by_id(first.snapshot).commit()
    lake = Lake(world.config)
    assert not lake.has_attempt(NAME, first.published.attempt)
    assert not lake.is_taken_back(NAME, first.published.attempt)


def test_a_table_goes_back_and_forth(world: World) -> None:
    lake, past = Lake(world.config), look(world)
    newest, _, oldest = past.line
    assert [dict(each.published.offsets) for each in past.line] == [{0: 3}, {0: 2}, {0: 1}]
    lake.move_back(past, oldest.snapshot, OWN)
    now = look(world)
    assert now.head == oldest.snapshot
    assert now.line == (oldest,)
    assert [each.snapshot for each in now.rewound["before_rewind_1"]] == [
        each.snapshot for each in past.line[:2]
    ]
    assert now.since(newest.snapshot) == ()
    state = lake.state(NAME)
    assert state is not None
    assert state.published == oldest.published
    lake.move_back(now, newest.snapshot, OWN)
    assert look(world).line == past.line
    assert look(world).tags == {
        "before_rewind_2": oldest.snapshot,
        "before_rewind_1": newest.snapshot,
    }
    lake.drop_tags(look(world), ("before_rewind_1", "before_rewind_2"))
    assert look(world).tags == {}
    world.publish(NAME, {0: 3}, {0: 4})
    assert len(look(world).line) == 4


def test_what_has_changed_since_the_look_stays_as_it_is(world: World) -> None:
    past = look(world)
    world.publish(NAME, {0: 3}, {0: 4})
    changed = look(world)
    with pytest.raises(ConflictError):
        Lake(world.config).move_back(past, past.line[-1].snapshot, OWN)
    assert look(world).line == changed.line
    assert look(world).tags == {}
    assert not look(world).was_rewound("before_rewind_1", past.head, past.line[-1].snapshot)


def test_branches_of_ours_go_and_others_stay(world: World) -> None:
    past, mine = look(world), f"cdc_{'a' * 32}"
    table = open_catalog(world.config).load_table((NAME.namespace, NAME.name))
    with table.manage_snapshots() as change:
        change.create_branch(past.head, mine).create_branch(past.head, "cdc_of_a_user")
    Lake(world.config).move_back(look(world), past.line[-1].snapshot, OWN)
    refs = Lake(world.config).branches(NAME)
    assert set(refs) == {"main", "cdc_of_a_user", "before_rewind_1"}


def test_only_what_is_moved_changes() -> None:
    document = {
        "format-version": 3, "next-row-id": 7, "last-updated-ms": 100, "current-snapshot-id": 3,
        "snapshot-log": [{"timestamp-ms": 100, "snapshot-id": 3}],
        "refs": {"main": BRANCH | {"min-snapshots-to-keep": 5}, "mine": BRANCH, "theirs": BRANCH},
        "metadata-log": [], "of-a-later-version": {"kept": True},
        "properties": {"write.metadata.previous-versions-max": "1"},
    }  # fmt: skip
    moved = moved_back(document, 1, "before_rewind_1", ("mine",), 200)
    assert moved == document | {
        "current-snapshot-id": 1,
        "snapshot-log": [*document["snapshot-log"], {"timestamp-ms": 200, "snapshot-id": 1}],
        "refs": {
            "main": {"snapshot-id": 1, "type": "branch", "min-snapshots-to-keep": 5},
            "theirs": BRANCH,
            "before_rewind_1": {"snapshot-id": 3, "type": "tag"},
        },
    }
    first, second = after(moved, "a.json"), after(after(moved, "a.json"), "b.json")
    assert first["metadata-log"] == [{"timestamp-ms": 100, "metadata-file": "a.json"}]
    assert second["metadata-log"] == [{"timestamp-ms": 200, "metadata-file": "b.json"}]
    assert first["last-updated-ms"] == second["last-updated-ms"] == 200
    assert after(document, "a.json")["last-updated-ms"] == 100


@pytest.mark.parametrize(
    ("was", "begins"),
    [
        ("s3://lake/t/metadata/00041-6f.gz.metadata.json", "00042-"),
        ("file:/x/00009-a.metadata.json", "00010-"),
        ("file:/x/v7.metadata.json", "00000-"),
    ],
)
def test_files_are_numbered(was: str, begins: str) -> None:
    name = next_file(was)
    assert name.startswith(begins)
    assert name.endswith(".metadata.json")
