"""The SLO over changes: windows, late pending changes, budget and burn rate."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.latency import LatencyHistogram
from cdc_assets.changes.slo import (
    PERCENTILES,
    PERIODS,
    SloState,
    SloTarget,
    SloWindow,
    epoch_hour,
    evaluate_slo,
)

NOW = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)
TARGET = SloTarget(percent=95, within_seconds=300, over_hours=24)
FAST, SLOW = 2.0, 1000.0

TIMES = st.integers(min_value=0, max_value=100 * 60).map(lambda m: NOW - timedelta(minutes=m))
BATCHES = st.lists(
    st.tuples(TIMES, st.lists(st.sampled_from([0.5, 2.0, 20.0, 400.0, 9000.0]), max_size=8)),
    max_size=12,
)


def window(*batches):
    filled = SloWindow()
    for hours_ago, fast, slow in batches:
        latencies = LatencyHistogram.of([FAST] * fast + [SLOW] * slow)
        filled = filled.add(NOW - timedelta(hours=hours_ago), latencies)
    return filled


@pytest.mark.unit
def test_nothing_happened_is_fine():
    report = evaluate_slo(TARGET, SloWindow(), 0, NOW)
    assert (report.state, report.percent_within, report.budget_left) == (SloState.OK, 100.0, 1.0)
    assert (report.changes, report.late, report.burn_rate) == (0, 0, 0.0)


@pytest.mark.unit
def test_changes_count_and_not_batches():
    many_fast, few_slow = (0, 9_999, 0), (5, 0, 1)
    report = evaluate_slo(TARGET, window(many_fast, few_slow), 0, NOW)
    assert report.percent_within == pytest.approx(99.99)
    assert report.state is SloState.OK


@pytest.mark.unit
def test_too_many_late_changes_are_an_error():
    report = evaluate_slo(TARGET, window((3, 90, 10)), 0, NOW)
    assert report.state is SloState.ERROR
    assert report.percent_within == pytest.approx(90)
    assert report.budget_left == pytest.approx(-1)


@pytest.mark.unit
@pytest.mark.parametrize("percent", [50, 90, 95, 99, 99.9])
def test_exactly_the_promised_share_is_enough(percent):
    late = round(1000 * (100 - percent) / 100)
    target = SloTarget(percent, within_seconds=300, over_hours=24)
    exact, one_more = window((20, 1000 - late, late)), window((20, 999 - late, late + 1))
    assert evaluate_slo(target, exact, 0, NOW).state is not SloState.ERROR
    assert evaluate_slo(target, one_more, 0, NOW).state is SloState.ERROR


@pytest.mark.unit
def test_changes_not_yet_visible_count_as_late():
    published = window((0, 90, 0))
    assert evaluate_slo(TARGET, published, 0, NOW).late == 0
    report = evaluate_slo(TARGET, published, 10, NOW)
    assert (report.changes, report.late, report.percent_within) == (100, 10, 90.0)
    assert report.state is SloState.ERROR


@pytest.mark.unit
def test_pending_changes_of_an_otherwise_silent_table_miss_the_target():
    report = evaluate_slo(TARGET, SloWindow(), 1, NOW)
    assert (report.state, report.percent_within) == (SloState.ERROR, 0.0)


@pytest.mark.unit
def test_a_fast_burn_warns_before_the_target_is_missed():
    report = evaluate_slo(TARGET, window((10, 10_000, 0), (0, 600, 400)), 0, NOW)
    assert report.burn_rate == pytest.approx(8)
    assert report.percent_within > 95
    assert report.state is SloState.WARN


@pytest.mark.unit
def test_a_slow_burn_warns_when_it_lasts():
    steady = window((10, 10_000, 0), *((hours, 880, 120) for hours in range(6)))
    assert evaluate_slo(TARGET, steady, 0, NOW).state is SloState.WARN


@pytest.mark.unit
def test_a_burn_that_has_stopped_does_not_warn():
    over = window((10, 10_000, 0), (4, 600, 400), (1, 1000, 0), (0, 1000, 0))
    assert evaluate_slo(TARGET, over, 0, NOW).state is SloState.OK


@pytest.mark.slow
def test_a_promise_of_all_changes_has_no_budget():
    all_of_them = SloTarget(percent=100, within_seconds=300, over_hours=24)
    assert evaluate_slo(all_of_them, window((0, 100, 0)), 0, NOW).state is SloState.OK
    assert evaluate_slo(all_of_them, window((0, 10**6, 1)), 0, NOW).state is SloState.ERROR


@pytest.mark.unit
def test_hours_that_are_over_leave_the_window():
    filled = window((25, 0, 50), (24, 0, 3), (0, 7, 0))
    trimmed = filled.trim(NOW, 24)
    assert trimmed.total().count == 10
    assert evaluate_slo(TARGET, filled, 0, NOW) == evaluate_slo(TARGET, trimmed, 0, NOW)


@pytest.mark.unit
def test_hours_of_a_clock_that_was_ahead_do_not_count():
    next_hour, next_year = window((-1, 1, 1)), window((-9_000, 0, 100))
    ahead = SloWindow((*next_hour.hours, *next_year.hours))
    assert ahead.kept(NOW, TARGET) == ahead.trim(NOW, 24) == next_hour
    assert (evaluate_slo(TARGET, ahead, 0, NOW).changes, next_hour.total().count) == (2, 2)


@pytest.mark.unit
def test_a_busy_day_with_a_wide_spread_fits_into_a_snapshot_property():
    filled = SloWindow()
    for hour in range(25):
        spread = LatencyHistogram.from_counts(dict.fromkeys(range(10, 130), 90000))
        filled = filled.add(NOW - timedelta(hours=hour), spread)
    narrow = SloWindow()
    for hour in range(25):
        spread = LatencyHistogram.from_counts(dict.fromkeys(range(35, 55), 9000))
        narrow = narrow.add(NOW - timedelta(hours=hour), spread)
    assert len(narrow.to_json()) < 4096
    assert len(filled.to_json()) < 8192
    assert filled.total().count == 25 * 120 * 90_000


@pytest.mark.unit
def test_a_time_without_a_zone_is_refused():
    with pytest.raises(ValueError, match="zone"):
        epoch_hour(datetime(2026, 1, 1))  # noqa: DTZ001


@pytest.mark.property
@given(BATCHES)
def test_windows_round_trip_through_text(batches):
    filled = SloWindow()
    for at, latencies in batches:
        filled = filled.add(at, LatencyHistogram.of(latencies))
    assert SloWindow.from_json(filled.to_json()) == filled


@pytest.mark.property
@given(BATCHES, st.randoms())
def test_the_order_of_batches_does_not_matter(batches, random):
    shuffled = batches[:]
    random.shuffle(shuffled)
    one, other = SloWindow(), SloWindow()
    for at, latencies in batches:
        one = one.add(at, LatencyHistogram.of(latencies))
    for at, latencies in shuffled:
        other = other.add(at, LatencyHistogram.of(latencies))
    assert one == other


@pytest.mark.property
@given(BATCHES, st.integers(min_value=0, max_value=48))
def test_trimming_keeps_exactly_the_hours_of_the_window(batches, hours):
    filled = SloWindow()
    for at, latencies in batches:
        filled = filled.add(at, LatencyHistogram.of(latencies))
    kept = [
        latency
        for at, latencies in batches
        for latency in latencies
        if epoch_hour(at) >= epoch_hour(NOW) - hours
    ]
    assert filled.trim(NOW, hours).total() == LatencyHistogram.of(kept)


@pytest.mark.property
@given(BATCHES, st.integers(min_value=0, max_value=50))
def test_late_is_what_is_slow_plus_what_is_pending(batches, pending):
    filled = SloWindow()
    for at, latencies in batches:
        filled = filled.add(at, LatencyHistogram.of(latencies))
    recent = [
        latency
        for at, latencies in batches
        for latency in latencies
        if epoch_hour(at) >= epoch_hour(NOW) - 24
    ]
    report = evaluate_slo(TARGET, filled, pending, NOW)
    assert report.late == sum(latency > 300 for latency in recent) + pending
    assert report.changes == len(recent) + pending
    assert (report.state is SloState.ERROR) == (report.late * 20 > report.changes)


@pytest.mark.property
@given(BATCHES, st.integers(min_value=0, max_value=5), st.integers(1, 24))
def test_what_is_kept_answers_as_all_of_it(batches, pending, hours):
    target = SloTarget(percent=95, within_seconds=300, over_hours=hours)
    filled, kept = SloWindow(), SloWindow()
    for at, latencies in sorted(batches, key=lambda batch: batch[0]):
        histogram = LatencyHistogram.of(latencies)
        filled, kept = filled.add(at, histogram), kept.add(at, histogram).kept(at, target)
    kept = kept.kept(NOW, target)
    exact, found = (evaluate_slo(target, each, pending, NOW) for each in (filled, kept))
    for name in ("state", "percent_within", "budget_left", "burn_rate", "changes", "late"):
        assert getattr(found, name) == getattr(exact, name)
    assert not found.p95 < exact.p95


@pytest.mark.property
@given(BATCHES, st.integers(25, 90))
def test_periods_of_a_long_window_reach_no_less_far_and_at_most_one_further(batches, hours):
    target = SloTarget(percent=95, within_seconds=300, over_hours=hours)
    filled, kept = SloWindow(), SloWindow()
    for at, latencies in sorted(batches, key=lambda batch: batch[0]):
        histogram = LatencyHistogram.of(latencies)
        filled, kept = filled.add(at, histogram), kept.add(at, histogram).kept(at, target)
    found = kept.kept(NOW, target)
    assert len(found.hours) <= PERIODS + 3
    longer = hours + math.ceil(hours / PERIODS)
    within = evaluate_slo(target, filled.trim(NOW, hours), 0, NOW)
    report = evaluate_slo(target, found, 0, NOW)
    assert within.changes <= report.changes
    assert within.late <= report.late
    assert report.changes <= filled.trim(NOW, longer).total().count


@pytest.mark.unit
def test_hours_that_are_over_keep_their_percentiles_and_how_many_were_late():
    day = SloWindow()
    for hour in range(25):
        spread = LatencyHistogram.from_counts({bucket: 100 + bucket for bucket in range(30, 80)})
        day = day.add(NOW - timedelta(hours=hour), spread)
    kept = day.kept(NOW, TARGET)
    assert [hour for hour, _ in kept.hours] == [hour for hour, _ in day.hours]
    assert kept.hours[-2:] == day.hours[-2:]
    for (_, was), (_, now) in zip(day.hours[:-2], kept.hours[:-2], strict=True):
        assert len(now.buckets) <= 5
        assert now.count_within(300) == was.count_within(300)
        assert [now.percentile(q) for q in PERCENTILES] == [was.percentile(q) for q in PERCENTILES]
