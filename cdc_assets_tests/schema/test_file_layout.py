"""Terms of a layout are read, checked against columns, and written as Iceberg has them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc_assets.errors import TerminalError
from cdc_assets.schema.file_layout import (
    FileLayout,
    SortTerm,
    Term,
    Transform,
    fitted,
    parse_sort,
    parse_term,
    require_parts,
)
from cdc_assets.schema.types import (
    Column,
    Decimal,
    Identity,
    ListOf,
    Primitive,
    TableSchema,
    Wire,
)

pytestmark = pytest.mark.unit

TYPES = {
    "id": Primitive.LONG, "at": Primitive.TIMESTAMPTZ, "born": Primitive.DATE,
    "name": Primitive.STRING, "price": Decimal(10, 2), "ratio": Primitive.DOUBLE,
    "ok": Primitive.BOOLEAN, "raw": Primitive.BINARY, "tags": ListOf(Primitive.STRING),
}  # fmt: skip
SCHEMA = TableSchema(tuple(Column(n, t, Wire.STRING) for n, t in TYPES.items()), ("id",))


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("id", Term(Transform.IDENTITY, "id")),
        ("identity(id)", Term(Transform.IDENTITY, "id")),
        ("day(at)", Term(Transform.DAY, "at")),
        ("Days( at )", Term(Transform.DAY, "at")),
        ("hours(at)", Term(Transform.HOUR, "at")),
        ("bucket(16, id)", Term(Transform.BUCKET, "id", 16)),
        ("bucket(id, 16)", Term(Transform.BUCKET, "id", 16)),
        ("truncate(10,name)", Term(Transform.TRUNCATE, "name", 10)),
        ("`a b`", Term(Transform.IDENTITY, "a b")),
        ("year(`x``(y)`)", Term(Transform.YEAR, "x`(y)")),
        ("day", Term(Transform.IDENTITY, "day")),
        ("Größe", Term(Transform.IDENTITY, "Größe")),
    ],
)
def test_a_term_is_read(text: str, term: Term) -> None:
    assert parse_term(text) == term
    assert " " in term.column or "`" in term.column or parse_term(str(term)) == term


@pytest.mark.parametrize(
    "text",
    ["", "a b", "day()", "bucket(id)", "bucket(0, id)", "day(3, at)", "week(at)", "bucket(1, a, 2)",
     "bucket(99999999999, id)", "day(at) desc", "zorder(a, b)", "void(a)"],
)  # fmt: skip
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(TerminalError, match="no column and no transform"):
        parse_term(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id", "id asc nulls first"),
        ("id DESC", "id desc nulls last"),
        ("bucket(4, id) asc NULLS LAST", "bucket(4, id) asc nulls last"),
        ("at desc nulls first", "at desc nulls first"),
        ("desc", "desc asc nulls first"),
    ],
)
def test_a_direction_is_read(text: str, said: str) -> None:
    assert str(parse_sort(text)) == said


TAKEN = {
    "id": {"identity", "bucket", "truncate"},
    "at": {"identity", "year", "month", "day", "hour", "bucket"},
    "born": {"identity", "year", "month", "day", "bucket"},
    "name": {"identity", "bucket", "truncate"},
    "price": {"identity", "bucket", "truncate"},
    "ratio": set[str](),
    "ok": {"identity"},
    "raw": {"identity", "bucket", "truncate"},
    "tags": set[str](),
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_type_takes_the_transforms_that_iceberg_has_for_it(name: str) -> None:
    for transform in Transform:
        layout = FileLayout((Term(transform, name, 4),))
        if transform.value in TAKEN[name]:
            assert fitted(layout, SCHEMA, {}, "here") == layout
        else:
            with pytest.raises(TerminalError, match="is of type"):
                fitted(layout, SCHEMA, {}, "here")


def test_rows_may_be_sorted_by_a_floating_point_number() -> None:
    layout = FileLayout(None, (SortTerm(Term(Transform.IDENTITY, "ratio")),))
    assert fitted(layout, SCHEMA, {}, "here") == layout


def test_a_column_has_its_present_name_and_those_before() -> None:
    column = replace(
        SCHEMA.columns[0],
        name="ident",
        identity=Identity(name="ident_sent", formerly=("no",), was=("id", "nr")),
    )
    schema = TableSchema((column, *SCHEMA.columns[1:]), ("ident",))
    for name in ("ident", "ident_sent", "no", "id", "nr"):
        found = fitted(FileLayout((Term(Transform.BUCKET, name, 4),)), schema, {}, "here")
        assert found.partition_by == (Term(Transform.BUCKET, "ident", 4),)


def test_our_own_columns_are_known_and_others_are_named() -> None:
    layout = FileLayout((Term(Transform.DAY, "_cdc_ts"),))
    own = {"_cdc_ts": Primitive.TIMESTAMPTZ}
    assert fitted(layout, SCHEMA, own, "here") == layout
    with pytest.raises(TerminalError, match="a column _cdc_ts, which the table does not have"):
        fitted(layout, SCHEMA, {}, "here")


@pytest.mark.parametrize(
    "terms", [("id", "id"), ("day(at)", "hour(at)"), ("bucket(2, id)", "bucket(3, id)")]
)
def test_two_terms_of_a_kind_are_refused(terms: tuple[str, str]) -> None:
    with pytest.raises(TerminalError, match="twice"):
        require_parts([parse_term(each) for each in terms])
