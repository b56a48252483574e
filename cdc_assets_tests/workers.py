"""Which tests a worker of pytest-xdist takes together, and in which order they are dealt out.

Each worker starts a stack of its own when it gets the first test that needs one. So the
tests of a module stay together, and so do modules that share a fixture which is made slowly.
Long ones are dealt first. Tests without a stack come last: they fill what is left of whichever
worker is done.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling

from cdc_assets_tests.markers import WITH_STACK

TESTS: Final = Path(__file__).parent
TOGETHER: Final = ("stack/semantics", "devstack", "live")
"""Folders of which one worker runs all: they share a database and its connector.

The shop is one for ``devstack`` and ``live``, and ``live`` alters it: it comes after.
"""

SHOP: Final = "shop"
_SHOP: Final = frozenset({"devstack", "live"})
LONGEST_FIRST: Final = (
    "stack/test_kills",
    "stack/test_truth_mariadb",
    "stack/test_truth",
    "stack/test_log_grown_again",
    "elsewhere/test_cluster",
    SHOP,
    "orchestration/test_spark_jar",
    "stack/semantics",
    "merge/test_faults",
    "merge/test_wide",
    "merge/test_keys",
    "stack/test_bad_input",
    "login/test_kafka_logins",
    "merge/test_cut_moves",
    "merge/test_rebuild",
    "merge/test_restarted_source",
    "merge/test_quarantine",
    "merge/test_deletes",
    "merge/test_odd_records",
    "merge/test_generated",
    "merge/test_versions",
    "elsewhere/test_lost_executor",
    "stack/test_history_truth",
    "stack/test_dead_connector",
    "stack/test_verify_mariadb",
    "stack/test_verify",
    "stack/test_some_rows",
    "stack/test_resnapshot",
    "stack/test_rebuild_from_source",
    "stack/test_first_read",
    "stack/test_tutorials",
    "stack/test_watched",
    "stack/test_odd_names",
    "stack/test_backfill",
    "upgrade/test_upgrade",
    "orchestration/test_waiting",
    "orchestration/test_table_run",
    "merge/test_absent_columns",
    "merge/test_merge",
    "stack/test_second_writer",
    "orchestration/test_hung",
)
"""Each takes minutes where the others take seconds: the last one dealt must not be long."""


class Dealer(LoadScopeScheduling):
    """Deals groups to workers, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0].removeprefix(f"{TESTS.name}/")
        return group_of(path.removesuffix(".py"))


def sort_for_dealing(items: list[pytest.Item]) -> None:
    """Long groups first, then others, then tests without a stack; equal ones stay in order."""
    items.sort(key=_turn)


def group_of(module: str) -> str:
    """What the tests of a module are dealt with: ``merge/test_keys`` itself, or a shared name."""
    folder = next((each for each in TOGETHER if module.startswith(f"{each}/")), None)
    return SHOP if folder in _SHOP else folder or module


def turn_of(group: str, *, uses_stack: bool) -> int:
    """When it is a test's turn."""
    if not uses_stack:
        return len(LONGEST_FIRST) + 1
    return LONGEST_FIRST.index(group) if group in LONGEST_FIRST else len(LONGEST_FIRST)


def _turn(item: pytest.Item) -> int:
    module = item.path.relative_to(TESTS).with_suffix("").as_posix()
    uses_stack = any(mark.name in WITH_STACK for mark in item.iter_markers())
    return turn_of(group_of(module), uses_stack=uses_stack)
