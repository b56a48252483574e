"""Builds expressions over hundreds of columns or partitions whose depth does not grow with them.

Spark's client copies an expression into the one around it, and protobuf parses no message nested
more than a hundred levels deep: about fifty calls. A condition folded by ``|`` over the columns of
a table, or ``when … otherwise`` over the partitions or schemas of a topic, exceeds that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

Steps = Mapping[int, Sequence[tuple[int, int]]]
"""By partition, the values that hold from an offset on: ``(offset, value)``, both rising."""

_NUMBERS = "array<bigint>"
_STEPS = "array<array<array<bigint>>>"


def any_of(flags: Iterable[Expression]) -> Expression:
    """Returns whether one of these is true; false if there are none. NULL counts as false."""
    found = [*flags]
    if len(found) < 2:
        return F.coalesce(*found, F.lit(False))
    return F.greatest(F.lit(False), *found)


def first_of(cases: Iterable[tuple[Expression, Expression]]) -> Expression:
    """Returns the value of the first of these conditions that holds; NULL without one."""
    (condition, value), *others = cases
    found = F.when(condition, value)
    for condition, value in others:
        found = found.when(condition, value)
    return found


def by_partition(partition: Expression, values: Mapping[int, int]) -> Expression:
    """Returns the number of a partition; NULL for others."""
    return F.get(_constant([values.get(p) for p in range(_width(values))], _NUMBERS), partition)


def stepped(partition: Expression, offset: Expression, steps: Steps) -> Expression:
    """Returns the value at an offset: 0 before the first step, NULL in partitions without steps."""
    rising = {p: _rising(each) for p, each in steps.items()}
    if all(start <= 0 for each in rising.values() for start, _ in each):
        return by_partition(partition, {p: each[-1][1] for p, each in rising.items()})
    rows = [rising.get(p) for p in range(_width(rising))]
    mine = F.get(_constant(rows, _STEPS), partition)
    begun = F.filter(mine, lambda step: F.get(step, F.lit(0)) <= offset)
    return F.get(F.element_at(begun, -1), F.lit(1))


def after(steps: Steps, firsts: Mapping[int, int]) -> Steps:
    """Returns the steps for offsets from these on: a step that began before them holds from 0 on.

    The many steps of a long history become one, which stays the same from batch to batch.
    """
    return {p: _joined(each, firsts.get(p, 0)) for p, each in steps.items()}


def _joined(steps: Sequence[tuple[int, int]], first: int) -> Sequence[tuple[int, int]]:
    begun = [value for start, value in steps if start <= first]
    later = [(start, value) for start, value in steps if start > first]
    return [(0, max(begun)), *later] if begun else later


def _rising(steps: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns steps from offset 0 on, each with the highest value up to it."""
    ordered = sorted([(0, 0), *steps])
    highest = accumulate((value for _, value in ordered), max)
    return [*dict(zip((start for start, _ in ordered), highest, strict=True)).items()]


def _constant(value: object, type_: str) -> Expression:
    """Returns one literal, which Spark parses once and hands to its compiled code by reference."""
    text = json.dumps(value, separators=(",", ":"))
    return F.from_json(F.lit(text), type_)


def _width(values: Iterable[int]) -> int:
    return max(values, default=-1) + 1
