from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.plan.objects import StepSuccessData

from cdc_assets.orchestration import build_definitions, liveness
from cdc_assets.orchestration.keys import TAG_ALIVE
from cdc_assets.orchestration.liveness import LOOKS, SILENT_SECONDS, Listener, beating
from cdc_assets_tests.orchestration.test_housekeeping import started_run
from cdc_assets_tests.waiting import until
from cdc_assets_tests.world import registry_of, write_config

pytestmark = pytest.mark.slow


@dataclass
class Watch:
    """Somebody who looks at the runs, on a machine that has none of their files."""

    instance: dg.DagsterInstance
    home: Path
    now: float = 0.0

    def __post_init__(self) -> None:
        self.listener = Listener(clock=lambda: self.now)

    def look(self, *, after: float = 0.0, times: int = 1) -> list[str]:
        found = list[str]()
        for _ in range(times):
            self.now += after
            found += liveness.fail_dead_runs(self.instance, self.home, self.listener)
        return found


@pytest.fixture
def watch(instance: dg.DagsterInstance, tmp_path: Path) -> Iterator[Watch]:
    return Watch(instance, tmp_path / "another machine")


def at_work(instance: dg.DagsterInstance, beat: str = "1") -> dg.DagsterRun:
    """A started run, of which a step is under way."""
    run = started_run(instance)
    instance.add_run_tags(run.run_id, {TAG_ALIVE: f"{beat} some_table"})
    tell(instance, run, dg.DagsterEventType.STEP_START)
    return run


def tell(
    instance: dg.DagsterInstance,
    run: dg.DagsterRun,
    kind: dg.DagsterEventType,
    step: str = "some_table",
) -> None:
    is_success = kind is dg.DagsterEventType.STEP_SUCCESS
    data = StepSuccessData(duration_ms=1.0) if is_success else None
    event = dg.DagsterEvent(kind.value, run.job_name, step_key=step, event_specific_data=data)
    instance.report_dagster_event(event, run.run_id)


def test_a_run_that_falls_silent_is_marked_as_failed_within_minutes(
    watch: Watch, instance: dg.DagsterInstance
) -> None:
    run = at_work(instance)
    assert watch.look(times=LOOKS) == []
    assert watch.look(after=SILENT_SECONDS - 1) == []
    assert watch.look(after=1) == [run.run_id]
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    assert found.status is dg.DagsterRunStatus.FAILURE


def test_a_run_that_is_heard_of_lives_however_wrong_its_clock_is(
    watch: Watch, instance: dg.DagsterInstance
) -> None:
    run = at_work(instance, "1000")
    for beat in range(999, 980, -1):
        instance.add_run_tags(run.run_id, {TAG_ALIVE: f"{beat} some_table"})
        assert watch.look(after=SILENT_SECONDS - 1) == []


def test_a_machine_that_slept_hears_the_run_before_it_judges(
    watch: Watch, instance: dg.DagsterInstance
) -> None:
    """One look after a long time proves nothing: the run may have slept too."""
    at_work(instance)
    assert watch.look() == []
    assert watch.look(after=10 * SILENT_SECONDS) == []


def test_between_its_steps_a_run_is_not_judged(watch: Watch, instance: dg.DagsterInstance) -> None:
    """Each step may have a process of its own, and the next one wait for its pool."""
    run = at_work(instance)
    tell(instance, run, dg.DagsterEventType.STEP_SUCCESS)
    assert watch.look(after=SILENT_SECONDS, times=2 * LOOKS) == []


def test_a_step_of_the_project_in_the_same_run_is_not_judged_by_our_heartbeat(
    watch: Watch, instance: dg.DagsterInstance
) -> None:
    """It may take hours, and nothing beats for it: its run must not be marked as failed."""
    run = started_run(instance)
    tell(instance, run, dg.DagsterEventType.STEP_START)
    with beating(instance, run.run_id, "some_table"):
        until(lambda: TAG_ALIVE in instance.get_run_by_id(run.run_id).tags, "a beat")  # pyright: ignore[reportOptionalMemberAccess]
    tell(instance, run, dg.DagsterEventType.STEP_SUCCESS)
    tell(instance, run, dg.DagsterEventType.STEP_START, step="a_model")
    assert watch.look(after=SILENT_SECONDS, times=2 * LOOKS) == []


def test_a_run_of_another_kind_is_not_judged(watch: Watch, instance: dg.DagsterInstance) -> None:
    run = started_run(instance)
    tell(instance, run, dg.DagsterEventType.STEP_START)
    assert watch.look(after=SILENT_SECONDS, times=2 * LOOKS) == []


def test_a_run_is_heard_of_while_any_of_its_steps_is_at_work(instance: dg.DagsterInstance) -> None:
    run = started_run(instance)

    def beat() -> str | None:
        found = instance.get_run_by_id(run.run_id)
        return found.tags.get(TAG_ALIVE) if found else None

    with beating(instance, run.run_id, "a", every=0.01):
        with beating(instance, run.run_id, "b", every=0.01):
            first = until(beat, "a beat")
            assert str(first).endswith(" b")
        left = "a step is left, and named"
        until(lambda: str(beat()).endswith(" a"), left, every_seconds=0.01)


NO_TABLE = {"table": "no such table"}
PEOPLE: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "assess_tables": ("assess_all_parts", {"tables": ["no such table"]}),
    "pause_tables": ("pause", {}), "resume_tables": ("resume", {}), "drop_tables": ("drop", {}),
    "reset_tables": ("reset", {}), "rewind": ("take_back", NO_TABLE),
    "history": ("show_history", NO_TABLE), "rebuild_table": ("build_anew", NO_TABLE),
    "resnapshot_tables": ("read_again", {}), "verify_tables": ("compare_with_source", {}),
    "compact_table": ("compact", NO_TABLE),
    "adopt_table": ("adopt", {**NO_TABLE, "existing": "namespace.name"}),
}  # fmt: skip
"""The jobs that people start: the op of each, and a wish that ends soon."""


def test_each_run_of_people_is_heard_of_and_holds_its_lock_as_others_do(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    def beat(run_id: str) -> str | None:
        run = instance.get_run_by_id(run_id)
        return run.tags.get(TAG_ALIVE) if run else None

    config = write_config(tmp_path)
    definitions = build_definitions(config, registry_of(config, "orders"))
    jobs = {each for each in definitions.get_repository_def().job_names if each[0] != "_"}
    assert jobs == {*PEOPLE, "housekeeping", "verify_shop"}
    for name, (op, wish) in PEOPLE.items():
        run = definitions.resolve_job_def(name).execute_in_process(
            {"ops": {op: {"config": wish}}}, instance=instance, raise_on_error=False
        )
        until(partial(beat, run.run_id), f"{name} is heard of")
        assert (config.home / "run" / "dagster" / f"{run.run_id}.lock").exists(), name


def test_where_no_file_can_be_written_a_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    liveness.hold(tmp_path / "file", "a run")
