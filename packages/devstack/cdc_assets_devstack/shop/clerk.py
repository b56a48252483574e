"""Executes the shop's transactions: one duty is one transaction's statements.

They use the SQL that all of the shop's databases have in common.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from cdc_assets_devstack.shop.dialect import Session
from cdc_assets_devstack.shop.stock import WAREHOUSES, money, random_uuid

_ON_ITS_WAY = """
SELECT id, status FROM (
    (SELECT id, status FROM orders WHERE id >= %s AND status = 'paid' ORDER BY id LIMIT 1)
    UNION ALL
    (SELECT id, status FROM orders WHERE id >= %s AND status = 'shipped' ORDER BY id LIMIT 1)
) AS moving ORDER BY id LIMIT 1
"""
"""Two searches, each by the index: a single one would read all orders that were delivered."""


@dataclass(slots=True)
class LoadTotals:
    """The numbers of committed row changes and of transactions."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    commits: int = 0
    rollbacks: int = 0

    @property
    def changes(self) -> int:
        """The number of row changes that a replica must have seen."""
        return self.inserts + self.updates + self.deletes


class Clerk:
    """A user of one connection, who does duties and counts the rows that they change."""

    def __init__(self, session: Session, rng: random.Random) -> None:
        self._session = session
        self._rng = rng
        self.done = LoadTotals()

    def order(self) -> None:
        """Takes an order: inserts it and its lines, and reduces the stock."""
        total = money(self._rng, 5, 2_000)
        placed = self._insert(
            "INSERT INTO orders (customer_id, total, note, promised_for) "
            "SELECT id, %s, %s, current_date + INTERVAL '3' DAY FROM customers "
            "WHERE id >= %s ORDER BY id LIMIT 1 RETURNING id",
            *(total, self._rng.choice((None, "please ring", "leave at the door")), self._pick(200)),
        )
        for line in range(1, self._rng.randrange(2, 5)):
            product, quantity = self._pick(100), self._rng.randrange(1, 4)
            self._insert(
                "INSERT INTO order_items (order_id, line, product_id, quantity, unit_price) "
                "SELECT %s, %s, id, %s, price FROM products WHERE id = %s RETURNING order_id",
                *(placed, line, quantity, product),
            )
            self._update(
                "UPDATE inventory SET on_hand = on_hand - %s "
                "WHERE (product_id, warehouse) = (%s, %s)",
                *(quantity, product, self._rng.choice(WAREHOUSES)),
            )

    def pay(self) -> None:
        """Records a payment for the oldest unpaid order from a random point on."""
        self._insert(
            "INSERT INTO payments (id, order_id, amount, fee, receipt) "
            "SELECT %s, id, total, %s, %s FROM orders "
            "WHERE id >= %s AND status = 'placed' ORDER BY id LIMIT 1 RETURNING id",
            *(random_uuid(self._rng), self._rng.uniform(0, 3), self._rng.randbytes(48)),
            self._some_order(),
        )
        self._update(
            "UPDATE orders SET status = 'paid' WHERE status = 'placed' "
            "AND id IN (SELECT order_id FROM payments WHERE settled = false)"
        )
        self._update(
            "UPDATE payments SET settled = true, settled_at = localtimestamp(6) "
            "WHERE settled = false"
        )

    def ship(self) -> None:
        """Ships or delivers an order."""
        some = self._some_order()
        found = self._session.first(_ON_ITS_WAY, some, some)
        if found is not None:
            moved = "shipped" if found[1] == "paid" else "delivered"
            self._update(
                "UPDATE orders SET status = %s, note = NULL WHERE id = %s", moved, found[0]
            )

    def cancel(self) -> None:
        """Deletes an order, with its lines and payments, and returns its stock."""
        victim = self._some_order()
        self._update(
            "UPDATE inventory SET on_hand = on_hand + (SELECT sum(quantity) FROM order_items "
            "WHERE order_id = %s AND product_id = inventory.product_id) WHERE warehouse = 'north' "
            "AND product_id IN (SELECT product_id FROM order_items WHERE order_id = %s)",
            *(victim, victim),
        )
        for statement in (
            "DELETE FROM order_items WHERE order_id = %s",
            "DELETE FROM payments WHERE order_id = %s",
            "DELETE FROM orders WHERE id = %s",
        ):
            self.done.deletes += self._session.change(statement, victim)

    def reprice(self) -> None:
        """Changes a product's price and attributes."""
        self._update(
            "UPDATE products SET price = %s, attributes = %s, active = NOT active WHERE id = %s",
            *(money(self._rng, 1, 500), {"size": self._pick(48)}, self._pick(100)),
        )

    def count(self) -> None:
        """Counts the stock of a product in a warehouse."""
        self._update(
            "UPDATE inventory SET on_hand = %s, counted_at = current_timestamp(6) "
            "WHERE (product_id, warehouse) = (%s, %s)",
            *(self._rng.randrange(50, 500), self._pick(100), self._rng.choice(WAREHOUSES)),
        )

    def sign_up(self) -> None:
        """Adds a customer; changes another's preferences, or erases that one's personal data."""
        name = f"Customer {self._rng.randrange(10**9)}"
        self._insert(
            "INSERT INTO customers (public_id, name, email, tags) VALUES (%s, %s, %s, %s) "
            "RETURNING id",
            *(random_uuid(self._rng), name, f"{name.replace(' ', '.')}@example.org", ["new"]),
        )
        forgotten = self._rng.random() < 0.2
        self._update(
            "UPDATE customers SET email = CASE WHEN %s THEN NULL ELSE email END, "
            "newsletter = NOT newsletter, preferences = %s WHERE id = %s",
            *(forgotten, None if forgotten else {"dark": forgotten}, self._pick(200)),
        )

    def _insert(self, statement: str, *values: object) -> object:
        """Inserts one row, unless its SELECT finds none; returns its id, or None."""
        found = self._session.first(statement, *values)
        self.done.inserts += found is not None
        return found[0] if found else None

    def _update(self, statement: str, *values: object) -> None:
        self.done.updates += self._session.change(statement, *values)

    def _pick(self, most: int) -> int:
        return self._rng.randint(1, most)

    def _some_order(self) -> object:
        """Picks an existing order, preferring newer ones; None in an empty shop."""
        newest = self._session.first("SELECT max(id) * 1 FROM orders")  # refused unless a number
        if newest is None or newest[0] is None:
            return None
        # A whole number: compared with a fraction, each id would be converted, and no index used.
        least = int(float(str(newest[0])) * self._rng.random() ** 0.3)
        row = self._session.first("SELECT id FROM orders WHERE id >= %s ORDER BY id LIMIT 1", least)
        return row[0] if row else None


@dataclass(frozen=True, slots=True)
class Duty:
    """A kind of transaction.

    Args:
        name: its purpose, as a continuation of "the shop can".
        work: executes its statements.
        weight: its frequency relative to the others.
    """

    name: str
    work: Callable[[Clerk], None]
    weight: int


DUTIES = (
    Duty("take orders", Clerk.order, 25),
    Duty("take payments", Clerk.pay, 20),
    Duty("ship orders", Clerk.ship, 20),
    Duty("cancel orders", Clerk.cancel, 12),
    Duty("change prices", Clerk.reprice, 8),
    Duty("count its stock", Clerk.count, 10),
    Duty("sign customers up", Clerk.sign_up, 5),
)
