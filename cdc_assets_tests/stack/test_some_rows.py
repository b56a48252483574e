"""A table of some of its source's rows, against ``SELECT … WHERE`` in the source."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TerminalError
from cdc_assets.merge.replicate import Replicator
from cdc_assets_tests import operated
from cdc_assets_tests.pipeline import Session, hours_since
from cdc_assets_tests.stack.first_reads import NO_SNAPSHOT
from cdc_assets_tests.stack.merging import Merging
from cdc_assets_tests.stack.oracle import difference
from cdc_assets_tests.stack.read_beside import MARIADB, POSTGRES, Kind
from cdc_assets_tests.stack.replicated import (
    NOW,
    Replicated,
    configured,
    new_database,
    new_mariadb_database,
    replicated,
)
from cdc_assets_tests.toy.profiles import in_soak, is_soak

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

WHERE = "status <> 'draft' AND (n > 10 OR n IS NULL) AND NOT (note LIKE 'hidden%')"
ROUNDS = 12 if is_soak() else 2
KEYS = 300
STATUSES = ("'draft'", "'Draft'", "'paid'", "'paid '", "NULL")
NOTES = ("''", "'hidden'", "repeat('large ', 900)", "repeat('hidden ', 900)", "'plain'")
SIZES = {"chunk_rows": 40, "parallel": 2}
CREATE = {
    "postgres": (
        "CREATE TABLE orders (id int PRIMARY KEY, status text, n int, note text)",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
    ),
    "mariadb": (
        "CREATE TABLE orders (id int PRIMARY KEY, status varchar(20) COLLATE utf8mb4_nopad_bin,"
        " n int, note text COLLATE utf8mb4_nopad_bin)",
        "CREATE DATABASE IF NOT EXISTS elsewhere",
        "CREATE TABLE IF NOT EXISTS elsewhere.nudges (at timestamp(6))",
    ),
}
KINDS: Mapping[str, Kind] = {"postgres": POSTGRES, "mariadb": MARIADB}
each_kind = pytest.mark.parametrize("kind", ["postgres", pytest.param("mariadb", marks=in_soak)])


def row(rng: random.Random, key: int) -> str:
    n = rng.choice([*range(25), "NULL"])
    return f"({key}, {rng.choice(STATUSES)}, {n}, {rng.choice(NOTES)})"


def statement(rng: random.Random) -> str:
    key, other = rng.randrange(KEYS), rng.randrange(KEYS)
    some = f"id BETWEEN {key} AND {key + 3}"
    kept = rng.choice([f"status = {rng.choice(STATUSES)}", f"n = {rng.choice([5, 11, 'NULL'])}"])
    return rng.choice(
        [
            f"UPDATE orders SET {kept} WHERE {some}",
            f"UPDATE orders SET {kept}, note = {rng.choice(NOTES)} WHERE {some}",
            f"DELETE FROM orders WHERE id = {key}",
            f"DELETE FROM orders WHERE id = {other}",
            f"UPDATE orders SET id = {KEYS + rng.randrange(10**6)} WHERE id = {other}",
        ]
    )


def change(database: Replicated, rng: random.Random) -> None:
    for _ in range(30):
        database.execute(statement(rng))
    there = {each["id"] for each in database.side.table("orders").rows}
    missing = [key for key in range(KEYS) if key not in there]
    for key in rng.sample(missing, min(5, len(missing))):
        database.execute(f"INSERT INTO orders VALUES {row(rng, key)}")


def chosen(database: Replicated, where: str = WHERE) -> str:
    """In what the lake differs from the source's own choice."""
    database.execute(f"CREATE OR REPLACE VIEW chosen AS SELECT id FROM orders WHERE {where}")
    ids = {each["id"] for each in database.side.table("chosen").rows}
    there = database.side.table("orders")
    assert 0 < len(ids) < len(there.rows), "the condition decides nothing"
    expected = replace(there, rows=[each for each in there.rows if each["id"] in ids])
    return difference(expected, database.config, database.entry("orders").target)


@contextmanager
def orders(
    stack: LocalStack, base: ReplicationConfig, name: str, kind: str, **more: Any
) -> Iterator[Replicated]:
    rng = random.Random(3)
    rows = f"INSERT INTO orders VALUES {', '.join(row(rng, key) for key in range(KEYS))}"
    made = new_database if kind == "postgres" else new_mariadb_database
    dsn = made(stack, name, *CREATE[kind], rows)
    schema = "public" if kind == "postgres" else name
    said = {
        "tables": {f"{schema}.orders": {"where": WHERE}},
        "verify": KINDS[kind].verify, "resnapshot": SIZES, **more,
    }  # fmt: skip
    with replicated(stack, base, name, dsn, **said) as database:
        database.wait_until_delivered()
        yield database


@each_kind
def test_the_table_is_the_sources_own_choice_whatever_is_done(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, kind: str
) -> None:
    """Changes, a replay, a comparison, a re-snapshot, a rebuild from the source, DDL."""
    with orders(stack, stack_config, f"somerows{kind}", kind) as database:
        merging, entry, rng = Merging(database, spark), database.entry("orders"), random.Random(5)
        database.replicate()
        assert chosen(database) == ""
        for _ in range(ROUNDS):
            change(database, rng)
            merging.merge("orders")
            assert chosen(database) == ""
        replicator = Replicator(database.config, spark)
        list(replicator.replay(entry, hours_since(NOW), run_id="replay"))
        assert chosen(database) == ""
        report = operated.verified(database.config, entry, spark)
        assert report.is_proven, report.words()
        spoil(database, spark)
        database.run("resnapshot", "--table", str(entry.table))
        assert chosen(database) == ""
        spoil(database, spark)
        assert not operated.verified(database.config, entry, spark).is_proven
        operated.verified(database.config, entry, spark, repair=True)
        assert chosen(database) == ""
        change(database, rng)
        done = operated.run_rebuild(database.config, str(entry.table), from_source=True)
        assert done.swapped
        merging.merge("orders")
        assert chosen(database) == ""
        report = operated.verified(database.config, entry, spark)
        assert report.is_proven, report.words()
        database.execute("ALTER TABLE orders RENAME COLUMN n TO number")
        database.execute("UPDATE orders SET number = 11 WHERE id < 50")
        database.execute("UPDATE orders SET number = 5 WHERE id BETWEEN 50 AND 99")
        merging.merge("orders")
        assert chosen(database, WHERE.replace("n ", "number ")) == ""
        database.execute("DROP VIEW chosen")
        database.execute("ALTER TABLE orders DROP COLUMN number")
        database.execute("UPDATE orders SET status = 'paid' WHERE id < 100")
        with pytest.raises(TerminalError, match="the source has dropped number"):
            merging.merge("orders")


@in_soak
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_stops_when_another_column_gets_a_name_of_its_condition(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, kind: str
) -> None:
    """Rows were chosen by the column that is called otherwise by now; the remedy names it.

    MariaDB's statements do not distinguish records of the two columns: no condition decides there.
    """
    name, renamed = f"othername{kind}", WHERE.replace("n ", "number ")
    with orders(stack, stack_config, name, kind) as database:
        merging = Merging(database, spark)
        database.replicate()
        for statement in (
            "ALTER TABLE orders RENAME COLUMN n TO number",
            "UPDATE orders SET number = 11 WHERE id < 50",
            "ALTER TABLE orders ADD COLUMN n int",
            "UPDATE orders SET n = 5, note = 'new' WHERE id < 20",
        ):
            database.execute(statement)
        why = {"postgres": "names n, which is another column by now"}
        why["mariadb"] = "column n has the former name of another column"
        with pytest.raises(TerminalError, match=why[kind]):
            merging.merge("orders")
        if kind == "mariadb":
            return
        tables = {database.entry("orders").table.qualified: {"where": renamed}}
        said = {"tables": tables, "verify": KINDS[kind].verify, "resnapshot": SIZES}
        config = configured(stack_config, name, database.side, **said)
        other = replace(database, config=config)
        Merging(other, spark).merge("orders")
        assert chosen(other, renamed) == ""


def spoil(database: Replicated, spark: Session) -> None:
    """Rows that do not match, and one that is missing."""
    target = f"lake.{database.entry('orders').target}"
    spark().sql(f"UPDATE {target} SET status = 'draft' WHERE id % 7 = 0")
    spark().sql(f"DELETE FROM {target} WHERE id % 11 = 0")


@each_kind
def test_a_table_that_is_read_first_has_the_chosen_rows_alone(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session, kind: str
) -> None:
    name = f"firstsome{kind}"
    topics = {"include": [rf"{name}\..*"], "prefix": name}
    with orders(
        stack, stack_config, name, kind, initial="read", topics=topics, debezium=NO_SNAPSHOT
    ) as database:
        rng = random.Random(9)
        change(database, rng)
        database.replicate()
        change(database, rng)
        Merging(database, spark).merge("orders")
        assert chosen(database) == ""


def test_large_values_that_postgresql_does_not_log_stop_the_table_and_the_remedy_helps(
    stack: LocalStack, stack_config: ReplicationConfig, spark: Session
) -> None:
    with orders(stack, stack_config, "largesome", "postgres") as database:
        merging, entry = Merging(database, spark), database.entry("orders")
        database.replicate()
        database.execute(
            "ALTER TABLE orders REPLICA IDENTITY DEFAULT",
            "UPDATE orders SET note = string_agg FROM (SELECT string_agg(md5(n::text), '')"
            " FROM generate_series(1, 500) AS n) AS s WHERE id = 1",
            "UPDATE orders SET status = 'draft', n = 20 WHERE id = 1",
            "UPDATE orders SET status = 'paid', n = 20 WHERE id = 2",
        )
        merging.merge("orders")
        assert chosen(database) == ""
        database.execute("UPDATE orders SET status = 'paid' WHERE id = 1")
        with pytest.raises(TerminalError, match="REPLICA IDENTITY FULL"):
            merging.merge("orders")
        database.execute("ALTER TABLE orders REPLICA IDENTITY FULL")
        done = operated.run_rebuild(database.config, str(entry.table), from_source=True)
        assert done.swapped
        database.execute("UPDATE orders SET status = 'draft' WHERE id = 1")
        database.execute("UPDATE orders SET status = 'paid' WHERE id = 1")
        merging.merge("orders")
        assert chosen(database) == ""
