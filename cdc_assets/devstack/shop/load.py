"""Steady load on the shop: what customers, clerks and jobs of a shop do to its tables.

As a program (``python -m cdc_assets.devstack.shop.load --rate 20``) it takes the DSN from
``SHOP_DSN`` and runs until it is told to stop.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

import click
import psycopg
from psycopg import errors
from psycopg.types.json import Jsonb

from cdc_assets.devstack.shop.database import WAREHOUSES, Connection, money, random_uuid

_LONGEST_DEBT_SECONDS = 1.0


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


class ShopLoad:
    """Transactions on the shop: inserts, updates, deletes, several tables at once, rollbacks.

    The transactions follow from the seed and from what is in the database at the start, so a
    run goes on from existing data, and several may work on one database (with other seeds).

    Args:
        dsn: of a database that `prepare_shop` made.
        rate: row changes per second; 0 is as fast as the database takes them.
        seed: of the random choices.
    """

    def __init__(self, dsn: str, rate: float = 20, seed: int = 7) -> None:
        self._dsn = dsn
        self._rate = rate
        self._seed = seed
        self.totals = LoadTotals()

    def run(
        self, stop: threading.Event | None = None, transactions: int | None = None
    ) -> LoadTotals:
        """Work until ``stop`` is set or that many transactions were tried."""
        stop = stop or threading.Event()
        left = transactions
        with psycopg.connect(self._dsn) as connection:
            clerk = _Clerk(connection, self._seed)
            due = time.monotonic()
            while not stop.is_set() and left != 0:
                due = max(due, time.monotonic() - _LONGEST_DEBT_SECONDS)
                changes = self._transaction(clerk)
                due += changes / self._rate if self._rate else 0
                left = None if left is None else left - 1
                stop.wait(max(0.0, due - time.monotonic()))
        return self.totals

    def _transaction(self, clerk: _Clerk) -> int:
        """One transaction; the number of its row changes, also if it was rolled back."""
        done, committed = clerk.work()
        if not committed:
            self.totals.rollbacks += 1
            return done.changes
        self.totals.commits += 1
        self.totals.inserts += done.inserts
        self.totals.updates += done.updates
        self.totals.deletes += done.deletes
        return done.changes


class _Clerk:
    """Somebody at one connection. Each method of `_DUTIES` is one transaction's statements."""

    def __init__(self, connection: Connection, seed: int) -> None:
        self._connection = connection
        newest = connection.execute("SELECT last_value FROM orders_id_seq").fetchone()
        self._rng = random.Random(f"{seed}:{newest}")  # noqa: S311 - a workload, no secret
        self._done = LoadTotals()

    def work(self) -> tuple[LoadTotals, bool]:
        """One transaction. Returns its row changes, and whether it was committed."""
        self._done = LoadTotals()
        duty = self._rng.choices(_DUTIES, _WEIGHTS)[0]
        try:
            duty(self)
            changed_its_mind = self._rng.random() < 0.05
            (self._connection.rollback if changed_its_mind else self._connection.commit)()
        except (errors.DeadlockDetected, errors.SerializationFailure, errors.UniqueViolation):
            self._connection.rollback()
            return self._done, False
        return self._done, not changed_its_mind

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
            self._done.deletes += self._connection.execute(statement, (victim,)).rowcount

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
        self._done.inserts += found is not None
        return found[0] if found else None

    def _update(self, statement: str, *values: object) -> None:
        self._done.updates += self._connection.execute(statement.encode(), values).rowcount

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


_DUTIES: tuple[Callable[[_Clerk], None], ...] = (
    *(_Clerk.order, _Clerk.pay, _Clerk.ship, _Clerk.cancel),
    *(_Clerk.reprice, _Clerk.count, _Clerk.sign_up),
)
_WEIGHTS = (25, 20, 20, 12, 8, 10, 5)


@click.command()
@click.option("--rate", default=20.0, show_default=True, help="Row changes per second.")
@click.option("--seed", default=7, show_default=True)
def main(rate: float, seed: int) -> None:
    """Put steady load on the shop at $SHOP_DSN, until SIGTERM or SIGINT."""
    stop = threading.Event()

    def leave(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    click.echo(ShopLoad(os.environ["SHOP_DSN"], rate, seed).run(stop))


if __name__ == "__main__":
    main()
