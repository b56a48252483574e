# No `from __future__ import annotations`: Dagster reads the annotations of the asset below.

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest

from cdc_assets.orchestration import liveness
from cdc_assets.orchestration.housekeeping import Retention, prune
from cdc_assets.orchestration.keys import TAG_MODE, TAG_PROCESS, TAG_REPLICATION

pytestmark = pytest.mark.slow

HOLD = """
import sys
from pathlib import Path
from cdc_assets.orchestration.liveness import hold
hold(Path(sys.argv[1]), sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""


@dg.asset
def some_table(context: dg.AssetExecutionContext) -> None:
    if "fail" in context.run.tags:
        raise dg.Failure


def run_once(instance: dg.DagsterInstance, **tags: str) -> str:
    all_tags = {(TAG_MODE if name == "mode" else name): value for name, value in tags.items()}
    return dg.materialize(
        [some_table], instance=instance, tags=all_tags, raise_on_error=False
    ).run_id


def kept(instance: dg.DagsterInstance) -> set[str]:
    return {run.run_id for run in instance.get_runs()}


def test_old_runs_of_sensors_are_deleted_and_those_of_people_stay(
    instance: dg.DagsterInstance,
) -> None:
    by_sensor = run_once(instance, mode="tail")
    by_person = run_once(instance)
    replay = run_once(instance, mode="replay")

    assert prune(instance, Retention(succeeded_hours=1)) == 0
    assert prune(instance, Retention(succeeded_hours=0)) == 1
    assert kept(instance) == {by_person, replay}
    assert by_sensor not in kept(instance)


def test_failed_runs_are_kept_longer(instance: dg.DagsterInstance) -> None:
    failed = run_once(instance, mode="tail", fail="yes")

    assert prune(instance, Retention(succeeded_hours=0)) == 0
    assert kept(instance) == {failed}
    assert prune(instance, Retention(succeeded_hours=0, failed_hours=0)) == 1


def test_each_replication_deletes_its_own_runs_alone(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_assets.orchestration.housekeeping.PAGE", 2)
    unnamed, named = list[str](), list[str]()
    for _ in range(3):
        unnamed.append(run_once(instance, mode="tail"))
        named.append(run_once(instance, mode="tail", **{TAG_REPLICATION: "east"}))
        named.append(run_once(instance, mode="tail", **{TAG_REPLICATION: "east"}))
    now = Retention(succeeded_hours=0)
    assert prune(instance, now) == 3
    assert kept(instance) == set(named)
    assert prune(instance, now, "west") == 0
    assert prune(instance, now, "east") == 6
    assert not kept(instance)


def test_no_more_are_deleted_at_once_than_asked_for(instance: dg.DagsterInstance) -> None:
    for _ in range(3):
        run_once(instance, mode="tail")
    assert prune(instance, Retention(succeeded_hours=0, at_most=2)) == 2
    assert len(kept(instance)) == 1


def started_run(instance: dg.DagsterInstance) -> dg.DagsterRun:
    run = instance.create_run_for_job(
        dg.Definitions([some_table]).resolve_implicit_global_asset_job_def()
    )
    start = dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, run.job_name)
    instance.report_dagster_event(start, run.run_id)
    return run


@contextmanager
def holding(home: Path, name: str) -> Iterator[None]:
    """In a process that is killed in the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(home), name],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)


def test_a_run_whose_process_was_killed_is_marked_as_failed(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    run = started_run(instance)
    elsewhere = started_run(instance)
    with holding(tmp_path, run.run_id):
        assert liveness.fail_dead_runs(instance, tmp_path) == []
    assert liveness.fail_dead_runs(instance, tmp_path) == [run.run_id]
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    assert found.status is dg.DagsterRunStatus.FAILURE
    other = instance.get_run_by_id(elsewhere.run_id)
    assert other is not None
    assert other.status is dg.DagsterRunStatus.STARTED


def test_runs_of_a_command_that_was_killed_are_dead_before_their_first_step(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    job = dg.Definitions([some_table]).resolve_implicit_global_asset_job_def()
    run = instance.create_run_for_job(job, tags={TAG_PROCESS: "command"})
    instance.create_run_for_job(job, tags={TAG_PROCESS: "on another machine"})
    with holding(tmp_path, "command"):
        assert liveness.fail_dead_runs(instance, tmp_path) == []
    assert liveness.fail_dead_runs(instance, tmp_path) == [run.run_id]


def test_files_of_runs_that_ended_are_tidied_away(tmp_path: Path) -> None:
    liveness.hold(tmp_path, "mine")
    (tmp_path / "run" / "dagster" / "gone.lock").touch()

    liveness.tidy(tmp_path, alive=[])
    left = [path.name for path in (tmp_path / "run" / "dagster").iterdir()]
    assert left == ["mine.lock"]
