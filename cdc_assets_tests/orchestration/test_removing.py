"""Nothing of a table is removed while a run is at it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from cdc_assets.desired import DesiredBook
from cdc_assets.errors import TerminalError, UnreachableError
from cdc_assets.orchestration import build_definitions, liveness
from cdc_assets.orchestration.keys import (
    MAINTENANCE,
    REPLAY,
    TAG_HAND_OVER,
    TAG_MODE,
    TAIL,
    VERIFY,
    run_tags,
    table_key,
)
from cdc_assets.orchestration.other_runs import OtherRuns
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.command import run_command
from cdc_assets_tests.orchestration.test_housekeeping import holding
from cdc_assets_tests.waiting import until
from cdc_assets_tests.world import entry_of, registry_of, write_config

pytestmark = pytest.mark.slow


class Instance:
    """One with runs of two tables."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        self.config, self.instance = write_config(folder), instance
        registry = registry_of(self.config, "items", "orders")
        self.definitions = build_definitions(self.config, registry)
        self.orders = entry_of("orders", self.config)

    def add(self, table: str, event: dg.DagsterEventType | None, **tags: str) -> str:
        job = self.definitions.resolve_implicit_global_asset_job_def()
        keys = frozenset([table_key(self.config, entry_of(table, self.config))])
        tagged = {name.replace("_", "/", 1): value for name, value in tags.items()}
        run = self.instance.create_run_for_job(job, asset_selection=keys, tags=tagged)
        if event is not None:
            self.report(run.run_id, event)
        return run.run_id

    def command(self, table: str, mode: str) -> str:
        """A run of a command, which selects no assets."""
        job = self.definitions.resolve_implicit_global_asset_job_def()
        tags = run_tags(self.config, mode, [entry_of(table, self.config)])
        run = self.instance.create_run_for_job(job, tags=tags)
        self.report(run.run_id, dg.DagsterEventType.RUN_START)
        return run.run_id

    def report(self, run_id: str, event: dg.DagsterEventType) -> None:
        name = self.instance.get_run_by_id(run_id).job_name
        self.instance.report_dagster_event(dg.DagsterEvent(event.value, name), run_id)

    def runs(self, own: str = "", patience: float = 60) -> OtherRuns:
        return OtherRuns(self.config, self.instance, own, patience)

    def wait(self, own: str = "", patience: float = 60) -> None:
        self.said: list[str] = []
        for each in self.runs(own, patience).wait(self.orders):
            self.said.append(each)  # while the next message is waited for


@pytest.fixture
def runs_of(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> Instance:
    """Its instance is on disk: threads that share one in memory lock each other's tables."""
    monkeypatch.setattr("cdc_assets.orchestration.other_runs.LOOK_SECONDS", 0.01)
    return Instance(tmp_path, instance)


def test_a_run_that_stays_is_asked_to_end_and_waited_for(runs_of: Instance) -> None:
    run = runs_of.add("orders", dg.DagsterEventType.RUN_START, cdc_mode=TAIL)
    waiting = threading.Thread(target=runs_of.wait, daemon=True)
    waiting.start()
    until(lambda: TAG_HAND_OVER in runs_of.instance.get_run_by_id(run).tags, "asked to end")
    assert waiting.is_alive()
    assert runs_of.said == [f"shop.public.orders: waits for run {run}"]
    runs_of.report(run, dg.DagsterEventType.RUN_SUCCESS)
    waiting.join(20)
    assert not waiting.is_alive()


def test_runs_of_other_tables_queued_ones_and_its_own_are_not_waited_for(
    runs_of: Instance,
) -> None:
    runs_of.add("items", dg.DagsterEventType.RUN_START)
    runs_of.add("orders", None)
    own = runs_of.add("orders", dg.DagsterEventType.RUN_START)
    runs_of.wait(own)
    assert runs_of.said == []


@pytest.mark.parametrize("mode", [TAIL, REPLAY, MAINTENANCE])
def test_a_run_of_a_command_is_waited_for(runs_of: Instance, mode: str) -> None:
    runs_of.command("items", mode)
    run = runs_of.command("orders", mode)
    with pytest.raises(UnreachableError, match=f"at the table: {run} "):
        runs_of.wait(patience=0)
    runs_of.report(run, dg.DagsterEventType.RUN_SUCCESS)
    runs_of.wait(patience=0)


def test_a_run_that_only_compares_is_not_waited_for(runs_of: Instance) -> None:
    runs_of.command("orders", VERIFY)
    runs_of.wait(patience=0)


def test_a_run_that_does_not_end_is_named(runs_of: Instance) -> None:
    run = runs_of.add("orders", dg.DagsterEventType.RUN_START, **{TAG_MODE: "replay"})
    with pytest.raises(UnreachableError, match=f"{run}.*terminate them"):
        runs_of.wait(patience=0)
    assert TAG_HAND_OVER not in runs_of.instance.get_run_by_id(run).tags


@pytest.mark.parametrize("command", [("reset",), ("drop", "--lake")], ids=["reset", "drop"])
def test_a_command_without_an_instance_removes_nothing_while_runs_that_it_does_not_see_work(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    config = write_config(tmp_path)
    RegistryFile(config.registry).add(registry_of(config, "orders"))
    desired = DesiredBook.of_registry(config.registry)
    liveness.hold(config.home, "of this process")
    with holding(config.home, "unseen-run"):
        done = run_command(tmp_path, *command, "--table", "orders")
        assert done.returncode == 1
        assert "DAGSTER_HOME is not set" in done.stderr
        assert "some are at work: unseen-run [" in done.stderr
        assert desired.load() == {}, "not even the wish is put down"
        only = run_command(tmp_path, *command, "--table", "orders", "--dry-run")
        assert "unseen-run" not in only.stderr
    done = run_command(tmp_path, *command, "--table", "orders")
    assert "see that none is at work elsewhere" in done.stdout
    assert "unseen-run" not in done.stderr, "its process is gone"


def test_a_run_that_has_begun_before_the_wish_is_noticed_after_it(runs_of: Instance) -> None:
    runs = replace(runs_of.runs(), are_seen=False)
    (said,) = runs.require_seen()
    assert "see that none is at work elsewhere" in said
    with holding(runs_of.config.home, "unseen-run"), pytest.raises(TerminalError, match="unseen"):
        list(runs.wait(runs_of.orders))
    assert list(runs.wait(runs_of.orders)) == []
