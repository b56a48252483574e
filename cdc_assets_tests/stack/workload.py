"""A database whose people change rows, keys and columns, and which may be killed under them."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

import psycopg
import pymysql
from cdc_assets_devstack.shop.database import shop_at
from cdc_assets_devstack.shop.dialect import Session

from cdc_assets_tests.waiting import until

TABLES = ("people", "parts", "bag")
MAKE = (
    "CREATE TABLE people (id int PRIMARY KEY, name text, big text)",
    "CREATE TABLE parts (a int, b int, v text, big text, PRIMARY KEY (a, b))",
    "CREATE TABLE bag (n int, word text)",
)
LAID_OUT = {
    "public.parts": {"layout": {"partition_by": ["truncate(4, v)", "b"], "sort_by": ["a desc"]}},
    "public.bag": {"layout": {"partition_by": ["bucket(2, word)", "n"], "sort_by": ["n"]}},
}
"""Layouts in which updates move rows to another partition."""
WHOLE_ROWS = "ALTER TABLE bag REPLICA IDENTITY FULL"
"""What PostgreSQL needs for a table without a key."""
_LOST = (psycopg.OperationalError, pymysql.OperationalError, pymysql.InterfaceError)
_SOME = 400
_PAUSE = 0.1
"""Seconds between transactions: a run catches up beside them, and is killed at other work too."""


@dataclass(frozen=True)
class Words:
    """How a database says what others say otherwise.

    Attributes:
        insert_new: a row, unless its key is taken; the table and the values are to be put in.
        one_of_bag: after WHERE, one of the rows with a number, which is to be put in.
    """

    insert_new: str
    one_of_bag: str


POSTGRES = Words(
    "INSERT INTO {} VALUES ({}) ON CONFLICT DO NOTHING",
    "ctid = (SELECT min(ctid) FROM bag WHERE n = {})",
)
MARIADB = Words("INSERT IGNORE INTO {} VALUES ({})", "n = {} LIMIT 1")


@dataclass
class Workload:
    """One writer.

    Attributes:
        words: of its database.
        done: how often it has done what.
        dropped: columns that the tables have no longer.
        may_drop: whether it may drop a column. One that comes and goes before anything of it was
            merged, while others come, may be any of them by then: the table stops, rightly.
        may_alter: whether it may change columns at all.
        leaves: tables that it leaves alone.
    """

    dsn: str
    seed: int
    words: Words = POSTGRES
    done: Counter[str] = field(default_factory=Counter)
    dropped: list[str] = field(default_factory=list)
    may_drop: Callable[[str], bool] = lambda _: True
    may_alter: bool = True
    leaves: Collection[str] = ()
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

    def goes_on(self, statements: int = 60) -> None:
        """Wait until it has done so many statements more."""
        before = sum(self.done.values())
        until(
            lambda: sum(self.done.values()) > before + statements,
            "the load goes on",
            within_seconds=120,
        )

    def _run(self, stop: threading.Event) -> None:
        rng, shop = random.Random(self.seed + sum(self.done.values())), shop_at(self.dsn)
        while not stop.is_set():
            try:
                with closing(shop.connect()) as session:
                    while not stop.wait(_PAUSE):
                        self._transaction(session, rng, shop.is_usual)
            except _LOST:  # it was killed: what was not committed is not there
                self.done["connections lost"] += 1
                stop.wait(0.5)

    def _transaction(
        self, session: Session, rng: random.Random, is_usual: Callable[[Exception], bool]
    ) -> None:
        if rng.random() < 0.01 and self.may_alter:  # every ten seconds or so
            self._alter(session, rng)
            return
        try:
            for _ in range(rng.randint(1, 6)):
                what, statement = self._statement(rng)
                session.change(statement)
                self.done[what] += 1
            if rng.random() < 0.05:
                session.rollback()
            else:
                session.commit()
        except (psycopg.Error, pymysql.MySQLError) as error:
            if not is_usual(error):
                raise
            session.rollback()  # the new key is taken

    def _statement(self, rng: random.Random) -> tuple[str, str]:
        n, other, half = rng.randrange(_SOME), rng.randrange(_SOME), rng.randrange(20)
        name, large = f"'u{rng.random()}'", f"'{rng.randbytes(2400).hex()}'"
        extra = f", {self._columns[-1]} = {name}" if self._columns else ""
        of_part = f"a = {half} AND b = {n % 20}"
        of_bag = self.words.one_of_bag.format(n % 7)
        new = self.words.insert_new
        statements = (
            ("insert", new.format("people (id, name, big)", f"{n}, 'n{other}', {large}")),
            ("insert", new.format("parts", f"{half}, {n % 20}, 'v', {large}")),
            ("insert", f"INSERT INTO bag VALUES ({n % 7}, 'w{other % 3}')"),
            ("update", f"UPDATE people SET name = {name}{extra} WHERE id = {n}"),
            ("update", f"UPDATE people SET name = {name}{extra} WHERE id < {n % 9}"),
            ("update large", f"UPDATE people SET big = {large} WHERE id = {n}"),
            ("update", f"UPDATE parts SET v = {name} WHERE {of_part}"),
            ("update", f"UPDATE bag SET n = n + 1 WHERE {of_bag}"),
            ("delete", f"DELETE FROM people WHERE id = {n}"),
            ("delete", f"DELETE FROM parts WHERE {of_part}"),
            ("delete", f"DELETE FROM bag WHERE {of_bag}"),
            ("change key", f"UPDATE people SET id = {other} WHERE id = {n}"),
            ("change key", f"UPDATE parts SET b = {other % 20} WHERE {of_part}"),
        )
        left_alone = tuple(f" {table} " for table in self.leaves)
        return rng.choice(
            [each for each in statements if not any(name in each[1] for name in left_alone)]
        )

    def _alter(self, session: Session, rng: random.Random) -> None:
        if self._columns and rng.random() < 0.4:
            name = self._columns[0]
            if not self.may_drop(name):
                return
            session.change(f"ALTER TABLE people DROP COLUMN {name}")
            session.commit()
            self._columns.remove(name)
            self.dropped.append(name)
            self.done["drop column"] += 1
        else:
            name, self._added = f"x{self._added}", self._added + 1
            session.change(f"ALTER TABLE people ADD COLUMN {name} text")
            session.commit()
            self._columns.append(name)
            self.done["add column"] += 1
            # A column is seen in the next change: the load may end before there is one.
            row = f"{_SOME + self._added}, 'with {name}', NULL"
            session.change(self.words.insert_new.format("people (id, name, big)", row))
            session.commit()
