import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from cdc_assets_devstack.shop import trouble
from cdc_assets_devstack.shop.connector import connector_config
from cdc_assets_devstack.shop.database import TABLES, prepare_shop
from cdc_assets_devstack.shop.load import ShopLoad
from confluent_kafka import Consumer
from psycopg.conninfo import make_conninfo

from cdc_assets.errors import TerminalError
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until

pytestmark = pytest.mark.stack

TYPES = {
    "bigint", "boolean", "bytea", "date", "double precision", "jsonb", "numeric", "text",
    "text[]", "timestamp with time zone", "timestamp without time zone", "uuid", "order_status",
}  # fmt: skip


def contents(dsn) -> dict[str, list[tuple]]:
    with psycopg.connect(dsn) as connection:
        return {
            t: connection.execute(f"SELECT * FROM {t} ORDER BY 1, 2").fetchall() for t in TABLES
        }


def row_count(dsn) -> int:
    return sum(map(len, contents(dsn).values()))


@pytest.fixture
def new_shop(postgres_dsn, request):
    """A shop of this test only, without a connector."""
    dsn = make_conninfo(postgres_dsn, dbname=f"shop_{abs(hash(request.node.name))}")
    prepare_shop(dsn)
    return dsn


def test_the_tables_use_every_type_and_all_have_comments(new_shop):
    with psycopg.connect(new_shop) as connection:
        types = connection.execute(
            "SELECT DISTINCT format_type(atttypid, NULL) FROM pg_attribute "
            "WHERE attrelid = ANY(%s::regclass[]) AND attnum > 0",
            (list(TABLES),),
        ).fetchall()
        bare = connection.execute(
            "SELECT t FROM unnest(%s::text[]) t WHERE obj_description(t::regclass) IS NULL",
            (list(TABLES),),
        ).fetchall()
    assert {name for (name,) in types} == TYPES
    assert bare == []


def test_preparing_again_changes_nothing(new_shop):
    before = contents(new_shop)
    prepare_shop(new_shop)
    assert contents(new_shop) == before


def test_the_same_seed_gives_the_same_shop(new_shop, postgres_dsn):
    other = make_conninfo(postgres_dsn, dbname="shop_of_the_same_seed")
    prepare_shop(other)
    same = contents(new_shop).keys() - {"inventory", "orders"}  # those carry the time of day
    assert {t: contents(other)[t] for t in same} == {t: contents(new_shop)[t] for t in same}


def test_the_load_counts_what_it_commits_and_goes_on_from_existing_data(new_shop):
    for _ in range(2):
        before = row_count(new_shop)
        totals = ShopLoad(new_shop, rate=0).run(transactions=150)
        assert row_count(new_shop) - before == totals.inserts - totals.deletes
        assert min(totals.inserts, totals.updates, totals.deletes, totals.rollbacks) > 0
        assert totals.commits + totals.rollbacks == 150


def test_the_load_keeps_its_rate(new_shop):
    started = time.monotonic()
    load = ShopLoad(new_shop, rate=200)
    load.run(transactions=100)
    seconds = time.monotonic() - started
    assert load.totals.changes / seconds < 260


def test_as_a_program_it_runs_until_it_is_told_to_stop(new_shop):
    before = row_count(new_shop)
    command = [sys.executable, "-m", "cdc_assets_devstack.shop.load", "--rate", "100"]
    with subprocess.Popen(command, env={**os.environ, "SHOP_DSN": new_shop}) as program:
        deadline = time.monotonic() + 30
        while row_count(new_shop) == before:
            assert time.monotonic() < deadline
        program.send_signal(signal.SIGTERM)
        assert program.wait(10) == 0


DAMAGE = {
    "a column is renamed": "ALTER TABLE customers RENAME COLUMN email TO mail",
    "a column is dropped": "ALTER TABLE orders DROP COLUMN promised_for",
    "a column is added": "ALTER TABLE products ADD COLUMN maker text NOT NULL DEFAULT '?'",
    "a table is dropped": "DROP TABLE payments",
    "a table is renamed": "ALTER TABLE products RENAME TO goods",
    "a type is changed": "ALTER TABLE inventory ALTER on_hand TYPE text",
    "a not null constraint": "ALTER TABLE payments ALTER settled_at SET DEFAULT now();\n"
    "UPDATE payments SET settled_at = now(), fee = NULL;\n"
    "ALTER TABLE orders ADD CHECK (note IS NOT NULL) NOT VALID",
    "a check constraint": "ALTER TABLE inventory ADD CHECK (on_hand > 10 ^ 9) NOT VALID",
    "tables are emptied": "TRUNCATE orders, order_items, payments",
    "a table is dropped that most need": "DROP TABLE orders CASCADE",
    "the type of the key is changed": "ALTER TABLE orders ALTER id DROP IDENTITY; "
    "ALTER TABLE orders ALTER id TYPE text",
    "a trigger refuses": "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS "
    "$$BEGIN RAISE 'no'; END$$; "
    "CREATE TRIGGER no BEFORE UPDATE ON inventory FOR EACH ROW EXECUTE FUNCTION no()",
    "a rule swallows rows": "CREATE RULE no AS ON INSERT TO customers DO INSTEAD NOTHING",
    "a text becomes short": "ALTER TABLE customers ALTER name TYPE varchar(12) "
    "USING left(name, 12)",
    "all tables are dropped": "DROP TABLE customers, inventory, order_items, orders, payments, "
    "products",
}


@contextmanager
def working(dsn: str) -> Iterator[tuple[ShopLoad, list[str]]]:
    """A load at work, and what it says."""
    said: list[str] = []
    stop, load = threading.Event(), ShopLoad(dsn, rate=300, say=said.append)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(load.run, stop)
        try:
            until(lambda: load.totals.commits > 5 or running.done(), "it works")
            yield load, said
            assert not running.done(), running.exception()
        finally:
            stop.set()
            running.result(30)


def insist(person: psycopg.Connection, statement: str) -> None:
    """Run a statement, again where PostgreSQL ended it because the load waited for it in turn."""
    for last in (False,) * 9 + (True,):
        try:
            person.execute(statement)
            return
        except psycopg.errors.DeadlockDetected:
            if last:
                raise


def goes_on(load: ShopLoad, changes: int = 20) -> None:
    before = load.totals.changes
    until(lambda: load.totals.changes > before + changes, "it goes on")


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_the_load_goes_on_whatever_is_done_to_its_tables(new_shop, damage):
    with working(new_shop) as (load, said), psycopg.connect(new_shop, autocommit=True) as person:
        for statement in damage.split(";\n"):  # in one transaction they deadlock with the load
            insist(person, statement)
        if "DROP TABLE customers" in damage:
            until(lambda: len(said) == 7, "it says of each duty that it cannot")
        else:
            goes_on(load)
            until(lambda: said or not expects_words(damage), "it says what it cannot do")
    assert len(said) == len(set(said)) <= 9
    assert not any("DETAIL" in line or "Failing row" in line for line in said)
    prepare_shop(new_shop)


def expects_words(damage: str) -> bool:
    return not damage.startswith(("TRUNCATE", "ALTER TABLE products ADD"))


def test_a_renamed_column_is_said_once_and_so_is_its_return(new_shop, monkeypatch):
    monkeypatch.setattr(trouble, "STEADY_SECONDS", 1.0)
    with working(new_shop) as (load, said), psycopg.connect(new_shop, autocommit=True) as person:
        person.execute("ALTER TABLE customers RENAME COLUMN email TO mail")
        until(lambda: said, "it says so")
        goes_on(load, 100)
        assert said == [
            'the shop cannot sign customers up: column "email" of relation "customers" does not '
            "exist; the other duties continue"
        ]
        person.execute("ALTER TABLE customers RENAME COLUMN mail TO email")
        until(lambda: said[1:] == ["the shop can sign customers up again"], "it says so too")


@in_soak
def test_a_locked_table_holds_up_what_needs_it_and_nothing_else(new_shop):
    with working(new_shop) as (load, said), psycopg.connect(new_shop) as person:
        person.execute("LOCK TABLE inventory")
        until(lambda: said, "it says so")
        goes_on(load)
        assert all("LockNotAvailable" in line for line in said)


def test_the_load_outlives_its_connections_and_its_database(new_shop, stack_parts):
    with working(new_shop) as (load, said):
        for _ in range(3):
            with psycopg.connect(new_shop, autocommit=True) as person:
                person.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            goes_on(load)
        stack_parts("postgres").postgres.stop()
        until(lambda: any("is gone" in line for line in said), "it says so")
        stack_parts("postgres")
        goes_on(load)
    assert len([line for line in said if "is gone" in line]) <= 2


def test_a_wrong_dsn_is_refused_and_not_waited_for():
    with pytest.raises(psycopg.ProgrammingError):
        ShopLoad("postgresql://127.0.0.1/shop?nonsense=1")


def test_preparing_leaves_alone_what_a_person_did_to_the_shop(new_shop):
    with psycopg.connect(new_shop) as person:
        person.execute("DROP TABLE orders; ALTER TABLE customers RENAME TO clients")
    assert prepare_shop(new_shop) == ("customers", "orders")
    with psycopg.connect(new_shop) as person:
        assert person.execute("SELECT to_regclass('orders')").fetchone() == (None,)


def test_debezium_writes_one_event_for_each_committed_change(stack, shop_dsn):
    totals = ShopLoad(shop_dsn, rate=0, seed=11).run(transactions=200)
    events = read_events(stack.kafka.address, enough=totals.changes)
    assert events["c"] == totals.inserts
    assert events["d"] == totals.deletes
    assert events["u"] == totals.updates


def test_a_connector_that_connect_refuses_is_reported_with_its_reason(stack):
    config = {**connector_config(stack.layout), "connector.class": "org.example.Missing"}
    with pytest.raises(TerminalError, match=r"refuses connector broken: .*org\.example\.Missing"):
        stack.register_connector("broken", config)


def read_events(bootstrap: str, *, enough: int) -> Counter[str]:
    """Operations in the shop's topics, until there are enough changes and a quiet second."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"test-{time.time_ns()}",
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,  # the topics may be yet to come
        }
    )
    consumer.subscribe([f"shop.public.{table}" for table in TABLES])
    found: Counter[str] = Counter()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None and found["c"] + found["u"] + found["d"] >= enough:
            break
        if message is not None and not message.error() and message.value():
            found[json.loads(message.value())["op"]] += 1
    consumer.close()
    return found
