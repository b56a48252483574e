"""The versions that end nowhere are the rows of the table."""

from __future__ import annotations

import pytest

from cdc_assets.changes.reference import fold
from cdc_assets.changes.reference_history import versions
from cdc_assets_tests.toy import cuts, profiles
from cdc_assets_tests.toy.busy import busy_log
from cdc_assets_tests.toy.connector import changes_of
from cdc_assets_tests.toy.cuts import Merge

pytestmark = pytest.mark.property

SEEDS = range(2000 if profiles.is_soak() else 150)


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
