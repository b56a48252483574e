"""Tables whose names no topic can have, and keys that are not the rows', from the real parts."""

from __future__ import annotations

import psycopg
import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.registry import RegistryFile, Taken
from cdc_assets_tests.lake_view import read_rows
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

NAME = "odd_names"
NUMBER = "12345678901234567890.000000000000000000000123"
"""What the type of a bare ``numeric`` has to hold, which only the catalog tells."""
CREATE = (
    'CREATE TABLE "Order Lines" ("Line No" int PRIMARY KEY, price numeric, "a.b" text)',
    f"""INSERT INTO "Order Lines" VALUES (1, {NUMBER}, 'x'), (2, 1.50, NULL), (3, 0, 'z')""",
    'CREATE TABLE "Order_Lines" ("Line No" int PRIMARY KEY, n int)',
    'INSERT INTO "Order_Lines" SELECT n, n FROM generate_series(1, 30) AS n',
    'CREATE TABLE "dotted.table" (id int PRIMARY KEY, price numeric)',
    f'INSERT INTO "dotted.table" VALUES (1, {NUMBER}), (2, -1)',
    "CREATE TABLE users (id int PRIMARY KEY, email text, name text)",
    "INSERT INTO users VALUES (1, 'a@x', 'A'), (2, 'z@x', 'Z'), (3, 'z@x', 'Y')",
)
CHANGE = (
    """UPDATE "Order Lines" SET price = price + 1, "a.b" = 'y' WHERE "Line No" = 1""",
    'DELETE FROM "Order Lines" WHERE "Line No" = 2',
    'UPDATE "Order_Lines" SET n = -1 WHERE "Line No" = 2',
    'DELETE FROM "Order_Lines" WHERE "Line No" = 3',
    'UPDATE "dotted.table" SET price = 7.25 WHERE id = 2',
    "UPDATE users SET email = 'b@x' WHERE id = 1",
    "DELETE FROM users WHERE id = 2",
)
KEYS = {"Order Lines": "Line No", "Order_Lines": "Line No", "dotted.table": "id", "users": "id"}


def rows(shop: Replicated, table: str) -> tuple[dict[object, object], dict[object, object]]:
    """The rows of the source and of the lake, by key."""
    with psycopg.connect(shop.dsn) as connection:
        cursor = connection.execute(f'SELECT * FROM "{table}"'.encode())
        names = [each.name for each in cursor.description or ()]
        there = [dict(zip(names, map(_text, row), strict=True)) for row in cursor]
    found = [
        {name: _text(row[name]) for name in names}
        for row in read_rows(shop.config, shop.entry(table).target)
    ]
    assert len({row[KEYS[table]] for row in found}) == len(found), f"{table}: a key is there twice"
    source, lake = ({row[KEYS[table]]: row for row in each} for each in (there, found))
    return source, lake  # type: ignore[return-value]


def _text(value: object) -> object:
    """Numbers without the zeros at their end."""
    text = str(value)
    is_number = isinstance(value, int) or text.replace(".", "").replace("-", "").isdigit()
    return text.rstrip("0").rstrip(".") if is_number and "." in text else text


def test_odd_names_and_other_keys_end_as_their_source_is(
    stack: LocalStack, stack_config: ReplicationConfig
) -> None:
    """``Order Lines`` and ``Order_Lines`` have one topic: no other character is left of both."""
    dsn = new_database(stack, NAME, *CREATE)
    settings = {"message.key.columns": "public.users:email"}
    with replicated(stack, stack_config, NAME, dsn, debezium=settings) as shop:
        shop.wait_until_delivered()
        shop.replicate()
        shop.execute(*CHANGE)
        shop.wait_until_delivered()
        shop.replicate()
        for table in KEYS:
            source, lake = rows(shop, table)
            assert lake == source, table
        asked = [word for table in KEYS for word in ("--table", f"public.{table}")]
        shop.run("verify", *asked)
        entries = {e.table.name: e for e in RegistryFile(shop.config.registry).load()}
        assert set(entries) == {*KEYS}
        assert all(each.taken is Taken.NAMED for each in entries.values())
        assert entries["Order Lines"].topic == entries["Order_Lines"].topic
