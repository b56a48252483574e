"""What PostgreSQL and Debezium really send, merged, against the database row by row.

The tables are in `semantics_schema`. Rows that they have there are read by the connector's
snapshot; everything else is streamed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pyarrow.compute as pc
import pytest
import requests

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.devstack.connect import Connect
from cdc_assets.devstack.stack import LocalStack
from cdc_assets.errors import RejectedRecordError, TerminalError
from cdc_assets.log.hours import hour_of
from cdc_assets.merge import BatchResult
from cdc_assets.registry import RegistryFile, TableEntry
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.merging import Merging, published
from cdc_assets_tests.stack.oracle import lake_rows
from cdc_assets_tests.stack.replicated import new_database, replicated, write_config
from cdc_assets_tests.stack.semantics_schema import (
    AS_DATA,
    CREATE,
    DEBEZIUM,
    LARGE,
    PLACEHOLDER,
    SENT_UNCHANGED,
    SOURCE,
    TEXT,
    large_values,
)
from cdc_assets_tests.stack.waiting import until

pytestmark = pytest.mark.stack

NAME = "semantics"
BULK = 100_000
TOTAL = 100 * 1000


@pytest.fixture(scope="module")
def semantics(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> Iterator[Merging]:
    """One database with all tables; the connector sends truncates."""
    dsn = new_database(stack, NAME, *CREATE)
    with replicated(stack, stack_config, NAME, dsn, debezium=DEBEZIUM, **SOURCE) as database:
        yield Merging(database, spark)


# ── large values ──────────────────────────────────────────────────────────────────────────


def test_large_values_that_updates_leave_alone_stay_in_every_type(semantics: Merging) -> None:
    run = semantics.database.execute
    nothing = ", ".join(f"{column} = NULL" for column in LARGE)
    run(f"INSERT INTO large SELECT 2, 'new', {large_values(3)}")
    run("UPDATE large SET note = 'left alone' WHERE id IN (1, 2)")
    run(f"INSERT INTO large SELECT 3, 'new', {large_values(5)}")
    run(
        "UPDATE large SET note = 'left alone' WHERE id = 3",
        f"UPDATE large SET {nothing} WHERE id = 3",
    )
    run(f"INSERT INTO large SELECT 4, 'data', {', '.join(AS_DATA.values())}")
    semantics.require_equal("large")
    sent = {r.after["id"]: r.after for r in semantics.records("large") if r.op == "u"}
    assert {column: sent[2][column] for column in LARGE} == SENT_UNCHANGED

    run("UPDATE large SET note = 'once more'")
    run(f"UPDATE large SET t = {TEXT.format(7)}, ia = NULL WHERE id = 2")
    run("UPDATE large SET note = 'and again' WHERE id = 2")
    run(
        "UPDATE large SET j = NULL, h = NULL WHERE id = 1",
        "UPDATE large SET note = '' WHERE id = 1",
    )
    run("DELETE FROM large WHERE id = 3", f"INSERT INTO large SELECT 3, 'back', {large_values(9)}")
    run("UPDATE large SET note = NULL WHERE id = 3")
    semantics.require_equal("large")


def test_with_full_replica_identity_large_values_arrive_whole(semantics: Merging) -> None:
    run = semantics.database.execute
    numbers = "ARRAY(SELECT i::numeric(12,2) FROM generate_series(1, 3000) AS i)"
    texts = f"{TEXT.format(3)}, {LARGE['ta'][1].format(3)}"
    run(f"INSERT INTO logged SELECT n, 'new', {texts}, {numbers} FROM generate_series(1, 2) AS n")
    run("UPDATE logged SET note = 'left alone'")
    run("UPDATE logged SET id = 20 WHERE id = 2")
    semantics.require_equal("logged")
    assert PLACEHOLDER not in json.dumps([r.value for r in semantics.records("logged")])


def test_an_update_to_exactly_the_placeholder_counts_as_unchanged(semantics: Merging) -> None:
    """Nothing in the event tells them apart; an insert is always taken at its word."""
    run = semantics.database.execute
    run(f"INSERT INTO ambiguous VALUES (1, 'before'), (2, '{PLACEHOLDER}')")
    semantics.require_equal("ambiguous")
    run("UPDATE ambiguous SET id = id WHERE id = 2")
    run(f"UPDATE ambiguous SET t = '{PLACEHOLDER}' WHERE id = 1")
    semantics.merge("ambiguous")
    [different] = semantics.database.differences("ambiguous")
    assert "1 rows that differ: (1,) in t" in different
    assert "'before' in the lake" in different


def test_an_update_of_a_row_that_the_lake_lacks_stops_with_its_coordinate(
    semantics: Merging,
) -> None:
    database = semantics.database
    database.execute("UPDATE unread SET note = 'left alone' WHERE id = 2")
    with pytest.raises(RejectedRecordError) as caught:
        semantics.merge("unread")
    [first] = semantics.records("unread")
    coordinate = f"partition={first.partition} offset={first.offset}"
    assert f"topic={database.entry('unread').topic} {coordinate}" in str(caught.value)
    assert lake_rows(database.config, database.entry("unread").target) == []


def test_or_is_kept_apart_by_policy_while_other_rows_are_merged(semantics: Merging) -> None:
    database = semantics.database
    database.execute(f"INSERT INTO unread SELECT 4, 'new', {TEXT.format(4)}")
    database.execute("UPDATE unread SET note = 'left alone' WHERE id = 4")
    database.wait_until_delivered()
    config = write_config(
        database.config,
        "apart",
        topics={"include": [rf"{NAME}\.public\.unread"]},
        database={"kind": "postgres", "dsn": {"env": f"{NAME.upper()}_DSN"}},
        bad_records="quarantine",
    )
    name = TableName("apart", "public", "unread")
    target = config.source("apart").lake_name(name)
    entry = TableEntry(name, database.entry("unread").topic, target, datetime.now(UTC))
    batches = semantics.drain(entry, config)
    assert sum(batch.rejected for batch in batches) == 1
    assert [(r["id"], r["note"], len(str(r["t"]))) for r in lake_rows(config, target)] == [
        (4, "left alone", 9600)
    ]


# ── replica identity, keys ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("table", ["by_default", "by_full", "by_index"])
def test_updates_deletes_and_changed_keys_under_every_replica_identity(
    semantics: Merging, table: str
) -> None:
    run = semantics.database.execute
    run(f"INSERT INTO {table} SELECT n, 'code ' || n, n FROM generate_series(1, 20) AS n")
    run(f"UPDATE {table} SET n = -n WHERE id % 2 = 0", f"DELETE FROM {table} WHERE id % 5 = 0")
    run(f"UPDATE {table} SET id = id + 100 WHERE id % 3 = 0")
    semantics.require_equal(table)
    run(f"UPDATE {table} SET code = 'other ' || id WHERE id % 4 = 2")
    run(f"UPDATE {table} SET id = id - 100, code = code || '!' WHERE id = 112")
    run(f"UPDATE {table} SET n = NULL WHERE id > 100", f"DELETE FROM {table} WHERE id IN (1, 106)")
    semantics.require_equal(table)


def test_without_replica_identity_there_are_only_inserts(semantics: Merging) -> None:
    semantics.database.execute("INSERT INTO by_nothing VALUES (1, 'one', 1), (2, 'two', 2)")
    for statement in ("UPDATE by_nothing SET n = 0", "DELETE FROM by_nothing"):
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
            semantics.database.execute(statement)
    semantics.require_equal("by_nothing")


def test_chains_and_swaps_of_composite_keys_within_transactions(semantics: Merging) -> None:
    def key(old: str, new: str) -> str:
        (a, b), (c, d) = old.split(), new.split()
        return f"UPDATE pairs SET a = {c}, b = '{d}' WHERE (a, b) = ({a}, '{b}')"

    run = semantics.database.execute
    run(
        "INSERT INTO pairs SELECT n, p, n || p"
        " FROM generate_series(0, 9) AS n, unnest('{x,y}'::text[]) AS p"
    )
    run(key("0 x", "10 x"), key("10 x", "11 x"), key("11 x", "12 x"))
    run(key("1 x", "-1 x"), key("2 x", "1 x"), key("-1 x", "2 x"))
    run(key("3 x", "3 z"), key("3 y", "3 x"), key("3 z", "3 y"))
    semantics.require_equal("pairs")
    run(key("12 x", "0 x"), key("0 x", "12 x"), key("12 x", "0 x"))
    run(key("1 x", "-1 x"), key("2 x", "1 x"), key("-1 x", "2 x"), "UPDATE pairs SET name = a || b")
    run(
        key("4 x", "14 x"),
        "INSERT INTO pairs VALUES (4, 'x', 'new')",
        "DELETE FROM pairs WHERE a = 14",
    )
    run("UPDATE pairs SET a = a + 100 WHERE b = 'y'")
    semantics.require_equal("pairs")
    assert len({record.partition for record in semantics.records("pairs")}) > 1


# ── truncate ──────────────────────────────────────────────────────────────────────────────


def test_a_truncate_amid_other_changes_and_a_replay_of_its_hour(semantics: Merging) -> None:
    database, table = semantics.database, str(semantics.database.entry("cleared").table)
    begin = hour_of(datetime.now(UTC))
    rows = "INSERT INTO cleared SELECT n, '{}', n FROM generate_series({}, {}) AS n"
    database.execute(rows.format("first", 1, 40))
    semantics.require_equal("cleared")

    database.execute("UPDATE cleared SET n = 0 WHERE id < 20", rows.format("gone", 41, 60))
    database.execute(
        "DELETE FROM cleared WHERE id = 7", rows.format("gone", 61, 70), "TRUNCATE cleared",
        rows.format("kept", 5, 15), "UPDATE cleared SET n = -n WHERE id % 2 = 0",
    )  # fmt: skip
    database.execute(rows.format("later", 30, 45), "DELETE FROM cleared WHERE id = 6")
    [batch] = semantics.require_equal("cleared")
    assert len(batch.ranges) > 1
    assert len(lake_rows(database.config, database.entry("cleared").target)) == 26

    database.execute("TRUNCATE cleared, by_nothing", rows.format("last", 1, 3))
    database.execute("TRUNCATE cleared", rows.format("last of all", 2, 4))
    semantics.require_equal("cleared", "by_nothing")

    RegistryFile(database.config.registry).add([database.entry("cleared")])
    before, end = content(semantics, "cleared"), hour_of(datetime.now(UTC))
    database.run("replay", "--table", table, "--from", begin.key, "--to", end.key)
    assert content(semantics, "cleared") == before
    assert database.differences("cleared") == []


def content(semantics: Merging, table: str) -> list[str]:
    database = semantics.database
    return sorted(map(repr, lake_rows(database.config, database.entry(table).target)))


# ── without a key ─────────────────────────────────────────────────────────────────────────


def copy_rows(semantics: Merging, *rows: tuple[object, ...]) -> None:
    """By COPY, whose rows PostgreSQL logs together: they share an LSN."""
    with psycopg.connect(semantics.database.dsn) as connection, connection.cursor() as cursor:
        with cursor.copy("COPY bag FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)


def test_equal_rows_are_counted_one_by_one(semantics: Merging) -> None:
    one_of = "ctid = (SELECT min(ctid) FROM bag WHERE {})"
    run = semantics.database.execute
    run(f"UPDATE bag SET c = 2 WHERE {one_of.format('a = 1 AND c = 1.5')}")
    copy_rows(semantics, *[(5, "copied", 3)] * 4, (None, "", None), (None, None, None))
    semantics.require_equal("bag")
    run(f"DELETE FROM bag WHERE {one_of.format('a = 5')}")
    run(f"DELETE FROM bag WHERE {one_of.format('a IS NULL AND b IS NULL')}")
    run(
        "UPDATE bag SET b = NULL WHERE a = 1", "INSERT INTO bag VALUES (5, 'copied', 3), (6, '', 0)"
    )
    run(f"UPDATE bag SET a = a WHERE {one_of.format('a = 5')}")
    semantics.require_equal("bag")


def test_equal_rows_count_once_though_the_connector_sends_them_again(semantics: Merging) -> None:
    """After a restart in good order, and after kills of Connect."""
    database = semantics.database
    stack = database.stack
    database.execute("INSERT INTO bag SELECT 7, 'before', n % 3 FROM generate_series(1, 30) AS n")
    config = connector_settings(semantics)
    stack.connect.unregister(NAME)
    database.execute("INSERT INTO bag SELECT 7, 'stopped', n % 3 FROM generate_series(1, 30) AS n")
    stack.register_connector(NAME, config)
    semantics.require_equal("bag")

    for round_ in range(2):
        kill_connect_under_load(semantics, round_)
        semantics.require_equal("bag")


def connector_settings(semantics: Merging) -> dict[str, str]:
    """The connector's configuration, as Connect has it."""
    address = semantics.database.stack.connect.address
    answer = requests.get(f"http://{address}/connectors/{NAME}/config", timeout=10)
    return dict(answer.json())


def kill_connect_under_load(semantics: Merging, round_: int) -> None:
    database = semantics.database
    seen = len(semantics.records("bag"))
    rows = f"SELECT 8, 'many {round_}', n % 3 FROM generate_series(1, 300) AS n"
    database.execute(f"INSERT INTO bag {rows}")
    for n in range(40):
        database.execute(f"INSERT INTO bag VALUES (9, 'single', {n % 2})")
    until(lambda: len(semantics.records("bag")) > seen, "Kafka has some of it")
    connect = database.stack.connect
    running = connect.running
    assert running is not None
    os.kill(running.pid, signal.SIGKILL)
    until(lambda: not running.alive and is_free(connect), "Connect is dead")
    database.execute("DELETE FROM bag WHERE a = 9 AND c = 1", "UPDATE bag SET c = 7 WHERE a = 8")
    database.stack.up(["connect"])


def is_free(connect: Connect) -> bool:
    """Whether the port can be bound again; the system takes a moment after a kill."""
    try:
        connect.require_port()
    except TerminalError:
        return False
    return True


# ── whole transactions ────────────────────────────────────────────────────────────────────


def test_published_snapshots_hold_large_transactions_whole_or_not_at_all(
    semantics: Merging, capsys: pytest.CaptureFixture[str]
) -> None:
    def changes() -> None:
        run = semantics.database.execute
        run(f"INSERT INTO bulk SELECT n, 1, md5(n::text) FROM generate_series(2, {BULK}) AS n")
        run("UPDATE bulk SET n = 2")
        run(f"DELETE FROM bulk WHERE id > {BULK // 2}")

    done: list[BatchResult] = []
    semantics.merge("bulk")
    before, started = resident_mib(semantics), time.monotonic()
    merge_meanwhile(semantics, changes, "bulk", done)
    seconds, after = time.monotonic() - started, resident_mib(semantics)
    states = [
        (each.num_rows, pc.sum(each["n"]).as_py() or 0)
        for each in published(semantics.database, "bulk", "n")
    ]
    whole = [(1, 0), (BULK, BULK - 1), (BULK, 2 * BULK), (BULK // 2, BULK)]
    assert states == [each for each in whole if each in states]
    assert len(states) > 2
    assert states[-1] == whole[-1]
    assert semantics.database.differences("bulk") == []
    with capsys.disabled():
        print(f"\nbulk: 3 transactions of {BULK} rows in {seconds:.1f} s, {len(states)} publishes; "
              f"Spark server {before} MiB before, {after} MiB after")  # fmt: skip


def test_published_snapshots_never_show_half_of_a_transfer(semantics: Merging) -> None:
    rng = random.Random(7)

    def transfers() -> None:
        """Until some were published amid the others."""
        with psycopg.connect(semantics.database.dsn, autocommit=True) as connection:
            until(lambda: transfer(connection) or len(done) > 3, "publishes amid transfers",
                  every_seconds=0.005)  # fmt: skip

    def transfer(connection: psycopg.Connection) -> None:
        with connection.transaction():
            for account, amount in zip(rng.sample(range(1, 101), 3), (-2, 1, 1), strict=True):
                change = "UPDATE accounts SET balance = balance + %s WHERE id = %s"
                connection.execute(change, (amount, account))

    done: list[BatchResult] = []
    semantics.merge("accounts")
    merge_meanwhile(semantics, transfers, "accounts", done)
    seen = published(semantics.database, "accounts", "id", "balance")
    assert [pc.sum(each["balance"]).as_py() for each in seen] == [TOTAL] * len(seen)
    assert len({tuple(each["balance"].to_pylist()) for each in seen}) > 3, "nothing was seen amid"
    assert semantics.database.differences("accounts") == []


def merge_meanwhile(
    semantics: Merging, changes: Callable[[], None], table: str, done: list[BatchResult]
) -> None:
    """Merge again and again for as long as changes are made and delivered, and once more."""
    stop, entry = threading.Event(), semantics.database.entry(table)

    def merging() -> None:
        while not stop.wait(0.2):
            for batch in semantics.drain(entry):
                done.append(batch)

    with ThreadPoolExecutor(1) as pool:
        merged = pool.submit(merging)
        try:
            changes()
            semantics.database.wait_until_delivered()
        finally:
            stop.set()
        merged.result()
    done.extend(semantics.merge(table))


def resident_mib(semantics: Merging) -> int:
    """Of the Spark server's process."""
    running = semantics.database.stack.spark.running
    assert running is not None
    status = Path(f"/proc/{running.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) // 1024


# ── snapshots on demand ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["INCREMENTAL", "BLOCKING"])
def test_after_a_snapshot_on_demand_amid_changes_the_lake_equals_the_source(
    semantics: Merging, kind: str
) -> None:
    database = semantics.database
    reads = sum(record.op == "r" for record in semantics.records("reread"))
    wanted = json.dumps({"data-collections": ["public.reread"], "type": kind})
    for n in range(20):
        database.execute(f"UPDATE reread SET n = n + 1 WHERE id % 20 = {n}")
    database.execute(f"INSERT INTO signals VALUES ('{kind}', 'execute-snapshot', '{wanted}')")

    def some_more() -> bool:
        database.execute(
            "UPDATE reread SET n = n + 1 WHERE id % 5 = (random() * 4)::int",
            "DELETE FROM reread WHERE id = (SELECT max(id) FROM reread)",
        )
        return sum(record.op == "r" for record in semantics.records("reread")) > reads + 100

    until(some_more, f"the rows of the {kind} snapshot")
    database.execute("UPDATE reread SET n = -1 WHERE id % 3 = 0")
    semantics.require_equal("reread")


# ── what Debezium's events do not say by themselves ───────────────────────────────────────


def test_a_changed_key_beside_large_values_that_were_left_alone(semantics: Merging) -> None:
    """The create of the new key holds placeholders; its header names the old key."""
    run = semantics.database.execute
    values = f"{TEXT.format(3)}, {LARGE['ta'][1].format(3)}"
    run(f"INSERT INTO moved SELECT n, 'new', {values} FROM generate_series(1, 3) AS n")
    semantics.require_equal("moved")
    run("UPDATE moved SET id = id + 10 WHERE id < 3")
    semantics.require_equal("moved")


def test_a_table_whose_replica_identity_is_not_its_key_is_refused(
    semantics: Merging,
) -> None:
    """Deletes carry the index's columns; Debezium fills the primary key with zeros."""
    run = semantics.database.execute
    run("INSERT INTO by_other_index SELECT n, 'code ' || n, n FROM generate_series(0, 5) AS n")
    run("UPDATE by_other_index SET id = 30 WHERE id = 3", "DELETE FROM by_other_index WHERE id = 4")
    semantics.database.wait_until_delivered()
    with pytest.raises(TerminalError, match=r"replica identity is an index of \(code\)"):
        semantics.merge("by_other_index")


def test_a_snapshot_on_demand_of_a_table_without_key_stops_it(
    semantics: Merging,
) -> None:
    """Its rows hold what was committed up to its start, and streaming goes on from before it."""
    database = semantics.database
    wanted = json.dumps({"data-collections": ["public.tally"], "type": "BLOCKING"})
    semantics.require_equal("tally")
    database.execute(f"INSERT INTO signals VALUES ('again', 'execute-snapshot', '{wanted}')")
    database.execute(
        "INSERT INTO by_default SELECT n, 'x', n FROM generate_series(1000, 30000) AS n"
    )
    database.execute("INSERT INTO tally VALUES (777)", "DELETE FROM tally WHERE a = 1")
    until(
        lambda: sum(record.op == "r" for record in semantics.records("tally")) > 5,
        "the rows of the snapshot",
    )
    database.wait_until_delivered()
    with pytest.raises(RejectedRecordError, match="taken while changes were streamed"):
        semantics.merge("tally")


def test_a_table_with_a_deferrable_key_is_refused(semantics: Merging) -> None:
    """Of two rows that have one key for a moment, a delete does not say which it means."""
    semantics.database.execute("UPDATE swapped SET id = 3 - id")
    semantics.database.wait_until_delivered()
    with pytest.raises(TerminalError, match="primary key is deferrable"):
        semantics.merge("swapped")
