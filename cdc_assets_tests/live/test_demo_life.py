"""The demo as a person meets it: a program, in a shell full of other people's settings.

The tests go on from each other: one demo lives through all of them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
import requests
from cdc_assets_devstack import environment
from cdc_assets_devstack.configured import stack_of
from cdc_assets_devstack.layout import JARS_VARIABLE
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.process import RunningProcess
from cdc_assets_devstack.stack import LocalStack
from pyiceberg.catalog import load_catalog

from cdc_assets_tests.configuration import database_of, on_ports, source, write
from cdc_assets_tests.conftest import CHECKOUT_JARS
from cdc_assets_tests.devstack.test_environment import HOSTILE
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, profiles.in_soak, pytest.mark.timeout(1800)]

PATIENCE_SECONDS = 400


class Shell:
    """A home of its own, and a demo in it that may be started again and again."""

    def __init__(self, folder: Path) -> None:
        ports = pick_free_ports()
        self.file = folder / "replication.yaml"
        shop = source("shop", **database_of("SHOP_DSN"))
        self.config = write(self.file, on_ports(ports, sources={"shop": shop}))
        self.stack: LocalStack = stack_of(self.config)
        self.port = pick_free_ports().connect
        self.url = f"http://127.0.0.1:{self.port}"
        self.output = folder / "demo.txt"
        self.demo: subprocess.Popen[bytes] | None = None

    def environment(self, **more: str | None) -> dict[str, str]:
        jars = os.environ.get(JARS_VARIABLE, str(CHECKOUT_JARS))
        kept = {name: os.environ[name] for name in environment.SYSTEM if name in os.environ}
        told = {**kept, **HOSTILE, JARS_VARIABLE: jars, **more}
        return {name: value for name, value in told.items() if value is not None}

    def command(self, *arguments: str, **more: str | None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "cdc_assets.cli", "--config", str(self.file), *arguments],
            env=self.environment(**more),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def start(self) -> None:
        argv = [sys.executable, "-m", "cdc_assets.cli", "--config", str(self.file), "demo"]
        begun = self.text().count("Ctrl-C stops everything")
        with self.output.open("ab") as out:
            self.demo = subprocess.Popen(
                [*argv, "--port", str(self.port)],
                env=self.environment(),
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self.until(lambda: self.text().count("Ctrl-C stops everything") > begun, "it has started")

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait, but not for a demo that has ended."""
        demo = self.demo
        assert demo is not None
        until(lambda: condition() or demo.poll() is not None, what, within_seconds=PATIENCE_SECONDS)
        assert demo.poll() is None, self.text()[-3000:]

    def text(self) -> str:
        return self.output.read_text() if self.output.exists() else ""

    def newest_order(self) -> int:
        """The highest id among the lake's orders, 0 without any."""
        lake = self.config.lake
        uri = lake.catalog.resolved()["uri"]
        catalog = load_catalog("lake", type="sql", uri=uri, warehouse=lake.warehouse)
        name = ("shop_public", "orders")
        if not catalog.table_exists(name):
            return 0
        ids = catalog.load_table(name).scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
        return max(ids, default=0)

    def goes_on(self) -> None:
        """New orders come from the load, through everything, into the lake."""
        before = self.newest_order()
        self.until(lambda: self.newest_order() > before, f"orders after {before} in the lake")

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.stack.postgres.dsn("shop"), autocommit=True) as person:
            person.execute(statement.encode())

    def pids(self) -> dict[str, int]:
        found = {
            file.stem: RunningProcess.read(file) for file in self.stack.layout.runs.glob("*.json")
        }
        return {name: each.pid for name, each in found.items() if each and name != "spark-warmup"}


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    made = Shell(tmp_path_factory.mktemp("demo"))
    yield made
    if made.demo is not None and made.demo.poll() is None:
        made.demo.kill()
    made.stack.down()


def test_in_a_hostile_environment_the_whole_stack_starts_and_merges(shell: Shell) -> None:
    shell.start()
    shell.until(lambda: shell.newest_order() >= 300, "the shop's orders are in the lake")
    shell.goes_on()


def test_the_first_thing_to_see_is_no_newsletter(shell: Shell) -> None:
    session = requests.Session()
    session.trust_env = False
    query = {"query": "{shouldShowNux}"}
    answer = session.post(f"{shell.url}/graphql", json=query, timeout=60)
    assert answer.json() == {"data": {"shouldShowNux": False}}


def test_commands_work_in_that_environment_too(shell: Shell) -> None:
    dsn = shell.command("stack", "dsn", "shop").stdout.strip()
    status = shell.command("status")
    assert status.returncode == 0, status.stderr
    assert "orders" in status.stdout
    # Two that are believed on purpose: where Dagster's instance is, and a service that libpq
    # reads before it looks at the DSN.
    home = str(shell.stack.layout.data("dagster"))
    meant = {"SHOP_DSN": dsn, "DAGSTER_HOME": home, "PGSERVICE": None}
    done = shell.command("replicate", "--table", "orders", **meant)
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_second_demo_is_told_of_the_first(shell: Shell) -> None:
    assert shell.demo
    second = shell.command("demo", "--port", str(pick_free_ports().connect))
    assert second.returncode == 1
    assert f"a demo runs here already: {shell.url}" in second.stderr
    assert f"pid {shell.demo.pid}" in second.stderr
    shell.goes_on()


def test_tables_may_be_altered_while_it_runs(shell: Shell) -> None:
    shell.execute("ALTER TABLE customers RENAME COLUMN email TO mail")
    shell.until(lambda: "cannot sign customers up" in shell.text(), "it says what it cannot do")
    shell.execute("DROP TABLE payments")
    shell.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = 'shop' AND pid <> pg_backend_pid()"
    )
    shell.until(lambda: "cannot take payments" in shell.text(), "it says what it cannot do")
    shell.execute("ALTER TABLE orders ADD COLUMN wrapped boolean NOT NULL DEFAULT false")
    shell.execute("INSERT INTO orders (customer_id, total, wrapped) VALUES (1, 9.99, true)")
    shell.goes_on()
    assert shell.text().count("cannot sign customers up") == 1


def test_what_dies_is_named_and_started_again(shell: Shell) -> None:
    for name in ("postgres", "shop-load", "spark"):
        before = shell.pids()[name]
        os.kill(before, signal.SIGKILL)
        shell.until(lambda name=name: f"{name} runs again" in shell.text(), f"{name} is back")
        assert f"{name} ended by itself and is started again" in shell.text()
        assert shell.pids()[name] != before
    shell.goes_on()


def test_a_killed_demo_is_taken_over_by_the_next(shell: Shell) -> None:
    assert shell.demo
    before = shell.pids()
    assert {"dagster", "postgres", "shop-load", "spark"} < before.keys()
    shell.demo.kill()
    shell.demo.wait(30)
    shell.start()
    assert shell.pids() == before
    assert "the shop lacks payments" in shell.text()
    shell.goes_on()


def test_stack_down_ends_it_in_good_order_and_it_starts_again(shell: Shell) -> None:
    assert shell.demo
    assert shell.command("stack", "down").returncode == 0
    assert shell.demo.wait(60) == 1
    assert "was stopped by another command" in shell.text()
    assert shell.pids() == {}
    shell.start()
    shell.goes_on()


def test_ctrl_c_leaves_nothing_behind(shell: Shell) -> None:
    assert shell.demo
    shell.demo.send_signal(signal.SIGINT)
    assert shell.demo.wait(120) == 0
    home = str(shell.stack.layout.home)
    left = [each.info["cmdline"] for each in psutil.process_iter(["cmdline"])]
    assert [words for words in left if words and home in " ".join(words)] == []
