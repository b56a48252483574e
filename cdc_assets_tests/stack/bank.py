"""A bank whose three tables agree after each transaction, and only then."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from cdc_assets_tests.stack.side import Side

ACCOUNTS = 20
BEGIN = 1000
TABLES = ("accounts", "ledger", "totals")
MAKE = (
    "CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL)",
    "CREATE TABLE ledger (id int PRIMARY KEY, payer int NOT NULL, payee int NOT NULL,"
    " amount bigint NOT NULL)",
    "CREATE TABLE totals (id int PRIMARY KEY, transfers bigint NOT NULL, moved bigint NOT NULL)",
    *(f"INSERT INTO accounts VALUES ({each}, {BEGIN})" for each in range(ACCOUNTS)),
    "INSERT INTO totals VALUES (1, 0, 0)",
)

Rows = Sequence[Mapping[str, Any]]


def violations(tables: Mapping[str, Rows]) -> list[str]:
    """In which ways the three tables are no state that the bank ever had."""
    balances = {row["id"]: row["balance"] for row in tables["accounts"]}
    expected, moved = dict.fromkeys(range(ACCOUNTS), BEGIN), 0
    for row in tables["ledger"]:
        expected[row["payer"]] -= row["amount"]
        expected[row["payee"]] += row["amount"]
        moved += row["amount"]
    (total,) = tables["totals"]
    found = []
    if balances != expected:
        found.append("balances are not what the ledger says")
    if (total["transfers"], total["moved"]) != (len(tables["ledger"]), moved):
        found.append("totals are not what the ledger says")
    return found


class Transfers:
    """Transfers money as fast as it is allowed to; one of ten removes the last entry again."""

    def __init__(self, side: Side, seed: int) -> None:
        self._side, self._rng = side, random.Random(seed)
        self.done = 0
        self._entries: list[tuple[int, int, int, int]] = []
        self._number = 0

    def transfer(self) -> None:
        """One transaction over all three tables."""
        rng = self._rng
        if self._entries and rng.random() < 0.1:
            number, payer, payee, amount = self._entries.pop(rng.randrange(len(self._entries)))
            self._move(payee, payer, amount, -1, f"DELETE FROM ledger WHERE id = {number}")
        else:
            payer, payee = rng.sample(range(ACCOUNTS), 2)
            amount, self._number = rng.randint(1, 9), self._number + 1
            self._entries.append((self._number, payer, payee, amount))
            values = f"{self._number}, {payer}, {payee}, {amount}"
            self._move(
                payer,
                payee,
                amount,
                1,
                f"INSERT INTO ledger (id, payer, payee, amount) VALUES ({values})",
            )
        self.done += 1

    def _move(self, payer: int, payee: int, amount: int, count: int, entry: str) -> None:
        self._side.execute(
            f"UPDATE accounts SET balance = balance - {amount} WHERE id = {payer}",
            entry,
            f"UPDATE accounts SET balance = balance + {amount} WHERE id = {payee}",
            f"UPDATE totals SET transfers = transfers + {count}, moved = moved + {count * amount}",
        )

    @contextmanager
    def running(self, pause: Callable[[threading.Event], object]) -> Iterator[None]:
        """Transfers in a thread; ``pause`` is called after each."""
        over, failed = threading.Event(), list[BaseException]()

        def work() -> None:
            try:
                while not over.is_set():
                    self.transfer()
                    pause(over)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(60)
        assert not failed, failed
