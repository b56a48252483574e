"""Records with schemas of which only the database's catalog tells the whole type of a column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.changes.position import Scheme
from cdc_assets.databases.mysql.table import BinlogSettings, MysqlTable
from cdc_assets.databases.mysql.types import MysqlColumn
from cdc_assets.errors import RejectedRecordError, TerminalError, UnreachableError
from cdc_assets_tests.merge.inline import change
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.pipeline import Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

MYSQL: dict[str, Any] = {"database": {"kind": "mysql", "dsn": {"env": "SHOP_DSN"}}}
NARROW = {"tables": {TABLE: {"columns": {"id": "bigint", "n": "bigint"}}}}
both = pytest.mark.parametrize(
    "inline", [True, pytest.param(False, marks=profiles.in_soak)], ids=["schemas", "bare"]
)


class Catalog:
    """Of a MySQL with one table, of unsigned numbers."""

    scheme = Scheme.BINLOG

    def read(self, tables: Iterable[TableName]) -> dict[TableName, MysqlTable]:
        columns = tuple(MysqlColumn(name, "bigint unsigned") for name in ("id", "n"))
        return {each: MysqlTable(columns, ("id",)) for each in tables}


class Compressing(Catalog):
    """Of a server that compresses transactions since, which it did not when the table was made."""

    def read(self, tables: Iterable[TableName]) -> dict[TableName, MysqlTable]:
        settings = BinlogSettings(compression="on")
        return {name: replace(each, binlog=settings) for name, each in super().read(tables).items()}


class Silent(Catalog):
    """Of a database that is down."""

    asked = 0

    def read(self, tables: Iterable[TableName]) -> dict[TableName, MysqlTable]:
        self.asked += 1
        what = "the database does not answer"
        raise UnreachableError(what, where="database 127.0.0.1:1/shop")


@pytest.fixture(autouse=True)
def _catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_assets.merge.intake.source_facts.catalog_of", lambda _: Catalog())


@both
def test_numbers_without_a_sign_are_stored_as_such(pipeline: Make, inline: bool) -> None:
    first = change("c", {"id": -1, "n": -2}, 10, inline=inline)
    made = start(pipeline, first, change("c", {"id": 1, "n": 2}, 20, inline=inline), **MYSQL)
    made.produce(TABLE, [change("u", {"id": -1, "n": -3}, 30, inline=inline)])
    made.merge(TABLE)
    assert {key: row["n"] for key, row in made.by_key(TABLE).items()} == {
        2**64 - 1: 2**64 - 3,
        1: 2,
    }


@profiles.in_soak
def test_a_column_that_is_new_has_no_sign_either(pipeline: Make) -> None:
    first = change("c", {"id": 1}, 10, inline=True)
    made = start(pipeline, first, **MYSQL)
    made.produce(TABLE, [change("c", {"id": 2, "n": 3}, 20, inline=True)])
    made.merge(TABLE)
    made.produce(TABLE, [change("c", {"id": 3, "n": -3}, 30, inline=True)])
    made.merge(TABLE)
    found = {key: row["n"] for key, row in made.by_key(TABLE).items()}
    assert found == {1: None, 2: 3, 3: 2**64 - 3}


@profiles.in_soak
@both
def test_a_table_that_has_them_as_bigint_goes_on_so(pipeline: Make, inline: bool) -> None:
    first = change("c", {"id": 1, "n": 1}, 10, inline=inline)
    narrow = start(pipeline, first, **MYSQL, **NARROW)
    made = Pipeline(narrow.base, narrow.spark, narrow.folder, MYSQL, narrow.prefix)
    made.produce(TABLE, [change("c", {"id": 2, "n": 2}, 20, inline=inline)])
    made.merge(TABLE)
    made.produce(TABLE, [change("c", {"id": 3, "n": -3}, 30, inline=inline)])
    with pytest.raises(RejectedRecordError, match="column 'n'"):
        made.merge(TABLE)
    assert {key: row["n"] for key, row in made.by_key(TABLE).items()} == {1: 1, 2: 2}


def test_records_that_tell_their_schema_are_merged_while_the_database_is_silent(
    pipeline: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = start(pipeline, change("c", {"id": 1, "n": 1}, 10, inline=True), **MYSQL)
    silent = Silent()
    monkeypatch.setattr("cdc_assets.merge.intake.source_facts.catalog_of", lambda _: silent)
    made.produce(TABLE, [change("c", {"id": 2, "n": 2}, 20, inline=True)])
    made.merge(TABLE)
    assert len(made.rows(TABLE)) == 2
    assert silent.asked == 1, "each time would be waited for"
    made.produce(TABLE, [change("c", {"id": 3, "n": 3, "name": "a"}, 30, inline=True)])
    with pytest.raises(UnreachableError):
        made.merge(TABLE)


@profiles.in_soak
@both
def test_a_table_stops_once_its_server_no_longer_logs_its_changes_in_order(
    pipeline: Make, monkeypatch: pytest.MonkeyPatch, inline: bool
) -> None:
    made = start(pipeline, change("c", {"id": 1, "n": 1}, 10, inline=inline), **MYSQL)
    made.produce(TABLE, [change("c", {"id": 2, "n": 2}, 20, inline=inline)])
    with monkeypatch.context() as now:
        now.setattr("cdc_assets.merge.intake.source_facts.catalog_of", lambda _: Compressing())
        with pytest.raises(TerminalError, match="compresses transactions") as caught:
            made.merge(TABLE)
        assert "binlog_transaction_compression=OFF" in caught.value.remedy
        assert made.entry(TABLE).topic in caught.value.where
        assert len(made.rows(TABLE)) == 1
        made.replay(TABLE)
    made.merge(TABLE)
    assert len(made.rows(TABLE)) == 2
