"""Incremental snapshots that a topic's signals ask for, under load, with Kafka Connect killed.

Chunks of 1,024 rows are read beside the stream: a row may come before or after changes of its key.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import dagster as dg
import psycopg
import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.stack.killed import kill_part
from cdc_assets_tests.stack.merging import Record, records
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.stack.signalled import CHUNK, READ_ONLY, SIGNAL_TABLE, WRITTEN, Signals
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, profiles.in_soak, pytest.mark.timeout(1800)]

ROWS = 20 * CHUNK
CREATE = (
    "CREATE TABLE {0} (id int PRIMARY KEY, n int NOT NULL DEFAULT 0, note text)",
    "INSERT INTO {0} SELECT n, 0, 'row ' || n FROM generate_series(1, {1}) AS n",
)
SLOT_MOVES = (
    "CREATE SCHEMA elsewhere",
    "CREATE TABLE elsewhere.nudges (id int PRIMARY KEY)",
)


def table(name: str, rows: int = ROWS) -> tuple[str, ...]:
    return tuple(each.format(name, rows) for each in CREATE)


@dataclass
class Writers:
    """Several at once; most transactions change one row of each chunk, many of them only once."""

    dsn: str
    tables: tuple[str, ...]
    done: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def running(self, count: int = 3) -> Iterator[None]:
        stop = threading.Event()
        threads = [threading.Thread(target=self._run, args=(n, count, stop)) for n in range(count)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join(30)

    def _run(self, number: int, count: int, stop: threading.Event) -> None:
        """Each has keys of its own, so that no two wait for each other."""
        rng, turn = random.Random(number), 0
        with psycopg.connect(self.dsn) as connection:
            while not stop.wait(rng.uniform(0.02, 0.2)):
                turn += 1
                mine = (turn * count + number) % CHUNK
                for name in self.tables:
                    what, statement = self._statement(rng, name, mine, turn)
                    connection.execute(statement.encode())
                    self.done[what] += 1
                connection.commit()

    @staticmethod
    def _statement(rng: random.Random, name: str, mine: int, turn: int) -> tuple[str, str]:
        of_mine = f"id % {CHUNK} = {mine}"
        one = f"{of_mine} AND id / {CHUNK} = {rng.randrange(ROWS // CHUNK)}"
        return rng.choices(
            (
                ("update", f"UPDATE {name} SET n = n + 1 WHERE {of_mine}"),
                ("delete", f"DELETE FROM {name} WHERE {one}"),
                ("change key", f"UPDATE {name} SET id = id + {2 * ROWS} WHERE {one}"),
                ("insert", f"INSERT INTO {name} VALUES ({turn * CHUNK + mine + 10 * ROWS}, 0)"),
            ),
            (7, 1, 1, 1),
        )[0]


@pytest.mark.parametrize("watermarks", [READ_ONLY, WRITTEN], ids=["read-only", "signal table"])
def test_after_an_incremental_snapshot_with_connect_killed_amid_it_the_table_equals_its_source(
    stack: LocalStack,
    stack_config: ReplicationConfig,
    watermarks: Mapping[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = "chunked" if watermarks is READ_ONLY else "watermarked"
    signals = Signals(stack, name)
    dsn = new_database(stack, name, *table("ledger"), SIGNAL_TABLE)
    debezium = {**signals.settings, **watermarks}
    topics = {"include": [rf"{name}\..*"], "exclude": [rf"{name}\.public\.signals"]}
    with replicated(stack, stack_config, name, dsn, debezium=debezium, topics=topics) as database:
        database.wait_until_delivered()
        database.replicate()
        writers, before = Writers(dsn, ("ledger",)), delivered(database, "ledger")
        with writers.running():
            signals.snapshot("again", "ledger")
            until(
                lambda: delivered(database, "ledger") > before + ROWS // 4,
                "a part of the rows is sent",
            )
            kill_connect(database, signals)
            database.replicate()
            signals.wait_until_done(database)
        require_equal(database, "ledger")
        assert others(database) == signals.others
        sent = records(database.config, database.entry("ledger").topic)
    reads = sum(is_late(each) for each in sent)
    assert reads >= ROWS // 2, "the snapshot that was interrupted did not go on"
    followed, preceded = neighbours(sent)
    assert followed, "no row came before a change of its key"
    assert preceded, "no row came after a change of its key"
    with capsys.disabled():
        print(f"\n{name}: {dict(writers.done)}; {reads} rows of {ROWS}, {followed} before and "
              f"{preceded} after a change of their keys")  # fmt: skip


def test_a_table_that_the_connector_captures_from_now_on_gets_its_rows_by_a_snapshot(
    stack: LocalStack, stack_config: ReplicationConfig
) -> None:
    name, rows = "added", 4 * CHUNK
    signals = Signals(stack, name)
    dsn = new_database(
        stack, name, *table("first", rows), *table("later", rows), *SLOT_MOVES,
        "CREATE PUBLICATION chosen FOR TABLE first, elsewhere.nudges",
    )  # fmt: skip
    debezium = {
        **signals.settings,
        **READ_ONLY,
        "publication.name": "chosen",
        "publication.autocreate.mode": "disabled",
        "table.include.list": "public.first",
    }
    with replicated(stack, stack_config, name, dsn, debezium=debezium) as database:
        with Writers(dsn, ("first", "later")).running(2):
            database.wait_until_delivered()
            database.replicate()
            # A topic of signals that is still empty is a table by its name, until the first one.
            assert found(database) == {"first", "kafka"}
            database.execute("ALTER PUBLICATION chosen ADD TABLE later")
            both = {**debezium, "table.include.list": "public.first,public.later"}
            stack.register_connector(name, {**database.side.connector(stack, name), **both})
            signals.snapshot("added", "later")
            signals.wait_until_done(database)
            database.replicate()
        require_equal(database, "first", "later")
        assert found(database) == {"first", "later"}
        assert others(database) == signals.others
        key = dg.AssetKey([name, "public", "later"])
        with dg.DagsterInstance.from_config(str(database.instance)) as instance:
            assert instance.get_latest_materialization_event(key) is not None
        database.execute("INSERT INTO later VALUES (0, 0)")
        assert database.differences("later"), "the oracle does not see changes"


def require_equal(database: Replicated, *tables: str) -> None:
    database.wait_until_delivered()
    database.replicate()
    assert database.differences(*tables) == []


def kill_connect(database: Replicated, signals: Signals) -> None:
    """And start it again; it goes on by itself with the connector that it had."""
    connect = database.stack.connect
    kill_part(connect)
    assert not signals.is_done(database), "it was killed too late"
    database.stack.up(["connect"])
    until(lambda: connect.state_of(database.name).runs, "the connector runs", within_seconds=120)


def delivered(database: Replicated, name: str) -> int:
    """How many records the table's topic has."""
    topic = database.entry(name).topic
    marks = KafkaLog(database.config.kafka.librdkafka()).watermarks([topic])[topic]
    return sum(offset for _, offset in marks.end)


def is_late(record: Record) -> bool:
    return bool(record.value) and record.value["source"]["snapshot"] == "incremental"


def neighbours(sent: list[Record]) -> tuple[int, int]:
    """How many rows of the snapshot come before, and after, another change of their key."""
    followed = preceded = 0
    reads, changes = set[object](), set[object]()
    for record in sent:
        key = None if record.key is None else record.key["id"]
        if is_late(record):
            reads.add(key)
            preceded += key in changes
        elif record.value is not None and record.op != "r":
            changes.add(key)
            followed += key in reads
    return followed, preceded


def found(database: Replicated) -> set[str]:
    """The tables that discovery knows."""
    return {entry.table.name for entry in RegistryFile(database.config.registry).load()}


def others(database: Replicated) -> dict[str, str]:
    """The topics that it has set aside, and what they hold."""
    known = RegistryFile(database.config.registry).load().others
    return {each.topic: each.holds for each in known}
