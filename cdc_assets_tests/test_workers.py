from __future__ import annotations

import pytest

from cdc_assets_tests.workers import LONGEST_FIRST, SHOP, TESTS, TOGETHER, group_of, turn_of

pytestmark = pytest.mark.unit


def test_a_module_is_a_group_of_its_own() -> None:
    assert group_of("merge/test_keys") == "merge/test_keys"
    assert group_of("stack/test_truth") == "stack/test_truth"


def test_modules_that_share_a_slow_fixture_are_one_group() -> None:
    assert group_of("stack/semantics/test_keys") == group_of("stack/semantics/test_truncates")


def test_one_worker_has_the_shop_and_the_demo_that_alters_it() -> None:
    assert group_of("devstack/test_shop") == group_of("live/test_demo") == SHOP


def test_long_groups_come_first_and_quick_tests_last() -> None:
    groups = (*LONGEST_FIRST, "merge/test_binlog")
    turns = [turn_of(group, uses_stack=True) for group in groups]
    turns += [turn_of("merge/test_binlog", uses_stack=False)]
    assert turns == sorted(set(turns))


@pytest.mark.parametrize("name", [*TOGETHER, *(each for each in LONGEST_FIRST if each != SHOP)])
def test_what_is_named_is_there(name: str) -> None:
    path = TESTS / name
    assert path.is_dir() or path.with_suffix(".py").is_file()


def test_folders_of_tests_are_packages_so_that_two_modules_may_have_one_name() -> None:
    """Else pytest ends the whole run where it collects the second one."""
    folders = {path.parent for path in TESTS.rglob("test_*.py")}
    assert [each for each in folders if not (each / "__init__.py").is_file()] == []
