"""Chooses, for each record, between the expressions of several schemas that one plan reads."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.formats.spec import ReadSpec


def conditions_of(specs: Sequence[ReadSpec]) -> list[Expression | None]:
    """Returns for each spec the condition of its records; None, for all others, for the last."""
    *first, _ = specs
    return [*(F.col("writer").isin(*spec.writers) for spec in first), None]


def only_if(condition: Expression | None, value: Expression) -> Expression:
    """Returns the value where a condition of `conditions_of` holds, elsewhere NULL."""
    return value if condition is None else F.when(condition, value)


def chosen(which: Sequence[Expression | None], values: Sequence[Expression]) -> Expression:
    """Returns the value of the first condition that holds. No branch is nested in another."""
    *some, last = values
    if not some:
        return last
    first, *others = zip(which, some, strict=False)
    case = F.when(_given(first[0]), first[1])
    for condition, value in others:
        case = case.when(_given(condition), value)
    return case.otherwise(last)


def _given(condition: Expression | None) -> Expression:
    return F.lit(True) if condition is None else condition
