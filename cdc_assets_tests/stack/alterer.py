"""A writer that alters its table as often as it changes rows."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from cdc_assets_devstack.shop.database import shop_at

from cdc_assets_tests.stack import kinds
from cdc_assets_tests.stack.kinds import MARIADB, POSTGRES, TABLE, Kind, Kinds

_PAUSE_SECONDS = 0.4
_ALTERED = 0.15
"""How many of the transactions alter the table."""
_ROWS = 60


@dataclass(frozen=True)
class Dialect:
    """How a database alters tables, and which changes of columns are followed there.

    Attributes:
        alters: what is done, and how often beside the others: ``add``, ``widen``, ``drop``,
            ``rename`` and ``rename key``.
        kinds: the columns at the begin; such are added later too.
        insert_new: a row, unless its key is taken; columns and values are to be put in.
        change_type: of a column; its name and its type are to be put in.
        rewrites: whether a changed type makes it forget what older rows have in new columns.
        not_added: columns of which no others are added.
        defaulted: columns whose defaults the catalog tells exactly.
        wider: by their types, what columns may become.
    """

    alters: Mapping[str, int]
    kinds: Kinds
    insert_new: str
    change_type: str
    rewrites: bool
    not_added: frozenset[str]
    defaulted: tuple[Kind, ...]
    wider: Mapping[str, Kind]


ON_POSTGRES = Dialect(
    alters={"add": 3, "widen": 3, "drop": 1, "rename": 2, "rename key": 1},
    kinds=POSTGRES,
    insert_new="INSERT INTO {} ({}) VALUES ({}) ON CONFLICT DO NOTHING",
    change_type="ALTER COLUMN {} TYPE {}",
    rewrites=True,
    not_added=frozenset({"a_price"}),  # to check its domain, the table is rewritten
    defaulted=(
        Kind("text", ("'old'", "'it''s'")),
        Kind("int", ("5", "-1")),
        Kind("numeric(8,2)", ("1.50", "0.01")),
        Kind("boolean", ("true", "false")),
        Kind("date", ("'2020-02-29'", "'0001-01-01'")),
        Kind("timestamp(3)", ("'1999-12-31 23:59:59.5'",)),
        Kind("timestamptz", ("'2020-02-29 12:30:00.25+02'", "'1899-12-31 23:59:59Z'")),
        Kind("double precision", ("0.1", "-1e300")),
        Kind("bytea", (r"'\x00ff'", "''")),
        Kind("uuid", ("'c2d29867-3d0b-d497-9191-18a9d8ee7830'",)),
        Kind("jsonb", ("'{\"a\": 1}'",)),
    ),
    wider={
        "smallint": Kind("integer", ("-2147483648", "7")),
        "int": Kind("bigint", ("9223372036854775807", "7")),
        "integer": Kind("bigint", ("-9223372036854775808", "7")),
        "numeric(8,2)": Kind("numeric(14,2)", ("-123456789012.25", "0.01")),
        "numeric(12,2)": Kind("numeric(20,2)", ("-123456789012345678.25", "0.01")),
        "varchar(9)": Kind("varchar(20)", ("'twelve signs'", "''")),
        "varchar(20)": Kind("text", ("repeat('y', 300000)", "''")),
    },
)
ON_MARIADB = Dialect(
    alters={"add": 3, "widen": 3, "drop": 1, "rename": 2, "rename key": 1},
    kinds=MARIADB,
    insert_new="INSERT IGNORE INTO {} ({}) VALUES ({})",
    change_type="MODIFY {} {}",
    rewrites=False,
    not_added=frozenset({"a_bool", "a_json"}),  # from DDL the connector reads other types
    defaulted=(
        Kind("varchar(9)", ("'old'", "'it''s'")),
        Kind("char(3)", ("'ä'",)),
        Kind("int", ("5", "-1")),
        Kind("tinyint", ("-1",)),
        Kind("bigint unsigned", ("18446744073709551615",)),
        Kind("decimal(12,2)", ("1.50", "-0.01")),
        Kind("date", ("'2020-02-29'",)),
        Kind("datetime(3)", ("'1999-12-31 23:59:59.5'",), back="CAST({} AS DATETIME(3))"),
        Kind("double", ("0.1", "-1e300")),
        Kind("enum('x','y')", ("'y'",)),
    ),
    wider={
        "tinyint": Kind("int", ("-2147483648", "7")),
        "int": Kind("bigint", ("-9223372036854775808", "7")),
        "smallint unsigned": Kind("int unsigned", ("4294967295", "7")),
        "mediumint unsigned": Kind("int unsigned", ("4294967295", "7")),
        "decimal(12,2)": Kind("decimal(20,2)", ("-123456789012345678.25", "0.01")),
        "varchar(9)": Kind("varchar(200)", ("repeat('ä', 150)", "''")),
        "enum('x','y')": Kind("enum('x','y','z')", ("'z'", "'x'")),
        "set('x','y','z')": Kind("set('x','y','z','w')", ("'x,w'", "''")),
    },
)
TOLD_BY_SCHEMAS = {
    "real": Kind("double precision", ("0.1", "'Infinity'")),
    "float": Kind("double", ("0.1", "-1e300")),
}
"""What columns may become where each record tells its types."""


@dataclass
class Alterer:
    """Changes rows and columns of the table until it is told to stop.

    Attributes:
        records: ``bare``, or with ``schemas``, which tell the types that each was written with.
        done: how often it has done what.
        columns: that the table has, but for the key.
        dropped: those that are no longer there.
        in_lake: columns that the lake has: what becomes of others nothing could tell.
    """

    dsn: str
    seed: int
    dialect: Dialect
    records: str
    done: Counter[str] = field(default_factory=Counter)
    columns: dict[str, Kind] = field(init=False)
    dropped: list[str] = field(default_factory=list)
    in_lake: set[str] = field(default_factory=set)
    key: str = "id"
    _defaults: dict[str, str] = field(default_factory=dict)
    _made: int = 0

    def __post_init__(self) -> None:
        self.columns = {**self.dialect.kinds}

    @property
    def altered(self) -> int:
        """How often it has altered the table."""
        return sum(self.done[each] for each in self.dialect.alters)

    @property
    def wider(self) -> Mapping[str, Kind]:
        """By their types, what columns may become."""
        return {**self.dialect.wider, **(TOLD_BY_SCHEMAS if self.records == "schemas" else {})}

    def rows(self, start: int) -> list[str]:
        """Insert rows with all values of the columns that the table has by now."""
        return kinds.rows(self.columns, start, key=self.key)

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
            with closing(shop_at(self.dsn).connect()) as session:
                while not stop.wait(_PAUSE_SECONDS):
                    for what, statement in self._next(rng):
                        session.change(statement)
                        self.done[what] += 1
                    session.commit()
        except BaseException as error:
            failed.append(error)
            raise

    def _next(self, rng: random.Random) -> list[tuple[str, str]]:
        """A transaction: a few rows, or one change of the columns."""
        if rng.random() < _ALTERED:
            what, change = self._alter(rng)
            return [(what, f"ALTER TABLE {TABLE} {change}")]
        return [self._change(rng) for _ in range(rng.randint(1, 3))]

    # ── rows ──────────────────────────────────────────────────────────────────────────────

    def _change(self, rng: random.Random) -> tuple[str, str]:
        row, kind = rng.randrange(_ROWS), rng.random()
        where = f"WHERE {self.key} = {row}"
        if kind < 0.1:
            return "delete", f"DELETE FROM {TABLE} {where}"
        names = rng.sample([*self.columns], rng.randint(1, 8))
        values = [rng.choice([*self.columns[name].values, "NULL"]) for name in names]
        if kind < 0.4:
            told = ", ".join([self.key, *names]), ", ".join([str(row), *values])
            return "insert", self.dialect.insert_new.format(TABLE, *told)
        sets = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
        return "update", f"UPDATE {TABLE} SET {sets} {where}"

    # ── columns ───────────────────────────────────────────────────────────────────────────

    def _alter(self, rng: random.Random) -> tuple[str, str]:
        ways = {
            "add": self._add,
            "widen": self._widen,
            "drop": self._drop,
            "rename": self._rename,
            "rename key": self._rename_key,
        }
        alters = self.dialect.alters
        while True:
            (what,) = rng.choices([*alters], [*alters.values()])
            if change := ways[what](rng):
                return what, change

    def _add(self, rng: random.Random) -> str:
        name, default = self._new_name(), ""
        if rng.random() < 0.5:
            kind = rng.choice(self.dialect.defaulted)
            self._defaults[name] = default = f" DEFAULT {rng.choice(kind.values)}"
        else:
            named = self.dialect.kinds.items()
            kind = rng.choice([each for n, each in named if n not in self.dialect.not_added])
        self.columns[name] = kind
        return f"ADD COLUMN {name} {kind.type}{default}"

    def _widen(self, rng: random.Random) -> str | None:
        untold = self._defaults.keys() & self.columns.keys() - self.in_lake
        narrow = [name for name, kind in self.columns.items() if kind.type in self.wider]
        if not narrow or (untold and self.dialect.rewrites):
            return None
        name = rng.choice(narrow)
        self.columns[name] = kind = self.wider[self.columns[name].type]
        # MODIFY forgets a default that it does not repeat.
        default = "" if self.dialect.rewrites else self._defaults.get(name, "")
        return self.dialect.change_type.format(name, f"{kind.type}{default}")

    def _drop(self, rng: random.Random) -> str | None:
        if not (settled := self._settled()):
            return None
        name = rng.choice(settled)
        del self.columns[name]
        self.dropped.append(name)
        return f"DROP COLUMN {name}"

    def _rename(self, rng: random.Random) -> str | None:
        if not (settled := self._settled()):
            return None
        was, name = rng.choice(settled), self._new_name()
        self.columns[name] = self.columns.pop(was)
        if was in self._defaults:
            self._defaults[name] = self._defaults.pop(was)
        self.in_lake.discard(was)
        return f"RENAME COLUMN {was} TO {name}"

    def _rename_key(self, rng: random.Random) -> str | None:
        del rng
        if self.key not in self.in_lake:
            return None
        was, self.key = self.key, self._new_name()
        return f"RENAME COLUMN {was} TO {self.key}"

    def _settled(self) -> list[str]:
        return [name for name in self.columns if name in self.in_lake]

    def _new_name(self) -> str:
        self._made += 1
        return f"c{self._made}"
