"""What kind each test is: exactly one of four markers, checked when tests are collected.

A kind promises what a test starts, and with it when it may run: without the rule a test that
nobody marked runs in no selection but the whole, and a quick one that starts a JVM is found
only by waiting for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import pytest

KINDS: Final = ("unit", "property", "spark", "stack")
LOCAL_STACK: Final = "_local_stack"
"""The fixture that everything which the stack starts is requested through."""

WITH_STACK: Final = frozenset({"spark", "stack"})


def fault_of(marks: Iterable[str], fixtures: Collection[str]) -> str | None:
    """What is wrong with a test that has these markers and uses these fixtures; None if nothing."""
    kinds = sorted({mark for mark in marks if mark in KINDS})
    if len(kinds) != 1:
        has = " and ".join(kinds) if kinds else "none"
        return f"needs exactly one of the markers {', '.join(KINDS)}; has {has}"
    if LOCAL_STACK in fixtures and kinds[0] not in WITH_STACK:
        return f"is marked {kinds[0]} and starts the local stack: mark it spark or stack"
    return None


def require_one_kind(items: list[pytest.Item]) -> None:
    """Refuse to run anything while a test is of no kind, or of another than it says.

    Raises:
        pytest.UsageError: names each of them.
    """
    found = ((item.nodeid, _fault(item)) for item in items)
    faults = [f"{name} {fault}" for name, fault in found if fault]
    if faults:
        raise pytest.UsageError("\n".join(faults))


def _fault(item: pytest.Item) -> str | None:
    fixtures = item.fixturenames if isinstance(item, pytest.Function) else ()
    return fault_of((mark.name for mark in item.iter_markers()), fixtures)
