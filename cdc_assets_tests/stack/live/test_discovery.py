"""What changes in the source while ``dagster dev`` runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from cdc_assets.log.hours import hour_of
from cdc_assets_tests.stack.live.running import SECONDS_TO_APPEAR, Live
from cdc_assets_tests.stack.waiting import until

pytestmark = pytest.mark.stack

ASSET = """
query Asset($key: AssetKeyInput!) {
  assetNodes(assetKeys: [$key]) {
    isMaterializable
    assetMaterializations(limit: 1) { partition }
    assetChecksOrError { ... on AssetChecks { checks { name } } }
    dependencyKeys { path }
  }
}
"""
BACKFILL = """
mutation Backfill($asked: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $asked) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}
"""
PROGRESS = """
query Progress($id: String!) {
  partitionBackfillOrError(backfillId: $id) {
    ... on PartitionBackfill { status runs(limit: 10) { id status tags { key value } } }
  }
}
"""
COUPONS = {"path": ["live", "public", "coupons"]}


def asset(live: Live) -> dict[str, Any] | None:
    found = live.ask(ASSET, key=COUPONS)["assetNodes"]
    return found[0] if found and found[0]["assetMaterializations"] else None


def test_a_table_created_while_dagster_runs_becomes_a_filled_table_and_an_asset(live: Live) -> None:
    process = live.dagster.running
    live.shop.execute(
        "CREATE TABLE coupons (code text PRIMARY KEY, percent numeric(4,2), until date)",
        "INSERT INTO coupons SELECT 'C' || n, n / 4.0, date '2026-01-01' + n "
        "FROM generate_series(1, 60) AS n",
    )
    node = until(
        lambda: asset(live), "the asset appears", within_seconds=SECONDS_TO_APPEAR, every_seconds=1
    )
    assert node["isMaterializable"]
    assert {"path": ["kafka", "live.public.coupons"]} in node["dependencyKeys"]
    checks = {check["name"] for check in node["assetChecksOrError"]["checks"]}
    assert checks == {"offsets_contiguous", "replication_slo"}
    live.wait_until_equal("coupons")

    live.shop.execute("UPDATE coupons SET percent = NULL WHERE code LIKE '%7'")
    live.wait_until_equal("coupons")
    assert live.dagster.running == process
    live.dagster.require_alive()


def test_a_backfill_from_dagster_leaves_content_as_it_is_though_rows_were_deleted_since(
    live: Live,
) -> None:
    hours = {hour_of(each.published_at).key for each in live.shop.publishes("coupons")}
    live.shop.execute("DELETE FROM coupons WHERE code LIKE '%3'")
    live.wait_until_equal("coupons")
    asked = {"assetSelection": [COUPONS], "partitionNames": sorted(hours)}
    launched = live.ask(BACKFILL, asked=asked)["launchPartitionBackfill"]
    assert launched["__typename"] == "LaunchBackfillSuccess", launched

    runs = until(
        lambda: finished(live, launched["backfillId"]),
        "the backfill ends",
        within_seconds=SECONDS_TO_APPEAR,
        every_seconds=1,
    )
    assert [run["status"] for run in runs] == ["SUCCESS"]
    assert {"key": "dagster/backfill", "value": launched["backfillId"]} in runs[0]["tags"]
    assert live.shop.differences("coupons") == []
    live.shop.require_tiled("coupons")
    assert datetime.now(UTC) > live.shop.publishes("coupons")[-1].published_at


def finished(live: Live, backfill: str) -> list[dict[str, Any]]:
    """The runs of a backfill, once it is over."""
    found = live.ask(PROGRESS, id=backfill)["partitionBackfillOrError"]
    assert "FAILED" not in found["status"], found
    return found["runs"] if found["status"] == "COMPLETED_SUCCESS" else []
