"""Which tests a worker of pytest-xdist takes together, and in which order they are dealt out.

Each worker starts a stack of its own when it gets the first test that needs one. So the
tests of a module stay together, and so do modules that share a fixture which is made slowly.
Long ones are dealt first. Tests without a stack come last, one by one: they fill what is left
of whichever worker is done.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from cdc_assets_tests.markers import WITH_STACK

TESTS: Final = Path(__file__).parent
TOGETHER: Final = ("stack/semantics", "devstack", "live")
"""Folders of which one worker runs all: they share a database and its connector.

The shop is one for ``devstack`` and ``live``, and ``live`` alters it: it comes after.
"""

SHOP: Final = "shop"
_SHOP: Final = frozenset({"devstack", "live"})
LONGEST_FIRST: Final = (
    "stack/test_bad_input",
    "stack/test_truth",
    "stack/semantics",
    "merge/test_generated",
    "stack/test_second_writer",
    "merge/test_quarantine",
    "stack/test_backfill",
    SHOP,
)
"""Each takes minutes where the others take seconds: the last one dealt must not be long."""


def share_out(items: list[pytest.Item]) -> None:
    """Name the group of each test that uses a stack, and sort: long groups, others, quick tests."""
    turns: dict[pytest.Item, int] = {}
    for item in items:
        group = _group(item)
        turns[item] = turn_of(group)
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=turns.__getitem__)


def group_of(module: str) -> str:
    """Who runs with the stack tests of this module: ``merge/test_keys``, or a shared name."""
    folder = next((each for each in TOGETHER if module.startswith(f"{each}/")), None)
    return SHOP if folder in _SHOP else folder or module


def turn_of(group: str | None) -> int:
    """When a group is dealt out, None for tests without a stack; equal ones stay in order."""
    if group is None:
        return len(LONGEST_FIRST) + 1
    return LONGEST_FIRST.index(group) if group in LONGEST_FIRST else len(LONGEST_FIRST)


def _group(item: pytest.Item) -> str | None:
    if not any(mark.name in WITH_STACK for mark in item.iter_markers()):
        return None
    return group_of(item.path.relative_to(TESTS).with_suffix("").as_posix())
