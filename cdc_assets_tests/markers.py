"""What kind each test is: exactly one of five markers, checked when tests are collected.

A kind promises what a test starts, and with it when it may run: without the rule a test that
nobody marked runs in no selection but the whole, and a quick one that starts a JVM is found
only by waiting for it.

A module's text names the kinds of its tests, so that ``-m unit`` imports no module without one:
importing all of them takes longer than running the chosen tests.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from typing import Final

import pytest

KINDS: Final = ("unit", "property", "slow", "spark", "stack")
LOCAL_STACK: Final = "_local_stack"
"""The fixture that everything which the stack starts is requested through."""

DAGSTER: Final = frozenset({"instance", "instance_in_memory"})
"""The fixtures that are a Dagster instance: each takes a tenth of a second, or a whole one."""

WITH_STACK: Final = frozenset({"spark", "stack"})


def fault_of(marks: Iterable[str], fixtures: Collection[str]) -> str | None:
    """What is wrong with a test that has these markers and uses these fixtures; None if nothing."""
    kinds = sorted({mark for mark in marks if mark in KINDS})
    if len(kinds) != 1:
        has = " and ".join(kinds) if kinds else "none"
        return f"needs exactly one of the markers {', '.join(KINDS)}; has {has}"
    if LOCAL_STACK in fixtures and kinds[0] not in WITH_STACK:
        return f"is marked {kinds[0]} and starts the local stack: mark it spark or stack"
    if DAGSTER.intersection(fixtures) and kinds[0] == "unit":
        return "is marked unit and makes a Dagster instance: mark it slow"
    return None


def _draws_cases(item: pytest.Item) -> bool:
    """Whether Hypothesis draws the test's cases."""
    return bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))


def require_one_kind(items: list[pytest.Item]) -> None:
    """Refuse to run anything while a test is of no kind, or of another than it says.

    Raises:
        pytest.UsageError: names each of them.
    """
    found = ((item.nodeid, _fault(item)) for item in items)
    faults = [f"{name} {fault}" for name, fault in found if fault]
    if faults:
        raise pytest.UsageError("\n".join(faults))


def chosen_by(expression: str) -> frozenset[str]:
    """The kinds of which an expression of ``-m`` may choose tests: all, unless it lists kinds."""
    named = frozenset(re.split(r"\s+or\s+", expression.strip()))
    return named if named <= frozenset(KINDS) else frozenset(KINDS)


@cache
def kinds_in(module: Path) -> frozenset[str]:
    """The kinds that a module's text names, wherever it does."""
    return frozenset(re.findall(r"\bmark\.(\w+)", module.read_text())).intersection(KINDS)


def _fault(item: pytest.Item) -> str | None:
    fixtures = item.fixturenames if isinstance(item, pytest.Function) else ()
    marks = {mark.name for mark in item.iter_markers()}
    if fault := fault_of(marks, fixtures):
        return fault
    if "unit" in marks and _draws_cases(item):
        return "is marked unit and draws cases with Hypothesis: mark it property"
    if marks.isdisjoint(kinds_in(item.path)):
        return "has a kind that its module does not name: write pytest.mark and the kind there"
    return None
