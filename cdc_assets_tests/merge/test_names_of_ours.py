"""Columns of a source whose names are ours in tables of another mode are columns like any other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.names import LakeName, Shard
from cdc_assets.formats.layout import Layout
from cdc_assets.lake.state import LakeColumn, TableState
from cdc_assets.merge.intake.describe import FirstSchema
from cdc_assets.merge.intake.layouts import LakeTables
from cdc_assets.merge.plan.table_steps import AddColumns, CreateTable
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.own_columns import ALL_OWN_COLUMNS, OWN_COLUMNS, own_columns
from cdc_assets.schema.types import Column, Primitive, TableSchema, Wire
from cdc_assets_tests.configuration import platform, source, write
from cdc_assets_tests.world import entry_of

pytestmark = pytest.mark.unit

ID = Column("id", Primitive.INT, Wire.INT, required=True)


class Told:
    """A table's first columns, of any names; and a lake that has each side table."""

    def __init__(self, schema: TableSchema) -> None:
        self.first = FirstSchema(schema, Layout("bare"))

    def first_schema(self, *_: object) -> FirstSchema:
        """The columns."""
        return self.first

    def require_usable(self, *_: object) -> None:
        """Refuse nothing."""

    def has_schemas(self, *_: object) -> bool:
        """Each record has one."""
        return True

    def has_side(self, *_: object) -> bool:
        """Each is there."""
        return True

    def side(self, *_: object) -> None:
        """It has no columns that are too narrow."""


def tables(folder: Path, *, shard: Shard | None = None, **of_table: object) -> LakeTables:
    """The planner of the lake table of ``public.orders``."""
    shop = source("shop", tables={"public.orders": of_table})
    config = write(folder / "replication.yaml", platform(sources={"shop": shop}))
    schema = TableSchema((ID,), ("id",))
    told = cast("Any", Told(schema.with_shard(shard.column) if shard else schema))
    return LakeTables(config, told, told, replace(entry_of("orders", config), shard=shard))


def state(*names: str) -> TableState:
    """A table with a key, these columns of text, and ours of a mirror."""
    own = tuple(LakeColumn(n, t, False, "") for n, (t, _) in OWN_COLUMNS.items())
    columns = (
        LakeColumn("id", "int", True, ""),
        *(LakeColumn(name, "string", False, "") for name in names),
        *own,
    )
    return TableState(
        LakeName("a", "b"), None, None, {}, columns, ("id",), {}, "", is_empty=False,
        total_records=1, head_columns={},
    )  # fmt: skip


OTHERS = sorted(ALL_OWN_COLUMNS - {*own_columns(Mode.MIRROR, soft=False)})


@pytest.mark.parametrize("name", OTHERS)
def test_a_mirror_that_has_it_lacks_nothing(tmp_path: Path, name: str) -> None:
    stored = TableSchema((ID, Column(name, Primitive.STRING, Wire.STRING)), ("id",))
    plan = tables(tmp_path).columns(stored, state(name), [stored])
    assert plan.steps == ()
    assert plan.schema == stored


def test_our_own_columns_are_no_columns_of_the_source(tmp_path: Path) -> None:
    stored = TableSchema((ID,), ("id",))
    soft = state(sql.DELETED, sql.DELETED_AT)
    plan = tables(tmp_path, deletes="soft").columns(stored, soft, [stored])
    assert plan.steps == ()
    assert plan.schema == stored


def test_one_that_is_new_is_added(tmp_path: Path) -> None:
    stored = TableSchema((ID,), ("id",))
    more = Column(sql.OP, Primitive.STRING, Wire.STRING)
    record = TableSchema((ID, more), ("id",))
    plan = tables(tmp_path).columns(stored, state(), [record])
    assert AddColumns((more,)) in plan.steps


def test_one_called_as_the_column_of_the_shards_may_be_excluded(tmp_path: Path) -> None:
    planner = tables(tmp_path, shard=Shard("shard", "1"), columns={"shard": {"exclude": True}})
    made = next(e for e in planner.plan(None).steps if isinstance(e, CreateTable))
    there = (LakeColumn("shard", "string", True, ""), *state().columns)
    after = replace(state(), columns=there, properties=made.properties)
    assert planner.plan(after).first.schema.left_out == ("shard",)
