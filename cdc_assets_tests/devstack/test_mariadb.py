"""MariaDB as a part of the stack: real servers, killed and damaged, and its connector."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import psutil
import psycopg
import pymysql
import pytest
from cdc_assets_devstack import jars, secrets_file
from cdc_assets_devstack.layout import StackLayout
from cdc_assets_devstack.mariadb import MariaDB, connect
from cdc_assets_devstack.part import PartState
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.process import strays
from cdc_assets_devstack.shop.connector import connector_config, mariadb_connector_config
from cdc_assets_devstack.shop.database import TABLES, prepare_shop
from cdc_assets_devstack.shop.load import ShopLoad
from confluent_kafka import Consumer

from cdc_assets.errors import TerminalError
from cdc_assets_tests.devstack.test_process import gone
from cdc_assets_tests.devstack.test_shop import goes_on, working
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until

pytestmark = pytest.mark.stack

START = (
    "import sys\nfrom pathlib import Path\n"
    "from cdc_assets_devstack.layout import Ports, StackLayout\n"
    "from cdc_assets_devstack.mariadb import MariaDB\n"
    "layout = StackLayout(Path(sys.argv[1]), Ports(mariadb=int(sys.argv[2])))\n"
    "MariaDB(layout).bring_up(lambda _: None)"
)


@pytest.fixture(scope="module")
def server(stack_config, tmp_path_factory):
    """One for all tests that leave it as it was; the jars are those of the tests' stack."""
    part = MariaDB(StackLayout(tmp_path_factory.mktemp("home"), pick_free_ports()))
    yield part
    part.stop()


@pytest.fixture
def mariadb(server):
    """That one, running."""
    start(server)
    return server


def start(part):
    part.bring_up(lambda _: None)


def rows(dsn, statement):
    with connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def contents(dsn):
    return {table: rows(dsn, f"SELECT * FROM {table} ORDER BY 1, 2") for table in TABLES}


def test_it_says_where_it_is_and_listens_there_only(mariadb):
    status = mariadb.status()
    assert status.state is PartState.READY
    assert status.memory_bytes > 0
    process = psutil.Process(status.pid)
    listening = [each for each in process.net_connections("all") if each.status == "LISTEN"]
    assert [(each.laddr.ip, each.laddr.port) for each in listening] == [("127.0.0.1", mariadb.port)]
    assert mariadb.password not in " ".join(process.cmdline())


def test_its_binlog_holds_whole_rows_with_gtids(mariadb):
    settings = {
        "log_bin": 1,
        "binlog_format": "ROW",
        "binlog_row_image": "FULL",
        "binlog_row_metadata": "FULL",
        "gtid_strict_mode": 1,
        "time_zone": "+00:00",
    }
    found = rows(mariadb.dsn(), f"SELECT {', '.join(f'@@{name}' for name in settings)}")
    assert found == (tuple(settings.values()),)
    prepare_shop(mariadb.dsn("numbered"))
    ((before,),) = rows(mariadb.dsn(), "SELECT @@gtid_binlog_pos")
    assert before.startswith("0-7-")


def test_debeziums_user_may_capture_and_read_what_it_was_allowed_to(mariadb):
    password = secrets_file.read_or_create(mariadb.layout.secret("mariadb-debezium"))
    captured = f"mysql://debezium:{password}@{mariadb.address}"
    prepare_shop(mariadb.dsn("allowed"))
    with pytest.raises(pymysql.MySQLError, match="denied"):
        connect(f"{captured}/allowed")
    mariadb.let_capture("allowed")
    assert len(rows(f"{captured}/allowed", "SELECT * FROM orders")) > 0
    for statement in ("DELETE FROM orders", "SELECT * FROM mysql.global_priv", "SET GLOBAL x = 1"):
        with pytest.raises(pymysql.MySQLError):
            rows(f"{captured}/allowed", statement)


@pytest.mark.parametrize("user", ["root", "debezium", "nobody", ""])
def test_nobody_comes_in_without_a_password(mariadb, user):
    with pytest.raises(pymysql.MySQLError, match="denied"):
        connect(f"mysql://{user}:@{mariadb.address}/")


def test_it_survives_a_kill_with_its_data(mariadb):
    rows(mariadb.dsn(), "CREATE OR REPLACE DATABASE kept")
    rows(mariadb.dsn("kept"), "CREATE TABLE t (id int PRIMARY KEY)")
    rows(mariadb.dsn("kept"), "INSERT INTO t VALUES (1), (2)")
    killed = mariadb.running
    os.kill(killed.pid, signal.SIGKILL)
    until(lambda: not killed.alive, "it is dead")
    start(mariadb)
    assert rows(mariadb.dsn("kept"), "SELECT id FROM t") == ((1,), (2,))


def test_a_password_that_is_not_taken_is_said_at_once(mariadb):
    mariadb.stop()
    secret = mariadb.layout.secret("mariadb")
    right = secret.read_text()
    secret.write_text("wrong")
    try:
        with pytest.raises(TerminalError, match=r"does not take the password.*secrets/mariadb"):
            start(mariadb)
    finally:
        mariadb.stop()
        secret.write_text(right)


def test_damaged_data_is_never_replaced_by_new(mariadb):
    mariadb.stop()
    lost = mariadb.data / "ibdata1"
    aside = lost.rename(mariadb.layout.home / "ibdata1")
    with pytest.raises(TerminalError, match=r"damaged.*cdc-assets stack down"):
        start(mariadb)
    shutil.move(aside, lost)
    start(mariadb)


MOMENTS: dict[str, Callable[[MariaDB], bool]] = {
    "unpacking": lambda part: part.programs.with_name(f"{part.programs.name}.partial").exists(),
    "installing": lambda part: bool(strays(part.layout.home, part.name)),
}


@pytest.mark.usefixtures("stack_config")
@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(MOMENTS["unpacking"], id="unpacking"),
        pytest.param(MOMENTS["installing"], id="installing", marks=in_soak),
    ],
)
def test_killed_in_the_middle_of_its_first_start_it_starts_over(tmp_path, moment):
    part = MariaDB(StackLayout(tmp_path / "a home", pick_free_ports()))
    argv = [sys.executable, "-c", START, str(part.layout.home), str(part.port)]
    with subprocess.Popen(argv) as killed:
        until(lambda: moment(part), "it is at it", every_seconds=0.01)
        killed.kill()
    orphans = strays(part.layout.home, part.name)
    try:
        start(part)
        assert rows(part.dsn(), "SELECT 1") == ((1,),)
        assert all(gone(each.pid) for each in orphans)
    finally:
        part.stop()


def test_without_its_jar_it_is_refused_with_the_command_that_installs_it(tmp_path):
    part = MariaDB(StackLayout(tmp_path, jars=tmp_path / "none"))
    with pytest.raises(TerminalError, match="cdc-assets stack install mariadb"):
        start(part)
    assert "mariadb" not in jars.PARTS


def test_the_shop_is_made_once_and_the_same_for_the_same_seed(mariadb):
    one, other = mariadb.dsn("shop_one"), mariadb.dsn("shop_other")
    assert prepare_shop(one) == prepare_shop(other) == ()
    before = contents(one)
    assert prepare_shop(one) == ()
    assert contents(one) == before
    same = before.keys() - {"inventory", "orders"}  # those carry the time of day
    assert {t: contents(other)[t] for t in same} == {t: before[t] for t in same}


def test_a_shop_that_was_half_made_is_made_anew_and_one_that_people_altered_is_kept(mariadb):
    half = mariadb.dsn("shop_half")
    prepare_shop(half)
    rows(half, "DROP TABLE shop_is_made, orders")
    assert prepare_shop(half) == ()
    rows(half, "DROP TABLE orders")
    assert prepare_shop(half) == ("orders",)


def test_the_load_counts_what_it_commits_and_goes_on_from_existing_data(mariadb):
    dsn = mariadb.dsn("shop_counted")
    prepare_shop(dsn)
    for _ in range(2):
        before = sum(map(len, contents(dsn).values()))
        totals = ShopLoad(dsn, rate=0).run(transactions=150)
        assert sum(map(len, contents(dsn).values())) - before == totals.inserts - totals.deletes
        assert min(totals.inserts, totals.updates, totals.deletes, totals.rollbacks) > 0


DAMAGE = {
    "a column is renamed": "ALTER TABLE customers RENAME COLUMN email TO mail",
    "a table is dropped": "DROP TABLE payments",
    "a check constraint": "ALTER TABLE inventory ADD CHECK (on_hand < 0 OR on_hand > 0)",
    "the server is stopped": "",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_the_load_goes_on_whatever_is_done_to_its_tables(mariadb, damage):
    dsn = mariadb.dsn(f"shop_{abs(hash(damage))}")
    prepare_shop(dsn)
    with working(dsn) as (load, said):
        if damage:
            rows(dsn, damage)
        else:
            mariadb.stop()
            until(lambda: any("is gone" in line for line in said), "it says so")
            start(mariadb)
        goes_on(load)
    assert len(said) == len(set(said))
    assert all("Duplicate entry" not in line for line in said)


def test_both_connectors_run_in_one_worker_and_changes_arrive(stack):
    stack.up(["mariadb"])
    mine, theirs = stack.mariadb.dsn("pair"), stack.postgres.dsn("pair")
    for dsn in (mine, theirs):
        prepare_shop(dsn)
    stack.mariadb.let_capture("pair")
    both = {
        "pairmy": mariadb_connector_config(stack.layout, database="pair", prefix="pairmy"),
        "pairpg": connector_config(stack.layout, database="pair", prefix="pairpg"),
    }
    try:
        for name, config in both.items():
            stack.register_connector(name, config)
        change = "UPDATE orders SET note = 'seen' WHERE id = 1"
        rows(mine, change)
        with psycopg.connect(theirs) as connection:
            connection.execute(change)
        topics = ("pairmy.pair.orders", "pairpg.public.orders")
        assert noted(stack.kafka.address, topics) == set(topics)
    finally:
        for name in both:
            stack.connect.unregister(name)


def noted(bootstrap: str, topics: tuple[str, ...]) -> set[str]:
    """The topics that the change has come in, once it has come in all or time is up."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"test-{time.time_ns()}",
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    consumer.subscribe(list(topics))
    found: set[str] = set()
    deadline = time.monotonic() + 60
    while found != set(topics) and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and not message.error() and message.value():
            event = json.loads(message.value())
            image = event.get("payload", event)["after"]
            if image and image["note"] == "seen":
                found.add(message.topic())
    consumer.close()
    return found
