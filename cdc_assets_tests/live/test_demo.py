"""The running demo: a new table appears by itself, and the UI shows what it should.

With ``CDC_ASSETS_SCREENSHOTS=DIR`` the pictures of the documentation are written there.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import psycopg
import pytest
import requests
from cdc_assets_devstack.demo import Demo
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.shop.database import TABLES
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.changes.names import LakeName
from cdc_assets.config import ReplicationConfig
from cdc_assets_tests import waiting
from cdc_assets_tests.command import run_command
from cdc_assets_tests.lake_view import read_rows
from cdc_assets_tests.live.runs_of import runs_of
from cdc_assets_tests.processes import LOOPBACK, listened_at
from cdc_assets_tests.stack.oracle import difference
from cdc_assets_tests.stack.postgres_side import PostgresSide
from cdc_assets_tests.toy import profiles

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

PATIENCE_SECONDS = 300
ORDERS = dg.AssetKey(["shop", "public", "orders"])
CHECKOUT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


until = partial(waiting.until, within_seconds=PATIENCE_SECONDS, every_seconds=0.5)


@pytest.fixture(scope="module")
def demo(stack_config: ReplicationConfig, stack: LocalStack) -> Iterator[Demo]:
    """The demo on the tests' stack; only what it adds is stopped at the end."""
    assert stack_config.path is not None
    shutil.copy(CHECKOUT / "dagster.yaml", stack_config.path.with_name("dagster.yaml"))
    running = Demo(stack_config, rate=10, port=pick_free_ports().connect)
    running.start()
    yield running
    for part in (running.load, running.dagster):
        part.stop()
    stack.connect.unregister("shop")


def graphql(demo: Demo, query: str) -> dict[str, Any]:
    answer = requests.post(f"{demo.dagster.url}/graphql", json={"query": query}, timeout=30)
    answer.raise_for_status()
    return answer.json()["data"]


def asset_keys(demo: Demo) -> set[tuple[str, ...]]:
    nodes = graphql(demo, "{assetNodes {assetKey {path}}}")["assetNodes"]
    return {tuple(node["assetKey"]["path"]) for node in nodes}


def lake_rows(config: ReplicationConfig, table: str) -> list[dict[str, object]]:
    return read_rows(config, LakeName("shop_public", table))


def test_a_table_made_while_dagster_runs_becomes_a_filled_asset(
    demo: Demo, stack_config: ReplicationConfig
) -> None:
    until(lambda: ("shop", "public", "orders") in asset_keys(demo), "the shop's assets are there")
    with psycopg.connect(demo.stack.postgres.dsn("shop"), autocommit=True) as database:
        database.execute("CREATE TABLE late_comer (id int PRIMARY KEY, word text)")
        database.execute("INSERT INTO late_comer VALUES (1, 'one'), (2, 'two')")
        database.execute("UPDATE late_comer SET word = 'three' WHERE id = 2")
    until(lambda: ("shop", "public", "late_comer") in asset_keys(demo), "its asset is there")
    rows = until(lambda: lake_rows(stack_config, "late_comer"), "its rows are there")
    until(
        lambda: (
            {r["id"]: r["word"] for r in lake_rows(stack_config, "late_comer")}
            == {1: "one", 2: "three"}
        ),
        f"its rows are those of the source; at first {len(rows)}",
    )


def test_dagster_listens_on_the_loopback_interface_only(demo: Demo) -> None:
    """Its webserver, its daemon and its code server: nobody elsewhere reaches any of them."""
    dagster = demo.dagster.running
    assert dagster is not None
    listening = listened_at(dagster.pid)
    assert ("127.0.0.1", demo.dagster.port) in listening
    assert [each for each in listening if each[0] not in LOOPBACK] == []


STARTS = 180
"""Seconds within which a run has started, or ended: several processes, on a busy machine."""
OVER = frozenset({
    dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED,
})  # fmt: skip


def test_a_run_stays_and_whatever_ends_it_loses_nothing(
    demo: Demo, stack_config: ReplicationConfig
) -> None:
    """Killed, and stopped by a person, while the load goes on."""
    with runs_of(demo.stack.layout.data("dagster")) as runs:

        def staying() -> str | None:
            return runs.staying(ORDERS)

        def killed() -> bool:
            """Kills the run that stays; it may have come to its own end in that very moment."""
            run = until(staying, "a run stays", within_seconds=STARTS)
            with suppress(ProcessLookupError):
                os.kill(runs.pid(run), signal.SIGKILL)
            again = "another run stays after a kill"
            until(lambda: another(staying(), run), again, within_seconds=STARTS)
            return runs.status(run) is not dg.DagsterRunStatus.SUCCESS

        until(killed, "a run is killed", within_seconds=STARTS)

        def stopped() -> bool:
            """Stops the run that stays; it may come to its own end in that very moment."""
            run = until(staying, "a run stays", within_seconds=STARTS)
            graphql(demo, f'mutation {{terminateRun(runId: "{run}") {{__typename}}}}')
            until(lambda: runs.status(run) in OVER, "it is over", within_seconds=STARTS)
            return runs.status(run) is dg.DagsterRunStatus.CANCELED

        until(stopped, "a run is stopped", within_seconds=STARTS)
        again = "another run stays after it was stopped"
        until(staying, again, within_seconds=STARTS)
    demo.load.stop()
    try:
        until(lambda: differing(demo, stack_config) == [], "each table equals its source")
    finally:
        demo.load.bring_up(lambda _: None)


def another(run: str | None, than: str) -> str | None:
    return run if run != than else None


def differing(demo: Demo, config: ReplicationConfig) -> list[str]:
    side = PostgresSide(demo.stack.postgres.dsn("shop"))
    found = (difference(side.table(each), config, LakeName("shop_public", each)) for each in TABLES)
    return [each for each in found if each]


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_the_asset_page_shows_the_partition_the_check_and_the_plots(
    demo: Demo, stack_config: ReplicationConfig, tmp_path: Path
) -> None:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    pictures = Path(os.environ.get("CDC_ASSETS_SCREENSHOTS", tmp_path))
    until(lambda: lake_rows(stack_config, "orders"), "the table was merged")
    until(lambda: has_check(demo), "the check was evaluated")
    with opened(sync_api) as page:
        asset = f"{demo.dagster.url}/assets/shop/public/orders"

        page.goto(f"{asset}?view=partitions")
        day = time.strftime("%Y-%m-%d", time.gmtime())
        page.get_by_text(day).first.wait_for()

        page.goto(f"{asset}?view=checks&checkDetail=replication_slo")
        page.get_by_text("percent_within").first.click()
        page.screenshot(path=pictures / "check.png")

        page.goto(f"{asset}?view=overview")
        page.get_by_role("button", name="Plots").first.click()
        page.locator("canvas").first.wait_for()
        page.screenshot(path=pictures / "asset.png")

        page.goto(f"{asset}?view=lineage")
        page.get_by_text("orders").first.wait_for()
        page.wait_for_load_state("networkidle")
        page.screenshot(path=pictures / "asset-graph.png")


@contextmanager
def opened(sync_api: Any) -> Iterator[Any]:
    """A page of a browser."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(60_000)
        welcome = page.get_by_role("button", name="Skip")
        page.add_locator_handler(welcome, lambda button: button.click())
        yield page
        browser.close()


@profiles.in_soak
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_table_that_stops_says_why_on_its_page(
    demo: Demo, stack_config: ReplicationConfig, tmp_path: Path
) -> None:
    """The last one: the table stays as it is."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    pictures = Path(os.environ.get("CDC_ASSETS_SCREENSHOTS", tmp_path))
    until(lambda: lake_rows(stack_config, "inventory"), "the table was merged")
    with psycopg.connect(demo.stack.postgres.dsn("shop"), autocommit=True) as database:
        database.execute("ALTER TABLE inventory ALTER COLUMN on_hand TYPE text")
        database.execute("UPDATE inventory SET on_hand = 'twelve' WHERE product_id = 1")

    def said() -> str:
        return run_command(tmp_path, "status", config=stack_config.path).stdout

    until(lambda: "FAILING" in said(), "the table has stopped")
    with opened(sync_api) as page:
        page.goto(f"{demo.dagster.url}/assets/shop/public/inventory?view=checks")
        page.get_by_text("schema_in_sync").first.click()
        page.get_by_text("on_hand").first.wait_for()
        page.screenshot(path=pictures / "failing.png")


def has_check(demo: Demo) -> bool:
    query = """{assetNodeOrError(assetKey: {path: ["shop", "public", "orders"]}) {... on AssetNode {
        assetChecksOrError {... on AssetChecks {checks {name
        executionForLatestMaterialization {status}}}}}}}"""
    checks = graphql(demo, query)["assetNodeOrError"]["assetChecksOrError"]["checks"]
    return any(
        c["name"] == "replication_slo" and c["executionForLatestMaterialization"] for c in checks
    )
