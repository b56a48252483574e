"""SQL that reads the tables of a cut: no view takes another one's place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cdc_assets.errors import ConfigError
from cdc_assets.lake.cuts import ConsistentTables, CutSnapshot, StoredCut
from cdc_assets.operate.consistent_command import statements
from cdc_assets_tests.world import NOW

pytestmark = pytest.mark.unit

ORDERS = CutSnapshot("public", "orders", "shop_public", "orders", "u", 7)


def printed(tables: Sequence[CutSnapshot], views: str | None) -> list[str]:
    cut = StoredCut(1, "t", "9:1", 3, NOW, NOW, NOW, tuple(tables))
    return [*statements(ConsistentTables(cut, {}), "lake", "spark", views)][1:]


def test_tables_of_one_name_in_two_schemas_get_clauses_but_no_common_view() -> None:
    others = [replace(ORDERS, schema="sales", lake_namespace="shop_sales"),
              replace(ORDERS, lake_namespace="shop_sales", lake_table="Orders")]  # fmt: skip
    for other in others:
        assert len(printed([ORDERS, other], None)) == 2
        with pytest.raises(ConfigError, match=r"shop_public\.orders and shop_sales"):
            printed([ORDERS, other], "at")


def test_tables_that_are_merged_into_one_share_its_view() -> None:
    shard = replace(ORDERS, schema="eu")
    assert len(set(printed([ORDERS, shard], "at"))) == 1
