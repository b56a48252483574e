"""What a batch does with a side table that stands elsewhere than the publish says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from cdc_assets.changes.names import LakeName
from cdc_assets.errors import TerminalError
from cdc_assets.lake import Lake, Published
from cdc_assets.lake.carried import Carried, SideMark
from cdc_assets.lake.side import SideSnapshot, SideState, side_name
from cdc_assets.merge.tables.side_table import SideTable

pytestmark = pytest.mark.unit

ORDERS = LakeName("shop_public", "orders")


@dataclass
class OneSideTable:
    """A lake with one side table."""

    state: SideState

    def side(self, name: LakeName) -> SideState | None:
        return self.state if name == self.state.name else None


@dataclass
class Before:
    """The newest publish, as far as a side table looks at it."""

    carried: Carried


def test_a_table_stops_if_somebody_expired_the_snapshot_to_set_the_side_table_back_to() -> None:
    """A failed attempt has appended since. Spark would refuse the snapshot, again and again."""
    left = SideSnapshot(2, "failed", is_compaction=False, rows=5)
    lake = OneSideTable(SideState(side_name(ORDERS), 3, {3: left}, frozenset({3})))
    before = Before(Carried(side=SideMark(2)))
    nothing = cast("SparkSession", None)
    side = SideTable(nothing, "lake", cast("Lake", lake), ORDERS, cast("Published", before))
    with pytest.raises(TerminalError, match=r"snapshot 2 .* gone.*rebuild"):
        side.append(cast("DataFrame", None), "next")
