"""Each rule of the merge is needed: without it, some log is found that comes out wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from cdc_assets_tests.model.change import Change, LowWatermarks, Position
from cdc_assets_tests.model.reference import Rules
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.toy.actions import Log, keyless_logs, logs
from cdc_assets_tests.toy.busy import busy_log
from cdc_assets_tests.toy.connector import PLACEHOLDER, Record, changes_of
from cdc_assets_tests.toy.profiles import examples
from cdc_assets_tests.toy.reading import fault, keyless_fault

pytestmark = pytest.mark.property

SEEDS = 200
"""How many busy logs are tried: each rule's first wrong one is among the first 60."""

BOUNDED = settings(
    max_examples=5000,
    derandomize=True,
    database=None,
    deadline=None,
    # The first wrong log is enough: to make it small takes a hundred times as long.
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def by_time(change: Change, _: LowWatermarks) -> Position:
    return (change.ts_ms, change.offset)


def without_low_watermark(change: Change, _: LowWatermarks) -> Position:
    return change.position


def by_one_low_watermark(change: Change, low_watermarks: LowWatermarks) -> Position:
    """The highest snapshot known, wherever in the log it lies."""
    watermark = (
        max((watermark for _, watermark in low_watermarks.first), default=0) if change.floats else 0
    )
    return max(change.position, (watermark, *change.position[1:]))


def placeholders_as_values(records: Iterable[Record]) -> list[Change]:
    def taken(change: Change) -> Change:
        text = dict.fromkeys(change.unset, PLACEHOLDER)
        return replace(change, row={**(change.row or {}), **text}, unset=frozenset())

    return [taken(change) if change.unset else change for change in changes_of(records)]


@given(logs())
@examples(200)
def test_no_log_comes_out_wrong(log: Log) -> None:
    assert fault(log) is None, log.describe()


@given(st.integers(0, 2**48))
@examples(300, in_soak=50_000)
def test_no_busy_log_comes_out_wrong(seed: int) -> None:
    log = busy_log(seed)
    assert fault(log) is None, f"seed {seed}\n{log.describe()}"
    assert fault(log, soft=True) is None, f"seed {seed}, soft\n{log.describe()}"
    keyless = busy_log(seed, keyless=True)
    assert keyless_fault(keyless) is None, f"seed {seed}, no key\n{keyless.describe()}"


@given(keyless_logs())
@examples(200)
def test_no_log_of_a_table_without_a_key_comes_out_wrong(log: Log) -> None:
    assert keyless_fault(log) is None, log.describe()


BROKEN: dict[str, Callable[[Log], str | None]] = {
    "ordered by time": lambda log: fault(log, Rules(order=by_time)),
    "the last event as a whole": lambda log: fault(log, Rules(column_fold=False)),
    "placeholders as values": lambda log: fault(log, decode=placeholders_as_values),
    "deletes forgotten": lambda log: fault(log, Rules(remember_deletes=False)),
    "truncates forgotten": lambda log: fault(log, Rules(remember_truncates=False)),
    "no low watermark": lambda log: fault(log, Rules(order=without_low_watermark)),
    "one low watermark for all": lambda log: fault(log, Rules(order=by_one_low_watermark)),
}


def twice(log: Log) -> str | None:
    return keyless_fault(log, remember_events=False)


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_rule_is_caught(broken: Callable[[Log], str | None]) -> None:
    wrong = [log for log in map(busy_log, range(SEEDS)) if broken(log)]
    assert wrong, f"no log of {SEEDS} needs the rule"
    assert not any(map(fault, wrong))


def test_events_counted_twice_are_caught() -> None:
    wrong = [log for log in (busy_log(seed, keyless=True) for seed in range(SEEDS)) if twice(log)]
    assert wrong, f"no log of {SEEDS} needs the ledger"
    assert not any(map(keyless_fault, wrong))


@profiles.in_soak
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_rule_is_found_by_drawing(broken: Callable[[Log], str | None]) -> None:
    log = find(logs(), lambda log: broken(log) is not None, settings=BOUNDED)
    assert fault(log) is None, log.describe()


@profiles.in_soak
def test_events_counted_twice_are_found_by_drawing() -> None:
    log = find(keyless_logs(), lambda log: twice(log) is not None, settings=BOUNDED)
    assert keyless_fault(log) is None, log.describe()
