"""`cdc-assets resnapshot --via signal` against real parts: under load, paused, killed, stopped."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterator
from typing import cast

import pytest
from cdc_assets_devstack.stack import LocalStack
from click.testing import CliRunner
from pyspark.sql import SparkSession

from cdc_assets.cli import cli
from cdc_assets.config import ReplicationConfig
from cdc_assets.merge.statements import sql
from cdc_assets.operations.resnapshot.notes import ResnapshotBook
from cdc_assets.operations.resnapshot.signal_resnapshot import SignalResnapshot
from cdc_assets_tests.operated import session_of
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.corrupting import beside, corrupt, merging
from cdc_assets_tests.stack.ledger import ledger, writing
from cdc_assets_tests.stack.replicated import (
    Replicated,
    new_database,
    new_mariadb_database,
    replicated,
)
from cdc_assets_tests.stack.signalled import READ_ONLY, Signals
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, in_soak, pytest.mark.timeout(600)]

__all__ = ["beside"]  # a fixture

NAME = "asked"
ROWS = 12_000
CHUNK = 10
"""Small, so that a snapshot is not over before it can be paused."""
AGAIN = ("resnapshot", "--via", "signal", "--table", "ledger")


@pytest.fixture(scope="module")
def database(stack: LocalStack, stack_config: ReplicationConfig) -> Iterator[Replicated]:
    """A replicated ledger, whose connector can be signalled."""
    signals = Signals(stack, NAME)
    dsn = new_database(stack, NAME, *ledger(ROWS))
    chunks = {"incremental.snapshot.chunk.size": str(CHUNK)}
    debezium = {**signals.settings, **READ_ONLY, **chunks}
    verify = {"nudge": True, "wait_seconds": 120}
    with replicated(stack, stack_config, NAME, dsn, debezium=debezium, verify=verify) as database:
        database.wait_until_delivered()
        database.replicate()
        yield database


def test_under_load_it_can_be_paused_killed_joined_and_resumed_and_mends_all_rows(
    database: Replicated, spark: Session, beside: SparkSession
) -> None:
    book = ResnapshotBook.of_registry(database.config.registry)
    table = database.entry("ledger").table
    keys = random.Random(7).sample(range(0, ROWS, 2), ROWS // 100)
    corrupt(database, spark, "ledger", keys, new=10 * ROWS, seed=7)
    lake = sql.table(database.config.lake.catalog.name, database.entry("ledger").target)
    spark().sql(f"UPDATE {lake} SET note = 'lost' WHERE id % 1000 = 13")
    with writing(database.dsn, ROWS), merging(database, beside, "ledger", pause=2):
        process = database.start(*AGAIN)
        until(lambda: "is read" in words_of(database), "progress is shown")
        said = command(database, "--pause")
        assert f"paused, with all that connector {NAME} reads" in said, said
        assert "its snapshot is paused already" in command(database, "--pause")
        until(lambda: "the snapshot is paused" in words_of(database), "who follows it is told")
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert book.load_signal(table) is not None
        intended = command(database, "--dry-run")
        assert "follows an incremental snapshot of public.ledger, paused" in intended
        assert "resumed, with all" in command(database, "--resume")
        database.run(*AGAIN, "--json")
    report = reported(database)
    assert report["joined"], report
    assert report["whole"], report
    assert cast("int", report["removed"]) > 0
    assert book.load_signal(table) is None
    assert asked_for(database) == 1, "it was asked for a second time"
    database.wait_until_delivered()
    database.replicate()
    assert database.differences("ledger") == [], words_of(database)


def test_one_that_is_stopped_while_it_is_paused_ends_and_is_begun_anew(
    database: Replicated,
) -> None:
    before, said = asked_for(database), len(words_of(database))
    process = database.start(*AGAIN)
    until(lambda: "is read" in words_of(database)[said:], "it is read")
    assert asked_for(database) == before + 1
    assert "paused, with all" in command(database, "--pause")
    assert "would be stopped" in command(database, "--stop", "--dry-run")
    assert "stopped: " in command(database, "--stop")
    assert process.wait(60) == 1
    assert "a signal has stopped the snapshot before it was done" in words_of(database)
    assert "no snapshot of it is under way" in command(database, "--stop")
    assert f"asks connector {NAME} by a signal" in command(database, "--dry-run")
    assert asked_for(database) == before + 1


def test_without_a_database_rows_that_vanished_are_counted_and_left(
    database: Replicated, spark: Session
) -> None:
    entry = database.entry("ledger")
    lake = sql.table(database.config.lake.catalog.name, entry.target)
    spark().sql(f"INSERT INTO {lake} SELECT id + 1000000, n, note, _cdc_position, _cdc_ts FROM"
                f" {lake} WHERE id < 1000 LIMIT 7")  # fmt: skip
    source = database.config.source(NAME).model_copy(update={"database": None})
    config = database.config.model_copy(update={"sources": {NAME: source}})
    with merging(database, spark(), "ledger", pause=2):
        session = session_of(config, entry, spark)
        report = SignalResnapshot(session).read(None, lambda _: None)
        assert (report.unshown, report.left, report.put) == (7, 7, 0)
        assert not report.is_whole
        assert "no database: is configured" in report.why
        database.run(*AGAIN, "--json")
    assert reported(database)["removed"] == 7
    assert database.differences("ledger") == []


def test_mariadb_is_read_again_by_gtids(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, beside: SparkSession
) -> None:
    name, rows = "askedmy", 2_000
    dsn = new_mariadb_database(
        stack, name,
        "CREATE TABLE ledger (id int PRIMARY KEY, n int NOT NULL, note text)",
        f"INSERT INTO ledger SELECT seq, seq, concat('row ', seq) FROM seq_1_to_{rows}",
    )  # fmt: skip
    debezium = {**Signals(stack, name).settings, **READ_ONLY}
    nudge = "INSERT INTO elsewhere.nudges VALUES (current_timestamp(6))"
    verify = {"nudge": nudge, "wait_seconds": 120}
    with replicated(stack, stack_config, name, dsn, debezium=debezium, verify=verify) as database:
        database.wait_until_delivered()
        database.replicate()
        corrupt(database, spark, "ledger", range(10, rows, 20), new=10 * rows, seed=3)
        with merging(database, beside, "ledger", pause=2):
            process = database.start(*AGAIN, "--json")
            database.execute("UPDATE ledger SET n = n + 1 WHERE id % 7 = 0")
            database.execute("DELETE FROM ledger WHERE id % 11 = 0")
            assert process.wait(300) == 0, words_of(database)
        report = reported(database)
        assert report["whole"], report
        assert cast("int", report["removed"]) > 0
        database.wait_until_delivered()
        database.replicate()
        assert database.differences("ledger") == []


def command(database: Replicated, *arguments: str) -> str:
    """What the command prints, in this process: it is there at once."""
    done = CliRunner().invoke(cli, [*AGAIN, *arguments], env=database.env)
    assert done.exit_code == 0, done.output
    return done.output


def words_of(database: Replicated) -> str:
    """All that the commands have printed."""
    return database.log.read_text(errors="replace")


def reported(database: Replicated) -> dict[str, object]:
    """The last report in JSON."""
    words = words_of(database)
    return json.loads(words[words.rindex('{\n  "dry_run"') :])["tables"][0]


def asked_for(database: Replicated) -> int:
    """How many snapshots were asked for."""
    sent = Signals(database.stack, NAME).sent(database)
    return sum(each["type"] == "execute-snapshot" for each in sent)
