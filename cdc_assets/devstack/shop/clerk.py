"""What customers, clerks and jobs of the shop do: one duty is one transaction's statements."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from psycopg.types.json import Jsonb

from cdc_assets.devstack.shop.database import WAREHOUSES, Connection, money, random_uuid


@dataclass(slots=True)
class LoadTotals:
    """Row changes that were committed, and how many transactions there were."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    commits: int = 0
    rollbacks: int = 0

    @property
    def changes(self) -> int:
        """Row changes that a replica must have seen."""
        return self.inserts + self.updates + self.deletes


class Clerk:
    """Somebody at one connection, who does duties and counts the rows that they change."""

    def __init__(self, connection: Connection, rng: random.Random) -> None:
        self._connection = connection
        self._rng = rng
        self.done = LoadTotals()

    def order(self) -> None:
        """A customer orders: one order, its lines, and the stock they come from."""
        total = money(self._rng, 5, 2_000)
        placed = self._insert(
            "INSERT INTO orders (customer_id, total, note, promised_for) "
            "SELECT id, %s, %s, current_date + 3 FROM customers "
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
        """A payment arrives for the oldest unpaid order from some point on."""
        self._insert(
            "INSERT INTO payments (id, order_id, amount, fee, receipt) "
            "SELECT %s, id, total, %s, %s FROM orders "
            "WHERE id >= %s AND status = 'placed' ORDER BY id LIMIT 1 RETURNING id",
            *(random_uuid(self._rng), self._rng.uniform(0, 3), self._rng.randbytes(48)),
            self._some_order(),
        )
        self._update(
            "UPDATE orders SET status = 'paid' FROM payments "
            "WHERE orders.id = payments.order_id AND orders.status = 'placed' AND NOT settled"
        )
        self._update(
            "UPDATE payments SET settled = true, settled_at = localtimestamp WHERE NOT settled"
        )

    def ship(self) -> None:
        """A parcel leaves or arrives."""
        self._update(
            "UPDATE orders SET status = CASE status WHEN 'paid' THEN 'shipped' ELSE 'delivered' END"
            "::order_status, note = NULL WHERE id = (SELECT id FROM orders WHERE id >= %s "
            "AND status IN ('paid', 'shipped') ORDER BY id LIMIT 1)",
            self._some_order(),
        )

    def cancel(self) -> None:
        """An order is removed, with its lines and payments; its stock comes back."""
        victim = self._some_order()
        self._update(
            "UPDATE inventory SET on_hand = on_hand + quantity FROM order_items i "
            "WHERE order_id = %s AND inventory.product_id = i.product_id AND warehouse = 'north'",
            victim,
        )
        for statement in (
            "DELETE FROM order_items WHERE order_id = %s",
            "DELETE FROM payments WHERE order_id = %s",
            "DELETE FROM orders WHERE id = %s",
        ):
            self.done.deletes += self._connection.execute(statement, (victim,)).rowcount

    def reprice(self) -> None:
        """A product gets another price and other attributes."""
        self._update(
            "UPDATE products SET price = %s, attributes = attributes || %s, active = NOT active "
            "WHERE id = %s",
            *(money(self._rng, 1, 500), Jsonb({"size": self._pick(48)}), self._pick(100)),
        )

    def count(self) -> None:
        """A shelf is counted."""
        self._update(
            "UPDATE inventory SET on_hand = %s, counted_at = now() WHERE (product_id, warehouse) = "
            "(%s, %s)",
            *(self._rng.randrange(50, 500), self._pick(100), self._rng.choice(WAREHOUSES)),
        )

    def sign_up(self) -> None:
        """A customer appears; another changes preferences, or asks to be forgotten."""
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
            *(forgotten, None if forgotten else Jsonb({"dark": forgotten}), self._pick(200)),
        )

    def _insert(self, statement: str, *values: object) -> object:
        """Insert one row, unless its SELECT finds none; the returned id."""
        found = self._connection.execute(statement.encode(), values).fetchone()
        self.done.inserts += found is not None
        return found[0] if found else None

    def _update(self, statement: str, *values: object) -> None:
        self.done.updates += self._connection.execute(statement.encode(), values).rowcount

    def _pick(self, most: int) -> int:
        return self._rng.randint(1, most)

    def _some_order(self) -> object:
        """An order that exists, the newer the likelier; None in an empty shop."""
        row = self._connection.execute(
            "SELECT id FROM orders WHERE id >= (SELECT max(id) * %s FROM orders) "
            "ORDER BY id LIMIT 1",
            (self._rng.random() ** 0.3,),
        ).fetchone()
        return row[0] if row else None


@dataclass(frozen=True, slots=True)
class Duty:
    """A kind of transaction.

    Args:
        name: what it is for, after "the shop can".
        work: its statements.
        weight: how often it comes, relative to the others.
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
