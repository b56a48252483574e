"""A database whose people change rows, keys and columns, and which may be killed under them."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg

TABLES = ("people", "parts", "bag")
MAKE = (
    "CREATE TABLE people (id int PRIMARY KEY, name text, big text)",
    "CREATE TABLE parts (a int, b int, v text, big text, PRIMARY KEY (a, b))",
    "CREATE TABLE bag (n int, word text)",
    "ALTER TABLE bag REPLICA IDENTITY FULL",
)
_LARGE = "(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 150))"
_SOME = 400
_PAUSE = 0.1
"""Seconds between transactions: a run catches up beside them, and is killed at other work too."""


@dataclass
class Workload:
    """One writer.

    Attributes:
        done: how often it has done what.
        dropped: columns that the tables have no longer.
    """

    dsn: str
    seed: int
    done: Counter[str] = field(default_factory=Counter)
    dropped: list[str] = field(default_factory=list)
    _added: int = 0
    _columns: list[str] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[None]:
        """For as long as the block lasts, whatever happens to the server."""
        stop = threading.Event()
        worker = threading.Thread(target=self._run, args=(stop,), daemon=True)
        worker.start()
        try:
            yield
        finally:
            stop.set()
            worker.join(120)
        assert not worker.is_alive()

    def _run(self, stop: threading.Event) -> None:
        rng = random.Random(self.seed + sum(self.done.values()))
        while not stop.is_set():
            try:
                with psycopg.connect(self.dsn, connect_timeout=5) as connection:
                    while not stop.wait(_PAUSE):
                        self._transaction(connection, rng)
            except psycopg.OperationalError:  # it was killed: what was not committed is not there
                self.done["connections lost"] += 1
                stop.wait(0.5)

    def _transaction(self, connection: psycopg.Connection, rng: random.Random) -> None:
        if rng.random() < 0.01:  # every ten seconds or so
            self._alter(connection, rng)
            return
        try:
            for _ in range(rng.randint(1, 6)):
                what, statement = self._statement(rng)
                connection.execute(statement.encode())
                self.done[what] += 1
            if rng.random() < 0.05:
                connection.rollback()
            else:
                connection.commit()
        except psycopg.IntegrityError:  # the new key is taken
            connection.rollback()

    def _statement(self, rng: random.Random) -> tuple[str, str]:
        n, other, half = rng.randrange(_SOME), rng.randrange(_SOME), rng.randrange(20)
        extra = f", {self._columns[-1]} = md5(random()::text)" if self._columns else ""
        of_part = f"a = {half} AND b = {n % 20}"
        return rng.choice((
            ("insert", f"INSERT INTO people VALUES ({n}, 'n{other}', {_LARGE}) ON CONFLICT DO NOTHING"),  # noqa: E501
            ("insert", f"INSERT INTO parts VALUES ({half}, {n % 20}, 'v', {_LARGE}) ON CONFLICT DO NOTHING"),  # noqa: E501
            ("insert", f"INSERT INTO bag VALUES ({n % 7}, 'w{other % 3}')"),
            ("update", f"UPDATE people SET name = 'u{rng.random()}'{extra} WHERE id = {n}"),
            ("update", f"UPDATE people SET name = 'u{rng.random()}'{extra} WHERE id < {n % 9}"),
            ("update large", f"UPDATE people SET big = {_LARGE} WHERE id = {n}"),
            ("update", f"UPDATE parts SET v = 'u{rng.random()}' WHERE {of_part}"),
            ("update", f"UPDATE bag SET n = n + 1 WHERE ctid = (SELECT min(ctid) FROM bag WHERE n = {n % 7})"),  # noqa: E501
            ("delete", f"DELETE FROM people WHERE id = {n}"),
            ("delete", f"DELETE FROM parts WHERE {of_part}"),
            ("delete", f"DELETE FROM bag WHERE ctid = (SELECT min(ctid) FROM bag WHERE n = {n % 7})"),  # noqa: E501
            ("change key", f"UPDATE people SET id = {other} WHERE id = {n}"),
            ("change key", f"UPDATE parts SET b = {other % 20} WHERE {of_part}"),
        ))  # fmt: skip

    def _alter(self, connection: psycopg.Connection, rng: random.Random) -> None:
        if self._columns and rng.random() < 0.4:
            name = self._columns[0]
            connection.execute(f"ALTER TABLE people DROP COLUMN {name}".encode())
            connection.commit()
            self._columns.remove(name)
            self.dropped.append(name)
            self.done["drop column"] += 1
        else:
            name, self._added = f"x{self._added}", self._added + 1
            connection.execute(f"ALTER TABLE people ADD COLUMN {name} text".encode())
            connection.commit()
            self._columns.append(name)
            self.done["add column"] += 1
