"""Each database's statements over a table's rows, in golden files: read those to review the SQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_assets.config.where import parse_where
from cdc_assets.databases.dialect import Dialect
from cdc_assets.databases.mysql.dialect import MysqlDialect, MysqlSource
from cdc_assets.databases.mysql.types import MysqlColumn
from cdc_assets.databases.postgres.columns import PostgresColumn
from cdc_assets.databases.postgres.dialect import PostgresDialect
from cdc_assets.databases.rows import SourceRows
from cdc_assets.databases.statements import Range, Statement, Statements, paired
from cdc_assets.errors import TerminalError
from cdc_assets.schema.row_condition import fitted
from cdc_assets.schema.types import Column, Decimal, Primitive, TableSchema, Wire

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).with_name("statements")
ODD = 'a`b"c {} %s'
LAKE = (
    Column("id", Primitive.LONG, Wire.LONG),
    Column("code", Primitive.STRING, Wire.STRING),
    Column("day", Primitive.DATE, Wire.EPOCH_DAYS),
    Column("price", Decimal(10, 2), Wire.DECIMAL_BYTES),
    Column("weight", Primitive.DOUBLE, Wire.DOUBLE),
    Column(ODD, Primitive.STRING, Wire.STRING),
)
POSTGRES = ("int8", "text", "date", "numeric", "float8", "text")
MYSQL = ("bigint(20)", "varchar(9)", "date", "decimal(10,2)", "double", "longtext")
WHERE = (
    "code <> 'it''s' AND (price > -1.5 OR day <= DATE '1969-12-31') AND weight IS NULL"
    " AND id IN (1) AND NOT code LIKE '%100\\%%'"
)
LOW, HIGH = ("2024-01-01 it's", "19723"), ("b", "19800")


def of_postgres() -> tuple[Dialect[Any], dict[str, Any]]:
    pairs = zip(LAKE, POSTGRES, strict=True)
    columns = {c.name: PostgresColumn(c.name, kind, kind, not_null=True) for c, kind in pairs}
    return PostgresDialect(), columns


def of_mysql() -> tuple[Dialect[Any], dict[str, Any]]:
    pairs = zip(LAKE, MYSQL, strict=True)
    columns = {c.name: MysqlColumn(c.name, kind, not_null=True) for c, kind in pairs}
    latin1 = ("latin1", "latin1_german1_ci")
    found = {name: MysqlSource(each) for name, each in columns.items()}
    return MysqlDialect(), found | {"code": MysqlSource(columns["code"], None, *latin1)}


def statements(of: tuple[Dialect[Any], dict[str, Any]], *key: str, where: str = "") -> Statements:
    dialect, known = of
    schema = TableSchema(LAKE, key)
    sources, comparison = paired(known, schema, dialect)
    condition = fitted(parse_where(where), schema, "") if where else None
    return Statements(dialect, ("shop", ODD), comparison, sources, condition)


def made(of: Statements) -> Iterator[tuple[str, Statement]]:
    yield "sums", of.sums(Range(LOW, HIGH, (("a", "19730"),)))
    yield "sums_of_all", of.sums(Range(None, None))
    yield "digests", of.digests([Range(None, LOW), Range(HIGH, None)])
    yield "found", of.found([LOW, HIGH])
    yield "whole", of.whole(Range(LOW, None))
    yield (
        "bounds" if of.numbers_rows else "after",
        (
            of.bounds(Range(LOW, None), 100, 4)
            if of.numbers_rows
            else of.after(Range(LOW, None), 100)
        ),
    )
    for faulty, _ in of.faulty_keys():
        yield "faulty_key", faulty


@pytest.mark.parametrize(
    ("name", "of"), [("postgres", of_postgres()), ("mysql", of_mysql())], ids=["postgres", "mysql"]
)
def test_statements_are_those_of_the_golden_file(
    name: str, of: tuple[Dialect[Any], dict[str, Any]]
) -> None:
    some = statements(of, "code", "day", where=WHERE)
    texts = [
        f"-- {each}\n{text.strip()}\n-- {given}\n"
        for each, (text, given) in (
            *made(statements(of, "code", "day")),
            ("found_of_some_rows", some.found([LOW])),
            ("digests_of_some_rows", some.digests([Range(None, LOW)])),
        )
    ]
    golden = GOLDEN / f"{name}.sql"
    assert "\n".join(texts) == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize(("start", "ends"), [((None,), True), (("7",), False)])
def test_a_part_never_ends_at_a_null_which_no_row_is_below(start: Any, ends: bool) -> None:
    answer = [("3",), start]
    access = SimpleNamespace(where="table=shop.orders")
    some = SimpleNamespace(numbers_rows=True, bounds=lambda *_: ("", {}))
    rows: Any = SimpleNamespace(access=access, statements=some, answer=lambda *_: answer)
    if not ends:
        assert SourceRows.bounds(rows, Range(None, None), 1, 2) == (("3",), ("7",))
        return
    with pytest.raises(TerminalError, match="NULL in its key"):
        SourceRows.bounds(rows, Range(None, None), 1, 2)


@pytest.mark.parametrize("of", [of_postgres(), of_mysql()], ids=["postgres", "mysql"])
def test_rows_with_null_in_their_key_are_looked_for_where_there_may_be_any(
    of: tuple[Dialect[Any], dict[str, Any]],
) -> None:
    dialect, known = of
    key = statements(of, "id", "code")
    assert [*key.faulty_keys()] == []
    open_ = known | {"code": _nullable(known["code"])}
    ((text, given), fault), *more = statements((dialect, open_), "id", "code").faulty_keys()
    place = f"t.{dialect.quote('code')}"
    assert text.endswith(f"AS t WHERE {place} IS NULL LIMIT 1")
    assert "NULL in its key" in fault.what
    assert not given
    assert not more


def _nullable(column: Any) -> Any:
    if isinstance(column, MysqlSource):
        return replace(column, column=replace(column.column, not_null=False))
    return replace(column, not_null=False)


@pytest.mark.parametrize("of", [of_postgres(), of_mysql()], ids=["postgres", "mysql"])
def test_a_piece_of_a_range_ends_in_it_however_many_rows_are_gone(
    of: tuple[Dialect[Any], dict[str, Any]],
) -> None:
    some, within = statements(of, "code"), Range(("a",), ("b",))
    text, given = some.bounds(within, 9, 2) if some.numbers_rows else some.after(within, 9)
    assert list(dict.fromkeys(given.values())) == ["a", "b"]
    assert " < " in text.replace(">", "")


@pytest.mark.parametrize(
    ("kind", "number"), [("bigint", "SIGNED"), ("bigint unsigned", "UNSIGNED")]
)
def test_a_key_below_zero_is_found_where_the_lake_has_decimals(kind: str, number: str) -> None:
    column = Column("id", Decimal(20, 0), Wire.DECIMAL_BYTES)
    schema, known = TableSchema((column,), ("id",)), MysqlSource(MysqlColumn("id", kind))
    sources, comparison = paired({"id": known}, schema, MysqlDialect())
    some = Statements(MysqlDialect(), ("shop", "orders"), comparison, sources)
    assert f"t.`id` = CAST(%(p0)s AS {number})" in some.found([("-5",)])[0]
    assert f"t.`id` >= CAST(%(p0)s AS {number})" in some.whole(Range(("-5",), None))[0]


@pytest.mark.parametrize("of", [of_postgres(), of_mysql()], ids=["postgres", "mysql"])
def test_a_column_with_braces_in_its_name_stays_one(
    of: tuple[Dialect[Any], dict[str, Any]],
) -> None:
    text, given = statements(of, ODD).found([("v",)])
    assert of[0].quote(ODD) in text.partition(" FROM ")[2]
    assert list(given.values()) in ([["v"]], ["v"])


@pytest.mark.parametrize("of", [of_postgres(), of_mysql()], ids=["postgres", "mysql"])
def test_all_parameters_of_a_statement_are_given(of: tuple[Dialect[Any], dict[str, Any]]) -> None:
    for name, (text, given) in made(statements(of, "code", "day")):
        assert text % dict.fromkeys(given, ""), name
