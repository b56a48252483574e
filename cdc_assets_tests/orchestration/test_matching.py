"""The check `matches_source` and its schedule, where no database is asked."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from cdc_assets import desired
from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import ConfigError
from cdc_assets.merge.verifying.judging import Difference, DifferenceKind
from cdc_assets.merge.verifying.report import ComparisonReport, Position
from cdc_assets.operate.failure_book import FailureBook
from cdc_assets.operate.failures import FailureKind
from cdc_assets.operate.services import Services
from cdc_assets.orchestration import build_definitions
from cdc_assets.orchestration.hand_over import must_hand_over
from cdc_assets.orchestration.housekeeping import Retention, prune
from cdc_assets.orchestration.keys import (
    CHECK_MATCHES,
    TAG_HAND_OVER,
    TAG_MODE,
    VERIFY,
    mode_tags,
    table_key,
)
from cdc_assets.orchestration.matching import check_of, compared, verdict_of
from cdc_assets.orchestration.resources import ReplicationSpark
from cdc_assets.orchestration.sensors.replicate import ask_for_room, free_slots
from cdc_assets.registry import Registry
from cdc_assets_tests.configuration import NOWHERE, database_of, platform, source, write
from cdc_assets_tests.world import NOW, entry_of, registry_of, write_config

KEY = dg.AssetKey(["shop", "public", "orders"])
TABLE = TableName("shop", "public", "orders")
CODE = RepositoryPythonOrigin("python", ModuleCodePointer("nowhere", "defs"))
ONE = Difference(
    ("secret-key",), DifferenceKind.DIFFERENT, ("note", "mood"), None, ("secret-key", "secret")
)
TWO = Difference(("8",), DifferenceKind.MISSING, (), None, ("8", "x"))


def report(**more: object) -> ComparisonReport:
    return ComparisonReport(TABLE, ("id",), 7, position=Position("0/1A", '{"0":7}', 42), **more)  # pyright: ignore[reportArgumentType]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("found", "passed", "severity"),
    [
        (report(), True, "WARN"),
        (report(differences=(ONE,)), False, "ERROR"),
        (report(not_judged=2, why="they changed", is_busy=True), True, "WARN"),
        (report(not_judged=2, why="the slot"), False, "WARN"),
        (report(has_more=True), False, "WARN"),
    ],
    ids=["equal", "different", "busy", "not judged", "more"],
)
def test_what_differs_is_red_and_what_was_not_judged_is_not(
    found: ComparisonReport, passed: bool, severity: str
) -> None:
    verdict = verdict_of(KEY, found)
    assert (verdict.passed, verdict.severity.value) == (passed, severity)


@pytest.mark.unit
def test_it_says_how_many_differ_how_and_where_and_no_value() -> None:
    verdict = verdict_of(KEY, report(differences=(ONE, TWO), not_judged=3, why="busy"))
    said = {name: getattr(each, "value", each) for name, each in verdict.metadata.items()}
    assert said["keys_that_differ"] == 2
    assert (said["keys/different"], said["keys/missing"]) == (1, 1)
    assert (said["differs/note"], said["differs/mood"]) == (1, 1)
    assert (said["rows"], said["keys_not_judged"]) == (7, 3)
    assert (said["source_position"], said["committed_offsets"]) == ("0/1A", '{"0":7}')
    assert "cdc-assets verify --table shop.public.orders" in verdict.description
    assert "secret" not in f"{verdict.description}{said}"


# ── what is not compared ──────────────────────────────────────────────────────────────────


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReplicationConfig:
    monkeypatch.setenv("SHOP_DSN", f"postgresql://me@{NOWHERE}/shop")
    return write_config(tmp_path)


class NoSpark(ReplicationSpark):
    def new_session(self) -> Any:
        pytest.fail("a session was asked for")


def outcome(config: ReplicationConfig) -> tuple[bool, str, str]:
    entry = entry_of("orders", config)
    spark = NoSpark(spark_config={})
    verdict = compared(Services(config), entry, spark, "run", print, merges=False)
    assert verdict.metadata == {"compared": False}
    return verdict.passed, verdict.severity.value, verdict.description


@pytest.mark.unit
def test_a_table_that_is_not_made_yet_says_so(config: ReplicationConfig) -> None:
    assert outcome(config) == (True, "WARN", "not compared: nothing of it was merged yet")


@pytest.mark.unit
def test_a_paused_table_says_so(config: ReplicationConfig) -> None:
    wish = desired.DirectiveNote(NOW, "cdc-assets pause", "moving house")
    Services(config).desired.put(TABLE, desired.Directive.PAUSED, wish)
    passed, _, words = outcome(config)
    assert passed
    assert "not compared: paused since" in words
    assert "moving house" in words


@pytest.mark.unit
def test_what_keeps_it_from_comparing_is_a_warning_and_no_error(
    config: ReplicationConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Any:
        raise ConfigError("the lake is shut", remedy="open it")

    monkeypatch.setattr("cdc_assets.lake.catalog.Lake.state", broken)
    passed, severity, words = outcome(config)
    assert (passed, severity) == (False, "WARN")
    assert "the lake is shut" in words


# ── which tables have it ──────────────────────────────────────────────────────────────────


def checked(config: ReplicationConfig, *tables: str) -> set[str]:
    graph = build_definitions(config, registry_of(config, *tables)).resolve_asset_graph()
    return {key.asset_key.path[-1] for key in graph.asset_check_keys if key.name == CHECK_MATCHES}


def shop(folder: Path, **more: object) -> ReplicationConfig:
    described = {**source("shop", **database_of("SHOP_DSN")), **more}
    described = {name: each for name, each in described.items() if each is not None}
    document = platform(sources={"shop": described}, registry=".cdc/registry.json")
    return write(folder / "replication.yaml", document)


@pytest.mark.unit
def test_what_holds_the_rows_of_a_database_has_it_and_no_other(tmp_path: Path) -> None:
    assert checked(shop(tmp_path), "a", "b") == {"a", "b"}
    modes = {"a": {"mode": "changelog"}, "b": {"mode": "history"}, "c": {"deletes": "soft"}}
    tables = {"tables": {f"public.{name}": said for name, said in modes.items()}}
    assert checked(shop(tmp_path, **tables), "a", "b", "c", "d") == {"b", "c", "d"}
    assert checked(shop(tmp_path, database=None), "a", "b") == set()


@pytest.mark.unit
@pytest.mark.parametrize(
    ("said", "cron"),
    [({}, "*/30 * * * *"), ({"schedule": "off"}, None), ({"schedule": False}, None),
     ({"schedule": "0 3 * * *"}, "0 3 * * *")],
)  # fmt: skip
def test_the_schedule_is_as_configured(tmp_path: Path, said: Any, cron: str | None) -> None:
    config = shop(tmp_path, verify=said)
    repository = build_definitions(config, registry_of(config, "a")).get_repository_def()
    found = {each.name: each.cron_schedule for each in repository.schedule_defs}
    assert found.get("verify_shop_schedule") == cron


@pytest.mark.unit
@pytest.mark.parametrize(
    ("said", "words"),
    [({"schedule": "every day"}, "not a cron expression"), ({"schedule": "61 * * * *"}, "minute"),
     ({"tables": ["("]}, "regular expression"), ({"every_hours": 0}, "every_hours")],
)  # fmt: skip
def test_a_wrong_schedule_is_named(tmp_path: Path, said: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        shop(tmp_path, verify=said)


# ── when ──────────────────────────────────────────────────────────────────────────────────


def tick(
    config: ReplicationConfig, registry: Registry, instance: dg.DagsterInstance, at: datetime
) -> set[str]:
    """The tables whose comparison is asked for."""
    repository = build_definitions(config, registry).get_repository_def()
    schedule = repository.get_schedule_def("verify_shop_schedule")
    context = dg.build_schedule_context(instance, scheduled_execution_time=at)
    result = schedule.evaluate_tick(context)
    requests = result.run_requests or ()
    for each in requests:
        assert not each.asset_selection
        assert each.tags[TAG_MODE] == VERIFY
    return {key.asset_key.path[-1] for each in requests for key in each.asset_check_keys or ()}


def write_outcome(
    config: ReplicationConfig, instance: dg.DagsterInstance, table: str, *, passed: bool
) -> None:
    key = table_key(config, entry_of(table, config))
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(check_name=CHECK_MATCHES, passed=passed, asset_key=key, metadata={})
    )


@pytest.mark.slow
def test_tables_are_compared_in_turn_and_not_again_before_their_time(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    config = shop(tmp_path, verify={"tables": [r"public\.[abc]"], "every_hours": 2})
    registry, now = registry_of(config, "a", "b", "c", "other"), datetime.now(NOW.tzinfo)
    for table in ("a", "b", "c"):
        assert tick(config, registry, instance, now) == {table}
        write_outcome(config, instance, table, passed=table != "b")
    assert tick(config, registry, instance, now) == set()
    assert tick(config, registry, instance, now + timedelta(hours=2)) == {"a"}


@pytest.mark.slow
def test_nothing_is_begun_while_the_last_run_is_not_over(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    config, registry = shop(tmp_path), registry_of(shop(tmp_path), "a")
    begun(instance, config, dg.DagsterRunStatus.STARTED)
    assert tick(config, registry, instance, NOW) == set()


def begun(
    instance: dg.DagsterInstance, config: ReplicationConfig, status: dg.DagsterRunStatus
) -> dg.DagsterRun:
    tags = {**mode_tags(config, VERIFY), "cdc/source": "shop"}
    origin = ManagedGrpcPythonEnvCodeLocationOrigin(LoadableTargetOrigin(module_name="nowhere"))
    job = RemoteRepositoryOrigin(origin, "repository").get_job_origin("verify_shop")
    run = dg.DagsterRun(
        job_name="verify_shop", status=status, tags=tags,
        remote_job_origin=job, job_code_origin=JobPythonOrigin("verify_shop", CODE),
    )  # fmt: skip
    return instance.add_run(run)


@pytest.mark.slow
def test_a_comparison_that_waits_makes_nobody_give_way_and_one_that_works_makes_room(
    tmp_path: Path, instance_in_memory: dg.DagsterInstance
) -> None:
    config, instance = shop(tmp_path), instance_in_memory
    waiting = begun(instance, config, dg.DagsterRunStatus.QUEUED)
    working = begun(instance, config, dg.DagsterRunStatus.STARTED)
    other = instance.add_run(dg.DagsterRun(job_name="x", status=dg.DagsterRunStatus.STARTED))
    assert not must_hand_over(instance, other)
    assert not must_hand_over(instance, working)
    both = [waiting, working]
    assert free_slots(config, instance, both) == free_slots(config, instance, [working])
    ask_for_room(instance, both)
    assert must_hand_over(instance, working)
    again = instance.get_run_by_id(waiting.run_id)
    assert again is not None
    assert TAG_HAND_OVER not in again.tags


@pytest.mark.slow
def test_its_runs_are_deleted_in_time_and_what_they_found_is_not(
    tmp_path: Path, instance_in_memory: dg.DagsterInstance
) -> None:
    config, instance = shop(tmp_path), instance_in_memory
    begun(instance, config, dg.DagsterRunStatus.SUCCESS)
    write_outcome(config, instance, "a", passed=True)
    assert prune(instance, Retention(succeeded_hours=0)) == 1
    key = check_of(config, entry_of("a", config))
    found = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])
    assert found[key].status.value == "SUCCEEDED"


@pytest.mark.unit
def test_the_job_compares_and_yields_what_it_cannot_compare(config: ReplicationConfig) -> None:
    registry = registry_of(config, "a", "b")
    job = build_definitions(config, registry).resolve_job_def("verify_shop")
    with dg.DagsterInstance.ephemeral() as instance:
        check = check_of(config, entry_of("a", config))
        run = job.get_subset(asset_check_selection={check}).execute_in_process(
            instance=instance, resources={"pyspark": NoSpark(spark_config={})}
        )
        (told,) = run.get_asset_check_evaluations()
    assert told.asset_key == check.asset_key
    assert told.description == "not compared: nothing of it was merged yet"


@pytest.mark.unit
def test_a_failing_table_is_not_waited_for(
    config: ReplicationConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_assets.lake.catalog.Lake.state", lambda *_: object())
    book = FailureBook.of_registry(config.registry)
    book.record(TABLE, FailureKind.TERMINAL, "the topic is gone", NOW)
    passed, severity, words = outcome(config)
    assert (passed, severity) == (False, "WARN")
    assert "it fails: the topic is gone" in words
