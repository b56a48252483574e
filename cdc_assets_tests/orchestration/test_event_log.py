"""Dagster's event log stays bounded, and keeps what Dagster shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as db
from dagster._core.instance.utils import RUNLESS_RUN_ID
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    SqlEventLogStorageTable,
)

from cdc_assets.log.hours import hour_of
from cdc_assets.orchestration.event_log import prune_events, remove_files_of_deleted_runs
from cdc_assets.orchestration.housekeeping import Retention, housekeeping_job, prune, pruned_assets
from cdc_assets.orchestration.keys import (
    CHECK_MATCHES,
    TAG_MODE,
    consistent_key,
    table_key,
)
from cdc_assets_tests.configuration import platform, source, write
from cdc_assets_tests.operate.statuses import table_status
from cdc_assets_tests.orchestration.event_logs import an_hour, evaluated, made, verdicts_of
from cdc_assets_tests.world import NOW, registry_of, write_config

HOUR = timedelta(hours=1)
WEEK = timedelta(days=7)
MANY = 100_000


def rows(instance: dg.DagsterInstance, table: Any, run: str | None = None) -> int:
    storage: Any = instance.event_log_storage
    wanted = db.select(db.func.count()).select_from(table)
    connect = storage.index_connection if run is None else lambda: storage.run_connection(run)
    with connect() as connection:
        return connection.execute(wanted).scalar()


def fill(instance: dg.DagsterInstance, folder: Path, hours: int) -> list[dg.AssetCheckKey]:
    """So many hours of one idle table, up to now."""
    config = write_config(folder)
    registry = registry_of(config, "orders")
    (entry,) = registry
    key = table_key(config, entry)
    status = table_status(folder)
    for hour in range(hours):
        for event in an_hour(status, key, NOW - HOUR * (hours - 1 - hour)):
            instance.event_log_storage.store_event(event)
    assets = pruned_assets(config, registry)
    return [dg.AssetCheckKey(asset, name) for asset, names in assets.items() for name in names]


def prune_all(
    instance: dg.DagsterInstance,
    checks: list[dg.AssetCheckKey],
    at: datetime,
    at_most: int = MANY,
) -> int:
    assets = {each.asset_key: [c.name for c in checks] for each in checks}  # of one table
    return prune_events(instance, assets, at, at_most)


def stays_bounded(instance: dg.DagsterInstance, folder: Path) -> None:
    """The rules, on whatever storage the instance has."""
    checks = fill(instance, folder, 10)
    key = checks[0].asset_key
    before = instance.event_log_storage.get_latest_asset_check_execution_by_key(checks)
    partitions = instance.event_log_storage.get_materialized_partitions(key)
    assert len(partitions) == 10

    assert prune_all(instance, checks, NOW - HOUR * 3) >= 6 * 3
    assert rows(instance, AssetCheckExecutionsTable) == 4 * 3
    prune_all(instance, checks, NOW + WEEK)
    assert rows(instance, AssetCheckExecutionsTable) == 3, "the newest of each check"
    assert rows(instance, SqlEventLogStorageTable) == 3 + 10, "and every hour"
    after = instance.event_log_storage.get_latest_asset_check_execution_by_key(checks)
    assert after == before
    assert instance.event_log_storage.get_materialized_partitions(key) == partitions
    latest = instance.get_latest_materialization_event(key)
    assert latest
    assert latest.timestamp == NOW.timestamp()
    assert prune_all(instance, checks, NOW + WEEK) == 0


@pytest.mark.slow
def test_old_outcomes_go_and_the_newest_and_every_hour_stay(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    stays_bounded(instance, tmp_path)
    assert rows(instance, SqlEventLogStorageTable, RUNLESS_RUN_ID) == 0, "the index has them"


@contextmanager
def postgres_instance(folder: Path, dsn: str) -> Iterator[dg.DagsterInstance]:
    storage = {
        "module": "dagster_postgres",
        "class": "DagsterPostgresStorage",
        "config": {"postgres_url": dsn},
    }
    with dg.instance_for_test(temp_dir=str(folder), overrides={"storage": storage}) as made:
        yield made


@pytest.mark.stack
def test_the_same_holds_for_an_event_log_in_postgresql(
    stack_parts: Callable[..., Any], tmp_path: Path
) -> None:
    pytest.importorskip("dagster_postgres", reason="dagster-postgres is not installed here")
    dsn = stack_parts("postgres").postgres.dsn()
    with postgres_instance(tmp_path, dsn) as instance:
        stays_bounded(instance, tmp_path)


@pytest.mark.slow
def test_what_is_not_ours_stays_and_no_more_than_asked_for_goes(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    checks = fill(instance, tmp_path, 5)
    other = dg.AssetKey(["somebody", "elses"])
    status = table_status(tmp_path)
    for event in [evaluated(verdicts_of(status, other)[0], NOW)] * 3:
        instance.event_log_storage.store_event(event)
    assert prune_all(instance, checks, NOW + WEEK, at_most=2) == 2
    prune_all(instance, checks, NOW + WEEK)
    key = dg.AssetCheckKey(other, "offsets_contiguous")
    assert len(instance.event_log_storage.get_asset_check_execution_history(key, limit=9)) == 3


@pytest.mark.slow
def test_what_opened_an_hour_goes_once_the_hour_is_closed(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    """An hour that nobody has closed keeps what opened it, and so do those of long ago."""
    checks = fill(instance, tmp_path, 1)
    key = checks[0].asset_key
    hours = [hour_of(NOW - HOUR * back).key for back in (100, 5, 4, 3)]
    for name in ("opened", "closed"):
        for hour in hours if name == "opened" else hours[:-1]:
            event = dg.AssetMaterialization(key, partition=hour, metadata={name: True})
            instance.event_log_storage.store_event(made(event, NOW))
    before = rows(instance, SqlEventLogStorageTable)
    partitions = instance.event_log_storage.get_materialized_partitions(key)

    prune_all(instance, checks, NOW + timedelta(seconds=1))
    assert rows(instance, SqlEventLogStorageTable) == before - 2
    assert instance.event_log_storage.get_materialized_partitions(key) == partitions
    for hour, name in zip(hours, ("closed", "closed", "closed", "opened"), strict=True):
        asked = dg.AssetRecordsFilter(key, asset_partitions=[hour])
        newest = instance.fetch_materializations(asked, limit=9).records
        assert len(newest) == (2 if hour == hours[0] else 1)
        assert newest[0].asset_materialization
        assert list(newest[0].asset_materialization.metadata) == [name]


@pytest.mark.slow
def test_of_events_that_say_that_a_table_is_held_the_newest_stays(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    checks = fill(instance, tmp_path, 1)
    key = checks[0].asset_key
    for hour in range(5):
        held = dg.AssetMaterialization(key, description="paused", metadata={"held": hour})
        instance.event_log_storage.store_event(made(held, NOW + HOUR * hour))
    prune_all(instance, checks, NOW + WEEK)
    latest = instance.get_latest_materialization_event(key)
    assert latest
    assert latest.asset_materialization
    assert latest.asset_materialization.metadata["held"].value == 4
    assert rows(instance, SqlEventLogStorageTable) == 3 + 1 + 1


@pytest.mark.slow
def test_of_the_cuts_of_a_source_the_newest_and_those_of_the_last_week_stay(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    """There is one a minute, which no run's deletion takes with it: half a million in a year."""
    often = {"shop": source("shop", consistent={"every": "1m"})}
    config = write(tmp_path / "replication.yaml", platform(sources=often))
    key = consistent_key(config, "shop")
    for minute in range(60):
        cut = dg.AssetMaterialization(key, metadata={"cut": minute})
        instance.event_log_storage.store_event(made(cut, NOW + timedelta(minutes=minute)))
    assets = pruned_assets(config, registry_of(config, "orders"))
    prune_events(instance, assets, NOW + timedelta(minutes=40), MANY)
    assert rows(instance, SqlEventLogStorageTable) == 20
    prune_events(instance, assets, NOW + WEEK, MANY)
    latest = instance.get_latest_materialization_event(key)
    assert latest
    assert latest.asset_materialization
    assert latest.asset_materialization.metadata["cut"].value == 59
    assert rows(instance, SqlEventLogStorageTable) == 1


@pytest.mark.slow
def test_a_check_under_way_does_not_cost_the_outcome_before_it(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    checks = fill(instance, tmp_path, 3)
    (match,) = (each for each in checks if each.name == CHECK_MATCHES)
    key = match.asset_key

    answers = [True]

    @dg.asset_check(asset=key, name=CHECK_MATCHES)
    def compare() -> dg.AssetCheckResult:
        answers.pop()  # the second run dies here
        return dg.AssetCheckResult(passed=False)

    job = dg.Definitions(asset_checks=[compare]).resolve_implicit_global_asset_job_def()
    for _ in range(2):
        job.execute_in_process(instance=instance, raise_on_error=False)
    far = datetime.now(UTC) + WEEK
    prune_all(instance, checks, far)
    history = instance.event_log_storage.get_asset_check_execution_history(match, limit=9)
    assert [each.status.value for each in history] == ["PLANNED", "FAILED"]


@dg.asset
def some_table() -> None: ...


def run_once(instance: dg.DagsterInstance) -> str:
    return dg.materialize([some_table], instance=instance, tags={TAG_MODE: "tail"}).run_id


@pytest.mark.slow
def test_the_files_of_deleted_runs_go_and_those_of_others_stay(
    instance: dg.DagsterInstance,
) -> None:
    storage: Any = instance.event_log_storage
    gone, stays = run_once(instance), dg.materialize([some_table], instance=instance).run_id
    prune(instance, Retention(succeeded_hours=0))
    files = [Path(storage.path_for_shard(each)) for each in (gone, stays)]
    assert [each.exists() for each in files] == [True, True], "Dagster keeps both"
    assert remove_files_of_deleted_runs(instance, datetime.now(UTC) - HOUR) == 0
    assert remove_files_of_deleted_runs(instance, datetime.now(UTC) + HOUR) == 1
    assert [each.exists() for each in files] == [False, True]
    logs = Path(instance.storage_directory()) / gone / "compute_logs"
    assert not logs.exists()
    assert len(instance.all_logs(stays)) > 0


@pytest.mark.slow
def test_housekeeping_deletes_what_is_older_than_its_retention(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    fill(instance, tmp_path, 3)
    config = write_config(tmp_path)
    job = housekeeping_job(config, registry_of(config, "orders"))
    assert job.execute_in_process(instance=instance).success
    assert rows(instance, AssetCheckExecutionsTable) == 3, "all of that is months ago"
