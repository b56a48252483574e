"""Latency histograms: merging, percentiles, text."""

import json
import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.latency import (
    BOUNDS,
    OVERFLOW,
    RATIO,
    RELATIVE_ERROR,
    LatencyHistogram,
    bucket_of,
)

SECONDS = st.floats(min_value=-10, max_value=2 * BOUNDS[-1], allow_nan=False)
LATENCIES = st.lists(SECONDS, max_size=60)
HISTOGRAMS = LATENCIES.map(LatencyHistogram.of)


@pytest.mark.unit
def test_bounds_rise_by_no_more_than_the_ratio():
    assert all(low < high <= low * RATIO * 1.000001 for low, high in pairwise(BOUNDS))


@pytest.mark.unit
@pytest.mark.parametrize("target", [1, 5, 10, 30, 60, 90, 120, 300, 600, 900, 3600, 86400])
def test_targets_that_people_choose_are_bounds(target):
    assert target in BOUNDS


@pytest.mark.unit
def test_a_change_exactly_at_the_target_is_within_it():
    histogram = LatencyHistogram.of([299.9, 300.0, 300.1])
    assert histogram.count_within(300) == 2


@pytest.mark.unit
def test_a_target_between_bounds_never_counts_too_many():
    histogram = LatencyHistogram.of([301.0, 359.0])
    assert histogram.count_within(310) == 0
    assert histogram.count_within(360) == 2


@pytest.mark.unit
def test_nothing_has_no_percentile():
    assert math.isnan(LatencyHistogram().percentile(50))


@pytest.mark.unit
def test_negative_latencies_count_as_the_shortest():
    assert LatencyHistogram.of([-5.0]).buckets == ((0, 1),)


@pytest.mark.unit
@pytest.mark.parametrize("counts", [{-1: 1}, {OVERFLOW + 1: 1}, {0: -1}])
def test_counts_that_cannot_be_are_refused(counts):
    with pytest.raises(ValueError, match="latency bucket"):
        LatencyHistogram.from_counts(counts)


@pytest.mark.unit
@pytest.mark.parametrize("text", ["[1]", "[0,-1]", "[9999,1]"])
def test_text_that_is_no_histogram_is_refused(text):
    with pytest.raises(ValueError, match=r"latency|zip"):
        LatencyHistogram.from_json(text)


@pytest.mark.property
@given(HISTOGRAMS, HISTOGRAMS, HISTOGRAMS)
def test_merging_is_associative_and_commutative_and_has_a_zero(a, b, c):
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + LatencyHistogram() == a


@pytest.mark.property
@given(LATENCIES, LATENCIES)
def test_the_sum_over_batches_is_the_histogram_over_their_changes(one, other):
    assert LatencyHistogram.of(one) + LatencyHistogram.of(other) == LatencyHistogram.of(one + other)


@pytest.mark.property
@given(SECONDS)
def test_a_latency_lies_in_its_bucket(seconds):
    bucket = bucket_of(seconds)
    assert bucket == OVERFLOW or seconds <= BOUNDS[bucket]
    assert bucket == 0 or seconds > BOUNDS[bucket - 1]


@pytest.mark.property
@given(
    st.lists(st.floats(min_value=BOUNDS[0], max_value=BOUNDS[-1]), min_size=1, max_size=60),
    st.floats(min_value=0, max_value=100),
)
def test_a_percentile_is_within_the_relative_error(latencies, q):
    rank = max(1, math.ceil(len(latencies) * q / 100))
    exact = sorted(latencies)[rank - 1]
    found = LatencyHistogram.of(latencies).percentile(q)
    assert abs(found - exact) <= RELATIVE_ERROR * exact * 1.000001


@pytest.mark.property
@given(HISTOGRAMS)
def test_text_round_trips_and_is_canonical(histogram):
    text = histogram.to_json()
    assert LatencyHistogram.from_json(text) == histogram
    assert json.loads(text) == histogram.to_numbers()


@pytest.mark.property
@given(LATENCIES, SECONDS.filter(lambda s: s >= 0), SECONDS)
def test_waiting_longer_never_makes_more_changes_count_as_within(latencies, wait, target):
    later = LatencyHistogram.of(latencies).shifted(wait)
    assert later.count == len(latencies)
    exact = sum(1 for each in latencies if each + wait <= target)
    assert later.count_within(target) <= exact


@pytest.mark.property
@given(HISTOGRAMS, st.integers(min_value=1, max_value=30), SECONDS)
def test_coarsening_keeps_every_change_and_understates_none(histogram, size, target):
    coarse = histogram.coarsened(size)
    assert len(coarse.buckets) <= size
    assert coarse.count == histogram.count
    assert coarse.count_within(target) <= histogram.count_within(target)


@pytest.mark.property
@given(HISTOGRAMS, st.lists(st.floats(0, 100), max_size=4), SECONDS)
def test_a_summary_answers_what_it_was_made_for(histogram, percentiles, target):
    summary = histogram.summarised(percentiles, target)
    assert len(summary.buckets) <= len(percentiles) + 2
    assert summary.count == histogram.count
    assert summary.count_within(target) == histogram.count_within(target)
    if histogram.count:
        for q in percentiles:
            assert summary.percentile(q) == histogram.percentile(q)
    assert summary.summarised(percentiles, target) == summary
