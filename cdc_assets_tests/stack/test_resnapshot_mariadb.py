"""`cdc-assets resnapshot` with MariaDB behind the lake, whose readers share no snapshot."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from cdc_assets_devstack.stack import LocalStack
from pyspark.sql import SparkSession

from cdc_assets.config import ReplicationConfig
from cdc_assets.databases.mysql.rows import MysqlRows
from cdc_assets.effects import Moment, hooked
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.merge.statements import sql
from cdc_assets.operations.resnapshot.comparing import KeyState
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.corrupting import beside, corrupt, merging
from cdc_assets_tests.stack.given_back import require_given_back
from cdc_assets_tests.stack.killed_commands import require_read_again
from cdc_assets_tests.stack.kinds import MARIADB, MARIADB_SETTINGS, MARIADB_TOLD, create, rows
from cdc_assets_tests.stack.replicated import (
    Replicated,
    new_mariadb_database,
    record_settings,
    replicated,
)
from cdc_assets_tests.stack.rereading import ROWS, VANISHED, changing_meanwhile, merge, read_again
from cdc_assets_tests.stack.test_verify_mariadb import LEDGER, NOT_COMPARED, VERIFY, writing
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, in_soak, pytest.mark.timeout(900)]

__all__ = ["beside"]

FEW = 60


def test_what_changes_meanwhile_wins_and_what_vanished_goes(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, beside: SparkSession
) -> None:
    name = "readmymeanwhile"
    dsn = new_mariadb_database(stack, name, *LEDGER)
    with changing_meanwhile(
        stack, stack_config, name, dsn, spark, beside, verify=VERIFY, parts=4
    ) as database:
        report = read_again(database, spark)
        assert report.is_whole, list(report.words())
        assert report.progress.counts[KeyState.VANISHED] == VANISHED
        assert report.progress.rows == ROWS
        assert not report.looked_at, "a change tells all columns"
        merge(database, beside)
        assert database.differences("ledger") == []


def test_the_first_change_after_the_snapshot_wins(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, beside: SparkSession
) -> None:
    with changed_first(stack, stack_config, "readmyfirst", spark, beside) as database:
        report = read_again(database, spark)
        assert report.is_whole, list(report.words())
        assert report.progress.counts == {KeyState.NEWER: FEW}
        assert database.differences("ledger") == []


def test_without_waiting_for_the_log_to_go_on_the_first_change_would_be_lost(
    stack: LocalStack,
    stack_config: ReplicationConfig,
    spark: Session,
    beside: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its position is that of the snapshot, and its partition may have fewer rows than others."""
    with changed_first(stack, stack_config, "readmyfirstnaive", spark, beside) as database:
        monkeypatch.setattr(MysqlRows, "is_past", lambda *_: True)
        read_again(database, spark)
        assert database.differences("ledger")


def test_killed_under_load_it_goes_on_and_the_table_equals_its_source(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, beside: SparkSession
) -> None:
    name = "readmyload"
    dsn = new_mariadb_database(stack, name, *LEDGER)
    sizes = {"chunk_rows": ROWS // 10, "parallel": 3}
    with replicated(stack, stack_config, name, dsn, verify=VERIFY, resnapshot=sizes) as database:
        database.wait_until_delivered()
        database.replicate()
        keys = random.Random(5).sample(range(0, ROWS, 2), ROWS // 20)
        corrupt(database, spark, "ledger", keys, new=10 * ROWS, seed=5)
        assert database.differences("ledger")
        require_read_again(database, writing(dsn), beside)


def test_values_of_all_types_are_put_back(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, beside: SparkSession
) -> None:
    name = "readmytypes"
    dsn = new_mariadb_database(stack, name, create(MARIADB), *rows(MARIADB, 0))
    settings = {**MARIADB_SETTINGS, **record_settings(stack, "schemas")}
    with replicated(
        stack, stack_config, name, dsn, debezium=settings, connector=MARIADB_TOLD, verify=VERIFY
    ) as database:
        merge(database, beside, "kinds")
        compared = [each for each in MARIADB if each not in NOT_COMPARED]
        table = sql.table(database.config.lake.catalog.name, database.entry("kinds").target)
        empty = ", ".join(f"{sql.quote(each)} = NULL" for each in compared)
        spark().sql(f"UPDATE {table} SET {empty} WHERE id < 3")
        with merging(database, beside, "kinds"):
            report = read_again(database, spark, table="kinds")
        assert {each.name for each in report.left_out} == NOT_COMPARED
        assert report.progress.put == 2
        require_given_back(database, spark, MARIADB)


@contextmanager
def changed_first(
    stack: LocalStack, base: ReplicationConfig, name: str, spark: Session, beside: SparkSession
) -> Iterator[Replicated]:
    """A corrupted table whose rows all change once they were read, for the first time ever.

    Nothing is written to the binlog between the connector's snapshot and that.
    """
    made = f"INSERT INTO ledger SELECT seq, seq, 'row' FROM seq_1_to_{FEW}"
    elsewhere = ("CREATE DATABASE IF NOT EXISTS elsewhere",
                 "CREATE TABLE IF NOT EXISTS elsewhere.nudges (at timestamp(6))")  # fmt: skip
    dsn = new_mariadb_database(stack, name, LEDGER[0], made, *elsewhere)
    with replicated(stack, base, name, dsn, verify=VERIFY) as database:
        entry, log = database.entry("ledger"), KafkaLog(database.config.kafka.librdkafka())

        def records() -> int:
            marks = log.watermarks([entry.topic])[entry.topic]
            return sum(marks.end.as_dict().values())

        until(lambda: log.partitions([entry.topic]) and records() == FEW, "the snapshot is sent")
        database.replicate()
        table = sql.table(database.config.lake.catalog.name, entry.target)
        spark().sql(f"UPDATE {table} SET note = 'wrong'")

        def after_reading(point: str, moment: Moment) -> None:
            if (point, moment) != ("source: read a wave", Moment.AFTER) or records() > FEW:
                return
            database.execute("UPDATE ledger SET n = n + 100")
            merge(database, beside)

        with hooked(after_reading):
            yield database
        assert records() == 2 * FEW
