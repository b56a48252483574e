"""Changed keys, under every replica identity."""

from __future__ import annotations

import psycopg
import pytest

from cdc_assets.errors import TerminalError
from cdc_assets_tests.stack.merging import Merging
from cdc_assets_tests.toy.profiles import in_soak

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(
    "table",
    ["by_default", *(pytest.param(table, marks=in_soak) for table in ("by_full", "by_index"))],
)
def test_updates_deletes_and_changed_keys_under_every_replica_identity(
    semantics: Merging, table: str
) -> None:
    run = semantics.database.execute
    run(f"INSERT INTO {table} SELECT n, 'code ' || n, n FROM generate_series(1, 20) AS n")
    run(f"UPDATE {table} SET n = -n WHERE id % 2 = 0", f"DELETE FROM {table} WHERE id % 5 = 0")
    run(f"UPDATE {table} SET id = id + 100 WHERE id % 3 = 0")
    semantics.require_equal(table)
    run(f"UPDATE {table} SET code = 'other ' || id WHERE id % 4 = 2")
    run(f"UPDATE {table} SET id = id - 100, code = code || '!' WHERE id = 112")
    run(f"UPDATE {table} SET n = NULL WHERE id > 100", f"DELETE FROM {table} WHERE id IN (1, 106)")
    semantics.require_equal(table)


def test_without_replica_identity_there_are_only_inserts(semantics: Merging) -> None:
    semantics.database.execute("INSERT INTO by_nothing VALUES (1, 'one', 1), (2, 'two', 2)")
    for statement in ("UPDATE by_nothing SET n = 0", "DELETE FROM by_nothing"):
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
            semantics.database.execute(statement)
    semantics.require_equal("by_nothing")


def test_chains_and_swaps_of_composite_keys_within_transactions(semantics: Merging) -> None:
    def key(old: str, new: str) -> str:
        (a, b), (c, d) = old.split(), new.split()
        return f"UPDATE pairs SET a = {c}, b = '{d}' WHERE (a, b) = ({a}, '{b}')"

    run = semantics.database.execute
    run(
        "INSERT INTO pairs SELECT n, p, n || p"
        " FROM generate_series(0, 9) AS n, unnest('{x,y}'::text[]) AS p"
    )
    run(key("0 x", "10 x"), key("10 x", "11 x"), key("11 x", "12 x"))
    run(key("1 x", "-1 x"), key("2 x", "1 x"), key("-1 x", "2 x"))
    run(key("3 x", "3 z"), key("3 y", "3 x"), key("3 z", "3 y"))
    semantics.require_equal("pairs")
    run(key("12 x", "0 x"), key("0 x", "12 x"), key("12 x", "0 x"))
    run(key("1 x", "-1 x"), key("2 x", "1 x"), key("-1 x", "2 x"), "UPDATE pairs SET name = a || b")
    run(
        key("4 x", "14 x"),
        "INSERT INTO pairs VALUES (4, 'x', 'new')",
        "DELETE FROM pairs WHERE a = 14",
    )
    run("UPDATE pairs SET a = a + 100 WHERE b = 'y'")
    semantics.require_equal("pairs")
    assert len({record.partition for record in semantics.records("pairs")}) > 1


def test_a_table_whose_replica_identity_is_not_its_key_is_refused(
    semantics: Merging,
) -> None:
    """Deletes carry the index's columns; Debezium fills the primary key with zeros."""
    run = semantics.database.execute
    run("INSERT INTO by_other_index SELECT n, 'code ' || n, n FROM generate_series(0, 5) AS n")
    run("UPDATE by_other_index SET id = 30 WHERE id = 3", "DELETE FROM by_other_index WHERE id = 4")
    semantics.database.wait_until_delivered()
    with pytest.raises(TerminalError, match=r"replica identity is an index of \(code\)"):
        semantics.merge("by_other_index")


def test_a_table_with_a_deferrable_key_is_refused(semantics: Merging) -> None:
    """Of two rows that have one key for a moment, a delete does not say which it means."""
    semantics.database.execute("UPDATE swapped SET id = 3 - id")
    semantics.database.wait_until_delivered()
    with pytest.raises(TerminalError, match="primary key is deferrable"):
        semantics.merge("swapped")
