"""Columns that the lake drops with its source; events that have them and come again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.changes.position import Scheme
from cdc_assets.databases.catalog import ColumnFacts
from cdc_assets.databases.postgres.table import PostgresTable, ReplicaIdentity
from cdc_assets.databases.postgres.types import PostgresColumn
from cdc_assets.errors import TerminalError
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.pipeline import Message
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

DROPPING: dict[str, Any] = {
    "database": {"kind": "postgresql", "dsn": {"env": "SHOP_DSN"}},
    "dropped_columns": "drop",
}


class Catalog:
    """Of a PostgreSQL with one table without a key, whose columns are dropped meanwhile."""

    scheme = Scheme.POSTGRES
    names: tuple[str, ...] = ("a", "b", "c")

    def read(self, tables: Iterable[TableName]) -> dict[TableName, PostgresTable]:
        columns = tuple(PostgresColumn(name, "int4", "integer") for name in self.names)
        facts = {name: ColumnFacts(number) for number, name in enumerate(self.names, start=1)}
        made = PostgresTable(columns, (), ReplicaIdentity.FULL, "", facts=facts)
        return dict.fromkeys(tables, made)


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch) -> Catalog:
    made = Catalog()
    monkeypatch.setattr("cdc_assets.merge.intake.source_facts.catalog_of", lambda _: made)
    return made


def created(lsn: int, order: int | None = None, **row: int) -> Message:
    return event("c", row, lsn, commit=lsn - 5, key=(), order=order)


@profiles.in_soak
def test_an_event_of_a_table_without_a_key_stops_it_if_it_comes_again_with_a_dropped_column(
    pipeline: Make, catalog: Catalog
) -> None:
    first = created(10, a=1, b=2, c=3)
    made = start(pipeline, first, created(20, a=4, b=5, c=6), **DROPPING)
    catalog.names = ("a", "b")
    made.produce(TABLE, [created(30, a=7, b=8, c=9), created(40, a=10, b=11)])
    made.merge(TABLE)
    rows = [{"a": n, "b": n + 1} for n in (1, 4, 7, 10)]
    assert sorted(made.rows(TABLE), key=lambda row: int(str(row["a"]))) == rows
    made.produce(TABLE, [created(50, a=13, b=14)])
    made.merge(TABLE)
    made.produce(TABLE, [first])
    with pytest.raises(TerminalError, match="records have c, which the lake has dropped"):
        made.merge(TABLE)
    assert len(made.rows(TABLE)) == 5
