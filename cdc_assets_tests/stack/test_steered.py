"""Paused, resumed, reset and dropped under load, by processes that are killed amid it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.desired import DesiredBook
from cdc_assets.lake import Lake
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, in_soak, pytest.mark.timeout(900)]

TABLES = ("orders", "items")
CREATE = "CREATE TABLE {} (id bigint PRIMARY KEY, name text, n bigint)"
CHANGE = (
    "INSERT INTO {0} SELECT i, 'x', 0 FROM generate_series({1}, {1} + 9) i",
    "UPDATE {0} SET n = n + 1 WHERE id % 7 = {1} % 7 AND id > {1} - 300",
    "DELETE FROM {0} WHERE id % 23 = {1} % 23 AND id > {1} - 600",
)
"""Of the newest rows, so that a load that lasts longer is no heavier."""


@pytest.fixture
def shop(stack: LocalStack, stack_config: ReplicationConfig) -> Iterator[Replicated]:
    dsn = new_database(stack, "steered", *(CREATE.format(table) for table in TABLES))
    with replicated(stack, stack_config, "steered", dsn) as database:
        yield database


@contextmanager
def load(shop: Replicated) -> Iterator[list[int]]:
    """Both tables change, a transaction after the other; how many there were."""
    done, stop = [0], threading.Event()

    def change() -> None:
        while not stop.wait(0.05):
            number = done[0] * 10
            shop.execute(*(each.format(t, number) for t in TABLES for each in CHANGE))
            done[0] += 1

    writer = threading.Thread(target=change, daemon=True)
    writer.start()
    try:
        yield done
    finally:
        stop.set()
        writer.join(30)
        assert not writer.is_alive()


def more(done: list[int], transactions: int = 20) -> None:
    goal = done[0] + transactions
    until(lambda: done[0] >= goal, "the load goes on")


def killed(shop: Replicated, *arguments: str) -> None:
    """A command that is killed once it is at work."""
    lake, target = Lake(shop.config), shop.entry("items").target
    before = len(lake.parents(target))
    process = shop.start(*arguments)
    until(lambda: len(lake.parents(target)) != before or process.poll() is not None, "at work")
    process.kill()
    process.wait()


def test_a_table_keeps_its_place_and_is_equal_again(shop: Replicated) -> None:
    lake, orders = Lake(shop.config), shop.entry("orders")
    desired = DesiredBook.of_registry(shop.config.registry)
    with load(shop) as done:
        more(done)
        shop.replicate()
        paused = shop.start("pause", "--table", "orders", "--why", "it is tried")
        until(lambda: desired.of(orders.table).held or paused.poll() is not None, "it is wanted")
        paused.kill()
        paused.wait()
        shop.run("pause", "--table", "orders", "--why", "it is tried")
        before = lake.state(orders.target)
        assert before is not None
        more(done)
        killed(shop, "replicate", "--until-caught-up")
        shop.replicate()
        after = lake.state(orders.target)
        assert after is not None
        assert after.snapshot_id == before.snapshot_id, "nothing is merged into it"
        assert "left out: steered.public.orders: paused since" in shop.last_words()
        asked = shop.start("replicate", "--table", "orders")
        assert asked.wait(120) == 1, "who asks for it by name is told"

        resumed = shop.start("resume", "--table", "orders")
        until(lambda: not desired.of(orders.table).held or resumed.poll() is not None, "it is not")
        resumed.kill()
        resumed.wait()
        shop.run("resume", "--table", "orders")
        killed(shop, "replicate", "--until-caught-up")
        begun = shop.start("reset", "--table", "orders")
        until(lambda: desired.of(orders.table).reset or begun.poll() is not None, "it is wanted")
        begun.kill()
        begun.wait()
        more(done)
        shop.run("reset", "--table", "orders")
        assert desired.load() == {}
        shop.replicate()
    shop.wait_until_delivered()
    shop.replicate()
    assert shop.differences(*TABLES) == []
    shop.require_tiled(*TABLES)

    shop.run("drop", "--table", "orders", "--lake")
    assert lake.state(orders.target) is None
    shop.run("resume", "--table", "orders")
    shop.replicate()
    assert shop.differences(*TABLES) == []
