"""`cdc-assets verify` against real parts: what it finds, what it does not invent, what it mends."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from cdc_assets_devstack.stack import LocalStack
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pyspark.sql import Row, SparkSession

from cdc_assets.config import ReplicationConfig
from cdc_assets.merge.statements import sql
from cdc_assets.merge.verifying.judging import DifferenceKind
from cdc_assets.merge.verifying.report import ComparisonReport
from cdc_assets_tests import operated
from cdc_assets_tests.bench.relay import Left, relayed
from cdc_assets_tests.faults import Death, Fault, How, faults
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.corrupting import Corruption, beside, corrupt, merging
from cdc_assets_tests.stack.given_back import require_given_back
from cdc_assets_tests.stack.killed_commands import require_put_right
from cdc_assets_tests.stack.kinds import (
    POSTGRES,
    POSTGRES_SETTINGS,
    POSTGRES_TOLD,
    POSTGRES_TYPES,
    create,
    rows,
)
from cdc_assets_tests.stack.merging import Merging
from cdc_assets_tests.stack.replicated import (
    Replicated,
    new_database,
    record_settings,
    replicated,
)
from cdc_assets_tests.toy.profiles import in_soak, is_soak
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

__all__ = ["beside"]

VERIFY = {"nudge": True, "bucket_rows": 100, "chunk_rows": 1_000, "wait_seconds": 120}
ROWS = 4_000
HOT = 10
"""Keys that change many times a second: no look finds them at rest."""
LEDGER = (
    "CREATE TABLE ledger (id int PRIMARY KEY, n int NOT NULL, note text)",
    f"INSERT INTO ledger SELECT n, n, 'row ' || n FROM generate_series(0, {ROWS - 1}) AS n",
)
CODES = (
    "CREATE TABLE codes (code varchar(36) PRIMARY KEY, n int NOT NULL)",
    f"INSERT INTO codes SELECT md5(n::text), n FROM generate_series(1, {ROWS}) AS n",
    "VACUUM ANALYZE codes",
)
READER = "verify-reader"
NOT_COMPARED = frozenset({
    "a_timetz", "an_interval", "a_point", "a_multirange", "a_lsn", "a_box", "a_line", "a_segment",
    "a_path", "a_polygon", "a_circle", "a_query", "a_jsonpath", "a_vector", "a_half", "a_sparse",
    "lsns", "labels", "a_pair",
})  # fmt: skip


def verified(
    database: Replicated, spark: Session, table: str, *, repair: bool = False
) -> ComparisonReport:
    entry = database.entry(table)
    return operated.verified(database.config, entry, spark, repair=repair)


def found(report: ComparisonReport) -> set[Corruption]:
    return {Corruption(each.key[0], each.kind) for each in report.differences}


@in_soak
def test_values_of_all_types_are_equal_or_named_and_are_put_back(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    name = "verifytypes"
    dsn = new_database(stack, name, *POSTGRES_TYPES, create(POSTGRES), *rows(POSTGRES, 0))
    settings = {**POSTGRES_SETTINGS, **record_settings(stack, "schemas")}
    with replicated(
        stack, stack_config, name, dsn, debezium=settings, connector=POSTGRES_TOLD, verify=VERIFY
    ) as database:
        database.wait_until_delivered()
        database.replicate()
        report = verified(database, spark, "kinds")
        assert report.is_proven, report.words()
        left_out = {each.name: each.why for each in report.left_out}
        assert left_out.keys() == NOT_COMPARED, left_out
        compared = [each for each in POSTGRES if each not in NOT_COMPARED]
        table = sql.table(database.config.lake.catalog.name, database.entry("kinds").target)
        empty = ", ".join(f"{sql.quote(each)} = NULL" for each in compared)
        spark().sql(f"UPDATE {table} SET {empty} WHERE id IN (1, 2)")
        report = verified(database, spark, "kinds", repair=True)
        assert {each.key for each in report.differences} == {("1",), ("2",)}
        assert all(set(each.columns) == set(compared) for each in report.differences)
        assert report.repaired == 2
        assert verified(database, spark, "kinds").is_proven
        require_given_back(database, spark, POSTGRES)


def test_each_corruption_is_found_under_load_and_none_where_there_is_none(
    stack: LocalStack,
    stack_config: ReplicationConfig,
    spark: Session,
    beside: SparkSession,
) -> None:
    name, count = "verifyload", 400 if is_soak() else 24
    dsn = new_database(stack, name, *LEDGER, *CODES[:2])
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(CODES[2].encode())
    with replicated(stack, stack_config, name, dsn, verify=VERIFY) as database:
        database.wait_until_delivered()
        database.replicate()
        with relaying(name, dsn) as left:
            require_little_read(database, spark, left)
            require_few_scans(database, spark, dsn)
        quiet = random.Random(7).sample(range(4, ROWS, 4), count)
        if is_soak():
            with writing(dsn), merging(database, beside, "ledger"):
                untouched = verified(database, spark, "ledger")
                assert not untouched.differences, untouched.words()
                assert untouched.not_judged <= HOT, untouched.words()
        done = corrupt(database, spark, "ledger", quiet, new=10 * ROWS, seed=7)
        assert len(done) == count + count // 4
        # A publish each second beats a repair as often as it is tried, until whoever merges waits.
        with writing(dsn), merging(database, beside, "ledger"):
            report = verified(database, spark, "ledger", repair=True)
            assert found(report) == done, report.words()
            assert report.not_judged <= HOT, report.words()
            assert report.repaired == len(done)
        Merging(database, spark).require_equal("ledger")
        database.run("verify", "--table", "ledger")
        if is_soak():
            again = corrupt(database, spark, "ledger", quiet, new=15 * ROWS, seed=8)
            require_put_right(database, writing(dsn), beside, again)
            require_equal_after_deaths(database, spark, dsn)
        for kind in DifferenceKind:
            assert any(each.kind is kind for each in done), f"no row was made {kind}"


@contextmanager
def relaying(name: str, dsn: str) -> Iterator[Left]:
    """Have the source read through a relay that counts what leaves it, by a named reader."""
    server = conninfo_to_dict(dsn)
    with (
        relayed(str(server["host"]), int(str(server["port"]))) as (port, left),
        pytest.MonkeyPatch.context() as patch,
    ):
        through = make_conninfo(dsn, port=port, application_name=READER)
        patch.setenv(f"{name.upper()}_DSN", through)
        yield left


def require_little_read(database: Replicated, spark: Session, left: Left) -> None:
    """Of a table that is equal at most a twentieth of its rows leaves the source."""
    for table in ("ledger", "codes"):
        before = left.rows
        report = verified(database, spark, table)
        assert (report.is_proven, report.rows) == (True, ROWS), report.words()
        assert 0 < left.rows - before <= ROWS // 20, f"{left.rows - before} rows of {table}"


def require_few_scans(database: Replicated, spark: Session, dsn: str) -> None:
    """Of a table whose key no index has in order: once for checksums, for rows, and for keys."""
    lake = sql.table(database.config.lake.catalog.name, database.entry("codes").target)
    spark().sql(f"UPDATE {lake} SET n = -n WHERE n % 97 = 0")
    before = scans(dsn)
    report = verified(database, spark, "codes", repair=True)
    assert report.kinds == {DifferenceKind.DIFFERENT: ROWS // 97}, report.words()
    assert report.repaired == ROWS // 97
    assert 2 <= scans(dsn) - before <= 3
    assert database.differences("codes") == []


def scans(dsn: str) -> int:
    """How often the table was read as a whole, once all of the reader's statistics are in."""
    reader = f"SELECT 1 FROM pg_stat_activity WHERE application_name = '{READER}'"
    read = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'codes'"
    with psycopg.connect(dsn, autocommit=True) as connection:
        until(lambda: connection.execute(reader.encode()).fetchone() is None, "the reader has left")
        return int((connection.execute(read.encode()).fetchone() or (0,))[0])


KEYS = (
    "CREATE TABLE keys (name text {collation}, code uuid, at timestamptz, amount numeric(20,3),"
    " day date, short char(5), raw bytea, flag boolean, big bigint, secret text, note text,"
    " PRIMARY KEY (name, code, at, amount, day, short, raw, flag, big))",
    "INSERT INTO keys SELECT (ARRAY['a', 'B', 'ä', 'Z', '', ' a', '中'])[n % 7 + 1] || n % 5,"
    " md5(n::text)::uuid, '1969-12-25 23:59:59.999999+00'::timestamptz + n * interval '1 hour',"
    " n / 8.0 - 3, DATE '1969-12-20' + n, chr(97 + n % 3), decode(lpad(to_hex(n), 8, '0'), 'hex'),"
    " n % 2 = 0, -9000000000000000000 + n, 'secret ' || n, NULL FROM generate_series(1, 300) AS n",
    "CREATE TABLE kept (id int PRIMARY KEY, note text, cdc_w0 text, cdc_v0 text, cdc_text_0 text,"
    " cdc_exists bool, cdc_position int, cdc_kept text, cdc_md5 text)",
    "INSERT INTO kept SELECT n, 'n', 'w', 'v', 't', false, 7, 'k', 'm'"
    " FROM generate_series(1, 50) AS n",
    "CREATE TABLE bag (n int, word text)",
    "ALTER TABLE bag REPLICA IDENTITY FULL",
    "INSERT INTO bag SELECT n % 7, 'w' FROM generate_series(1, 50) AS n",
)
TOLD = {
    "public.keys": {"columns": {"secret": {"mask": "sha256"}, "note": {"exclude": True}}},
    "public.kept": {"deletes": "soft"},
}


@in_soak
def test_keys_of_all_kinds_masks_soft_deletes_and_rows_without_key(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    name, other = "verifykeys", 'COLLATE "und-x-icu"'
    dsn = new_database(stack, name)
    with psycopg.connect(dsn) as connection:
        has = connection.execute("SELECT 1 FROM pg_collation WHERE collname = 'und-x-icu'")
        collation = other if has.fetchone() else 'COLLATE "C"'
        for statement in KEYS:
            connection.execute(statement.replace("{collation}", collation).encode())
    said = {**VERIFY, "bucket_rows": 10, "chunk_rows": 50}
    with replicated(stack, stack_config, name, dsn, verify=said, tables=TOLD) as database:
        database.execute("DELETE FROM kept WHERE id < 10")
        database.wait_until_delivered()
        database.replicate()
        database.execute("DELETE FROM kept WHERE id < 20")
        database.wait_until_delivered()
        database.replicate()
        for each in ("keys", "kept", "bag"):
            report = verified(database, spark, each)
            assert report.is_proven, report.words()
            assert not report.left_out
        catalog = database.config.lake.catalog.name
        keys, kept, bag = (
            sql.table(catalog, database.entry(each).target) for each in ("keys", "kept", "bag")
        )
        for statement in (
            f"DELETE FROM {keys} WHERE big % 100 = 0",
            f"UPDATE {keys} SET secret = sha2('secret', 256) WHERE big % 100 = -1",
            f"INSERT INTO {keys} SELECT * FROM {keys} WHERE big % 100 = -2",
            f"UPDATE {keys} SET short = 'zzz  ' WHERE big % 100 = -3",
            f"UPDATE {kept} SET _cdc_deleted = false WHERE id = 15",
            f"UPDATE {kept} SET _cdc_deleted = true WHERE id = 25",
            f"DELETE FROM {kept} WHERE id = 26",
        ):
            spark().sql(statement)
        report = verified(database, spark, "keys", repair=True)
        assert report.kinds == {
            DifferenceKind.MISSING: 6, DifferenceKind.DIFFERENT: 3,
            DifferenceKind.TWICE: 3, DifferenceKind.ONLY_IN_LAKE: 3,
        }  # fmt: skip
        assert {each.columns for each in report.differences} == {(), ("secret",)}
        report = verified(database, spark, "kept", repair=True)
        missing = {
            Corruption("25", DifferenceKind.MISSING),
            Corruption("26", DifferenceKind.MISSING),
        }
        assert found(report) == {Corruption("15", DifferenceKind.ONLY_IN_LAKE), *missing}
        for each in ("keys", "kept"):
            assert verified(database, spark, each).is_proven
        named = "cdc_w0, cdc_v0, cdc_text_0, cdc_exists, cdc_position, cdc_kept, cdc_md5"
        values = spark().sql(f"SELECT {named} FROM {kept} WHERE id >= 10").distinct().collect()
        assert [tuple(each) for each in values] == [("w", "v", "t", False, 7, "k", "m")]
        first = f"(SELECT min(_cdc_position) FROM {bag})"
        spark().sql(f"DELETE FROM {bag} WHERE _cdc_position = {first}")
        left = spark().table(bag).count()
        assert left < 50
        report = verified(database, spark, "bag", repair=True)
        assert report.sums is not None
        assert [each.count for each in report.sums] == [50, left]


def require_equal_after_deaths(database: Replicated, spark: Session, dsn: str) -> None:
    """A repair that is killed at each effect that it has, and run again."""
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "SELECT id FROM ledger WHERE id % 4 = 0 AND id > 0 ORDER BY id LIMIT 12"
        )
        keys = [key for (key,) in found.fetchall()]
    for n, point in enumerate(("spark: append to side table", "spark: publish rows")):
        done = corrupt(database, spark, "ledger", keys, new=(20 + n) * ROWS, seed=n)
        with faults(Fault(point, How.DEATH)), pytest.raises(Death):
            verified(database, spark, "ledger", repair=True)
        again = verified(database, spark, "ledger", repair=True)
        is_done = point == "spark: publish rows"
        assert found_or_done(again, done, is_done=is_done), again.words()
        database.replicate()
        assert database.differences("ledger") == []


def found_or_done(report: ComparisonReport, done: set[Corruption], *, is_done: bool) -> bool:
    """What was killed after it was published is put right already."""
    return report.is_proven if is_done else found(report) == done


@contextmanager
def writing(dsn: str) -> Iterator[None]:
    """Change, delete and insert rows whose key is no multiple of four, until the block ends."""
    stop = threading.Event()

    def run() -> None:
        rng = random.Random(3)
        with psycopg.connect(dsn) as connection:
            while not stop.wait(0.02):
                key = rng.randrange(ROWS) // 4 * 4 + rng.randrange(1, 4)
                statement = rng.choice((
                    "UPDATE ledger SET n = n + 1, note = 'changed' WHERE id = %(key)s",
                    "DELETE FROM ledger WHERE id = %(key)s",
                    "INSERT INTO ledger VALUES (%(key)s, 0, 'new') ON CONFLICT DO NOTHING",
                    "UPDATE ledger SET n = n + 1 WHERE id % 4 = 1 AND id < 40",
                ))  # fmt: skip
                connection.execute(statement.replace("% ", "%% ").encode(), {"key": key})
                connection.commit()

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join(60)


SHARDS = tuple(
    statement
    for n, rows in ((1, 60), (2, 40))
    for statement in (
        f"CREATE TABLE items_{n} (id int PRIMARY KEY, note text)",
        f"INSERT INTO items_{n} SELECT id, 'shard {n} row ' || id"
        f" FROM generate_series(1, {rows}) AS id",
    )
)
MERGED = {
    "tables": r"public\.items_(?P<number>\d+)",
    "namespace": "{source}_all",
    "table": "items",
    "shard": "{number}",
}


@in_soak
def test_each_shard_is_compared_with_its_own_rows_and_put_right_by_itself(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    name, said = "verifyshards", {**VERIFY, "bucket_rows": 10}
    dsn = new_database(stack, name, *SHARDS)
    with replicated(stack, stack_config, name, dsn, verify=said, merge_into=[MERGED]) as database:
        database.wait_until_delivered()
        database.replicate()
        one, two = "items_1", "items_2"
        for table, count in ((one, 60), (two, 40)):
            report = verified(database, spark, table)
            assert (report.is_proven, report.rows) == (True, count), report.words()
        lake = sql.table(database.config.lake.catalog.name, database.entry(one).target)
        assert database.entry(one).target == database.entry(two).target
        before = {row["id"]: row["note"] for row in rows_of_shard(spark, lake, "2")}
        for statement in (
            f"UPDATE {lake} SET note = 'spoiled' WHERE shard = '1' AND id = 7",
            f"DELETE FROM {lake} WHERE shard = '1' AND id = 8",
            f"UPDATE {lake} SET shard = '2' WHERE shard = '1' AND id = 50",
            f"INSERT INTO {lake} SELECT * FROM {lake} WHERE shard = '2' AND id = 9",
        ):
            spark().sql(statement)
        seven, eight, fifty = (
            Corruption("7", DifferenceKind.DIFFERENT),
            Corruption("8", DifferenceKind.MISSING),
            Corruption("50", DifferenceKind.MISSING),
        )
        assert found(verified(database, spark, one)) == {seven, eight, fifty}
        other = {
            Corruption("50", DifferenceKind.ONLY_IN_LAKE),
            Corruption("9", DifferenceKind.TWICE),
        }
        assert found(verified(database, spark, two)) == other
        assert verified(database, spark, one, repair=True).repaired == 3
        assert found(verified(database, spark, two)) == other, "what is another shard's stays"
        assert verified(database, spark, two, repair=True).repaired == 2
        database.execute("UPDATE items_1 SET note = 'newer' WHERE id IN (7, 8)",
                         "DELETE FROM items_2 WHERE id IN (9, 10)")  # fmt: skip
        database.wait_until_delivered()
        database.replicate()
        for table in (one, two):
            report = verified(database, spark, table)
            assert report.is_proven, report.words()
        left = {row["id"]: row["note"] for row in rows_of_shard(spark, lake, "2")}
        assert left == {id_: note for id_, note in before.items() if id_ not in {9, 10}}
        database.run("verify")


def rows_of_shard(spark: Session, lake: str, shard: str) -> list[Row]:
    return spark().sql(f"SELECT id, note FROM {lake} WHERE shard = '{shard}'").collect()
