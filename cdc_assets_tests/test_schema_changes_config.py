"""What the configuration says of changes of columns: by source, by table and by column."""

from __future__ import annotations

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.config import SourceConfig, parse_config
from cdc_assets.schema.policy import Policy, Reaction
from cdc_assets_tests.test_config import edited, error_of

pytestmark = pytest.mark.unit

MINE, OTHER = TableName("shop", "public", "mine"), TableName("shop", "public", "other")
EVOLVE, STRICT, IGNORE = Reaction.EVOLVE, Reaction.STRICT, Reaction.IGNORE


def source(**said: object) -> SourceConfig:
    shop = {"format": "debezium-json", "topics": {"include": ["shop.*"]}, **said}
    return parse_config(edited("sources/shop", shop)).source("shop")


def of_table(**said: object) -> dict[str, object]:
    return {"public.mine": said}


def of_column(said: object) -> dict[str, object]:
    return of_table(columns={"x": said})


@pytest.mark.parametrize(
    ("said", "policy"),
    [
        ({}, Policy()),
        ({"schema_changes": "evolve"}, Policy.of(EVOLVE)),
        ({"schema_changes": "strict"}, Policy.of(STRICT)),
        ({"schema_changes": "ignore"}, Policy.of(IGNORE)),
        ({"schema_changes": {}}, Policy()),
        ({"schema_changes": {"mode": "strict"}}, Policy.of(STRICT)),
        ({"schema_changes": {"drop": "strict"}}, Policy(drop=STRICT)),
        (
            {"schema_changes": {"mode": "ignore", "add": "evolve", "rename": "strict"}},
            Policy(EVOLVE, IGNORE, STRICT, IGNORE, IGNORE),
        ),
        (
            {"schema_changes": {"mode": "strict", "widen": "evolve", "incompatible": "ignore"}},
            Policy(STRICT, EVOLVE, STRICT, STRICT, IGNORE),
        ),
        ({"on_incompatible": "new_column"}, Policy(new_column=True)),
        ({"on_incompatible": "stop"}, Policy()),
        ({"dropped_columns": "drop"}, Policy(drops_columns=True)),
        ({"dropped_columns": "keep"}, Policy()),
    ],
    ids=str,
)
def test_a_source_says_it_for_all_tables(said, policy) -> None:
    assert source(**said).policy(MINE) == policy


@pytest.mark.parametrize(
    ("said", "policy"),
    [
        ({}, Policy(STRICT, STRICT, STRICT, STRICT, STRICT, True, True)),
        ({"schema_changes": "evolve"}, Policy(new_column=True, drops_columns=True)),
        (
            {"schema_changes": {"add": "ignore"}},
            Policy(add=IGNORE, new_column=True, drops_columns=True),
        ),
        (
            {"on_incompatible": "stop"},
            Policy(STRICT, STRICT, STRICT, STRICT, STRICT, drops_columns=True),
        ),
        (
            {"dropped_columns": "keep"},
            Policy(STRICT, STRICT, STRICT, STRICT, STRICT, new_column=True),
        ),
    ],
    ids=str,
)
def test_a_table_goes_before_its_source_and_only_for_itself(said, policy) -> None:
    all_ = {
        "schema_changes": "strict",
        "on_incompatible": "new_column",
        "dropped_columns": "drop",
    }
    shop = source(**all_, tables=of_table(**said))
    assert shop.policy(MINE) == policy
    assert shop.policy(OTHER) == source(**all_).policy(MINE)


def test_a_name_in_the_lake_is_of_one_table() -> None:
    shop = source(tables=of_column({"rename": "y"}))
    assert shop.policy(MINE).names == {"x": "y"}
    assert shop.policy(OTHER).names == {}


@pytest.mark.parametrize(
    ("said", "existing"),
    [
        ({"existing": "5"}, {"x": "5"}),
        ({"existing": ""}, {"x": ""}),
        ({"existing": None}, {"x": None}),
        ({"rename": "y"}, {}),
        ("int", {}),
        ({"type": "int", "existing": "5", "rename": "y"}, {"x": "5"}),
        ({"mask": "sha256", "existing": None}, {"x": None}),
    ],
    ids=str,
)
def test_what_older_rows_have_is_told_or_nothing_is(said, existing) -> None:
    assert source(tables=of_column(said)).overrides(MINE).existing == existing


@pytest.mark.parametrize(
    ("path", "value", "key", "words"),
    [
        ("schema_changes", "evlve", "schema_changes", "did you mean 'evolve'?"),
        ("schema_changes", {"drops": "keep"}, "schema_changes.drops", "did you mean 'drop'?"),
        ("schema_changes", {"add": "stop"}, "schema_changes.add", "'strict'"),
        ("schema_changes", ["strict"], "schema_changes", "must be a mapping"),
        ("on_incompatible", "newcolumn", "on_incompatible", "did you mean 'new_column'?"),
        ("on_incompatble", "stop", "on_incompatble", "did you mean 'on_incompatible'?"),
        ("dropped_columns", "delete", "dropped_columns", "'keep' or 'drop'"),
        ("tables", of_table(schema_changes={"ad": "strict"}), "schema_changes.ad", "'add'"),
        ("tables", of_table(dropped_column="keep"), "dropped_column", "'dropped_columns'"),
        ("tables", of_column({"renam": "y"}), "columns.x.renam", "did you mean 'rename'?"),
        ("tables", of_column({"exists": "5"}), "columns.x.exists", "did you mean 'existing'?"),
        ("tables", of_column({"rename": ""}), "columns.x.rename", "at least 1"),
        ("tables", of_column({"existing": 5}), "columns.x.existing", "must be text"),
        ("tables", of_column({}), "columns.x", "write a type"),
        ("tables", of_column({"exclude": True, "rename": "y"}), "columns.x", "not excluded"),
        ("tables", of_column({"exclude": True, "existing": None}), "columns.x", "not excluded"),
        ("tables", of_column({"type": "int", "mask": "sha256"}), "columns.x", "has one of"),
        ("tables", of_column({"mask": "sha256", "existing": "5"}), "columns.x", "existing: null"),
        (
            "tables",
            of_table(columns={"x": {"rename": "y"}, "z": {"rename": "Y"}}),
            "tables.public.mine",
            "two columns are to have one name",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(path, value, key, words) -> None:
    message = str(error_of(edited(f"sources/shop/{path}", value)))
    assert key in message
    assert words in message


def test_a_value_of_older_rows_is_in_no_message() -> None:
    said = of_column({"exclude": True, "existing": "hunter2"})
    assert "hunter2" not in str(error_of(edited("sources/shop/tables", said)))
