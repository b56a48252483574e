"""Each statement beside its golden file: read those to review what is sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cdc_assets.changes.names import LakeName, Shard
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.own_columns import (
    CHANGELOG_COLUMNS,
    HISTORY_COLUMNS,
    OWN_COLUMNS,
    SOFT_DELETE_COLUMNS,
)
from cdc_assets.merge.tables.ends import Emptied
from cdc_assets.schema.types import Column, Decimal, Primitive, TableSchema, Wire

GOLDEN = Path(__file__).with_name("statements")
NAME = LakeName("shop_public", "orders")
HOSTILE = LakeName("a`b", "x; DROP TABLE y")
SCHEMA = TableSchema(
    (
        Column("id", Primitive.LONG, Wire.LONG, required=True),
        Column("price", Decimal(12, 2), Wire.DECIMAL_BYTES, required=True, comment="It's in €"),
    ),
    ("id",),
    comment="Orders",
)

BRANCH = sql.table("lake", NAME, "cdc_1")
TRUNCATE = Emptied(b"\x00\xff", 1_760_000_000_000_000, b"\x01", "it's", 2, 3)
SHARD = Shard("sh`ard", "it's \\ one")

STATEMENTS = {
    "create_namespace": sql.create_namespace("lake", NAME),
    "create_table": sql.create_table("lake", NAME, SCHEMA, OWN_COLUMNS, {"format-version": "3"}),
    "create_table_soft": sql.create_table(
        "lake", NAME, SCHEMA, OWN_COLUMNS | SOFT_DELETE_COLUMNS, {}
    ),
    "create_table_changelog": sql.create_table(
        "lake", NAME, replace(SCHEMA, key=()), CHANGELOG_COLUMNS, {}
    ),
    "create_table_history": sql.create_table(
        "lake", NAME, SCHEMA, HISTORY_COLUMNS, {}, sql.CURRENT
    ),
    "create_table_hostile": sql.create_table(
        "lake", HOSTILE, SCHEMA, OWN_COLUMNS, {"k'": "back\\slash"}
    ),
    "create_side_table": sql.create_side_table("lake", NAME, [("id", "bigint")], {"a": "b"}),
    "add_side_column": sql.add_side_column("lake", NAME, "topic_id", "string"),
    "set_identifier": sql.set_identifier("lake", NAME, ("id", "b`c")),
    "add_own_columns": sql.add_own_columns("lake", NAME, OWN_COLUMNS),
    "drop_identifier": sql.drop_identifier("lake", NAME, ("id", "b`c")),
    "make_optional": sql.make_optional("lake", NAME, "b`c"),
    "mark_living": sql.mark_living("lake", HOSTILE),
    "set_properties": sql.set_properties("lake", NAME, {"a": "b"}),
    "add_columns": sql.add_columns("lake", NAME, SCHEMA.columns),
    "widen_column": sql.widen_column("lake", NAME, SCHEMA.columns[1]),
    "create_branch": sql.create_branch("lake", NAME, "cdc_1", 42),
    "create_branch_of_nothing": sql.create_branch("lake", NAME, "cdc_1", None),
    "drop_branch": sql.drop_branch("lake", NAME, "cdc_1"),
    "fast_forward": sql.fast_forward("lake", HOSTILE, "cdc_1"),
    "delete_keys": sql.delete_keys(BRANCH, "keys_1", ("id", "at")),
    "delete_keys_or_none": sql.delete_keys(BRANCH, "keys_1", ("topic",), or_none=("topic_id",)),
    "delete_older": sql.delete_older(BRANCH, "00FF"),
    "mark_older": sql.mark_older(
        BRANCH, [("00FE", 1_750_000_000_000_000), ("00FF", 1_760_000_000_000_000)]
    ),
    "create_table_sharded": sql.create_table(
        "lake", NAME, SCHEMA.with_shard("sh`ard"), OWN_COLUMNS, {}
    ),
    "delete_older_sharded": sql.delete_older(BRANCH, "00FF", SHARD),
    "mark_older_sharded": sql.mark_older(BRANCH, [("00FF", None)], SHARD),
    "end_older": sql.end_older(BRANCH, "00FF", TRUNCATE.literals()),
    "end_older_untold": sql.end_older(
        BRANCH,
        "00FF",
        replace(TRUNCATE, micros=None, topic=None, partition=None, offset=None).literals(),
    ),
    "update_changed": sql.update_changed(BRANCH, "new_1", ("topic", "offset"), "reason"),
    "update_changed_or_none": sql.update_changed(
        BRANCH, "new_1", ("topic", "offset"), "reason", or_none=("topic_id",)
    ),
}


@pytest.mark.unit
@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_a_statement_is_what_its_file_says(name: str) -> None:
    assert STATEMENTS[name] + "\n" == (GOLDEN / f"{name}.sql").read_text()


@pytest.mark.unit
def test_no_golden_file_is_left_over() -> None:
    assert {file.stem for file in GOLDEN.glob("*.sql")} == set(STATEMENTS)
