"""A row is put right only with values that the lake's types hold exactly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cdc_assets.databases.rows import SourceKeyRows
from cdc_assets.lake.carried import Carried
from cdc_assets.merge.verifying.judging import judge
from cdc_assets.merge.verifying.lake_rows import LakeKeyRows
from cdc_assets.merge.verifying.repair import RowRepair, held
from cdc_assets.schema.comparing import Compared, Comparison, Form, Key
from cdc_assets.schema.types import Column, Decimal, ListOf, Primitive, Wire
from cdc_assets_tests.pipeline import Session

ID = Compared(Column("id", Primitive.INT, Wire.INT, required=True), Form.INTEGER)
COLUMNS = (
    ID,
    Compared(Column("amount", Decimal(10, 2), Wire.DECIMAL_BYTES), Form.DECIMAL),
    Compared(Column("at", Primitive.TIMESTAMP, Wire.EPOCH_MICROS), Form.MICROS),
    Compared(Column("flag", Primitive.BOOLEAN, Wire.BOOLEAN), Form.BOOLEAN),
    Compared(Column("note 𝄞", Primitive.STRING, Wire.STRING), Form.TEXT),
    Compared(Column("words", ListOf(Primitive.STRING), Wire.LIST), Form.TEXT),
)
Values = tuple[str | None, ...]


def same(*values: str | None) -> tuple[Values, Values]:
    """Texts that are those of the lake's values, too."""
    return values, values


def repairs(rows: dict[str, tuple[Values, Values]]) -> list[RowRepair]:
    """Of rows that the lake lacks, each with canonical texts, and texts of the lake's values."""
    texts: dict[Key, Values] = {(n,): (n, *row) for n, (row, _) in rows.items()}
    values: dict[Key, Values] = {(n,): (n, *row) for n, (_, row) in rows.items()}
    none = LakeKeyRows({}, {}, Carried())
    comparison = Comparison(COLUMNS, (ID,), (), is_keyed=True)
    judged = judge([*texts], none, SourceKeyRows("", texts, values), none, comparison)
    return [RowRepair(each, "AA") for each in judged.differences]


@pytest.mark.spark
def test_a_value_that_the_lake_would_change_is_not_put_in(spark: Session) -> None:
    whole = ("1.50", "-1", "true", "ä𝄞 ")
    nothing = (None, None, None, "")
    rows: dict[str, tuple[Values, Values]] = {
        "1": ((*whole, "1:a-0:"), (*whole, '["a",null,""]')),
        "2": ((*nothing, None), (*nothing, None)),
        "3": same("1.505", "0", "true", "rounded", None),
        "4": same("1.50", "infinity", "true", "", None),
        "5": same("1.50", "0", "2", "", None),
        "6": same("123456789.00", "0", "true", "", None),
    }  # fmt: skip
    wanted = repairs(rows)
    assert [each.difference.key for each in held(spark, wanted, COLUMNS)] == [("1",), ("2",)]


@pytest.mark.unit
def test_rows_that_the_source_does_not_have_need_no_look() -> None:
    def no_session() -> Any:
        pytest.fail("a session was asked for")

    (one,) = repairs({"1": same("1.50", "0", "true", "", None)})
    gone = RowRepair(replace(one.difference, source_values=None, source_digest=None), "AA")
    assert held(no_session, [gone], COLUMNS) == [gone]
