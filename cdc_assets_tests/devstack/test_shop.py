import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import psycopg
import pytest
from confluent_kafka import Consumer
from psycopg.conninfo import make_conninfo

from cdc_assets.devstack.shop.connector import connector_config
from cdc_assets.devstack.shop.database import TABLES, prepare_shop
from cdc_assets.devstack.shop.load import ShopLoad
from cdc_assets.errors import TerminalError

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
    command = [sys.executable, "-m", "cdc_assets.devstack.shop.load", "--rate", "100"]
    with subprocess.Popen(command, env={**os.environ, "SHOP_DSN": new_shop}) as program:
        deadline = time.monotonic() + 30
        while row_count(new_shop) == before:
            assert time.monotonic() < deadline
        program.send_signal(signal.SIGTERM)
        assert program.wait(10) == 0


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
