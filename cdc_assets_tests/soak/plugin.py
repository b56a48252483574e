"""Chooses the soak's tests when pytest has collected all, runs them in time, and records passes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cdc_assets_tests.markers import WITH_STACK
from cdc_assets_tests.soak import covered, ledger
from cdc_assets_tests.soak.plan import Group, Part, group, in_order
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.workers import TESTS, group_of

PROPERTY = "property"


def is_of_stack_soak(item: pytest.Item) -> bool:
    """Whether ``make test`` leaves the test out, or tries less of it, on the stack."""
    kinds = {mark.name for mark in item.iter_markers()}
    if profiles.is_left_to_soak(item):
        return PROPERTY not in kinds
    return bool(kinds & WITH_STACK) and covered.is_widened(item.path)


def is_property(item: pytest.Item) -> bool:
    """Whether the test has generated cases, and starts nothing."""
    return item.get_closest_marker(PROPERTY) is not None


def module_of(path: Path) -> str:
    """Its name without the suffix, from the folder of tests."""
    return path.relative_to(TESTS).with_suffix("").as_posix()


@dataclass(eq=False)
class Soak:
    """One part.

    Args:
        part: which share of the groups.
        seconds: after so many no further test is begun.
        properties: the property tests, instead of those on the stack.
        lists: only say what would run.
        is_whole: all tests are collected, so that what is gone may leave the ledger.
        file: the ledger.
    """

    part: Part
    seconds: float
    properties: bool = False
    lists: bool = False
    is_whole: bool = True
    file: Path = ledger.FILE
    plan: list[Group] = field(default_factory=list)
    not_run: list[str] = field(default_factory=list)
    recorded: int = 0
    _deadline: float = 0.0
    _commit: str | None = None
    _took: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _failed: set[str] = field(default_factory=set)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keep this part's tests, what is oldest first; record nothing of uncommitted code."""
        self._commit = None if covered.is_dirty() else covered.head()
        if self.is_whole and self._commit:
            ledger.prune(frozenset(name_of(item) for item in items), self.file)
        chosen = is_property if self.properties else is_of_stack_soak
        self.plan = self._planned([item for item in items if chosen(item)])
        place = {test: n for n, test in enumerate(t for each in self.plan for t in each.tests)}
        kept = sorted(
            (item for item in items if name_of(item) in place), key=lambda i: place[name_of(i)]
        )
        config.hook.pytest_deselected(items=[item for item in items if name_of(item) not in place])
        items[:] = [] if self.lists else kept
        self._deadline = time.monotonic() + self.seconds

    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Begin no test after the part's time."""
        if time.monotonic() < self._deadline:
            return None
        self.not_run.append(name_of(item))
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a test whose three phases have passed, once the last one has."""
        test = report.nodeid.removeprefix(f"{TESTS.name}/")
        self._took[test] += report.duration
        if not report.passed:
            self._failed.add(test)
        elif report.when == "teardown" and test not in self._failed and self._commit:
            today = datetime.now(UTC).date()
            ledger.add(test, ledger.Passed(self._commit, today, round(self._took[test])), self.file)
            self.recorded += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what would run, or what did not."""
        for line in self.said():
            terminalreporter.write_line(line)

    def said(self) -> Iterable[str]:
        """The plan, or what the part has come to."""
        name = f"part {self.part.number}/{self.part.count}"
        if self.lists:
            for each in self.plan:
                since = f"{each.state.words} {each.since or ''}".strip()
                yield f"{each.name}: {len(each.tests)} tests, {each.seconds} s; {since}"
            yield f"{name}: {sum(len(each.tests) for each in self.plan)} tests"
            return
        if self._commit is None:
            yield f"{name}: nothing was recorded, as there are uncommitted changes"
        else:
            yield f"{name}: {self.recorded} passed on {self._commit} and were recorded"
        left = defaultdict[str, int](int)
        for test in self.not_run:
            left[group_of(module_of(TESTS / test.partition("::")[0]))] += 1
        for group_name, count in left.items():
            yield f"{name} ran out of its {self.seconds:.0f} s before {count} of {group_name}"

    def _planned(self, items: list[pytest.Item]) -> list[Group]:
        tests: dict[str, dict[str, Path]] = defaultdict(dict)
        for item in items:
            tests[group_of(module_of(item.path))][name_of(item)] = item.path
        mine, passed = self.part.of(tests), ledger.read(self.file)
        return list(
            in_order(group(name, tests[name], passed, covered.has_changed) for name in mine)
        )


def name_of(item: pytest.Item) -> str:
    """As the ledger has it: pytest's id, from the folder of tests."""
    return item.nodeid.removeprefix(f"{TESTS.name}/")
