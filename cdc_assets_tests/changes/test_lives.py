"""Whatever fails, and whatever comes next, every promise holds; and each rule is needed for that.

A failure prints the line that lives the life again. `make soak` lives 50,000 random ones and
all single faults and pairs of faults on small logs.
"""

from __future__ import annotations

from dataclasses import fields

import pytest

from cdc_assets_tests.model.protocol.effects import Fault, How, Then
from cdc_assets_tests.model.protocol.rules import Protocol
from cdc_assets_tests.toy import soak
from cdc_assets_tests.toy.lives import KINDS, Kind, Lived, some_life
from cdc_assets_tests.toy.profiles import in_soak, is_soak

pytestmark = [pytest.mark.property, pytest.mark.timeout(3600)]

NEEDED: dict[str, Lived] = {
    "side_as_published": Lived(522, "hard", 14, (Fault("append to side table", How.DEATH),)),
    "side_set_back": Lived(138, "keyless", 10, (Fault("append to side table", How.DEATH),)),
    "side_conflicts": Lived(
        800, "keyless", 10, (Fault("append to side table", How.PAUSE, Then.OTHER_WRITER),)
    ),
    "ledger_as_published": Lived(4, "keyless", 10, (Fault(39, How.DEATH),)),
    "repeats_by_event": Lived(260, "keyless", 10),
    "whole_moves": Lived(1431, "hard", 10),
    "looks_after_lost_reply": Lived(0, "keyless", 10, (Fault("publish rows", How.LOST),)),
    "looks_before_publish": Lived(
        65, "keyless", 10, (Fault("write rows", How.PAUSE, Then.OVERTAKEN),)
    ),
    "commits_on_planned_head": Lived(
        0, "hard", 10, (Fault("publish rows", How.PAUSE, Then.OVERTAKEN),)
    ),
    "moves_main_forward_only": Lived(
        27, "keyless", 10, (Fault("fast-forward", How.PAUSE, Then.OVERTAKEN),)
    ),
    "offsets_with_rows": Lived(0, "keyless", 10, (Fault("publish rows", How.DEATH),)),
    "compares_with_table": Lived(70, "hard", 10, (Fault("set column property", How.BEFORE),)),
    "completes_half_made": Lived(274, "hard", 10, (Fault("create table", How.DEATH),)),
    "heeds_early_partitions": Lived(704, "hard", 10),
    "publish_names_missing": Lived(
        70, "hard", 10, (Fault("remove from quarantine", How.DEATH, Then.ROLL_BACK),)
    ),
}
"""For each rule a small life that breaks a promise without it."""

LATE = (
    Lived(16567, "soft", 41, (Fault(50, How.AFTER, Then.QUARANTINE),)),
    Lived(
        47464,
        "soft",
        31,
        (Fault(1, How.LOST, Then.ROLL_BACK), Fault(47, How.DEATH, Then.QUARANTINE)),
    ),
    Lived(47953, "soft", 43, (Fault(80, How.LOST, Then.QUARANTINE),)),
)
"""A record goes to the quarantine, its row is deleted and stays, the configuration is mended, and
then the connector sends the record again: too late for the values of that row."""

SEEN = Lived(41956, "soft", 44, (Fault(71, How.DEATH, Then.ROLL_BACK),))
"""A replay of the quarantine publishes before any batch has taken what moved with a partition that
was added: with another rule the next batch takes a part, and an update without its large values
comes before the delete that it follows."""


def test_random_lives() -> None:
    assert soak.broken(soak.random_lives(50_000 if is_soak() else 300)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_single_fault(kind: Kind) -> None:
    lives = soak.single_faults(kind)
    assert soak.broken(lives if is_soak() else soak.each_once(lives, every=11)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_pair_of_faults(kind: Kind) -> None:
    lives = soak.pairs_of_faults(kind)
    assert soak.broken(lives if is_soak() else soak.each_once(lives, every=211)) == []


@pytest.mark.parametrize("rule", NEEDED)
def test_without_a_rule_a_promise_is_broken(rule: str) -> None:
    life = NEEDED[rule]
    assert life.fault(Protocol(**{rule: False})) is not None
    assert life.fault() is None


@pytest.mark.parametrize("life", LATE)
def test_what_is_sent_again_after_its_row_was_deleted_is_late(life: Lived) -> None:
    published = life.live().world.published()
    assert published.late
    assert published.missing


def test_a_replay_leaves_an_added_partition_to_the_next_batch() -> None:
    table = SEEN.live().world.table
    assert table is not None
    made = [s.published for s in table.snapshots.ancestry(table.snapshots.main) if s.published]
    replays = [
        (before.seen, replay.seen, after.seen)
        for before, replay, after in zip(made[2:], made[1:], made, strict=False)
        if before.offsets == replay.offsets
    ]
    assert (3, 3, 4) in replays


def test_no_rule_is_left_out() -> None:
    assert NEEDED.keys() == {rule.name for rule in fields(Protocol)}


@in_soak
@pytest.mark.parametrize("rule", NEEDED)
def test_random_lives_find_a_broken_rule(rule: str) -> None:
    protocol = Protocol(**{rule: False})
    assert any(some_life(seed).fault(protocol) for seed in range(5000))


def test_a_life_is_lived_the_same_way_again() -> None:
    for seed in range(9):
        assert some_life(seed).live().done == some_life(seed).live().done


def test_the_small_lives_have_nearly_every_effect() -> None:
    done = {name for life in soak.SMALL.values() for name in life.live().done}
    assert done >= {
        "create namespace", "create table", "set identifier fields", "create side table",
        "add column", "set column property", "quarantine", "read quarantine",
        "append to side table", "publish rows", "create branch", "truncate", "write rows",
        "look at branch", "fast-forward", "drop branch", "event", "failure file",
    }  # fmt: skip
