"""What runs of people, jobs and backfills mean for those of a replication, and the other way."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.events import RunFailureReason
from dagster._core.execution.api import create_execution_plan
from dagster._core.execution.retries import auto_reexecution_should_retry_run
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from cdc_assets.config import ReplicationConfig
from cdc_assets.log.hours import HourWindow
from cdc_assets.orchestration import build_definitions
from cdc_assets.orchestration.hand_over import must_hand_over
from cdc_assets.orchestration.keys import (
    MAINTENANCE,
    TAG_BACKLOG,
    TAG_HAND_OVER,
    TAG_REPLICATION,
    TAIL,
    VERIFY,
    ask_to_end,
    mode_tags,
    names_in,
    op_name,
    run_tags,
    table_key,
)
from cdc_assets.orchestration.planning import RunPlan
from cdc_assets.orchestration.sensors.replicate import (
    RUNS_IF_UNLIMITED,
    busy_tables,
    free_slots,
    run_request,
)
from cdc_assets_tests.world import entry_of, registry_of, write_config

pytestmark = pytest.mark.slow

HOUR = HourWindow.starting(datetime(2026, 3, 4, 12, tzinfo=UTC))


# ── which tables a run has ───────────────────────────────────────────────────────────────


@pytest.fixture
def config(tmp_path: Path) -> ReplicationConfig:
    return write_config(tmp_path)


@pytest.fixture
def two_at_once(tmp_path: Path, empty_home: Path) -> Iterator[dg.DagsterInstance]:
    """An instance that executes two runs at once, and starts failed ones again."""
    shutil.copytree(empty_home, tmp_path, dirs_exist_ok=True)
    settings = {
        "concurrency": {"runs": {"max_concurrent_runs": 2}},
        "run_retries": {"enabled": True, "max_retries": 3},
    }
    with dg.instance_for_test(temp_dir=str(tmp_path), overrides=settings) as made:
        yield made


def failed_again(config: ReplicationConfig, instance: dg.DagsterInstance) -> dg.DagsterRun:
    """A run of two tables that Dagster or a person has started again: only one had failed."""
    loaded = registry_of(config, "items", "orders")
    job = build_definitions(config, loaded).resolve_implicit_global_asset_job_def()
    both = frozenset(table_key(config, each) for each in loaded)
    step = op_name(config, entry_of("orders", config).table)
    plan = create_execution_plan(
        job.get_subset(asset_selection=both), step_keys_to_execute=[step],
        tags={"dagster/partition": HOUR.key},
    )  # fmt: skip
    return instance.create_run_for_job(
        job, execution_plan=plan, asset_selection=both, status=dg.DagsterRunStatus.STARTED,
        tags={**run_tags(config, TAIL, [*loaded]), "dagster/partition": HOUR.key},
    )  # fmt: skip


def test_a_run_that_repeats_a_failed_table_holds_up_none_of_the_others(
    config: ReplicationConfig, instance_in_memory: dg.DagsterInstance
) -> None:
    """It selects and names all tables of the first run, and may stay for many minutes."""
    run, entries = (
        failed_again(config, instance_in_memory),
        [*registry_of(config, "items", "orders")],
    )
    assert len(names_in(run)) == len(run.asset_selection or ()) == len(entries)
    assert busy_tables(config, [run], entries) == {entry_of("orders", config).table}


@pytest.mark.parametrize(("table", "expected"), [("orders", True), ("items", False)])
def test_a_job_of_the_project_has_its_tables_though_its_runs_select_none(
    config: ReplicationConfig, instance_in_memory: dg.DagsterInstance, table: str, expected: bool
) -> None:
    """Those of schedules do not. A run that is queued for such a table would hold up others'."""
    loaded = registry_of(config, "items", "orders")
    nightly = dg.define_asset_job("nightly", dg.AssetSelection.assets(["shop", "public", table]))
    ours = build_definitions(config, loaded)
    job = dg.Definitions.merge(ours, dg.Definitions(jobs=[nightly])).resolve_job_def("nightly")
    started = dg.DagsterRunStatus.STARTED
    run = instance_in_memory.create_run_for_job(job, status=started)
    assert run.asset_selection is None
    assert busy_tables(config, [run], [*loaded]) == {entry_of(table, config).table}
    staying = failed_again(config, instance_in_memory)
    assert must_hand_over(instance_in_memory, staying) == expected


# ── which runs wait for which ────────────────────────────────────────────────────────────

QUEUED, STARTED = dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTED
_CODE = LoadableTargetOrigin(module_name="nowhere")
_HERE = ModuleCodePointer("nowhere", "defs")


def run_of(status: dg.DagsterRunStatus, tags: Mapping[str, str] | None = None) -> dg.DagsterRun:
    location = ManagedGrpcPythonEnvCodeLocationOrigin(_CODE)
    origin = RemoteRepositoryOrigin(location, "repository").get_job_origin("some")
    code = JobPythonOrigin("some", RepositoryPythonOrigin("python", _HERE))
    return dg.DagsterRun(
        "some", status=status, tags=tags, remote_job_origin=origin, job_code_origin=code
    )


BACKFILL = [run_of(QUEUED)] * 500


def test_a_backfill_of_the_project_that_is_queued_takes_no_slots(
    config: ReplicationConfig, instance_in_memory: dg.DagsterInstance
) -> None:
    """Its runs may wait for days, by a limit of their own: no table would be merged meanwhile."""
    assert free_slots(config, instance_in_memory, BACKFILL).runs == RUNS_IF_UNLIMITED


@pytest.mark.parametrize(
    ("tags", "runs"),
    [({TAG_REPLICATION: "other"}, 1), ({TAG_BACKLOG: "true"}, 1), ({}, 0)],
    ids=["of another replication", "backlog", "small tables"],
)
def test_where_a_queue_takes_each_slot_one_run_is_queued_before_it(
    config: ReplicationConfig,
    instance_in_memory: dg.DagsterInstance,
    tags: dict[str, str],
    runs: int,
) -> None:
    theirs = [run_of(STARTED)] * (RUNS_IF_UNLIMITED - 1)
    mine = run_of(STARTED, {**mode_tags(config, TAIL), **tags})
    assert free_slots(config, instance_in_memory, [*BACKFILL, *theirs, mine]).runs == runs
    assert free_slots(config, instance_in_memory, [*theirs, mine]).runs == 0


def test_what_is_queued_by_a_replication_counts_but_for_comparisons(
    config: ReplicationConfig, instance_in_memory: dg.DagsterInstance
) -> None:
    tail, verify = (run_of(QUEUED, mode_tags(config, mode)) for mode in (TAIL, VERIFY))
    slots = free_slots(config, instance_in_memory, [tail, verify])
    assert slots.runs == RUNS_IF_UNLIMITED - 1


@pytest.mark.parametrize(
    ("mode", "started", "expected"),
    [(None, 0, False), (None, 1, True), (MAINTENANCE, 0, True)],
    ids=["theirs, a slot is free", "theirs, none is free", "ours"],
)
def test_a_run_stays_beside_a_queue_that_does_not_wait_for_its_slot(
    config: ReplicationConfig,
    two_at_once: dg.DagsterInstance,
    mode: str | None,
    started: int,
    expected: bool,
) -> None:
    """Otherwise each run would end after a turn, for as long as anything is queued."""
    tail = two_at_once.add_run(run_of(STARTED, mode_tags(config, TAIL)))
    for _ in range(started):
        two_at_once.add_run(run_of(STARTED))
    two_at_once.add_run(run_of(QUEUED, mode_tags(config, mode) if mode else {}))
    assert must_hand_over(two_at_once, tail) == expected


def test_a_run_that_is_started_again_was_not_asked_to_end(
    config: ReplicationConfig, two_at_once: dg.DagsterInstance
) -> None:
    """It has the tags of the first one, which was."""
    first = two_at_once.add_run(run_of(STARTED, mode_tags(config, TAIL)))
    ask_to_end(two_at_once, first)
    assert must_hand_over(two_at_once, first)
    found = two_at_once.get_run_by_id(first.run_id)
    assert found is not None
    assert TAG_HAND_OVER in found.tags
    again = two_at_once.add_run(run_of(STARTED, dict(found.tags)))
    two_at_once.delete_run(first.run_id)
    assert not must_hand_over(two_at_once, again)


def test_dagster_does_not_start_a_failed_run_again_before_its_back_off_is_over(
    config: ReplicationConfig, two_at_once: dg.DagsterInstance
) -> None:
    """Whatever the instance says: the sensor does, table by table."""
    request = run_request(config, RunPlan(HOUR, (entry_of("orders", config),)))
    failed, theirs = (
        two_at_once.add_run(run_of(dg.DagsterRunStatus.FAILURE, tags))
        for tags in (request.tags, None)
    )
    lost = RunFailureReason.UNKNOWN
    assert not auto_reexecution_should_retry_run(two_at_once, failed, lost)
    assert auto_reexecution_should_retry_run(two_at_once, theirs, lost)
