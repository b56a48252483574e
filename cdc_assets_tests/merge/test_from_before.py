"""Columns that only older records have, of a table that the lake does not know yet."""

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
from cdc_assets_tests.merge.inline import change
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

DATABASE: dict[str, Any] = {"database": {"kind": "postgresql", "dsn": {"env": "SHOP_DSN"}}}
GIVEN_UP: dict[str, Any] = {**DATABASE, "tables": {TABLE: {"absent_columns": ["was"]}}}
TYPES = {"id": ("int8", "bigint"), "name": ("text", "text"), "now": ("text", "text")}
both = pytest.mark.parametrize(
    "inline", [pytest.param(True, marks=profiles.in_soak), False], ids=["schemas", "bare"]
)


class Catalog:
    """Of a PostgreSQL whose table had the column ``was``, and has ``now`` since."""

    scheme = Scheme.POSTGRES

    def read(self, tables: Iterable[TableName]) -> dict[TableName, PostgresTable]:
        columns = tuple(PostgresColumn(name, *types) for name, types in TYPES.items())
        facts = {name: ColumnFacts(number) for name, number in zip(TYPES, (1, 2, 4), strict=True)}
        made = PostgresTable(columns, ("id",), ReplicaIdentity.DEFAULT, "", facts=facts)
        return dict.fromkeys(tables, made)


@pytest.fixture(autouse=True)
def _catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_assets.merge.intake.source_facts.catalog_of", lambda _: Catalog())


@both
def test_whether_a_column_was_renamed_before_the_first_batch_a_person_has_to_say(
    pipeline: Make, inline: bool
) -> None:
    def made_by(op: str, lsn: int, **row: object) -> Message:
        return change(op, row, lsn, inline=inline)

    stopped = pipeline(**DATABASE)
    stopped.create_topic(TABLE)
    stopped.produce(TABLE, [
        made_by("c", 10, id=1, name="a", was="x"),
        made_by("c", 20, id=2, name="b", was="y"),
        made_by("u", 30, id=2, name="c", now="z"),
    ])  # fmt: skip
    with pytest.raises(TerminalError, match=r"it is unknown|does not tell") as caught:
        stopped.merge(TABLE)
    assert "absent_columns" in str(caught.value)
    assert stopped.rows(TABLE) == []

    told = Pipeline(stopped.base, stopped.spark, stopped.folder, GIVEN_UP, stopped.prefix)
    told.merge(TABLE)
    now = {key: (row["name"], row["now"]) for key, row in told.by_key(TABLE).items()}
    assert now == {1: ("a", None), 2: ("c", "z")}
    assert {row.get("was") for row in told.rows(TABLE)} == ({"x", None} if inline else {None})


@profiles.in_soak
@both
def test_a_column_that_was_there_beside_each_of_today_was_dropped(
    pipeline: Make, inline: bool
) -> None:
    made = pipeline(**DATABASE)
    made.create_topic(TABLE)
    made.produce(TABLE, [
        change("c", {"id": 1, "name": "a", "was": "x"}, 10, inline=inline),
        change("c", {"id": 2, "name": "b", "was": "y", "now": "z"}, 20, inline=inline),
        change("u", {"id": 2, "name": "c", "now": "z"}, 30, inline=inline),
    ])  # fmt: skip
    made.merge(TABLE)
    now = {key: (row["name"], row["now"]) for key, row in made.by_key(TABLE).items()}
    assert now == {1: ("a", None), 2: ("c", "z")}


@both
def test_nor_is_it_taken_for_a_dropped_one_in_a_later_batch(pipeline: Make, inline: bool) -> None:
    made = start(pipeline, change("c", {"id": 1, "name": "a"}, 10, inline=inline), **DATABASE)
    made.produce(TABLE, [
        change("c", {"id": 2, "name": "b", "was": "x"}, 20, inline=inline),
        change("c", {"id": 3, "name": "c", "now": "y"}, 30, inline=inline),
    ])  # fmt: skip
    with pytest.raises(TerminalError, match="the records have was, which the database no longer"):
        made.merge(TABLE)
    assert len(made.rows(TABLE)) == 1
