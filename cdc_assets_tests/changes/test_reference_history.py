"""Histories batch by batch are what their whole log makes; without a rule they are not."""

from __future__ import annotations

import pytest

from cdc_assets_tests.model.history import Keeper, Rules, Version, told, versions
from cdc_assets_tests.model.reference import fold
from cdc_assets_tests.toy import cuts, profiles
from cdc_assets_tests.toy.actions import Log
from cdc_assets_tests.toy.busy import busy_log
from cdc_assets_tests.toy.connector import changes_of
from cdc_assets_tests.toy.cuts import Merge

pytestmark = pytest.mark.property

SEEDS = range(2000 if profiles.is_soak() else 200)
Said = tuple[object, ...]


@pytest.mark.parametrize("moves", [False, True], ids=["whole", "moves"])
def test_current_versions_are_the_fold(moves: bool) -> None:
    past = 0
    for seed in SEEDS:
        log = busy_log(seed, moves=moves)
        for step in log.steps:
            if isinstance(step, Merge):
                changes = changes_of(cuts.between(log.records, {}, step.to))
                made = versions(changes)
                current = {each.key: each.values for each in made if each.ended is None}
                rows = {key: image.values for key, image in fold(changes, log.shape).items()}
                assert current == rows, f"seed {seed}:\n{log.describe()}"
                past += len(made) - len(current)
    assert past > len(SEEDS)


@pytest.mark.parametrize("moves", [False, True], ids=["whole", "moves"])
def test_batch_by_batch_they_are_the_same(moves: bool) -> None:
    for seed in SEEDS:
        log = busy_log(seed, moves=moves)
        assert fault(log, Rules()) is None, f"seed {seed}:\n{log.describe()}"


NAIVE = {
    "repeats are changes": Rules(tell_repeats=False),
    "nothing comes late": Rules(look_back=False),
    "what is left alone is empty": Rules(carry=False),
    "a row that is read again tells nothing": Rules(note_readings=False),
    "what ends nothing is forgotten": Rules(remember_ends=False),
}


@pytest.mark.parametrize("rule", NAIVE)
def test_each_rule_is_needed(rule: str) -> None:
    found = [seed for seed in range(300) if fault(busy_log(seed), NAIVE[rule]) is not None]
    assert found, "no log tells"


def fault(log: Log, rules: Rules) -> int | None:
    """The first step after which the versions are others than the log's; None if none is."""
    keeper, there = Keeper(rules), {}
    for number, step in enumerate(log.steps):
        if isinstance(step, Merge):
            records, there = cuts.between(log.records, there, step.to), step.to
        else:
            records = cuts.again(log.records, step)
        keeper = keeper.apply(changes_of(records))
        expected = versions(changes_of(cuts.between(log.records, {}, there)))
        if sorted(map(said, keeper.versions), key=str) != sorted(map(said, expected), key=str):
            return number
    return None


def said(version: Version) -> Said:
    """All that a row says, but for the time."""
    ended = version.ended
    return (
        version.key, tuple(sorted(version.values.items())), told(version.made),
        told(ended) if ended else None, tuple(sorted(version.unset)),
        tuple(sorted(str(told(each)) for each in version.read_again)),
    )  # fmt: skip
