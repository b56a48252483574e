"""The state that a publish leaves, which the next batch is planned on without a look."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cdc_assets.changes.names import LakeName
from cdc_assets.lake import Lake
from cdc_assets.lake.branches import BranchState
from cdc_assets_tests.configuration import NOWHERE
from cdc_assets_tests.lake_view import open_catalog
from cdc_assets_tests.world import World

pytestmark = pytest.mark.unit

ORDERS = LakeName("shop_public", "orders")
OWN = re.compile("cdc_.*")


def test_it_is_told_once(tmp_path: Path) -> None:
    """The batch after may publish by a write of Spark's, which this process does not see."""
    world = World(tmp_path, NOWHERE)
    world.publish(ORDERS, {0: 0}, {0: 1})
    lake = Lake(world.config)
    before = lake.state(ORDERS)
    assert before is not None
    assert before.snapshot_id is not None
    assert before.published is not None
    lake.make_branch(ORDERS, "cdc_mine", before.snapshot_id)
    table = open_catalog(world.config).load_table((ORDERS.namespace, ORDERS.name))
    attempt = "of the branch"
    said = before.published.to_properties() | {"cdc-assets.attempt": attempt}
    table.append(table.scan().to_arrow(), snapshot_properties=said, branch="cdc_mine")

    lake.publish(ORDERS, BranchState("cdc_mine", before.snapshot_id, attempt, 1), OWN)
    left = lake.after_publish(ORDERS)
    assert left == Lake(world.config).state(ORDERS)
    world.publish(ORDERS, {0: 1}, {0: 2})
    assert lake.after_publish(ORDERS) is None
