"""Columns of the lake that another program drops or renames are not added again, empty."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc_assets.changes.names import LakeName
from cdc_assets.errors import TerminalError
from cdc_assets.lake.state import LakeColumn, TableState
from cdc_assets.merge.intake.layouts import LakeTables
from cdc_assets.merge.statements.own_columns import OWN_COLUMNS
from cdc_assets.merge.statements.sql import POSITION
from cdc_assets.schema.types import Column, Identity, Primitive, TableSchema, Wire

pytestmark = pytest.mark.unit

ID = Column("id", Primitive.INT, Wire.INT, required=True)
NAME = Column("name", Primitive.STRING, Wire.STRING)
STORED = TableSchema((ID, NAME), ("id",))
HAD = ("id", "name", *OWN_COLUMNS)


def require_kept(stored: TableSchema, there: tuple[str, ...], now: dict[str, str | None]) -> None:
    """Of a table that had ``HAD``; ``now`` are the present names that differ."""
    columns = tuple(LakeColumn(name, "int", False, "") for name in there)
    had = {name: name for name in HAD} | now
    state = replace(TableState.absent(LakeName("a", "b")), columns=columns, published_columns=had)
    tables = SimpleNamespace(_own=OWN_COLUMNS, _where="")
    LakeTables._require_kept(cast("Any", tables), stored, state)  # noqa: SLF001


def test_a_table_with_all_columns_is_as_it_was() -> None:
    require_kept(STORED, HAD, {})
    require_kept(STORED, (*HAD, "of_a_user"), {})


@pytest.mark.parametrize(
    ("name", "now", "said"),
    [("name", None, r"name \(dropped\)"), ("name", "title", r"name \(renamed to title\)"),
     (POSITION, None, rf"{POSITION} \(dropped\)")],
    ids=["dropped", "renamed", "one of ours"],
)  # fmt: skip
def test_a_column_that_another_program_has_changed_stops_the_table(
    name: str, now: str | None, said: str
) -> None:
    there = (*(each for each in HAD if each != name), *([now] if now else []))
    with pytest.raises(TerminalError, match=said):
        require_kept(STORED, there, {name: now})


def test_a_column_that_was_described_and_not_added_was_not_dropped() -> None:
    born = Column("born", Primitive.DATE, Wire.EPOCH_DAYS)
    require_kept(replace(STORED, columns=(ID, NAME, born)), HAD, {})


def test_a_column_that_we_have_dropped_is_not_missed() -> None:
    there = tuple(each for each in HAD if each != "name")
    require_kept(replace(STORED, columns=(ID,)), there, {"name": None})


def test_a_column_that_we_have_renamed_may_leave_its_name_to_another() -> None:
    """Killed before the other one was added."""
    title = replace(NAME, name="title", identity=Identity(was=("name",), turn=1))
    other = replace(NAME, identity=Identity(turn=2))
    there = tuple("title" if each == "name" else each for each in HAD)
    require_kept(replace(STORED, columns=(ID, title, other)), there, {"name": "title"})
