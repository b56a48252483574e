"""Conditions on rows are read, checked against columns, and written as one text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc_assets.config.where import parse_where
from cdc_assets.errors import TerminalError
from cdc_assets.schema.row_condition import (
    columns_of,
    fitted,
    require_same_columns,
    text_of,
)
from cdc_assets.schema.types import (
    Column,
    Decimal,
    Identity,
    ListOf,
    Primitive,
    TableSchema,
    Wire,
    WireDetail,
)

pytestmark = pytest.mark.unit

TYPES = {
    "id": Primitive.LONG, "at": Primitive.TIMESTAMPTZ, "born": Primitive.DATE,
    "name": Primitive.STRING, "price": Decimal(10, 2), "ratio": Primitive.DOUBLE,
    "ok": Primitive.BOOLEAN, "raw": Primitive.BINARY, "tags": ListOf(Primitive.STRING),
    "local": Primitive.TIMESTAMP,
}  # fmt: skip
SCHEMA = TableSchema(tuple(Column(n, t, Wire.STRING) for n, t in TYPES.items()), ("id",))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("name <> 'draft' AND id IN (1, -2)", """("name" <> 'draft') AND ("id" IN (1, -2))"""),
        ("NOT (ok OR raw IS NOT NULL)", 'NOT (("ok" = TRUE) OR (NOT ("raw" IS NULL)))'),
        ("price BETWEEN -1 AND 5.50", '("price" >= -1) AND ("price" <= 5.50)'),
        ("id NOT IN (1) AND 5 < id", '(NOT ("id" IN (1))) AND ("id" > 5)'),
        (r"name NOT LIKE 'a\%%'", r"""NOT ("name" LIKE 'a\%%')"""),
        ("name = 'it''s' OR name LIKE '_'", """("name" = 'it''s') OR ("name" LIKE '_')"""),
        ("at >= TIMESTAMP '2024-01-01 00:00:00+02:00'",
         """"at" >= TIMESTAMP '2024-01-01 00:00:00+02:00'"""),
        ('"an odd ""name" != DATE \'2024-01-01\'', '"an odd ""name" <> DATE \'2024-01-01\''),
    ],
)  # fmt: skip
def test_a_condition_is_read(text: str, read: str) -> None:
    condition = parse_where(text)
    assert text_of(condition) == read
    assert text_of(parse_where(read)) == read


@pytest.mark.parametrize(
    "text",
    [
        "", "1 = 1", "true", "id", "id = now()", "id = (SELECT 1)", "id IN (SELECT 1)", "id = id",
        "id = NULL", "id IN (1, NULL)", "id IN ()", "t.id = 1", "name ILIKE 'x'",
        "name NOT ILIKE 'x'", "name LIKE 'x' ESCAPE '!'", r"name LIKE 'x\y'", "name LIKE 'x\\",
        "lower(name) = 'x'", "id IS TRUE", "id IS NOT TRUE", "id <=> 1", "id IS DISTINCT FROM 1",
        "id = 1; name = 'x'", "id BETWEEN SYMMETRIC 2 AND 1", "id IN (1) IS NULL", "id = -(1)",
        "name || 'x' = 'y'", "id::int = 1", "id = ANY(1)", "name REGEXP 'x'", "id = 1 + 1",
        "local = TIMESTAMP(3) '2024-01-01 00:00:00.1235'",
        "born = TRY_CAST('2024-01-01' AS DATE)", "name = 'x' COLLATE \"C\"", "x" * 10_001,
        "(" * 3_000 + "id = 1" + ")" * 3_000,
    ],
)  # fmt: skip
def test_what_engines_may_compute_differently_is_refused(text: str) -> None:
    if text == "id":  # a column alone is a condition, of a type that does not fit
        with pytest.raises(TerminalError, match="compares id"):
            fitted(parse_where(text), SCHEMA, "table=t")
        return
    with pytest.raises(TerminalError, match=r"compare columns with constants|write"):
        parse_where(text)


@pytest.mark.parametrize(
    ("text", "as_stored"),
    [
        ("price = 01.50", '"price" = 1.5'),
        ("price = -3.00", '"price" = -3'),
        ("id = 007", '"id" = 7'),
        ("born < '2024-02-29'", "\"born\" < '2024-02-29'"),
        ("local = '2024-01-01'", "\"local\" = '2024-01-01 00:00:00.000000'"),
        ("at = '2024-01-01 00:30:00.5+02:00'", "\"at\" = '2023-12-31 22:30:00.500000'"),
        ("at = TIMESTAMP '2024-01-01 00:30:00'", "\"at\" = TIMESTAMP '2024-01-01 00:30:00.000000'"),
        ("tags IS NULL OR ratio IS NULL", '("tags" IS NULL) OR ("ratio" IS NULL)'),
    ],
)
def test_constants_become_texts_of_the_columns_type(text: str, as_stored: str) -> None:
    assert text_of(fitted(parse_where(text), SCHEMA, "table=t")) == as_stored


@pytest.mark.parametrize(
    "text",
    [
        "id = '1'", "id = 1.5", "id = 1e3", "id = 9223372036854775808", "price = 1.505",
        "price = 'x'", "name = 1", "name = TRUE", "ok = 1", "born = '2024-02-30'",
        "born = TIMESTAMP '2024-01-01 00:00:00'", "born = '20240101'", "local = '2024-01-01T25:00'",
        "local = '2024-01-01 00:00:00+01:00'", "ratio = 1", "raw = 'x'", "tags = 'x'",
        "price = 1234567890123456789012345678901234567", "local = '2024-01-01 00:00:00.1234567'",
    ],
)  # fmt: skip
def test_a_constant_of_another_type_is_refused_with_what_is_expected(text: str) -> None:
    with pytest.raises(TerminalError, match=r"table=t.*tables\.<schema\.table>\.where: "):
        fitted(parse_where(text), SCHEMA, "table=t")


def test_a_column_is_found_by_each_of_its_names_and_a_present_name_wins() -> None:
    columns = (
        Column("a", Primitive.INT, Wire.INT, identity=Identity("sent", ("was_sent",), ("was",))),
        Column("was", Primitive.STRING, Wire.STRING),
    )
    schema = TableSchema(columns)
    for name in ("a", "sent", "was_sent"):
        assert columns_of(fitted(parse_where(f"{name} = 1"), schema, "")) == {"a"}
    assert columns_of(fitted(parse_where("was = 'x'"), schema, "")) == {"was"}


def test_a_column_that_the_lake_lacks_hides_or_gets_no_more_is_refused_with_the_remedy() -> None:
    def refused(text: str, *columns: Column) -> str:
        with pytest.raises(TerminalError) as error:
            fitted(parse_where(text), TableSchema(columns), "table=t")
        return str(error.value)

    plain = Column("a", Primitive.STRING, Wire.STRING)
    assert "names a column b, which the table has not" in refused("b = 'x'", plain)
    gone = refused("a = 'x'", replace(plain, absent=True))
    assert "the source has dropped a" in gone
    assert "cdc-assets rebuild TABLE" in gone
    hidden = refused("a = 'x'", replace(plain, detail=WireDetail(mask=True)))
    assert "only digests" in hidden


def test_a_name_that_another_column_has_got_stops_the_table() -> None:
    def named(*columns: tuple[str, str]) -> TableSchema:
        made = (Column(name, Primitive.INT, Wire.INT, identity=Identity(was=(was,) if was else ()))
                for name, was in columns)  # fmt: skip
        return TableSchema(tuple(made))

    condition, at_first = parse_where("a = 1 OR b = 2"), named(("a", ""), ("b", ""))
    renamed = named(("c", "a"), ("b", ""))
    require_same_columns(condition, at_first, at_first, {}, "table=t")
    require_same_columns(condition, at_first, renamed, {"a": "c"}, "table=t")
    again = named(("c", "a"), ("b", ""), ("a", ""))
    for was, names in ((at_first, {"a": "c"}), (renamed, {})):
        with pytest.raises(TerminalError, match=r"chosen by c.*name c in tables"):
            require_same_columns(condition, was, again, names, "table=t")
    require_same_columns(parse_where("c = 1 OR b = 2"), renamed, again, {}, "table=t")
    require_same_columns(condition, again, again, {}, "table=t")
    swapped = named(("b", "a"), ("a", "b"))
    with pytest.raises(TerminalError, match="names a, which is another column"):
        require_same_columns(condition, at_first, swapped, {"a": "b", "b": "a"}, "table=t")
