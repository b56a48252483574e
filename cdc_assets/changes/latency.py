"""Measures how late changes became visible, in a histogram that merges without loss.

Buckets are fixed, so histograms of any batches add up bucket by bucket: the sum over
batches is the histogram over their changes. Bounds grow like a logarithm but are round
numbers (1, 1.25, 1.5, … seconds, minutes, hours, days), so that the targets people choose
("within 5 minutes") fall on a bound and are counted exactly. As in DDSketch (Masson, Rim,
Lee, VLDB 2019), bounds at most a factor γ apart keep each percentile within the relative
error ``α = (γ - 1) / (γ + 1)``.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, cast

RATIO: Final = 1.25
"""γ: no bound is more than this many times the bound before it."""

RELATIVE_ERROR: Final = (RATIO - 1) / (RATIO + 1)
"""α: a percentile is at most 11.2 % away from the latency that it stands for."""

_STEPS = (1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9)
_SIXTY = (*_STEPS, 10, 12.5, 15, 17.5, 20, 25, 30, 35, 40, 50)
_TWENTY_FOUR = (*_STEPS, 10, 12, 14, 16, 18, 20)
_DAYS = (*_STEPS, *(10 * step for step in _STEPS), 100, 125, 150, 175, 200, 250, 300, 365)

BOUNDS: Final[tuple[float, ...]] = (
    *(step / 100 for step in _STEPS),
    *(step / 10 for step in _STEPS),
    *(float(step) for step in _SIXTY),
    *(60.0 * step for step in _SIXTY),
    *(3600.0 * step for step in _TWENTY_FOUR),
    *(86400.0 * step for step in _DAYS),
)
"""Inclusive upper bounds in seconds: bucket ``b`` holds ``(BOUNDS[b-1], BOUNDS[b]]``.

Bucket 0 also holds negative latencies, which clocks that differ give; the bucket after the
last bound holds everything above a year.
"""

OVERFLOW: Final = len(BOUNDS)
"""The last bucket."""


@dataclass(frozen=True, slots=True)
class LatencyHistogram:
    """Counts of changes by latency: ``((bucket, count), …)``, ascending, counts above 0.

    Addition is associative and commutative, and ``LatencyHistogram()`` is its zero.
    """

    buckets: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, seconds: Iterable[float]) -> LatencyHistogram:
        """Counts each latency once."""
        counts: dict[int, int] = {}
        for each in seconds:
            bucket = bucket_of(each)
            counts[bucket] = counts.get(bucket, 0) + 1
        return cls.from_counts(counts)

    @classmethod
    def from_counts(cls, counts: Mapping[int, int]) -> LatencyHistogram:
        """Builds a histogram from ``{bucket: count}``; zero counts are left out.

        Raises:
            ValueError: if a bucket does not exist or a count is negative.
        """
        for bucket, count in counts.items():
            if not 0 <= bucket <= OVERFLOW or count < 0:
                msg = f"not a latency bucket: {bucket} with count {count}"
                raise ValueError(msg)
        return cls(tuple(sorted((bucket, count) for bucket, count in counts.items() if count)))

    def __add__(self, other: LatencyHistogram) -> LatencyHistogram:
        counts = dict(self.buckets)
        for bucket, count in other.buckets:
            counts[bucket] = counts.get(bucket, 0) + count
        return LatencyHistogram(tuple(sorted(counts.items())))

    @property
    def count(self) -> int:
        """Number of changes."""
        return sum(count for _, count in self.buckets)

    def count_within(self, seconds: float) -> int:
        """Returns the number of changes with a latency up to ``seconds``; never overstated.

        Exact if ``seconds`` is one of BOUNDS. Otherwise the changes between the bound below
        it and ``seconds`` count as late.
        """
        whole = bisect_right(BOUNDS, seconds)
        return sum(count for bucket, count in self.buckets if bucket < whole)

    def percentile(self, q: float) -> float:
        """Returns the latency in seconds at or below which ``q`` percent of the changes are.

        Within RELATIVE_ERROR of the nearest-rank percentile where that is in
        ``BOUNDS[0]..BOUNDS[-1]``, and clamped to them outside. NaN if there are no changes.

        Raises:
            ValueError: if ``q`` is not in 0..100.
        """
        if not 0 <= q <= 100:
            msg = f"not a percentile: {q}"
            raise ValueError(msg)
        bucket = self._percentile_bucket(q)
        return math.nan if bucket is None else representative(bucket)

    def _percentile_bucket(self, q: float) -> int | None:
        rank = max(1, math.ceil(self.count * q / 100))
        reached = accumulate(count for _, count in self.buckets)
        found = (
            bucket for (bucket, _), seen in zip(self.buckets, reached, strict=True) if seen >= rank
        )
        return next(found, None)

    def shifted(self, seconds: float) -> LatencyHistogram:
        """Returns the same changes, each later by ``seconds`` (not negative).

        Buckets move as a whole by their upper bound, so no latency is understated; each may be
        overstated by the width of its bucket before, once for each shift.
        """
        counts: dict[int, int] = {}
        for bucket, count in self.buckets:
            moved = bucket_of(BOUNDS[bucket] + seconds) if bucket < OVERFLOW else OVERFLOW
            counts[moved] = counts.get(moved, 0) + count
        return LatencyHistogram.from_counts(counts)

    def coarsened(self, max_buckets: int) -> LatencyHistogram:
        """Returns the same changes in at most ``max_buckets`` buckets.

        Joins the neighbours with the fewest changes, always into the later bucket: no
        latency is understated.
        """
        buckets = list(self.buckets)
        while len(buckets) > max(1, max_buckets):
            first = min(range(len(buckets) - 1), key=lambda i: buckets[i][1] + buckets[i + 1][1])
            later, count = buckets[first + 1]
            buckets[first : first + 2] = [(later, buckets[first][1] + count)]
        return LatencyHistogram(tuple(buckets))

    def summarised(self, percentiles: Iterable[float], seconds: float) -> LatencyHistogram:
        """Returns the same changes in as few buckets as these questions need.

        Joins neighbours, always into the later bucket: no latency is understated, and the given
        percentiles and ``count_within(seconds)`` do not change.
        """
        whole = bisect_right(BOUNDS, seconds)
        within = [bucket for bucket, _ in self.buckets if bucket < whole][-1:]
        kept = {self._percentile_bucket(q) for q in percentiles} | set(within)
        counts: dict[int, int] = {}
        waiting = 0
        for bucket, count in self.buckets:
            waiting += count
            if bucket in kept or bucket == self.buckets[-1][0]:
                counts[bucket], waiting = waiting, 0
        return LatencyHistogram.from_counts(counts)

    def to_numbers(self) -> list[int]:
        """Returns flat ``[bucket, count, gap, count, …]``; a gap is to the bucket before."""
        numbers: list[int] = []
        before = 0
        for bucket, count in self.buckets:
            numbers += [bucket - before, count]
            before = bucket
        return numbers

    @classmethod
    def from_numbers(cls, numbers: Iterable[int]) -> LatencyHistogram:
        """Reads what `to_numbers` wrote.

        Raises:
            ValueError: if the numbers are not pairs of gap and count.
        """
        flat = list(numbers)
        counts: dict[int, int] = {}
        bucket = 0
        for gap, count in zip(flat[::2], flat[1::2], strict=True):
            bucket += gap
            counts[bucket] = counts.get(bucket, 0) + count
        return cls.from_counts(counts)

    def to_json(self) -> str:
        """Returns canonical text: equal histograms have equal texts."""
        return json.dumps(self.to_numbers(), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> LatencyHistogram:
        """Reads what `to_json` wrote.

        Raises:
            ValueError: if the text is something else.
        """
        return cls.from_numbers(cast("list[int]", json.loads(text)))


def bucket_of(seconds: float) -> int:
    """Returns the bucket of a latency.

    Raises:
        ValueError: if it is not a number.
    """
    if math.isnan(seconds):
        msg = "a latency must be a number"
        raise ValueError(msg)
    return bisect_left(BOUNDS, seconds)


def representative(bucket: int) -> float:
    """Returns the latency that stands for a bucket, within RELATIVE_ERROR of both its bounds."""
    if bucket == 0:
        return BOUNDS[0]
    if bucket == OVERFLOW:
        return BOUNDS[-1]
    low, high = BOUNDS[bucket - 1], BOUNDS[bucket]
    return 2 * low * high / (low + high)
