"""Defines the shop's tables, their sizes and their first rows, independent of the database."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

TABLES = ("customers", "inventory", "order_items", "orders", "payments", "products")
CUSTOMERS, PRODUCTS, ORDERS = 200, 100, 300
WAREHOUSES = ("north", "south")
COUNTED = ("customers", "products", "orders")
"""The tables whose ``id`` the database generates."""
_FIRST_DAY = date(2026, 1, 1)

Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class FirstRows:
    """The first rows of a table.

    Values are Python's: a dictionary or a list stands for a document or a list of texts, as far as
    the database has these. ``columns`` are the rows' columns; () means all.
    """

    table: str
    rows: Iterable[Row]
    columns: tuple[str, ...] = ()


def first_rows(seed: int) -> Iterator[FirstRows]:
    """Yields the rows of all tables of a new shop; the same seed gives the same rows."""
    rng = random.Random(seed)  # noqa: S311 - rows of a demo, no secret
    yield FirstRows("customers", _customers(rng))
    yield FirstRows("products", _products(rng))
    stock = [(p, w, rng.randrange(50, 500)) for p in range(1, PRODUCTS + 1) for w in WAREHOUSES]
    yield FirstRows("inventory", stock, ("product_id", "warehouse", "on_hand"))
    orders = [_order(rng, number) for number in range(1, ORDERS + 1)]
    yield FirstRows("orders", orders, ("id", "customer_id", "status", "total", "promised_for"))
    yield FirstRows("order_items", (item for each in orders for item in _items(rng, each)))
    yield FirstRows("payments", (_payment(rng, o) for o in orders if o[2] != "placed"))


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
            {"language": rng.choice(("de", "en", "fr")), "dark": rng.random() < 0.5},
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
            {"colour": rng.choice(("red", "green", "blue")), "size": rng.randrange(36, 48)},
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
    """Returns a random amount with two decimal places, from ``least`` up to below ``most``."""
    return Decimal(rng.randrange(least * 100, most * 100)) / 100


def random_uuid(rng: random.Random) -> uuid.UUID:
    """Returns a version 4 UUID from a seeded generator."""
    return uuid.UUID(int=rng.getrandbits(128), version=4)
