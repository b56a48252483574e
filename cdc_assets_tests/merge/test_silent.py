"""Rows that changed at the source without events: a table stops, or goes on in doubt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.changes.position import Scheme
from cdc_assets.databases.mysql.table import ForeignKey, MysqlTable, cascades
from cdc_assets.databases.mysql.types import MysqlColumn
from cdc_assets.errors import SilentChangeError
from cdc_assets.lake.at_source import AtSource
from cdc_assets.operations.accept_restart.desk import RestartDesk
from cdc_assets.schema.silent import CatalogLook, SilentChange, SilentKind
from cdc_assets_tests.merge.inline import change
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.operated import session_of
from cdc_assets_tests.pipeline import Pipeline

pytestmark = pytest.mark.stack

MYSQL: dict[str, Any] = {"database": {"kind": "mysql", "dsn": {"env": "SHOP_DSN"}}}
GONE = SilentChange(SilentKind.PARTITIONS, "partition p is gone")
CASCADE = next(cascades([ForeignKey("fk", ("public", "parents"), "CASCADE", "RESTRICT")]))


@dataclass
class Catalog:
    """Of a MySQL with one table, whose foreign keys and columns a test changes."""

    scheme = Scheme.BINLOG
    unsent: list[SilentChange] = field(default_factory=list)
    declared: str = "bigint"

    def read(self, tables: Iterable[TableName]) -> dict[TableName, MysqlTable]:
        columns = tuple(MysqlColumn(name, "bigint") for name in ("id", "n"))
        look = CatalogLook({"n": ("n", self.declared, "", "")})
        made = MysqlTable(columns, ("id",), look=look, unsent=tuple(self.unsent))
        return dict.fromkeys(tables, made)


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch) -> Catalog:
    found = Catalog()
    monkeypatch.setattr("cdc_assets.merge.intake.source_facts.catalog_of", lambda _: found)
    return found


def merged(made: Pipeline, key: int) -> bool:
    made.produce(TABLE, [change("c", {"id": key, "n": key}, 10 * key, inline=True)])
    made.merge(TABLE)
    return (key,) == tuple(each for each in made.by_key(TABLE) if each == key)


def known(made: Pipeline) -> tuple[SilentChange, ...]:
    return AtSource.of(made.lake.state(made.entry(TABLE).target), "").silent


def begun(pipeline: Make, **keys: Any) -> Pipeline:
    return start(pipeline, change("c", {"id": 1, "n": 1}, 10, inline=True), **MYSQL, **keys)


def test_a_table_whose_rows_cascade_is_refused_before_it_is_made(
    pipeline: Make, catalog: Catalog
) -> None:
    catalog.unsent = [CASCADE]
    with pytest.raises(SilentChangeError, match=r"foreign key fk .*public.parents") as caught:
        begun(pipeline)
    assert "silent_changes: {cascades: mark}" in caught.value.remedy


def test_an_existing_table_stops_and_is_in_doubt_once_the_rule_is_gone(
    pipeline: Make, catalog: Catalog
) -> None:
    made = begun(pipeline)
    catalog.unsent = [CASCADE]
    for _ in range(2):
        with pytest.raises(SilentChangeError, match="foreign key fk"):
            merged(made, 2)
    assert [each.is_standing for each in known(made)] == [True]
    catalog.unsent = []
    assert merged(made, 3)
    assert [(each.kind, each.is_standing) for each in known(made)] == [(SilentKind.CASCADES, False)]


def test_by_policy_a_table_whose_rows_cascade_goes_on_in_doubt_or_unheeded(
    pipeline: Make, catalog: Catalog
) -> None:
    catalog.unsent = [CASCADE]
    policy: dict[str, Any] = {"silent_changes": {"cascades": "mark"}}
    made = begun(pipeline, **policy)
    assert merged(made, 2)
    assert [each.why for each in known(made)] == [CASCADE.why]
    vouched = begun(pipeline, silent_changes="ignore")
    assert merged(vouched, 2)
    assert known(vouched) == ()


def test_what_happened_once_stops_the_table_until_a_person_accepts_it(
    pipeline: Make, catalog: Catalog
) -> None:
    """Even if the next look does not show it any more: a partition may have come back."""
    made = begun(pipeline)
    catalog.unsent = [GONE]
    with pytest.raises(SilentChangeError, match="partition p is gone") as caught:
        merged(made, 2)
    assert "accept-restart" in caught.value.remedy
    catalog.unsent = []
    with pytest.raises(SilentChangeError, match="partition p is gone"):
        merged(made, 3)
    desk = RestartDesk(session_of(made.config, made.entry(TABLE), made.spark))
    desk.accept_silent(desk.silent())
    assert merged(made, 4)
    (still,) = known(made)
    assert still.is_accepted, "it goes on, in doubt"
    desk.accept_silent(desk.silent())
    assert known(made) == (), "a person vouches for its rows"


def test_a_column_that_was_narrowed_marks_the_table_and_its_log_goes_on(
    pipeline: Make, catalog: Catalog
) -> None:
    made = begun(pipeline)
    catalog.declared = "smallint"
    assert merged(made, 2)
    assert [(each.kind, each.columns) for each in known(made)] == [(SilentKind.REWRITTEN, ("n",))]
    assert merged(made, 3)
    assert len(known(made)) == 1
    strict = begun(pipeline, silent_changes="stop")
    catalog.declared = "tinyint"
    with pytest.raises(SilentChangeError, match="column n was changed"):
        merged(strict, 2)
