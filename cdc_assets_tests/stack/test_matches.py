"""The check `matches_source` in Dagster, against a real source: by its job, after a rebuild."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
import pytest

from cdc_assets.config import ReplicationConfig
from cdc_assets.devstack.stack import LocalStack
from cdc_assets.log.hours import hour_of
from cdc_assets.merge.statements import sql
from cdc_assets.operate.services import utc_now
from cdc_assets.orchestration import build_definitions
from cdc_assets.orchestration.keys import CHECK_MATCHES, table_key
from cdc_assets.orchestration.matching import check_of
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.configuration import NOWHERE
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated

pytestmark = pytest.mark.stack

NAME = "matches"
VERIFY = {"nudge": True, "bucket_rows": 10, "wait_seconds": 60}
MADE = (
    "CREATE TABLE ledger (id text PRIMARY KEY, n int NOT NULL, note text)",
    "INSERT INTO ledger SELECT 'key' || n, n, 'row ' || n FROM generate_series(1, 200) AS n",
)


@pytest.fixture
def database(stack: LocalStack, stack_config: ReplicationConfig) -> Iterator[Replicated]:
    dsn = new_database(stack, NAME, *MADE)
    with replicated(stack, stack_config, NAME, dsn, verify=VERIFY) as made:
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


def compare(database: Replicated) -> dg.AssetCheckEvaluation:
    """The job that the schedule starts."""
    job = definitions(database).resolve_job_def(f"verify_{NAME}")
    with dg.DagsterInstance.ephemeral() as instance:
        return evaluation(job.execute_in_process(instance=instance))


def said(told: dg.AssetCheckEvaluation) -> Mapping[str, Any]:
    return {name: each.value for name, each in told.metadata.items()}


def spoil(database: Replicated, spark: Session, *statements: str) -> None:
    name = sql.table(database.config.lake.catalog.name, database.entry("ledger").target)
    for each in statements:
        spark().sql(each.format(name))


def test_it_is_green_where_all_is_equal_red_where_not_and_written_after_a_rebuild(
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

    database.execute("UPDATE ledger SET n = n + 1 WHERE n > 190")
    database.run("rebuild", "ledger")  # merges what it needs by itself: nothing else does
    assert written(database) == "SUCCEEDED", database.last_words()
    assert compare(database).passed

    # A backfill merges the missing row again, and leaves what no change has made.
    spoil(database, spark, "UPDATE {} SET id = 'extra' WHERE id = 'key10'")
    database.execute("UPDATE ledger SET n = n + 1 WHERE id = 'key1'")
    told = backfill(database)
    assert told.severity is dg.AssetCheckSeverity.ERROR, told.description
    assert said(told)["keys/only_in_lake"] == said(told)["keys_that_differ"] == 1

    assert not repaired(database, repair=False)
    assert written(database) == "FAILED"
    assert repaired(database, repair=True)
    assert written(database) == "SUCCEEDED"
    assert database.differences("ledger") == []


def repaired(database: Replicated, *, repair: bool) -> bool:
    """Whether the job that compares, and puts right, succeeds."""
    job = definitions(database).resolve_job_def("verify_tables")
    wish = {"compare_with_source": {"config": {"tables": ["ledger"], "repair": repair}}}
    with dg.DagsterInstance.from_config(str(database.instance)) as instance:
        return job.execute_in_process(
            {"ops": wish}, instance=instance, raise_on_error=False
        ).success


def written(database: Replicated) -> str:
    """The outcome that Dagster knows of the table."""
    check = check_of(database.config, database.entry("ledger"))
    with dg.DagsterInstance.from_config(str(database.instance)) as instance:
        found = instance.event_log_storage.get_latest_asset_check_execution_by_key([check])
    return found[check].status.value


def backfill(database: Replicated) -> dg.AssetCheckEvaluation:
    """Of this hour: its run has the table to itself, and compares it when it has merged."""
    job = definitions(database).resolve_implicit_global_asset_job_def()
    key = table_key(database.config, database.entry("ledger"))
    with dg.DagsterInstance.ephemeral() as instance:
        result = job.get_subset(asset_selection={key}).execute_in_process(
            instance=instance,
            partition_key=hour_of(utc_now()).key,
            tags={"dagster/backfill": "b"},
        )
        return evaluation(result)
