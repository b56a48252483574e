"""PostgreSQL moved to a new server by dump and restore: its positions begin anew, far below.

Both ways out, with the real server, the real dump and the real connector; the rules themselves
are tested in `cdc_assets_tests.merge.test_restarted_source`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from cdc_assets_devstack.configured import stack_of
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.postgres import bin_folder
from cdc_assets_devstack.shop.connector import connector_config
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.changes.restarts import LEEWAY_MS
from cdc_assets.config import ReplicationConfig
from cdc_assets_tests.configuration import database_of, on_ports, source, write
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.stack.side import side_of
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, profiles.in_soak]

TABLES = ("accounts", "owners")
MAKE = (
    "CREATE TABLE accounts (id int PRIMARY KEY, owner text, cents bigint)",
    "CREATE TABLE owners (id int PRIMARY KEY, name text)",
    "CREATE TABLE signals (id text PRIMARY KEY, type text, data text)",
    "INSERT INTO accounts SELECT n, 'owner ' || n % 7, n * 100 FROM generate_series(1, 200) AS n",
    "INSERT INTO owners SELECT n, 'owner ' || n FROM generate_series(1, 7) AS n",
)
SIGNALS = {"signal.enabled.channels": "source", "signal.data.collection": "public.signals"}
ANEW = "restored_anew"
FAR = "0/18000000"


@pytest.fixture
def old(stack: LocalStack, stack_config: ReplicationConfig) -> Iterator[Replicated]:
    """A database on a server that has written some log."""
    dsn = new_database(stack, "restored", *MAKE)
    with psycopg.connect(stack.postgres.dsn(), autocommit=True) as server:

        def is_far() -> bool:
            server.execute("SELECT pg_logical_emit_message(false, 'fill', repeat('x', 1 << 20))")
            server.execute("SELECT pg_switch_wal()")
            far = server.execute(f"SELECT pg_current_wal_lsn() > '{FAR}'::pg_lsn".encode())
            return far.fetchone() == (True,)

        until(is_far, f"the log is beyond {FAR}", every_seconds=0)
    with replicated(stack, stack_config, "restored", dsn, debezium=SIGNALS) as found:
        yield found


@pytest.fixture
def new_server(stack: LocalStack, tmp_path: Path) -> Iterator[LocalStack]:
    """Another PostgreSQL, with the password that Connect knows."""
    shop = source("shop", **database_of("SHOP_DSN"))
    base = write(tmp_path / "replication.yaml", on_ports(pick_free_ports(), sources={"shop": shop}))
    other = stack_of(base)
    secret = other.layout.secret("postgres")
    secret.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    shutil.copy(stack.layout.secret("postgres"), secret)
    try:
        other.up(["postgres"])
        yield other
    finally:
        stack.connect.unregister(ANEW)
        other.down()


def test_after_dump_and_restore_the_table_stops_and_both_ways_out_lead_on(
    old: Replicated, new_server: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    old.execute("UPDATE accounts SET cents = cents + 1", "DELETE FROM accounts WHERE id % 9 = 0")
    old.wait_until_delivered()
    old.replicate()
    assert old.differences(*TABLES) == []
    moved_at = time.monotonic()

    new = moved(old, new_server, monkeypatch)
    old.stack.register_connector(ANEW, streaming(old, new_server))
    until(lambda: time.monotonic() > moved_at + 2 * LEEWAY_MS / 1000, "a restore takes its time")
    new.execute(
        "UPDATE accounts SET cents = -1 WHERE id % 5 = 0", "DELETE FROM accounts WHERE id = 11",
        "INSERT INTO accounts VALUES (999, 'after', 1)",
        "UPDATE owners SET name = 'after' WHERE id = 1", "DELETE FROM owners WHERE id = 2",
    )  # fmt: skip
    new.wait_until_delivered()
    before = new.publishes("accounts")[-1]
    assert new.start("replicate", "--until-caught-up").wait(240) == 1
    for table in TABLES:
        assert f"table=restored.public.{table}" in new.last_words(), "both have another number"
    assert "its database restored from a dump" in new.last_words()
    assert new.publishes("accounts")[-1] == before

    new.run("accept-restart", "restored.public.accounts")
    assert new.start("replicate", "--until-caught-up").wait(240) == 1, "the other still stands"
    assert new.differences("accounts") == []

    assert new.start("rebuild", "restored.public.owners", "--from-snapshot").wait(240) == 1
    assert "waits for a snapshot" in new.last_words()
    wanted = json.dumps({"type": "blocking", "data-collections": ["public.owners"]})
    new.execute(f"INSERT INTO signals VALUES ('again', 'execute-snapshot', '{wanted}')")

    def swapped() -> bool:
        return new.start("rebuild", "restored.public.owners").wait(240) == 0

    until(swapped, "the snapshot was read and swapped in", within_seconds=300)
    for n in range(2):
        new.execute(f"UPDATE owners SET name = 'on {n}'", f"DELETE FROM accounts WHERE id = {n}")
        new.wait_until_delivered()
        new.replicate()
        assert new.differences(*TABLES) == []


def moved(old: Replicated, server: LocalStack, monkeypatch: pytest.MonkeyPatch) -> Replicated:
    """The database on its new server; its old connector is gone."""
    programs, dsn = bin_folder(), server.postgres.dsn("restored")
    old.stack.connect.unregister(old.name)
    with psycopg.connect(server.postgres.dsn(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE restored")
    dump = subprocess.run(
        [programs / "pg_dump", "--no-publications", old.dsn], check=True, stdout=subprocess.PIPE
    )
    subprocess.run(
        [programs / "psql", "--quiet", "--set=ON_ERROR_STOP=1", dsn],
        input=dump.stdout, stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    monkeypatch.setenv("RESTORED_DSN", dsn)
    return replace(old, side=side_of(dsn))


def streaming(old: Replicated, server: LocalStack) -> dict[str, str]:
    """A connector without a snapshot, under the same prefix."""
    connector = connector_config(old.stack.layout, database="restored", prefix="restored")
    moved_to = {"database.port": str(server.postgres.port), "snapshot.mode": "no_data"}
    return {**connector, **SIGNALS, **moved_to}
