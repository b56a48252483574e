"""What bars the way back, and how a person says where to."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.offsets import Coordinate, OffsetVector
from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.errors import ConfigError
from cdc_assets.lake.carried import Carried, SideMark
from cdc_assets.lake.properties import Published
from cdc_assets.lake.side import SideSnapshot, SideState, side_name
from cdc_assets.log.values import TopicIdentity, Watermarks
from cdc_assets.operations.rewind.goal import Goal, parse_time
from cdc_assets.operations.rewind.history import (
    PublishLine,
    Reachability,
    RewindConditions,
    unrestored,
)
from cdc_assets.registry import TableEntry
from cdc_assets_tests.command import run_command
from cdc_assets_tests.world import write_config

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 4, tzinfo=UTC)
TOPIC = "shop.public.orders"
ENTRY = TableEntry(
    TableName("shop", "public", "orders"), TOPIC, LakeName("shop_public", "orders"), NOW
)
SIDE = side_name(ENTRY.target)


def published(**changed: Any) -> Published:
    said = {
        "offsets": OffsetVector.of({0: 10, 1: 20}), "start": OffsetVector(), "topic": TOPIC,
        "topic_id": "t", "cluster_id": "c", "attempt": "a", "run": "", "kind": "tail",
        "published_at": NOW, "carried": Carried(side=SideMark(7)), "counts": {"quarantined": 0},
    }  # fmt: skip
    return Published(**{**said, **changed})


def side(kept: int) -> SideState:
    """Of a snapshot that is kept, on one that is not."""
    snapshots = {kept: SideSnapshot(None, "b", is_compaction=False, rows=1)}
    return SideState(SIDE, kept, snapshots, frozenset({kept}))


FACTS = RewindConditions(
    entry=ENTRY,
    marks=Watermarks(OffsetVector.of({0: 5, 1: 20}), OffsetVector.of({0: 50, 1: 60})),
    identity=TopicIdentity("c", "t"),
    sides={str(SIDE): side(7)},
    quarantined=frozenset(),
)
NOTHING_LEFT = "records left the quarantine"


def test_nothing_bars_the_way() -> None:
    assert FACTS.obstacle(published(), published(), []) == ""


@pytest.mark.parametrize(
    ("facts", "to", "why"),
    [
        (replace(FACTS, marks=None), {}, "its topic does not exist"),
        (FACTS, {"topic": "shop.public.old"}, "before it was renamed"),
        (FACTS, {"topic_id": "another"}, "another topic or cluster"),
        (FACTS, {"cluster_id": "another"}, "another topic or cluster"),
        (FACTS, {"carried": Carried(side=SideMark(7), generation=1)}, "rebuilt since"),
        (FACTS, {"offsets": OffsetVector.of({0: 4, 1: 20})}, "no longer holds 0:[4,5)"),
        (FACTS, {"offsets": OffsetVector.of({0: 6})}, "no longer holds 1:[0,20)"),
        (FACTS, {"offsets": OffsetVector.of({0: 51, 1: 20})}, "the log ends before 0:51"),
        (FACTS, {"carried": Carried(side=None)}, "an older version published it"),
        (replace(FACTS, sides={}), {}, f"the side table {SIDE} is gone"),
        (replace(FACTS, sides={str(SIDE): side(8)}), {}, "snapshot 7 of the side table"),
        (FACTS, {"counts": {"quarantined": 1}}, NOTHING_LEFT),
    ],
)
def test_each_obstacle_is_named(facts: RewindConditions, to: dict[str, Any], why: str) -> None:
    assert why in facts.obstacle(published(**to), published(), [])


def test_records_in_quarantine_bar_it_only_if_some_may_have_left_it() -> None:
    there = frozenset({Coordinate(TOPIC, 0, 9), Coordinate(TOPIC, 0, 10), Coordinate("x", 0, 1)})
    facts, one = replace(FACTS, quarantined=there), published(counts={"quarantined": 1})
    assert facts.obstacle(one, one, []) == ""
    assert facts.quarantined_since(one.offsets) == 2
    assert NOTHING_LEFT in facts.obstacle(published(), one, [])
    replay = published(kind="replay")
    assert NOTHING_LEFT in facts.obstacle(one, one, [replay]), "one may have left, another come"
    assert FACTS.obstacle(published(), published(), [replay]) == ""


def test_a_table_that_had_no_rows_there_begins_with_its_log() -> None:
    assert "no longer holds 0:[0,5) 1:[0,20)" in FACTS.obstacle(None, published(), [])
    whole = replace(FACTS, marks=Watermarks(OffsetVector.of({0: 0}), OffsetVector.of({0: 9})))
    assert whole.obstacle(None, published(), []) == ""
    assert "another topic" in whole.obstacle(None, published(topic_id="before"), [])


def test_what_the_log_alone_does_not_bring_back_is_named_with_what_does() -> None:
    kinds = [*PublishKind, PublishKind.REPAIR, "of a newer version"]
    found = unrestored([(kind, "") for kind in kinds], {"": "shop.public.orders"})
    words = {each.kind: each.words() for each in found}
    assert words.keys() == {*kinds} - {PublishKind.TAIL}
    assert "2 repairs of shop.public.orders" in words["repair"]
    assert "cdc-assets verify --repair --table shop.public.orders" in words["repair"]
    assert "1 waves of a re-snapshot of shop.public.orders" in words["resnapshot"]
    assert "cdc-assets resnapshot --table shop.public.orders" in words["resnapshot"]
    assert "merge their hours once more" in words["replay"]
    assert "1 publishes of kind of a newer version" in words["of a newer version"]


def test_what_is_taken_back_is_told_for_each_shard() -> None:
    gone = [("repair", "eu"), ("repair", "us"), ("tail", "us"), ("repair", "gone")]
    found = unrestored(gone, {"eu": "shop.eu.orders", "us": "shop.us.orders"})
    assert {each.table for each in found} == {"shop.eu.orders", "shop.us.orders", "shard gone"}


@pytest.mark.parametrize(
    ("standing", "why", "kinds", "words"),
    [
        (Reachability.REACHABLE, "", ["tail"], "can be rewound to"),
        (Reachability.REACHABLE, "", ["tail", "repair", "replay"],
         "can be rewound to: takes back 1 repairs, 1 replays"),
        (Reachability.BARRED, "its topic is gone", [], "cannot be rewound to: its topic is gone"),
    ],
)  # fmt: skip
def test_a_publish_is_listed_with_what_going_back_to_it_takes_back(
    standing: Reachability, why: str, kinds: list[str], words: str
) -> None:
    loses = unrestored([(kind, "") for kind in kinds], {"": "shop.public.orders"})
    line = PublishLine(1, NOW, published(), standing, why, loses=loses)
    assert line.words() == words
    assert [each["kind"] for each in line.to_dict()["loses"]] == sorted({*kinds} - {"tail"})


def test_a_time_without_a_zone_is_utc() -> None:
    assert parse_time("2026-03-01T07:15") == datetime(2026, 3, 1, 7, 15, tzinfo=UTC)
    assert parse_time("2026-03-01T08:15+01:00") == datetime(2026, 3, 1, 7, 15, tzinfo=UTC)


@pytest.mark.parametrize("text", ["yesterday", "0:1,", "before_rewind_9", "1:2:3", "-4"])
def test_what_is_nothing_of_it_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not a snapshot, time, offsets or tag"):
        parse_time(text)


def test_where_to_is_said_once() -> None:
    for wrong in ({}, {"to": "1", "undo": True}):
        with pytest.raises(ConfigError, match="--undo"):
            Goal(**wrong)


@pytest.mark.parametrize(
    "arguments",
    [["orders"], ["orders", "--to", "1", "--undo"], ["orders", "--forget", "--undo"]],
)
def test_bad_usage_exits_with_2(tmp_path: Path, arguments: list[str]) -> None:
    write_config(tmp_path)
    done = run_command(tmp_path, "rewind", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")


@pytest.mark.parametrize("command", [["history", "orders"], ["rewind", "orders", "--undo"]])
def test_a_table_that_is_not_there_is_named(tmp_path: Path, command: list[str]) -> None:
    write_config(tmp_path)
    done = run_command(tmp_path, *command)
    assert done.returncode == 2
    assert "'orders' names no replicated table" in done.stderr
