"""`cdc-assets verify` with MariaDB behind the lake: the same as `test_verify`, by its own types."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from cdc_assets_devstack.stack import LocalStack
from pyspark.sql import SparkSession

from cdc_assets.config import ReplicationConfig
from cdc_assets.merge.statements import sql
from cdc_assets.merge.verifying.judging import DifferenceKind
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.corrupting import Corruption, beside, corrupt, merging
from cdc_assets_tests.stack.given_back import require_given_back
from cdc_assets_tests.stack.killed_commands import require_put_right
from cdc_assets_tests.stack.kinds import MARIADB, MARIADB_SETTINGS, MARIADB_TOLD, create, rows
from cdc_assets_tests.stack.mariadb_side import connect
from cdc_assets_tests.stack.replicated import (
    new_mariadb_database,
    record_settings,
    replicated,
)
from cdc_assets_tests.stack.test_verify import found, verified
from cdc_assets_tests.toy.profiles import in_soak, is_soak

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

__all__ = ["beside"]

VERIFY = {
    "nudge": "INSERT INTO elsewhere.nudges VALUES (current_timestamp(6))",
    "bucket_rows": 100,
    "chunk_rows": 1_000,
    "wait_seconds": 120,
}
ROWS = 4_000
HOT = 10
LEDGER = (
    "CREATE TABLE ledger (id int PRIMARY KEY, n int NOT NULL, note text)",
    f"INSERT INTO ledger SELECT seq, seq, concat('row ', seq) FROM seq_0_to_{ROWS - 1}",
)
NOT_COMPARED = frozenset({"a_point", "a_line", "a_geometry"})
ZERO = (
    "SET SESSION sql_mode = ''",
    "CREATE TABLE zeros (id int PRIMARY KEY, d date, d_must date NOT NULL,"
    " d_usual date NOT NULL DEFAULT '2001-02-03', t datetime(3), t_must datetime NOT NULL,"
    " s timestamp(6) NULL, n int(5) ZEROFILL, f float, g double)",
    "INSERT INTO zeros VALUES (1, 0, 0, 0, 0, 0, 0, 7, 16777216, -0.0),"
    " (2, '2024-00-10', '2024-02-00', '2024-00-00', '2024-00-10 01:02:03', '2024-01-00 04:05:06',"
    " '1970-01-01 00:00:01', 0, 0.1, 1e-320), (3, NULL, '1970-01-01', '1970-01-01', NULL,"
    " '1970-01-01', NULL, NULL, NULL, NULL)",
)


@in_soak
def test_values_of_all_types_are_equal_or_named_and_are_put_back(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    name = "verifymytypes"
    dsn = new_mariadb_database(stack, name, create(MARIADB), *rows(MARIADB, 0), *ZERO)
    settings = {**MARIADB_SETTINGS, **record_settings(stack, "schemas")}
    with replicated(
        stack, stack_config, name, dsn, debezium=settings, connector=MARIADB_TOLD, verify=VERIFY
    ) as database:
        database.wait_until_delivered()
        database.replicate()
        report = verified(database, spark, "zeros")
        # A snapshot reads 16777216 with the six digits that the server writes of a float.
        assert {(each.key, each.columns) for each in report.differences} == {(("1",), ("f",))}
        assert verified(database, spark, "zeros", repair=True).repaired == 1
        database.execute("SET SESSION sql_mode = ''", "UPDATE zeros SET id = id + 10")
        database.execute(*rows(MARIADB, 100))
        database.wait_until_delivered()
        database.replicate()
        assert verified(database, spark, "zeros").is_proven
        report = verified(database, spark, "kinds")
        assert report.is_proven, report.words()
        left_out = {each.name: each.why for each in report.left_out}
        assert left_out.keys() == NOT_COMPARED, left_out
        compared = [each for each in MARIADB if each not in NOT_COMPARED]
        table = sql.table(database.config.lake.catalog.name, database.entry("kinds").target)
        empty = ", ".join(f"{sql.quote(each)} = NULL" for each in compared)
        spark().sql(f"UPDATE {table} SET {empty} WHERE id IN (1, 102)")
        report = verified(database, spark, "kinds", repair=True)
        assert {each.key for each in report.differences} == {("1",), ("102",)}
        assert all(set(each.columns) == set(compared) for each in report.differences)
        assert report.repaired == 2
        assert verified(database, spark, "kinds").is_proven
        require_given_back(database, spark, MARIADB)


@in_soak
def test_each_corruption_is_found_under_load_and_none_where_there_is_none(
    stack: LocalStack,
    stack_config: ReplicationConfig,
    spark: Session,
    beside: SparkSession,
) -> None:
    name, count = "verifymyload", 400 if is_soak() else 24
    dsn = new_mariadb_database(stack, name, *LEDGER)
    with replicated(stack, stack_config, name, dsn, verify=VERIFY) as database:
        database.wait_until_delivered()
        database.replicate()
        quiet = random.Random(7).sample(range(4, ROWS, 4), count)
        if is_soak():
            with writing(dsn), merging(database, beside, "ledger"):
                untouched = verified(database, spark, "ledger")
                assert not untouched.differences, untouched.words()
                assert untouched.not_judged <= HOT, untouched.words()
        done = corrupt(database, spark, "ledger", quiet, new=10 * ROWS, seed=7)
        with writing(dsn), merging(database, beside, "ledger"):
            report = verified(database, spark, "ledger", repair=True)
            assert found(report) == done, report.words()
            assert report.not_judged <= HOT, report.words()
            assert report.repaired == len(done)
        again = corrupt(database, spark, "ledger", quiet, new=15 * ROWS, seed=8)
        require_put_right(database, writing(dsn), beside, again)


KEYS = (
    "CREATE TABLE words (word varchar(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci,"
    " old varchar(9) CHARACTER SET latin1 COLLATE latin1_swedish_ci, short char(3),"
    " kind enum('b', 'a'), n bigint unsigned, amount decimal(20,3), day date, at datetime(6),"
    " raw varbinary(4), fixed binary(3), year year, note text, secret varchar(20),"
    " PRIMARY KEY (word, old, short, kind, n, amount, day, at, raw, fixed, year))",
    "INSERT INTO words SELECT"
    " concat(elt(1 + seq % 8, 'a', 'Ä', 'z', 'Z2', '', ' a', '中', 'b  '), seq % 5),"
    " elt(1 + seq % 3, 'é', 'E', 'x '), elt(1 + seq % 2, 'q', 'q1'), 1 + seq % 2,"
    " 18446744073709551000 + seq, seq / 8 - 3, '1969-12-20' + INTERVAL seq DAY,"
    " '1969-12-25 23:59:59.999999' + INTERVAL seq HOUR, unhex(lpad(hex(seq), 8, '0')),"
    " unhex(lpad(hex(seq), 6, '0')), 1901 + seq % 200, NULL, concat('secret ', seq)"
    " FROM seq_1_to_300",
    "CREATE TABLE pairs (a int, b int unsigned, note varchar(20), PRIMARY KEY (a, b))",
    "INSERT INTO pairs SELECT CAST(seq % 7 AS SIGNED) - 3, 4294967295 - seq, 'x' FROM seq_1_to_300",
    "CREATE TABLE folded (id varchar(10) COLLATE utf8mb4_general_ci PRIMARY KEY, n int)",
    "INSERT INTO folded VALUES ('Anna', 1), ('bert', 2), ('ÇA', 3), ('tail  ', 4), ('', 5)",
    "CREATE TABLE bag (n int, word text, f double)",
    "INSERT INTO bag SELECT seq % 7, 'w', seq / 3 FROM seq_1_to_50",
)
TOLD = {"words": {"columns": {"secret": {"mask": "sha256"}}}}


@in_soak
def test_keys_of_all_kinds_collations_and_rows_without_key(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    name = "verifymykeys"
    dsn = new_mariadb_database(stack, name, *KEYS)
    said = {**VERIFY, "bucket_rows": 10, "chunk_rows": 50}
    tables = {f"{name}.{table}": each for table, each in TOLD.items()}
    with replicated(stack, stack_config, name, dsn, verify=said, tables=tables) as database:
        database.wait_until_delivered()
        database.replicate()
        for each in ("words", "pairs", "folded", "bag"):
            report = verified(database, spark, each)
            assert report.is_proven, report.words()
            assert not report.left_out
            assert bool(report.key) == (each != "bag")
        catalog = database.config.lake.catalog.name
        words, pairs, folded, bag = (
            sql.table(catalog, database.entry(each).target)
            for each in ("words", "pairs", "folded", "bag")
        )
        for statement in (
            f"DELETE FROM {words} WHERE n % 100 = 16",
            f"UPDATE {words} SET secret = sha2('secret', 256) WHERE n % 100 = 17",
            f"INSERT INTO {words} SELECT * FROM {words} WHERE n % 100 = 18",
            f"UPDATE {words} SET old = '中' WHERE n % 100 = 19",
            f"UPDATE {pairs} SET note = 'y' WHERE b = 4294967200",
            f"DELETE FROM {pairs} WHERE b = 4294967100",
            f"UPDATE {folded} SET id = 'ANNA' WHERE id = 'Anna'",  # equal by its collation
            f"UPDATE {folded} SET id = 'tail' WHERE id = 'tail  '",
        ):
            spark().sql(statement)
        report = verified(database, spark, "words", repair=True)
        assert report.kinds == {
            DifferenceKind.MISSING: 6, DifferenceKind.DIFFERENT: 3,
            DifferenceKind.TWICE: 3, DifferenceKind.ONLY_IN_LAKE: 3,
        }  # fmt: skip
        assert {each.columns for each in report.differences} == {(), ("secret",)}
        assert len(verified(database, spark, "pairs", repair=True).differences) == 2
        report = verified(database, spark, "folded", repair=True)
        assert found(report) == {
            Corruption("Anna", DifferenceKind.MISSING),
            Corruption("ANNA", DifferenceKind.ONLY_IN_LAKE),
            Corruption("tail  ", DifferenceKind.MISSING),
            Corruption("tail", DifferenceKind.ONLY_IN_LAKE),
        }
        for each in ("words", "pairs", "folded"):
            report = verified(database, spark, each)
            assert report.is_proven, report.words()
        first = f"(SELECT min(_cdc_position) FROM {bag})"
        spark().sql(f"DELETE FROM {bag} WHERE _cdc_position = {first}")
        left = spark().table(bag).count()
        report = verified(database, spark, "bag")
        assert report.sums is not None
        assert [each.count for each in report.sums] == [50, left]


@contextmanager
def writing(dsn: str) -> Iterator[None]:
    """Change, delete and insert rows whose key is no multiple of four, until the block ends."""
    stop, failed = threading.Event(), list[BaseException]()

    def run() -> None:
        rng = random.Random(3)
        try:
            with connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
                while not stop.wait(0.02):
                    key = rng.randrange(ROWS) // 4 * 4 + rng.randrange(1, 4)
                    statement = rng.choice((
                        "UPDATE ledger SET n = n + 1, note = 'changed' WHERE id = %(key)s",
                        "DELETE FROM ledger WHERE id = %(key)s",
                        "INSERT IGNORE INTO ledger VALUES (%(key)s, 0, 'new')",
                        "UPDATE ledger SET n = n + 1 WHERE id %% 4 = 1 AND id < 40",
                    ))  # fmt: skip
                    cursor.execute(statement, {"key": key})
        except BaseException as error:
            failed.append(error)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join(60)
    assert not failed, failed[0]
