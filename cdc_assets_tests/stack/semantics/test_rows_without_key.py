"""Rows of a table without a key are counted, however often the connector sends them."""

from __future__ import annotations

import psycopg
import pytest
import requests
from cdc_assets_devstack.connect import Connect

from cdc_assets.errors import TerminalError
from cdc_assets_tests.stack.killed import kill_part
from cdc_assets_tests.stack.merging import Merging
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.waiting import until

pytestmark = pytest.mark.stack


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


@profiles.in_soak
def test_equal_rows_count_once_though_the_connector_sends_them_again(semantics: Merging) -> None:
    """After a restart in good order, and after kills of Connect."""
    database = semantics.database
    stack = database.stack
    database.execute("INSERT INTO bag SELECT 7, 'before', n % 3 FROM generate_series(1, 30) AS n")
    config = connector_settings(semantics)
    stack.connect.unregister(database.name)
    database.execute("INSERT INTO bag SELECT 7, 'stopped', n % 3 FROM generate_series(1, 30) AS n")
    stack.register_connector(database.name, config)
    semantics.require_equal("bag")

    for round_ in range(2):
        kill_connect_under_load(semantics, round_)
        semantics.require_equal("bag")


def connector_settings(semantics: Merging) -> dict[str, str]:
    """The connector's configuration, as Connect has it."""
    database = semantics.database
    address = database.stack.connect.address
    answer = requests.get(f"http://{address}/connectors/{database.name}/config", timeout=10)
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
    kill_part(connect)
    until(lambda: is_free(connect), "its port is free")
    database.execute("DELETE FROM bag WHERE a = 9 AND c = 1", "UPDATE bag SET c = 7 WHERE a = 8")
    database.stack.up(["connect"])


def is_free(connect: Connect) -> bool:
    """Whether the port can be bound again; the system takes a moment after a kill."""
    try:
        connect.require_startable()
    except TerminalError:
        return False
    return True
