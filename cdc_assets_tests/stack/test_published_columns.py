"""What PostgreSQL does not publish: generated columns, column lists, row filters, partitions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import psycopg
import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TerminalError
from cdc_assets_tests.merge.inline import change
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.merging import Merging, lake_table
from cdc_assets_tests.stack.replicated import new_database, replicated, write_config
from cdc_assets_tests.toy import profiles

pytestmark = [pytest.mark.stack, profiles.in_soak]

TABLES = (
    "CREATE TABLE made (id int PRIMARY KEY, a int, g bigint GENERATED ALWAYS AS (a * 2) STORED,"
    " v int GENERATED ALWAYS AS (a + 1) VIRTUAL)",
    "INSERT INTO made VALUES (1, 10), (2, 20)",
    "CREATE TABLE was_made (LIKE made INCLUDING ALL)",
    "INSERT INTO was_made VALUES (1, 10), (2, 20)",
    "CREATE TABLE shrinking (id int PRIMARY KEY, a int, b text)",
    "INSERT INTO shrinking VALUES (1, 1, 'one'), (2, 2, 'two')",
    "CREATE TABLE listed (id int PRIMARY KEY, a int, secret text)",
    "INSERT INTO listed VALUES (1, 1, 'one'), (2, 2, 'two')",
    "CREATE TABLE filtered (id int PRIMARY KEY, a int)",
    "INSERT INTO filtered VALUES (1, 1), (2, -2)",
    "CREATE TABLE parts (id int PRIMARY KEY, a int) PARTITION BY RANGE (id)",
    "CREATE TABLE parts_low PARTITION OF parts FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE parts_high PARTITION OF parts FOR VALUES FROM (10) TO (20)",
    "INSERT INTO parts VALUES (1, 1), (11, 11)",
    # A stand-in with the name and the text of the extension's type, which is what Debezium goes by.
    "CREATE TYPE vector",
    "CREATE FUNCTION vector_in(cstring) RETURNS vector AS 'textin' LANGUAGE internal STRICT",
    "CREATE FUNCTION vector_out(vector) RETURNS cstring AS 'textout' LANGUAGE internal STRICT",
    "CREATE TYPE vector (INPUT = vector_in, OUTPUT = vector_out, LIKE = text)",
    "CREATE TABLE points (id int PRIMARY KEY, note text, v vector) PARTITION BY RANGE (id)",
    "CREATE TABLE points_low PARTITION OF points FOR VALUES FROM (0) TO (10)",
    "ALTER TABLE points_low REPLICA IDENTITY FULL",
    "ALTER TABLE points_low ALTER COLUMN v SET STORAGE EXTERNAL",
    "INSERT INTO points SELECT 1, 'read', ('[' || string_agg(i::text, ',') || ']')::vector"
    " FROM generate_series(1, 2000) AS i",
    "CREATE SCHEMA elsewhere",
    "CREATE TABLE elsewhere.nudges (id int PRIMARY KEY)",
)
CHOSEN = (
    "CREATE PUBLICATION chosen FOR TABLE made, was_made, shrinking, listed (id, a),"
    " filtered WHERE (id > 1), parts, points, elsewhere.nudges"
    " WITH (publish_via_partition_root = true)"
)


@dataclass(frozen=True)
class World(Merging):
    """Also reads both sides."""

    base: ReplicationConfig

    def source(self, table: str, columns: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database.dsn) as connection:
            query = f"SELECT {columns} FROM {table} ORDER BY id"
            return connection.execute(query.encode()).fetchall()

    def lake(self, table: str, columns: str) -> list[tuple[Any, ...]]:
        names = columns.split(", ")
        found = lake_table(self.database, table).scan(selected_fields=tuple(names)).to_arrow()
        return sorted(tuple(row[name] for name in names) for row in found.to_pylist())

    def columns(self, table: str) -> list[str]:
        names = lake_table(self.database, table).schema().column_names
        return [name for name in names if not name.startswith("_cdc")]

    def configured(self, **source: Any) -> World:
        """The same topics with another configuration, and lake tables of their own."""
        name = self.database.name
        given = {"target": {"namespace": f"other_{name}"}, **source}
        return replace(
            self, database=replace(self.database, config=write_config(self.base, name, **given))
        )

    def require_refused(self, table: str, *words: str) -> None:
        with pytest.raises(TerminalError) as refused:
            self.merge(table)
        assert all(word in str(refused.value) for word in words), refused.value


@pytest.fixture(scope="module", params=["false", "true"], ids=["bare", "inline schema"])
def usual(
    request: pytest.FixtureRequest,
    stack: LocalStack,
    stack_config: ReplicationConfig,
    spark: Session,
) -> Iterator[World]:
    """Everything published the way PostgreSQL and Debezium do by default."""
    name = f"usual_{request.param}"
    with _world(stack, stack_config, name, spark, request.param, ()) as world:
        yield world


@pytest.fixture(scope="module", params=["false", "true"], ids=["bare", "inline schema"])
def chosen(
    request: pytest.FixtureRequest,
    stack: LocalStack,
    stack_config: ReplicationConfig,
    spark: Session,
) -> Iterator[World]:
    """A publication of somebody's own."""
    name = f"chosen_{request.param}"
    settings = {
        "publication.name": "chosen",
        "publication.autocreate.mode": "disabled",
        "table.exclude.list": "public.parts_low,public.parts_high,public.points_.*",
    }
    with _world(stack, stack_config, name, spark, request.param, (CHOSEN,), **settings) as world:
        yield world


@contextmanager
def _world(
    stack: LocalStack,
    base: ReplicationConfig,
    name: str,
    spark: Session,
    schemas: str,
    publications: tuple[str, ...],
    **settings: str,
) -> Iterator[World]:
    dsn = new_database(stack, name, *TABLES, *publications)
    debezium = {"value.converter.schemas.enable": schemas, **settings}
    with replicated(stack, base, name, dsn, debezium=debezium) as database:
        yield World(database, spark, base)


def test_generated_columns_are_left_out_from_the_start(usual: World) -> None:
    usual.merge("made")
    assert usual.columns("made") == ["id", "a"]
    usual.database.execute("UPDATE made SET a = 11 WHERE id = 1", "INSERT INTO made VALUES (3, 30)")
    usual.merge("made")
    assert usual.lake("made", "id, a") == usual.source("made", "id, a")


def test_a_generated_column_that_the_lake_has_is_not_emptied(usual: World) -> None:
    """Without a database the snapshot's rows make it a column; no later event holds it."""
    unknown = usual.configured(database=None, target={"namespace": f"blind_{usual.database.name}"})
    unknown.merge("was_made")
    assert unknown.lake("was_made", "id, g") == [(1, 20), (2, 40)]
    usual.database.execute("UPDATE was_made SET a = 11 WHERE id = 1")
    unknown.require_refused("was_made", "lacks column 'g'", "configure database:", "absent_columns")
    # Now the database can be asked, and says why.
    told = unknown.configured(target={"namespace": f"blind_{usual.database.name}"})
    told.require_refused("was_made", "generates it", "publish_generated_columns")
    assert unknown.lake("was_made", "id, g") == [(1, 20), (2, 40)]
    # A table that is made by now leaves the column out.
    usual.merge("was_made")
    assert usual.lake("was_made", "id, a") == usual.source("was_made", "id, a")


@pytest.mark.parametrize("inline", [False, True], ids=["bare", "inline schema"])
def test_a_generated_column_that_a_later_snapshot_shows_is_left_out(
    stack: LocalStack, pipeline: Make, monkeypatch: pytest.MonkeyPatch, inline: bool
) -> None:
    name = f"later_{inline}".lower()
    dsn = new_database(stack, name, "CREATE TABLE t (id int PRIMARY KEY, name text)")
    monkeypatch.setenv("LATER_DSN", dsn)
    first = change("c", {"id": 1, "name": "a"}, 10, inline=inline)
    made = start(pipeline, first, database={"kind": "postgres", "dsn": {"env": "LATER_DSN"}})
    with psycopg.connect(dsn) as connection:
        connection.execute("ALTER TABLE t ADD COLUMN n bigint GENERATED ALWAYS AS (id * 2) STORED")
    made.produce(TABLE, [change("r", {"id": 1, "name": "a", "n": 2}, 20, inline=inline)])
    made.merge(TABLE)
    made.produce(TABLE, [change("u", {"id": 1, "name": "b"}, 30, inline=inline)])
    made.merge(TABLE)
    assert made.rows(TABLE) == [{"id": 1, "name": "b"}]


def test_a_dropped_column_is_emptied_in_rows_that_change(
    usual: World, caplog: pytest.LogCaptureFixture
) -> None:
    usual.merge("shrinking")
    strict = usual.configured(schema_changes="strict")
    strict.merge("shrinking")
    usual.database.execute("UPDATE shrinking SET a = 3 WHERE id = 2",
                           "ALTER TABLE shrinking DROP COLUMN b",
                           "UPDATE shrinking SET a = 2 WHERE id = 1")  # fmt: skip
    batches = usual.merge("shrinking")
    assert usual.lake("shrinking", "id, a, b") == [(1, 2, None), (2, 3, "two")]
    assert [c.name for c in batches[-1].schema.columns if c.absent] == ["b"]
    assert "records lack b" in caplog.text
    strict.require_refused("shrinking", "b dropped")
    usual.database.execute("UPDATE shrinking SET a = 5")
    usual.merge("shrinking")
    assert usual.lake("shrinking", "id, a, b") == [(1, 5, None), (2, 5, None)]


def test_a_partitioned_table_whose_changes_come_by_partition_is_refused(usual: World) -> None:
    usual.database.execute(
        "UPDATE parts SET a = a + 1", "INSERT INTO parts VALUES (2, 2), (12, 12)"
    )
    for table in ("parts", "parts_low", "parts_high"):
        usual.require_refused(table, "partition", "publish_via_partition_root")
    # Sent by the root from now on, the changes until now still lie elsewhere.
    name = usual.database.name
    usual.database.execute(
        f"ALTER PUBLICATION cdc_assets_{name} SET (publish_via_partition_root = true)"
    )
    usual.require_refused("parts", f"{name}.public.parts_")


def test_a_partitioned_table_is_merged_by_its_root(chosen: World) -> None:
    run = chosen.database.execute
    chosen.merge("parts")
    run("UPDATE parts SET a = a + 1", "INSERT INTO parts VALUES (2, 2), (12, 12)")
    run("UPDATE parts SET id = 13 WHERE id = 1", "DELETE FROM parts WHERE id = 11")
    chosen.require_equal("parts")


def test_large_values_of_a_partitioned_table_arrive_if_its_partitions_log_them(
    chosen: World,
) -> None:
    """Whatever its own replica identity is; a vector that is not logged has no placeholder."""
    run, large = chosen.database.execute, [float(i) for i in range(1, 2001)]
    chosen.merge("points")
    run("UPDATE points SET note = 'left alone'")
    chosen.merge("points")
    assert chosen.lake("points", "id, note, v") == [(1, "left alone", large)]
    run("CREATE TABLE points_high PARTITION OF points FOR VALUES FROM (10) TO (20)")
    other = chosen.configured(target={"namespace": f"late_{chosen.database.name}"})
    other.require_refused("points", "REPLICA IDENTITY FULL of each partition", "made later")


def test_a_column_list_leaves_columns_out(chosen: World) -> None:
    chosen.merge("listed")
    assert chosen.columns("listed") == ["id", "a"]
    chosen.database.execute("UPDATE listed SET a = 7, secret = 'x' WHERE id = 1")
    chosen.merge("listed")
    assert chosen.lake("listed", "id, a") == [(1, 7), (2, 2)]


def test_a_row_filter_is_refused_unless_it_is_accepted(chosen: World) -> None:
    chosen.require_refused("filtered", "WHERE", "row_filter: accept")
    accepted = chosen.configured(tables={"public.filtered": {"row_filter": "accept"}})
    accepted.merge("filtered")
    assert accepted.lake("filtered", "id, a")[1:] == [(2, -2)]


def test_a_generated_column_that_is_published_is_a_column(chosen: World) -> None:
    """And stops the table once it is published no more."""
    run = chosen.database.execute
    run("ALTER PUBLICATION chosen SET (publish_generated_columns = stored)")
    chosen.merge("made")
    run("UPDATE made SET a = 11 WHERE id = 1", "INSERT INTO made VALUES (3, 30)")
    chosen.merge("made")
    assert chosen.columns("made") == ["id", "a", "g"]
    assert chosen.lake("made", "id, a, g") == chosen.source("made", "id, a, g")
    run("ALTER PUBLICATION chosen SET (publish_generated_columns = none)")
    run("UPDATE made SET a = 12 WHERE id = 1")
    chosen.require_refused("made", "column g: the database generates it")
    assert chosen.lake("made", "id, a, g") == [(1, 11, 22), (2, 20, 40), (3, 30, 60)]
