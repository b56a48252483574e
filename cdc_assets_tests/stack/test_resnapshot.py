"""`cdc-assets resnapshot` against real parts: under load, killed, and beside newer changes."""

from __future__ import annotations

import json
import random
import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from pyspark.sql import SparkSession

from cdc_assets.config import ReplicationConfig
from cdc_assets.devstack.spark_server import SparkEndpoint
from cdc_assets.devstack.stack import LocalStack
from cdc_assets.effects import Moment, hooked
from cdc_assets.lake import Lake
from cdc_assets.merge.replicate import Replicator
from cdc_assets.merge.resnapshot import wave
from cdc_assets.merge.resnapshot.comparing import State
from cdc_assets.merge.resnapshot.progress import Progress
from cdc_assets.merge.resnapshot.report import Report
from cdc_assets.merge.resnapshot.table import Resnapshot
from cdc_assets.merge.statements import sql
from cdc_assets.operate.resnapshots import ResnapshotBook
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.corrupting import corrupt, merging
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

VERIFY = {"nudge": True, "wait_seconds": 120}
ROWS = 4_000
LEDGER = (
    "CREATE TABLE ledger (id int PRIMARY KEY, n int NOT NULL, note text)",
    "ALTER TABLE ledger ALTER note SET STORAGE EXTERNAL",
    "INSERT INTO ledger SELECT n, n, CASE WHEN n % 10 = 3 THEN repeat('row ' || n, 500)"
    f" ELSE 'row ' || n END FROM generate_series(0, {ROWS - 1}) AS n",
)
"""Rows whose keys end with 3 have values that an update which leaves them alone does not log."""


@pytest.fixture
def beside(spark_endpoint: SparkEndpoint) -> Iterator[SparkSession]:
    """The session of what merges beside a test."""
    session = SparkSession.builder.remote(spark_endpoint.url).create()
    yield session
    session.stop()


def read_again(
    database: Replicated, spark: Session, begun: Progress | None = None, table: str = "ledger"
) -> Report:
    resnapshot = Resnapshot(database.config, spark, "resnapshot-test", say=print)
    return resnapshot.of(database.entry(table), begun, lambda _: None)


@in_soak
def test_killed_under_load_it_goes_on_and_the_table_equals_its_source(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, beside: SparkSession
) -> None:
    name, part = "readload", ROWS // 10
    dsn = new_database(stack, name, *LEDGER)
    sizes = {"chunk_rows": part, "parallel": 3}
    with replicated(stack, stack_config, name, dsn, verify=VERIFY, resnapshot=sizes) as database:
        database.wait_until_delivered()
        database.replicate()
        entry = database.entry("ledger")
        keys = random.Random(5).sample(range(0, ROWS, 2), ROWS // 20)
        corrupt(database, spark, "ledger", keys, new=10 * ROWS, seed=5)
        table = sql.table(database.config.lake.catalog.name, entry.target)
        spark().sql(f"UPDATE {table} SET note = 'lost' WHERE id % 100 = 13")
        assert database.differences("ledger")
        book = ResnapshotBook.beside(database.config.registry)
        with writing(dsn), merging(database, beside, "ledger", pause=4):
            process = database.start("resnapshot", "--table", "ledger")
            until(lambda: book.load(entry.table) is not None, within_seconds=120)
            process.send_signal(signal.SIGKILL)
            process.wait()
            kept = book.load(entry.table)
            assert kept is not None
            assert kept.next is not None
            database.run("resnapshot", "--table", "ledger", "--json")
        assert book.load(entry.table) is None
        said = json.loads(database.last_words()[database.last_words().rindex('{\n  "dry_run"') :])
        report = said["tables"][0]
        assert report["waves"] == 4
        assert report["whole"], said
        assert report["keys"]["vanished"] > 0
        database.wait_until_delivered()
        database.replicate()
        assert database.differences("ledger") == [], database.last_words()
        kinds = {each.kind for each in Lake(database.config).history(entry.target, 1_000)}
        assert "resnapshot" in kinds


def test_what_changes_meanwhile_wins_and_what_vanished_goes(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, beside: SparkSession
) -> None:
    """Changes come between reading and comparing, and between comparing and putting."""
    with changing_meanwhile(stack, stack_config, "readmeanwhile", spark, beside) as database:
        report = read_again(database, spark)
        assert report.is_whole, list(report.words())
        counts = report.progress.counts
        assert counts[State.VANISHED] == 8  # one came back, another one's delete was merged
        assert report.progress.rows == ROWS
        # The notes of 103, 113 and 123 were left alone by what changed them meanwhile.
        assert report.looked_at == 3
        database.wait_until_delivered()
        database.replicate()
        assert database.differences("ledger") == []
        again = read_again(database, spark)
        assert again.progress.put == 0
        assert set(again.progress.counts) == {State.EQUAL}


@in_soak
def test_without_its_position_a_wave_would_overwrite_newer_changes(
    stack: LocalStack,
    stack_config: ReplicationConfig,
    spark: Session,
    beside: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The naive way: whatever was read is put in, and whatever was not is removed."""
    with changing_meanwhile(stack, stack_config, "readnaively", spark, beside) as database:
        monkeypatch.setattr(wave, "highest_of", lambda _: "FF" * 24)
        read_again(database, spark)
        database.wait_until_delivered()
        database.replicate()
        assert database.differences("ledger")


@contextmanager
def changing_meanwhile(
    stack: LocalStack, base: ReplicationConfig, name: str, spark: Session, beside: SparkSession
) -> Iterator[Replicated]:
    """A corrupted table, whose source changes while the first wave is at work."""
    dsn = new_database(stack, name, *LEDGER)
    sizes = {"chunk_rows": ROWS, "parallel": 1}
    with replicated(stack, base, name, dsn, verify=VERIFY, resnapshot=sizes) as database:
        database.wait_until_delivered()
        database.replicate()
        table = sql.table(database.config.lake.catalog.name, database.entry("ledger").target)
        corrupted = (
            f"INSERT INTO {table} SELECT id + 100000, n, note, _cdc_position, _cdc_ts FROM {table}"
            " WHERE id < 10",
            f"UPDATE {table} SET n = -1, note = 'wrong' WHERE id BETWEEN 100 AND 129",
            f"DELETE FROM {table} WHERE id BETWEEN 200 AND 219",
        )
        for statement in corrupted:
            spark().sql(statement)

        def merge() -> None:
            database.wait_until_delivered()
            replicator, run_id = Replicator(database.config, lambda: beside), str(uuid.uuid4())
            entry = database.entry("ledger")
            list(replicator.drain(entry, window=None, run_id=run_id, budget_seconds=60))

        def after_reading() -> None:
            database.execute(
                "INSERT INTO ledger VALUES (100000, 1, 'came back'), (100001, 1, 'came and went')",
                "UPDATE ledger SET n = 7 WHERE id IN (100, 103, 113, 200)",
                "DELETE FROM ledger WHERE id IN (101, 201, 301)",
                "INSERT INTO ledger VALUES (500000, 1, 'new')",
            )
            database.execute("DELETE FROM ledger WHERE id = 100001")
            merge()
            meanwhile["spark: create branch", Moment.BEFORE] = before_putting

        def before_putting() -> None:
            database.execute(
                "INSERT INTO ledger VALUES (100002, 1, 'came back late')",
                "UPDATE ledger SET n = 8 WHERE id IN (104, 123, 204)",
                "DELETE FROM ledger WHERE id IN (105, 205)",
            )
            merge()

        meanwhile = {("source: read a wave", Moment.AFTER): after_reading}
        with hooked(once(meanwhile)):
            yield database
        assert not meanwhile


def once(actions: dict[tuple[str, Moment], object]):
    """A hook that does each action the first time that its point is passed."""

    def hook(point: str, moment: Moment) -> None:
        action = actions.pop((point, moment), None)
        if action is not None:
            action()

    return hook


@contextmanager
def writing(dsn: str) -> Iterator[None]:
    """Change, delete and insert rows, also those that were corrupted, until the block ends."""
    stop = threading.Event()
    statements = (
        "UPDATE ledger SET n = n + 1 WHERE id = %(key)s",
        "UPDATE ledger SET n = n + 1, note = 'changed' WHERE id = %(key)s",
        "DELETE FROM ledger WHERE id = %(key)s",
        "INSERT INTO ledger VALUES (%(key)s, 0, 'new') ON CONFLICT DO NOTHING",
        "INSERT INTO ledger VALUES (%(key)s + 100000, 0, 'new') ON CONFLICT DO NOTHING",
        "UPDATE ledger SET n = n + 1 WHERE id BETWEEN %(key)s AND %(key)s + 5",
    )

    def run() -> None:
        rng = random.Random(3)
        with psycopg.connect(dsn) as connection:
            while not stop.wait(0.02):
                statement = rng.choice(statements)
                connection.execute(statement.encode(), {"key": rng.randrange(ROWS)})
                connection.commit()

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join(60)
