"""A writer that alters its table as often as it changes rows."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg

_PAUSE_SECONDS = 0.05
_ROWS = 60
_DEFAULTS = {
    "text": ("'old'", "'it''s'"),
    "int": ("5", "-1"),
    "numeric(8,2)": ("1.50", "0.01"),
    "boolean": ("true", "false"),
    "date": ("'2020-02-29'", "'0001-01-01'"),
    "timestamptz": ("'2020-02-29 12:30:00.25+02'", "'1899-12-31 23:59:59Z'"),
    "double precision": ("0.1", "-1e300"),
}
"""Types of new columns, each with values of it."""
_WIDER = {"int": "bigint", "numeric(8,2)": "numeric(14,2)"}


@dataclass
class Alterer:
    """Changes rows and columns of ``altered`` until it is told to stop.

    Attributes:
        done: how often it has done what.
        columns: the types of those that it has made, by name.
        dropped: those that are no longer there.
        may_rename: columns that the lake has: what becomes of others nothing could tell.
    """

    dsn: str
    seed: int
    done: Counter[str] = field(default_factory=Counter)
    columns: dict[str, str] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    may_rename: set[str] = field(default_factory=set)
    key: str = "id"
    _made: int = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """For as long as the block lasts."""
        stop, failed = threading.Event(), list[BaseException]()
        worker = threading.Thread(target=self._run, args=(stop, failed), daemon=True)
        worker.start()
        try:
            yield
        finally:
            stop.set()
            worker.join(60)
        assert not worker.is_alive()
        assert not failed, failed

    def _run(self, stop: threading.Event, failed: list[BaseException]) -> None:
        rng = random.Random(self.seed)
        try:
            with psycopg.connect(self.dsn) as connection:
                while not stop.wait(_PAUSE_SECONDS):
                    for what, statement in self._next(rng):
                        connection.execute(statement.encode())
                        self.done[what] += 1
                    connection.commit()
        except BaseException as error:
            failed.append(error)
            raise

    def _next(self, rng: random.Random) -> list[tuple[str, str]]:
        """A transaction: a few rows, or one change of the columns."""
        if rng.random() < 0.03:
            return [self._alter(rng)]
        return [self._change(rng) for _ in range(rng.randint(1, 5))]

    def _change(self, rng: random.Random) -> tuple[str, str]:
        row, other = rng.randrange(_ROWS), rng.randrange(_ROWS)
        name = rng.choice([*self.columns]) if self.columns else None
        where = f"WHERE {self.key} = {row}"
        kind = rng.random()
        if kind < 0.3:
            told = f"({self.key}, fixed) VALUES ({row}, 'n{other}') ON CONFLICT DO NOTHING"
            return "insert", f"INSERT INTO altered {told}"
        if kind < 0.4:
            return "delete", f"DELETE FROM altered {where}"
        if name is None or kind < 0.6:
            return "update", f"UPDATE altered SET fixed = 'u{rng.random()}' {where}"
        usual = _DEFAULTS.get(self.columns[name], ("7", "8"))
        value = rng.choice([*usual, "NULL"])
        return "update", f"UPDATE altered SET {name} = {value} {where}"

    def _alter(self, rng: random.Random) -> tuple[str, str]:
        mine = [name for name in self.columns if name in self.may_rename]
        what = rng.choice(["add", "add", "add with default", "rename", "widen", "drop", "key"])
        if what == "rename" and mine:
            was, name = rng.choice(mine), self._new_name()
            self.columns[name] = self.columns.pop(was)
            self.may_rename.discard(was)
            return what, f"ALTER TABLE altered RENAME COLUMN {was} TO {name}"
        if what == "key" and self.key in self.may_rename:
            was, self.key = self.key, self._new_name()
            return "rename key", f"ALTER TABLE altered RENAME COLUMN {was} TO {self.key}"
        # The table is rewritten, and forgets what older rows have in a new column.
        is_settled = len(mine) == len(self.columns)
        narrow = [n for n, type_ in self.columns.items() if type_ in _WIDER and is_settled]
        if what == "widen" and narrow:
            name = rng.choice(narrow)
            self.columns[name] = type_ = _WIDER[self.columns[name]]
            return what, f"ALTER TABLE altered ALTER COLUMN {name} TYPE {type_}"
        if what == "drop" and len(mine) > 3:
            name = rng.choice(mine)
            del self.columns[name]
            self.dropped.append(name)
            return what, f"ALTER TABLE altered DROP COLUMN {name}"
        name, type_ = self._new_name(), rng.choice([*_DEFAULTS])
        self.columns[name] = type_
        default = f" DEFAULT {rng.choice(_DEFAULTS[type_])}" if what != "add" else ""
        return ("add", f"ALTER TABLE altered ADD COLUMN {name} {type_}{default}")

    def _new_name(self) -> str:
        self._made += 1
        return f"c{self._made}"
