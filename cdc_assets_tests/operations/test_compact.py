"""A table is compacted at once and to the end, with the rows and the offsets that it had."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_assets.desired import NOTHING
from cdc_assets.effects import Moment, hooked
from cdc_assets.errors import ConflictError
from cdc_assets.merge.plan.plan import OWN_BRANCH
from cdc_assets.operate.services import Services
from cdc_assets.operations.compact import COMPACT, CompactOptions
from cdc_assets.operations.operation import Progress, Results
from cdc_assets.operations.running import Runner
from cdc_assets.operations.session import Host
from cdc_assets.orchestration.keys import table_key
from cdc_assets.orchestration.operation_jobs import operation_job
from cdc_assets.registry import Registry, RegistryFile
from cdc_assets_tests.command import run_command
from cdc_assets_tests.merge import changing_table
from cdc_assets_tests.merge.changing_table import KINDS, World
from cdc_assets_tests.merge.one_table import TABLE, Make
from cdc_assets_tests.pipeline import Pipeline

pytestmark = pytest.mark.stack

HIGH = {"enabled": False, "tiny_files": 1_000, "small_files": 1_000}
"""Thresholds that nothing here reaches."""


def filled(pipeline: Make) -> World:
    world = changing_table.started(pipeline, tables={}, maintenance=HIGH)
    for n in range(4):
        world.pipeline.produce(TABLE, KINDS[n % 3](world.source))
        world.settle()
    RegistryFile(world.pipeline.config.registry).add([world.pipeline.entry(TABLE)])
    return world


def files(made: Pipeline) -> tuple[int, int]:
    """Data files, and deleted rows in them."""
    figures = made.lake.figures(made.entry(TABLE).target, OWN_BRANCH)
    assert figures is not None
    return figures.files, figures.marked


def compacted(made: Pipeline, say: Callable[[Progress], None] = lambda _: None) -> Results:
    options = CompactOptions(table=str(made.entry(TABLE).table))
    return Runner(Services(made.config), Host("a-run", made.spark), say).run(COMPACT, options)


def test_the_command_says_what_there_is_and_compacts_it(pipeline: Make, tmp_path: Path) -> None:
    world = filled(pipeline)
    made = world.pipeline
    before, history = files(made), made.lake.history(made.entry(TABLE).target, 2)
    assert before[0] > 1
    name = str(made.entry(TABLE).table)

    def run(*arguments: str) -> Any:
        done = run_command(tmp_path, "compact", name, *arguments, config=made.config.path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    dry = json.loads(run("--dry-run", "--json"))
    assert (dry["dry_run"], dry["before"][0]["files"]) == (True, before[0])
    assert f"small files of {before[0]}" in run("--dry-run")
    assert files(made) == before, "a dry run changes nothing"
    done = json.loads(run("--json"))
    assert files(made) == (1, 0)
    assert done["after"][0]["files"] == 1
    assert {each["task"] for each in done["steps"]} == {"compact"}
    assert "nothing to compact" in run()
    assert made.lake.history(made.entry(TABLE).target, 2) == history
    world.check("compaction")


def test_the_job_compacts_and_says_so_on_the_asset(pipeline: Make) -> None:
    made = filled(pipeline).pipeline
    job = operation_job(COMPACT)(made.config, Registry.of([]))
    config = {"table": str(made.entry(TABLE).table)}
    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process({"ops": {"compact": {"config": config}}}, instance=instance)
        wrong = {"ops": {"compact": {"config": {"table": "no_such_table"}}}}
        failed = job.execute_in_process(wrong, instance=instance, raise_on_error=False)
    assert done.success
    assert files(made) == (1, 0)
    (event,) = [each for each in done.all_events if each.is_asset_observation]
    seen = event.asset_observation_data.asset_observation
    assert seen.asset_key == table_key(made.config, made.entry(TABLE))
    left, before = (seen.metadata[name].value for name in ("files", "files_before"))
    assert isinstance(left, int)
    assert isinstance(before, int)
    assert left < before
    assert not failed.success


def test_it_may_be_interrupted_at_its_statement_and_run_again(pipeline: Make) -> None:
    world = filled(pipeline)
    made, killed = world.pipeline, list[str]()

    class Killed(BaseException):
        pass

    def kill(name: str, moment: Moment) -> None:
        if name == "spark: compact" and moment is Moment.AFTER and not killed:
            killed.append(name)
            raise Killed

    with hooked(kill), pytest.raises(Killed):
        compacted(made)
    assert killed
    assert not compacted(made).is_bad
    assert files(made) == (1, 0)
    world.check("a compaction that was killed")


def test_other_writers_are_asked_to_wait_once_they_came_first(pipeline: Make) -> None:
    made, said, asked = filled(pipeline).pipeline, list[str](), list[bool]()
    services, table = Services(made.config), made.entry(TABLE).table

    def beaten(name: str, moment: Moment) -> None:
        if name == "spark: compact" and moment is Moment.BEFORE:
            asked.append(services.desired.of(table).yields is not None)
            if len(asked) <= 3:
                what = "another writer came first"
                raise ConflictError(what)

    with hooked(beaten):
        results = compacted(made, lambda each: said.append(each.words))
    assert not results.is_bad
    assert asked[:4] == [False, False, False, True], "after three tries of the same statement"
    assert any("another writer came first: once more" in each for each in said)
    assert services.desired.of(table) == NOTHING, "they go on afterwards"
    assert files(made) == (1, 0)
