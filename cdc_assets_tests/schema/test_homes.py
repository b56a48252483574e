"""Records find the lake's column that theirs is, whatever either calls it."""

from __future__ import annotations

import pytest

from cdc_assets.schema.homes import apart, free_name, home_of, homes
from cdc_assets.schema.types import Column, Identity, Primitive, TableSchema, Wire

pytestmark = pytest.mark.unit


def column(name, type_=Primitive.INT, /, **identity) -> Column:
    return Column(name, type_, Wire.STRING, identity=Identity(**identity))


def table(*columns: Column, key: tuple[str, ...] = ()) -> TableSchema:
    return TableSchema(columns, key)


RENAMED = table(column("b", formerly=("a", "z")), column("c"))
SPLIT = table(
    column("b", formerly=("a",)),
    column("b__v2", Primitive.STRING, name="b", formerly=("a",)),
)
LAKES_OWN = table(column("in_lake", name="sent"), column("sent", name="other"))


@pytest.mark.parametrize(
    ("lake", "record", "found"),
    [
        (RENAMED, [column("b"), column("c")], {"b": "b", "c": "c"}),
        (RENAMED, [column("a"), column("c")], {"a": "b", "c": "c"}),
        (RENAMED, [column("z")], {"z": "b"}),
        (RENAMED, [column("a"), column("b")], {"b": "b"}),
        (RENAMED, [column("A"), column("new")], {}),
        (SPLIT, [column("b")], {"b": "b"}),
        (SPLIT, [column("b", Primitive.STRING)], {"b": "b__v2"}),
        (SPLIT, [column("a")], {"a": "b"}),
        (SPLIT, [column("a", Primitive.STRING)], {"a": "b__v2"}),
        (SPLIT, [column("a", Primitive.DATE)], {"a": "b__v2"}),
        (LAKES_OWN, [column("sent"), column("other")], {"sent": "in_lake", "other": "sent"}),
        (LAKES_OWN, [column("in_lake")], {}),
    ],
    ids=[
        "now", "former", "older", "former beside the present one", "other case, and new",
        "first type", "second type", "former, first type", "former, second type",
        "former, third type", "by names in records", "not by names in the lake",
    ],
)  # fmt: skip
def test_each_column_of_a_record_has_a_home(lake, record, found) -> None:
    assert homes(lake, table(*record)) == found


def test_a_former_name_counts_as_long_as_the_new_one_is_not_there() -> None:
    assert home_of(RENAMED, column("a"), ["a", "b"]) is None
    assert home_of(RENAMED, column("a"), ["a"]) == RENAMED.column("b")


@pytest.mark.parametrize(
    ("name", "taken", "found"),
    [
        ("a", [], "a"), ("a", ["b"], "a"), ("a", ["a"], "a__2"), ("A", ["a"], "A__2"),
        ("a", ["A", "a__2"], "a__3"), ("a", ["a", "A__2"], "a__3"), ("ß", ["SS"], "ß__2"),
        ("a__2", ["a__2"], "a__2__2"),
    ],
)  # fmt: skip
def test_a_name_is_free_whatever_the_case(name, taken, found) -> None:
    assert free_name(name, taken) == found


def test_columns_that_differ_by_case_only_have_two_names_in_the_lake_and_keep_the_key() -> None:
    found = apart(table(column("Id"), column("id"), column("v"), key=("id",)), {"v": "ID"})
    assert found.names == ("Id", "id__2", "ID__3")
    assert [each.sent_as for each in found.columns] == ["Id", "id", "v"]
    assert found.key == ("id__2",)


def test_configured_names_may_be_exchanged() -> None:
    found = apart(table(column("a"), column("b"), key=("a",)), {"a": "b", "b": "a"})
    assert [(each.sent_as, each.name) for each in found.columns] == [("a", "b"), ("b", "a")]
    assert found.key == ("b",)
    assert found.as_sent.key == ("a",)
