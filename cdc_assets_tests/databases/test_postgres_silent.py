"""Rows that PostgreSQL changes without an event, as its catalog shows it from look to look."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import psycopg
import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.databases.postgres.catalog import read_tables
from cdc_assets.databases.postgres.table import PostgresTable, changes
from cdc_assets.schema.silent import CatalogLook, SilentChange, SilentKind

MADE = """
CREATE TYPE status AS ENUM ('new', 'old');
CREATE TABLE plain (id int PRIMARY KEY, price int, code varchar(9), at timestamp, state status,
                    states status[]);
INSERT INTO plain VALUES (1, 19, 'ABCDE', now(), 'new', '{new}');
CREATE TABLE events (id int, day int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE p0 PARTITION OF events FOR VALUES FROM (0) TO (10);
CREATE TABLE p1 PARTITION OF events FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id);
CREATE TABLE p1a PARTITION OF p1 FOR VALUES FROM (0) TO (100);
CREATE TABLE other (id int, day int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE filled (LIKE events INCLUDING ALL);
CREATE TABLE empty (LIKE events INCLUDING ALL);
INSERT INTO filled VALUES (1, 25);
"""


class Database:
    """A schema of its own, looked at before and after statements."""

    def __init__(self, dsn: str, schema: str, connection: psycopg.Connection) -> None:
        self.dsn, self.schema, self.connection = dsn, schema, connection

    def execute(self, *statements: str) -> None:
        for each in statements:
            self.connection.execute(each.encode())

    def table(self, name: str) -> PostgresTable:
        table = TableName("s", self.schema, name)
        return read_tables(self.dsn, [table])[table]

    def found(self, name: str, *statements: str) -> list[SilentChange]:
        before = self.table(name).look
        self.execute(*statements)
        return [*self.table(name).silent_since(before, None)]


Of = Callable[..., list[SilentChange]]


@pytest.fixture
def database(postgres_dsn: str) -> Iterator[Database]:
    name = f"silent_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{name}"'.encode())
        connection.execute(f'SET search_path TO "{name}"'.encode())
        connection.execute(MADE.encode())
        yield Database(postgres_dsn, name, connection)
        connection.execute(f'DROP SCHEMA "{name}" CASCADE'.encode())


def kinds(found: list[SilentChange]) -> list[tuple[SilentKind, tuple[str, ...]]]:
    return [(each.kind, each.columns) for each in found]


@pytest.mark.stack
@pytest.mark.parametrize(
    ("statement", "columns"),
    [
        ("ALTER TABLE plain ALTER price TYPE bigint USING price * 100", ("price",)),
        ("ALTER TABLE plain ALTER price TYPE bigint", ("price",)),
        ("ALTER TABLE plain ALTER at TYPE timestamp(3)", ("at",)),
        ("ALTER TABLE plain ALTER code TYPE varchar(3) USING left(code, 3)", ("code",)),
        ("ALTER TABLE plain ALTER code TYPE varchar(9) USING lower(code)", ("code",)),
        ("ALTER TABLE plain ADD made uuid DEFAULT gen_random_uuid()", ("made",)),
        ("ALTER TABLE plain ADD twice int GENERATED ALWAYS AS (price * 2) STORED", ("twice",)),
    ],
)
def test_a_statement_that_writes_rows_anew_names_its_columns(
    database: Database, statement: str, columns: tuple[str, ...]
) -> None:
    assert kinds(database.found("plain", statement)) == [(SilentKind.REWRITTEN, columns)]


@pytest.mark.stack
@pytest.mark.parametrize(
    "statement",
    ["ALTER TABLE plain ALTER code TYPE varchar(20)", "ALTER TABLE plain ADD more int DEFAULT 5",
     "ALTER TABLE plain ALTER price SET NOT NULL", "ALTER TABLE plain RENAME price TO cost",
     "ALTER TABLE plain DROP price", "VACUUM FREEZE plain", "ANALYZE plain",
     "ALTER TYPE status ADD VALUE 'third' BEFORE 'old'", "CREATE INDEX ON plain (price)",
     "UPDATE plain SET price = 20", "ALTER TABLE plain REPLICA IDENTITY FULL"],
)  # fmt: skip
def test_a_statement_that_leaves_rows_alone_is_none(database: Database, statement: str) -> None:
    assert database.found("plain", statement) == []


@pytest.mark.stack
@pytest.mark.parametrize(
    "statement", ["TRUNCATE plain", "VACUUM FULL plain", "CLUSTER plain USING plain_pkey"]
)
def test_new_files_alone_may_be_an_unsent_truncate(database: Database, statement: str) -> None:
    (found,) = database.found("plain", statement)
    assert (found.kind, found.columns) == (SilentKind.REWRITTEN, ())
    assert found.is_over_with_truncate


@pytest.mark.stack
def test_a_renamed_label_is_told_of_columns_and_lists(database: Database) -> None:
    (found,) = database.found("plain", "ALTER TYPE status RENAME VALUE 'new' TO 'open'")
    assert found.kind is SilentKind.REWRITTEN
    assert "'new' is 'open' now" in found.why


@pytest.mark.stack
@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (["ALTER TABLE events DETACH PARTITION p0"], "p0 was detached or dropped"),
        (["DROP TABLE p0"], "p0 was detached or dropped"),
        (["ALTER TABLE events DETACH PARTITION p1"], "p1a was detached or dropped"),
        (["ALTER TABLE events DETACH PARTITION p0",
          "ALTER TABLE other ATTACH PARTITION p0 FOR VALUES FROM (0) TO (10)"], "p0 was detached"),
        (["ALTER TABLE events ATTACH PARTITION filled FOR VALUES FROM (20) TO (30)"],
         "filled was attached with rows"),
    ],
)  # fmt: skip
def test_rows_that_go_or_come_with_a_partition_are_told(
    database: Database, statements: list[str], why: str
) -> None:
    (found,) = database.found("events", *statements)
    assert found.kind is SilentKind.PARTITIONS
    assert why in found.why


@pytest.mark.stack
@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE p2 PARTITION OF events FOR VALUES FROM (20) TO (30)",
         "INSERT INTO events VALUES (1, 25)"],
        ["CREATE TABLE p1b PARTITION OF p1 FOR VALUES FROM (100) TO (200)"],
        ["ALTER TABLE events ATTACH PARTITION empty FOR VALUES FROM (30) TO (40)"],
        ["BEGIN", "CREATE TABLE p2 (LIKE events INCLUDING ALL)",
         "ALTER TABLE events ATTACH PARTITION p2 FOR VALUES FROM (20) TO (30)", "COMMIT"],
        ["ALTER TABLE p0 RENAME TO p_0"],
        ["ALTER TABLE events ADD note text"],
    ],
)  # fmt: skip
def test_new_partitions_without_rows_are_no_change(
    database: Database, statements: list[str]
) -> None:
    assert database.found("events", *statements) == []


@pytest.mark.stack
def test_a_truncated_partition_is_in_doubt_until_it_is_compared(database: Database) -> None:
    (found,) = database.found("events", "TRUNCATE p1a")
    assert found.kind is SilentKind.REWRITTEN
    assert "p1a was truncated" in found.why
    assert not found.is_over_with_truncate, "a truncate of the whole table may be an older one"
    database.execute("ALTER TABLE events ADD note varchar(9)")
    (found,) = database.found("events", "ALTER TABLE events ALTER note TYPE int USING 1")
    assert (found.kind, found.columns) == (SilentKind.REWRITTEN, ("note",))


@pytest.mark.stack
def test_changes_that_are_not_published_or_not_logged_stand_as_long(database: Database) -> None:
    def why(publication: str | None = None, before: CatalogLook | None = None) -> str:
        found = database.table("plain").silent_since(before, publication)
        assert all(each.is_standing and each.kind is SilentKind.UNLOGGED for each in found)
        return "; ".join(each.why for each in found)

    name = f"pub_{uuid.uuid4().hex[:12]}"
    assert why() == ""
    assert f"not in publication {name}" in why(name)
    try:
        database.execute(f"CREATE PUBLICATION {name} FOR TABLE plain")
        published = database.table("plain").look
        assert (why(name), why()) == ("", "")
        database.execute(f"ALTER PUBLICATION {name} SET (publish = 'insert, truncate')")
        assert f"publication {name} does not publish delete, update" in why(name)
        database.execute(f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete')")
        database.execute(f"ALTER PUBLICATION {name} DROP TABLE plain")
        assert "not in any publication" in why(before=published)
        gone = database.table("plain").look.after(published)
        assert "not in any publication" in why(before=gone), "nor at the look after that"
        database.execute(f"ALTER PUBLICATION {name} ADD TABLE plain")
        (again,) = database.table("plain").silent_since(gone, name)
        assert (again.kind, again.is_standing) == (SilentKind.UNLOGGED, False)
    finally:
        database.execute(f"DROP PUBLICATION IF EXISTS {name}")
    database.execute("ALTER TABLE plain SET UNLOGGED")
    assert "UNLOGGED" in why()
    database.execute("ALTER TABLE plain SET LOGGED", "CREATE TABLE heir () INHERITS (plain)")
    assert "heir" in why()


@pytest.mark.unit
def test_a_thousand_partitions_are_counted_and_not_all_named() -> None:
    before = CatalogLook(parts={str(n): (f"p{n}", "1") for n in range(1_000)})
    (found,) = changes(before, CatalogLook(), ())
    assert "p4 and 995 more were detached" in found.why


@pytest.mark.unit
def test_nothing_is_told_of_a_table_that_is_as_it_was() -> None:
    look = CatalogLook({"1": ("a", "int", "7")}, "5", {"9": ("p", "8")}, {"3": "new"}, ("4",))
    assert [*changes(look, look, ("9",))] == []
