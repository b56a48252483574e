"""`cdc-assets rebuild --from-source`: MariaDB's rows, with Debezium's changes over them."""

from __future__ import annotations

import pytest
from cdc_assets_devstack.stack import LocalStack
from pyspark.sql import SparkSession

from cdc_assets.config import ReplicationConfig
from cdc_assets.databases.mysql.rows import MysqlRows
from cdc_assets.merge.replicate import Replicator
from cdc_assets_tests.faults import Anywhere, How
from cdc_assets_tests.pipeline import Session, hours_since
from cdc_assets_tests.stack.corrupting import beside
from cdc_assets_tests.stack.killed_commands import require_rebuilt
from cdc_assets_tests.stack.read_beside import (
    MARIADB,
    ROWS,
    WHILE_NOBODY_MERGES,
    build,
    change,
    in_batches,
    kills_and_changes,
    require_no_need_of_a_lost_log,
    spoil,
    world,
)
from cdc_assets_tests.stack.replicated import NOW
from cdc_assets_tests.stack.test_resnapshot_mariadb import changed_first
from cdc_assets_tests.stack.test_verify_mariadb import writing
from cdc_assets_tests.toy.profiles import in_soak

pytestmark = [pytest.mark.stack, in_soak, pytest.mark.timeout(900)]

__all__ = ["beside"]


def test_a_log_that_was_lost_is_not_needed_however_often_it_is_killed(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    require_no_need_of_a_lost_log(stack, stack_config, "readmylost", spark, MARIADB)


def test_it_goes_on_from_where_the_old_table_stands(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    """Changes up to there are passed over, those after it are merged, and replays change nothing.

    The old table has the connector's snapshot alone, whose rows all have one place in the binlog.
    """
    with world(stack, stack_config, "readmybeside", MARIADB, batches=8) as database:
        spoil(database, spark)
        change(database, WHILE_NOBODY_MERGES)
        database.wait_until_delivered()
        assert build(database, from_source=True, dry_run=True).is_done
        done = build(database, from_source=True)
        assert done.swapped
        assert done.equal
        assert (done.rows, done.waves) == (ROWS - 2, 3)
        assert done.records > len(WHILE_NOBODY_MERGES)
        assert database.differences("ledger") == []
        larger = in_batches(database, stack_config, MARIADB, of=10_000)
        replicator = Replicator(larger.config, spark)
        list(replicator.replay(database.entry("ledger"), hours_since(NOW), run_id="replay"))
        assert database.differences("ledger") == []


def test_the_first_change_after_the_snapshot_wins(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, beside: SparkSession
) -> None:
    with changed_first(stack, stack_config, "readmyoldfirst", spark, beside) as database:
        assert build(database, from_source=True, verify=False).swapped
        assert database.differences("ledger") == []


def test_without_waiting_for_the_log_to_go_on_the_first_change_would_be_lost(
    stack: LocalStack,
    stack_config: ReplicationConfig,
    spark: Session,
    beside: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its position is that of the snapshot, which the rows are put at."""
    with changed_first(stack, stack_config, "readmyoldnaive", spark, beside) as database:
        monkeypatch.setattr(MysqlRows, "is_past", lambda *_: True)
        build(database, from_source=True, verify=False)
        assert database.differences("ledger")


@pytest.mark.parametrize("how", [How.BEFORE, How.DEATH])
def test_killed_at_any_effect_it_goes_on(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, how: How
) -> None:
    """Each try gets one effect further than the one before, until one is done."""
    name = f"readmykilled{how.name.lower()}"
    with world(stack, stack_config, name, MARIADB) as database:
        change(database, WHILE_NOBODY_MERGES)
        kills = [Anywhere(place=n, how=how) for n in range(1, 500)]
        kills_and_changes(database, spark, MARIADB, kills)


@pytest.mark.parametrize("way", [("--from-source",), ()], ids=["source", "log"])
def test_killed_by_the_system_under_load_the_command_goes_on(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, way: tuple[str, ...]
) -> None:
    name = f"readmyload{len(way)}"
    with world(stack, stack_config, name, MARIADB, batches=2_000) as database:
        spoil(database, spark)
        require_rebuilt(database, writing(database.dsn), *way)
