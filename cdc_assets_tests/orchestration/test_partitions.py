"""A freshly found table as its page in Dagster shows it, and backfills as the page starts them.

The webserver's GraphQL and the daemon's backfills, each in this process, with a code server.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import PythonFileTarget
from dagster._daemon.backfill import execute_backfill_iteration
from dagster_graphql.schema import create_schema

from cdc_assets.log.hours import HOUR, HourWindow, first_hour, hour_of
from cdc_assets.operate.services import utc_now
from cdc_assets.orchestration.merge_commands import RANGE_END, RANGE_START
from cdc_assets.registry import HOURS_START, RegistryFile
from cdc_assets_tests.world import registry_of, write_config

pytestmark = pytest.mark.slow

PARTITIONS = """
query Page($keys: [AssetKeyInput!]) {
  assetNodes(assetKeys: $keys) { partitionStats { numPartitions numMaterialized numFailed } }
}
"""
BACKFILL = """
mutation Backfill($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
    ... on PartitionSetNotFoundError { message }
  }
}
"""
ORDERS, ITEMS = (dg.AssetKey(["shop", "public", name]) for name in ("orders", "items"))


@dataclass
class Deployment:
    """A webserver and a daemon without their processes, with a code server of its own."""

    process: WorkspaceProcessContext
    instance: dg.DagsterInstance

    def ask(self, query: str, **variables: object) -> Any:
        context = self.process.create_request_context()
        answer = asyncio.run(
            create_schema().execute_async(query, context_value=context, variable_values=variables)
        )
        assert not answer.errors, answer.errors
        return answer.data

    def missing(self, key: dg.AssetKey) -> int:
        """The partitions that the bar on the asset's page shows as missing."""
        (node,) = self.ask(PARTITIONS, keys=[{"path": key.path}])["assetNodes"]
        stats = node["partitionStats"]
        return stats["numPartitions"] - stats["numMaterialized"] - stats["numFailed"]

    def backfill(self, **params: object) -> list[dg.DagsterRun]:
        """The runs of a backfill that the page has started; they stay queued."""
        said = self.ask(BACKFILL, params=params)["launchPartitionBackfill"]
        assert said["__typename"] == "LaunchBackfillSuccess", said
        errors = [*execute_backfill_iteration(self.process, logging.getLogger("backfill"))]
        assert not any(errors), errors
        tags = {"dagster/backfill": said["backfillId"]}
        return [*self.instance.get_runs(dg.RunsFilter(tags=tags))]


def started(folder: Path, home: Path, first: datetime) -> Iterator[Deployment]:
    config = write_config(folder)
    entries = [replace(e, hours_from=first) for e in registry_of(config, "orders", "items")]
    RegistryFile(config.registry).add(entries)
    code = folder / "location.py"
    code.write_text(
        f"import cdc_assets\ndefs = cdc_assets.build_definitions({str(config.path)!r})\n",
        encoding="utf-8",
    )
    shutil.copytree(home, folder / "home")
    queue = {"module": "dagster.core.run_coordinator", "class": "QueuedRunCoordinator"}
    target = PythonFileTarget(str(code), None, str(folder), "shop")
    with (
        dg.instance_for_test(
            temp_dir=str(folder / "home"), overrides={"run_coordinator": queue}
        ) as instance,
        WorkspaceProcessContext(instance, target) as process,
    ):
        yield Deployment(process, instance)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory, empty_home: Path) -> Iterator[Deployment]:
    """Two tables, found now; their earliest record is three hours old."""
    first = first_hour(utc_now() - 3 * HOUR, utc_now())
    yield from started(tmp_path_factory.mktemp("fresh"), empty_home, first)


def test_a_freshly_found_table_misses_the_hours_since_its_first_record(fresh: Deployment) -> None:
    now = utc_now()
    assert fresh.missing(ORDERS) in {4, 5}, "the hour of the record, and those since"
    for back in range(4):
        hour = hour_of(now - HOUR * back).key
        fresh.instance.report_runless_asset_event(dg.AssetMaterialization(ORDERS, partition=hour))
    assert fresh.missing(ORDERS) in {0, 1}
    assert fresh.missing(ITEMS) in {4, 5}


def test_a_table_without_records_misses_one_hour_and_one_of_2026_thousands(
    tmp_path: Path, empty_home: Path
) -> None:
    """The second is the inverse, and a registry that an earlier version wrote."""
    for first, fewest, most in (
        (first_hour(None, utc_now()), 1, 2),
        (HOURS_START, (utc_now() - HOURS_START) // HOUR, 10**6),
    ):
        folder = tmp_path / str(most)
        folder.mkdir()
        for deployment in started(folder, empty_home, first):
            assert fewest <= deployment.missing(ORDERS) <= most


def test_a_backfill_of_all_hours_is_one_run_over_all_tables(fresh: Deployment) -> None:
    selection = [{"path": key.path} for key in (ORDERS, ITEMS)]
    (run,) = fresh.backfill(assetSelection=selection, allPartitions=True)
    assert run.asset_selection == {ORDERS, ITEMS}
    first, last = (HourWindow.from_key(run.tags[tag]) for tag in (RANGE_START, RANGE_END))
    assert (last.start - first.start) / HOUR in {3, 4}


def test_a_backfill_of_a_range_is_one_run_of_these_hours(fresh: Deployment) -> None:
    now = utc_now()
    hours = [hour_of(now - HOUR * back).key for back in (2, 1)]
    selection = [{"path": key.path} for key in (ORDERS, ITEMS)]
    (run,) = fresh.backfill(assetSelection=selection, partitionNames=hours)
    assert run.asset_selection == {ORDERS, ITEMS}
    assert (run.tags[RANGE_START], run.tags[RANGE_END]) == tuple(hours)
