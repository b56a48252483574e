"""Comments of the source reach the lake, and columns that a layout needs are not dropped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.table import Table

from cdc_assets.changes.names import TableName
from cdc_assets.changes.position import Scheme
from cdc_assets.databases.catalog import ColumnFacts
from cdc_assets.databases.postgres.columns import PostgresColumn
from cdc_assets.databases.postgres.table import PostgresTable, ReplicaIdentity
from cdc_assets.errors import TerminalError
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.pipeline import Message, Pipeline

pytestmark = pytest.mark.stack

DATABASE: dict[str, Any] = {"database": {"kind": "postgresql", "dsn": {"env": "SHOP_DSN"}}}


class Catalog:
    """Of a PostgreSQL with one table, whose columns and comments change meanwhile."""

    scheme = Scheme.POSTGRES

    def __init__(self) -> None:
        self.comment = "Things"
        self.columns = tuple(
            PostgresColumn(name, "int4", "integer", not_null=name == "id")
            for name in ("id", "a", "b")
        )

    def commented(self, comment: str, **columns: str) -> None:
        self.comment = comment
        self.columns = tuple(
            replace(each, comment=columns.get(each.name, each.comment)) for each in self.columns
        )

    def read(self, tables: Iterable[TableName]) -> dict[TableName, PostgresTable]:
        facts = {each.name: ColumnFacts(n) for n, each in enumerate(self.columns, start=1)}
        made = PostgresTable(self.columns, ("id",), ReplicaIdentity.FULL, self.comment, facts=facts)
        return dict.fromkeys(tables, made)


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch) -> Catalog:
    made = Catalog()
    monkeypatch.setattr("cdc_assets.merge.intake.source_facts.catalog_of", lambda _: made)
    return made


def created(id_: int, **row: int) -> Message:
    return event("c", {"id": id_, **row}, id_ * 10, commit=id_ * 10 - 5)


def table_of(made: Pipeline) -> Table:
    found = read_table(made.config, made.entry(TABLE).target)
    assert found is not None
    return found


def docs(made: Pipeline) -> dict[str, str | None]:
    table = table_of(made)
    columns = {each.name: each.doc for each in table.schema().fields if each.name in "ab"}
    return {"table": table.properties.get("comment"), **columns}


def test_comments_follow_those_of_the_source(pipeline: Make, catalog: Catalog) -> None:
    catalog.commented("Things", a="First")
    made = start(pipeline, created(1, a=1, b=2), **DATABASE)
    assert docs(made) == {"table": "Things", "a": "First", "b": None}
    catalog.commented("It's `new`", a="A's \\ own", b="${b}\n")
    made.produce(TABLE, [created(2, a=1, b=2)])
    made.merge(TABLE)
    commented = {"table": "It's `new`", "a": "A's \\ own", "b": "${b}\n"}
    assert docs(made) == commented
    versions = len(table_of(made).metadata.metadata_log)
    catalog.commented("")
    made.produce(TABLE, [created(3, a=1, b=2)])
    made.merge(TABLE)
    assert docs(made) == commented
    assert len(table_of(made).metadata.metadata_log) <= versions + 2, "no comment is set twice"


def test_a_dropped_column_of_a_partition_stops_the_table(pipeline: Make, catalog: Catalog) -> None:
    layout = {"layout": {"partition_by": ["bucket(2, b)"]}, "dropped_columns": "drop"}
    made = start(pipeline, created(1, a=1, b=2), **DATABASE, tables={TABLE: layout})
    catalog.columns = catalog.columns[:2]
    made.produce(TABLE, [created(2, a=1)])
    with pytest.raises(TerminalError, match="has dropped b, by which the lake table is laid out"):
        made.merge(TABLE)
    kept = {**layout, "dropped_columns": "keep"}
    made = Pipeline(made.base, made.spark, made.folder, {**DATABASE, "tables": {TABLE: kept}},
                    prefix=made.prefix)  # fmt: skip
    made.merge(TABLE)
    assert {row["id"]: row["b"] for row in made.rows(TABLE)} == {1: 2, 2: None}
