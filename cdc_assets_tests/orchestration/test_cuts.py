"""The asset that stands for the cuts of a source."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from cdc_assets.lake.cuts import CutSnapshot, StoredCut
from cdc_assets.orchestration.build import build_definitions
from cdc_assets.orchestration.cuts import cut_event
from cdc_assets_tests.configuration import platform, source, write
from cdc_assets_tests.world import registry_of

pytestmark = pytest.mark.slow

AT = datetime(2026, 3, 1, 7, tzinfo=UTC)


def test_a_source_that_takes_cuts_has_an_asset_after_its_tables(tmp_path: Path) -> None:
    often = {"shop": source("shop", consistent={"every": "1m"})}
    config = write(tmp_path / "replication.yaml", platform(sources=often))
    made = build_definitions(config, registry_of(config, "orders", "lines"))
    graph = made.resolve_asset_graph()
    key = dg.AssetKey(["consistent", "shop"])
    parents = {each.path[-1] for each in graph.get(key).parent_keys}
    assert parents == {"orders", "lines"}
    snapshot = CutSnapshot("public", "orders", "shop_public", "orders", "uuid", 7)
    cut = StoredCut(3, "shop.transaction", "9:1", 4, AT, AT, AT, (snapshot,))
    event = cut_event(config, "shop", cut)
    assert event.asset_key == key
    assert event.metadata["cut"].value == 3


def test_a_source_without_cuts_has_none(tmp_path: Path) -> None:
    config = write(tmp_path / "replication.yaml", platform(sources={"shop": source("shop")}))
    made = build_definitions(config, registry_of(config, "orders"))
    keys = made.resolve_asset_graph().get_all_asset_keys()
    assert not [each for each in keys if each.path[0] == "consistent"]
