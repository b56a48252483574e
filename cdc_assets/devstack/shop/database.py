"""Creates the shop: database, tables and first rows, each only if it is not there yet."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.json import Jsonb

SCHEMA = Path(__file__).with_name("schema.sql")
TABLES = ("customers", "inventory", "order_items", "orders", "payments", "products")
CUSTOMERS, PRODUCTS, ORDERS = 200, 100, 300
WAREHOUSES = ("north", "south")
_FIRST_DAY = date(2026, 1, 1)

Row = Sequence[object]
Connection = psycopg.Connection[tuple[object, ...]]


def prepare_shop(dsn: str, seed: int = 7) -> tuple[str, ...]:
    """Create and fill the database of a DSN. The same seed gives the same rows.

    All tables and rows appear in one transaction: an interrupted call leaves nothing behind,
    and a second call changes nothing. A shop that is there is left as people have altered it:
    tables made anew would bring old ids back, for which the lake may have other rows.

    Returns:
        The shop's tables that are missing.
    """
    _create_database(dsn)
    with psycopg.connect(dsn) as connection:
        # Serialises two first callers; released with the transaction.
        connection.execute("SELECT pg_advisory_xact_lock(734001)")
        missing = _missing(connection)
        if missing == TABLES and not _has_been_made(connection):
            connection.execute(SCHEMA.read_text().encode())
            _fill(connection, random.Random(seed))  # noqa: S311 - rows of a demo, no secret
            return ()
        return missing


def _missing(connection: Connection) -> tuple[str, ...]:
    exists = "SELECT to_regclass(format('public.%%I', %s::text)) IS NOT NULL"
    return tuple(t for t in TABLES if connection.execute(exists, (t,)).fetchone() == (False,))


def _has_been_made(connection: Connection) -> bool:
    """Whether something of the shop is left: its type stays when all tables are dropped."""
    found = connection.execute("SELECT to_regtype('public.order_status') IS NOT NULL").fetchone()
    return found == (True,)


def _create_database(dsn: str) -> None:
    parts = conninfo_to_dict(dsn)
    name = str(parts["dbname"])
    server = make_conninfo(dsn, dbname="postgres")
    with psycopg.connect(server, autocommit=True) as connection:
        exists = "SELECT 1 FROM pg_database WHERE datname = %s"
        if connection.execute(exists, (name,)).fetchone() is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


def _fill(connection: Connection, rng: random.Random) -> None:
    _copy(connection, "customers", _customers(rng))
    _copy(connection, "products", _products(rng))
    stock = [(p, w, rng.randrange(50, 500)) for p in range(1, PRODUCTS + 1) for w in WAREHOUSES]
    _copy(connection, "inventory", stock, "product_id warehouse on_hand")
    orders = [_order(rng, number) for number in range(1, ORDERS + 1)]
    _copy(connection, "orders", orders, "id customer_id status total promised_for")
    _copy(connection, "order_items", (item for o in orders for item in _items(rng, o)))
    _copy(connection, "payments", (_payment(rng, o) for o in orders if o[2] != "placed"))
    for table in ("customers", "products", "orders"):
        connection.execute(
            sql.SQL("SELECT setval(pg_get_serial_sequence({0}, 'id'), max(id)) FROM {1}").format(
                sql.Literal(table), sql.Identifier(table)
            )
        )


def _copy(connection: Connection, table: str, rows: Iterable[Row], columns: str = "") -> None:
    chosen = sql.SQL(", ").join(map(sql.Identifier, columns.split()))
    into = sql.SQL("({})").format(chosen) if columns else sql.SQL("")
    statement = sql.SQL("COPY {} {} FROM STDIN").format(sql.Identifier(table), into)
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


def _customers(rng: random.Random) -> Iterable[Row]:
    for number in range(1, CUSTOMERS + 1):
        yield (
            number,
            random_uuid(rng),
            f"Customer {number}",
            f"customer{number}@example.org",
            date(1950, 1, 1) + timedelta(days=rng.randrange(20_000)),
            rng.random() < 0.3,
            rng.sample(("new", "loyal", "b2b", "abroad"), rng.randrange(3)),
            Jsonb({"language": rng.choice(("de", "en", "fr")), "dark": rng.random() < 0.5}),
            _FIRST_DAY,
        )


def _products(rng: random.Random) -> Iterable[Row]:
    for number in range(1, PRODUCTS + 1):
        yield (
            number,
            f"SKU-{number:05}",
            f"Product {number}",
            money(rng, 1, 500),
            round(rng.uniform(0.05, 30), 3),
            Jsonb({"colour": rng.choice(("red", "green", "blue")), "size": rng.randrange(36, 48)}),
            rng.randbytes(64),
            rng.random() < 0.95,
            _FIRST_DAY + timedelta(days=rng.randrange(90)),
        )


def _order(rng: random.Random, number: int) -> Row:
    status = rng.choice(("placed", "paid", "shipped", "delivered"))
    promised = _FIRST_DAY + timedelta(days=rng.randrange(365))
    return number, rng.randrange(1, CUSTOMERS + 1), status, money(rng, 5, 2_000), promised


def _items(rng: random.Random, order: Row) -> Iterable[Row]:
    for line in range(1, rng.randrange(2, 5)):
        discount = Decimal(rng.randrange(3_000)) / 10_000
        product, quantity = rng.randrange(1, PRODUCTS + 1), rng.randrange(1, 4)
        yield order[0], line, product, quantity, money(rng, 1, 500), discount


def _payment(rng: random.Random, order: Row) -> Row:
    fee = round(rng.uniform(0, 3), 4)
    return random_uuid(rng), order[0], order[3], fee, rng.randbytes(48), True, _FIRST_DAY


def money(rng: random.Random, least: int, most: int) -> Decimal:
    """An amount with two digits."""
    return Decimal(rng.randrange(least * 100, most * 100)) / 100


def random_uuid(rng: random.Random) -> uuid.UUID:
    """A version 4 UUID from a seeded generator."""
    return uuid.UUID(int=rng.getrandbits(128), version=4)
