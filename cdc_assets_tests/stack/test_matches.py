"""The check `matches_source` and people's jobs in Dagster, against a real source."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.lake import Lake
from cdc_assets.log.hours import hour_of
from cdc_assets.merge.statements import sql
from cdc_assets.operate.services import Services, utc_now
from cdc_assets.operations.running import Runner
from cdc_assets.operations.session import Host
from cdc_assets.operations.verify import Verify, VerifyOptions
from cdc_assets.orchestration import build_definitions
from cdc_assets.orchestration.keys import CHECK_MATCHES, table_key
from cdc_assets.orchestration.matching import check_of
from cdc_assets.orchestration.merge_commands import RANGE_END, RANGE_START
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.configuration import NOWHERE
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.merging import Merging
from cdc_assets_tests.stack.replicated import NOW, Replicated, new_database, replicated
from cdc_assets_tests.toy.profiles import in_soak, is_soak

pytestmark = pytest.mark.stack

NAME = "matches"
VERIFY = {"nudge": True, "bucket_rows": 10, "wait_seconds": 60}
MADE = (
    "CREATE TABLE ledger (id text PRIMARY KEY, n int NOT NULL, note text)",
    "INSERT INTO ledger SELECT 'key' || n, n, 'row ' || n FROM generate_series(1, 200) AS n",
    "CREATE TABLE past (id int PRIMARY KEY, n int NOT NULL)",
    "INSERT INTO past SELECT n, n FROM generate_series(1, 20) AS n",
    "CREATE TABLE log (id int PRIMARY KEY)",
    "INSERT INTO log VALUES (1)",
)
MODES = {"public.past": {"mode": "history"}, "public.log": {"mode": "changelog"}}


@pytest.fixture(scope="module")
def database(stack: LocalStack, stack_config: ReplicationConfig) -> Iterator[Replicated]:
    dsn = new_database(stack, NAME, *MADE)
    with replicated(stack, stack_config, NAME, dsn, verify=VERIFY, tables=MODES) as made:
        made.wait_until_delivered()
        made.replicate()
        yield made


def definitions(database: Replicated) -> dg.Definitions:
    return build_definitions(database.config, RegistryFile(database.config.registry).load())


def evaluation(result: dg.ExecuteInProcessResult) -> dg.AssetCheckEvaluation:
    assert result.success
    (told,) = (
        each for each in result.get_asset_check_evaluations() if each.check_name == CHECK_MATCHES
    )
    return told


def compare(database: Replicated, table: str = "ledger") -> dg.AssetCheckEvaluation:
    """The job that the schedule starts."""
    check = check_of(database.config, database.entry(table))
    job = definitions(database).resolve_job_def(f"verify_{NAME}")
    with dg.DagsterInstance.ephemeral() as instance:
        one = job.get_subset(asset_check_selection={check})
        return evaluation(one.execute_in_process(instance=instance))


def said(told: dg.AssetCheckEvaluation) -> Mapping[str, Any]:
    return {name: each.value for name, each in told.metadata.items()}


def spoil(database: Replicated, spark: Session, *statements: str, table: str = "ledger") -> None:
    name = sql.table(database.config.lake.catalog.name, database.entry(table).target)
    for each in statements:
        spark().sql(each.format(name))


def test_it_is_green_where_all_is_equal_and_red_where_not_until_it_is_put_right(
    database: Replicated, spark: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = compare(database)
    assert told.passed, told.description
    assert said(told)["rows"] == 200
    assert said(told)["keys_that_differ"] == 0
    assert "/" in said(told)["source_position"]
    assert sum(json.loads(said(told)["committed_offsets"]).values()) == 200

    spoil(database, spark, "UPDATE {} SET note = 'spoiled' WHERE n = 7",
          "DELETE FROM {} WHERE n IN (8, 9)")  # fmt: skip
    told = compare(database)
    assert not told.passed
    assert told.severity is dg.AssetCheckSeverity.ERROR
    found = said(told)
    assert (found["keys/different"], found["keys/missing"], found["differs/note"]) == (1, 2, 1)
    assert "key7" not in f"{told.description}{found}"
    assert "spoiled" not in f"{told.description}{found}"

    monkeypatch.setenv(f"{NAME.upper()}_DSN", f"postgresql://me@{NOWHERE}/{NAME}")
    told = compare(database)
    assert (told.passed, told.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert NOWHERE in str(told.description)
    monkeypatch.setenv(f"{NAME.upper()}_DSN", database.dsn)

    if is_soak():
        require_written_after_a_rebuild_and_a_backfill(database, spark)
    assert not launched(database, "verify_tables", "compare_with_source", tables=["ledger"])
    assert written(database) == "FAILED"
    wish = {"every": True, "repair": True}
    assert launched(database, "verify_tables", "compare_with_source", **wish)
    assert written(database) == "SUCCEEDED"
    assert database.differences("ledger") == []


def require_written_after_a_rebuild_and_a_backfill(database: Replicated, spark: Session) -> None:
    """The outcome; in the end a row of the lake is too many."""
    database.execute("UPDATE ledger SET n = n + 1 WHERE n > 190")
    # It merges what it needs by itself: nothing else does.
    assert launched(database, "rebuild_table", "build_anew", table="ledger")
    assert written(database) == "SUCCEEDED"
    assert compare(database).passed

    # A backfill merges the missing row again, and leaves what no change has made.
    spoil(database, spark, "UPDATE {} SET id = 'extra' WHERE id = 'key10'")
    database.execute("UPDATE ledger SET n = n + 1 WHERE id = 'key1'")
    told = backfill(database)
    assert told.severity is dg.AssetCheckSeverity.ERROR, told.description
    assert said(told)["keys/only_in_lake"] == said(told)["keys_that_differ"] == 1


@in_soak
def test_of_a_history_the_current_versions_are_compared_and_a_changelog_is_left_out(
    database: Replicated, spark: Session
) -> None:
    database.execute("UPDATE past SET n = n + 1 WHERE id > 10", "DELETE FROM past WHERE id = 1")
    Merging(database, spark).merge("past")
    told = compare(database, "past")
    assert told.passed, told.description
    assert (said(told)["rows"], said(told)["keys_that_differ"]) == (19, 0)
    options = VerifyOptions(every=True)
    runner = Runner(Services(database.config), Host("verify", spark), lambda _: None)
    outcome = runner.run(Verify(), options)
    document = Verify().document(options, outcome)
    assert not outcome.is_bad, document
    assert {each["table"] for each in document["tables"]} == {
        str(database.entry(table).table) for table in ("ledger", "past")
    }
    assert document["not_compared"].keys() == {str(database.entry("log").table)}

    spoil(database, spark, "DELETE FROM {} WHERE id = 2", table="past")
    told = compare(database, "past")
    assert told.severity is dg.AssetCheckSeverity.ERROR
    assert (said(told)["keys/missing"], said(told)["keys_that_differ"]) == (1, 1)


@in_soak
def test_what_people_do_to_a_table_they_do_by_jobs_too(
    database: Replicated, spark: Session
) -> None:
    lake, target, tables = Lake(database.config), database.entry("ledger").target, ["ledger"]
    here = Merging(database, spark)
    spoil(database, spark, "UPDATE {} SET note = 'spoiled' WHERE n = 7",
          "DELETE FROM {} WHERE n = 8")  # fmt: skip
    assert launched(database, "resnapshot_tables", "read_again", tables=tables)
    assert database.differences("ledger") == []

    assert launched(database, "reset_tables", "reset", tables=tables)
    assert lake.state(target) is None
    here.require_equal("ledger")

    assert launched(database, "drop_tables", "drop", tables=tables, lake=True)
    assert lake.state(target) is None


def launched(database: Replicated, job: str, op: str, **wish: Any) -> bool:
    """Whether a job that a person starts succeeds."""
    found = definitions(database).resolve_job_def(job)
    run_config = {"ops": {op: {"config": wish}}}
    with dg.DagsterInstance.from_config(str(database.instance)) as instance:
        return found.execute_in_process(run_config, instance=instance, raise_on_error=False).success


def written(database: Replicated) -> str:
    """The outcome that Dagster knows of the table."""
    check = check_of(database.config, database.entry("ledger"))
    with dg.DagsterInstance.from_config(str(database.instance)) as instance:
        found = instance.event_log_storage.get_latest_asset_check_execution_by_key([check])
    return found[check].status.value


def backfill(database: Replicated) -> dg.AssetCheckEvaluation:
    """Of all hours: its run has the table to itself, and compares it when it has merged."""
    job = definitions(database).resolve_implicit_global_asset_job_def()
    key = table_key(database.config, database.entry("ledger"))
    with dg.DagsterInstance.ephemeral() as instance:
        result = job.get_subset(asset_selection={key}).execute_in_process(
            instance=instance,
            tags={
                "dagster/backfill": "b",
                RANGE_START: hour_of(NOW).key,
                RANGE_END: hour_of(utc_now()).key,
            },
        )
        return evaluation(result)
