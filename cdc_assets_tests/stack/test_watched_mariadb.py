"""Valid-through with MariaDB behind it: true under load, and moving on beside it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from cdc_assets_devstack.mariadb import connect
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets_tests.stack.replicated import Replicated, new_mariadb_database, replicated
from cdc_assets_tests.stack.test_watched import status_of, true_claims
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, in_soak, pytest.mark.timeout(900)]

NAME = "watchedmy"
CREATE = (
    "CREATE TABLE busy (id bigint PRIMARY KEY, price numeric(10,2))",
    "CREATE TABLE idle (id bigint PRIMARY KEY)",
    "INSERT INTO idle VALUES (1)",
)


@pytest.fixture(scope="module")
def database(stack: LocalStack, stack_config: ReplicationConfig) -> Iterator[Replicated]:
    dsn = new_mariadb_database(stack, NAME, *CREATE)
    connect = {"url": f"http://{stack.connect.address}"}
    with replicated(stack, stack_config, NAME, dsn, connect=connect) as made:
        made.wait_until_delivered()
        yield made


@dataclass
class Load:
    """Inserts in several sessions; of each row, when its commit was complete."""

    dsn: str
    done: dict[int, datetime] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, session: int) -> None:
        number = session
        with connect(self.dsn) as connection, connection.cursor() as cursor:
            while not self.stop.is_set():
                cursor.execute("INSERT INTO busy VALUES (%s, 1)", (number,))
                connection.commit()
                self.done[number] = datetime.now(UTC)
                number += 10
                time.sleep(0.05)  # a pace, not a condition


@contextmanager
def loading(dsn: str) -> Iterator[Load]:
    load = Load(dsn)
    threads = [threading.Thread(target=load.run, args=(n,)) for n in range(1, 5)]
    for each in threads:
        each.start()
    try:
        yield load
    finally:
        load.stop.set()
        for each in threads:
            each.join()


def test_every_publish_holds_what_was_committed_before_its_valid_through(
    database: Replicated,
) -> None:
    with loading(database.dsn) as load:
        until(lambda: len(load.done) > 20, "the load has begun")
        for _ in range(3):
            database.replicate()
    database.wait_until_delivered()
    database.replicate()
    true_claims(database, load.done)


def test_an_idle_table_stays_valid_while_the_source_goes_on(database: Replicated) -> None:
    database.replicate()
    now = datetime.now(UTC)

    def moves() -> bool:
        number = int(time.time() * 1000) * 10  # no other load's
        database.execute(f"INSERT INTO busy VALUES ({number}, 1)")
        found = status_of(database, "idle").valid_through
        return found is not None and found > now

    until(moves, "what the source does elsewhere shows that the idle table is complete")
