"""The replication SLO: "X % of changes visible within Y minutes, over the last N hours".

It is computed over changes, not over batches. The error budget is the share of changes
that may be late, ``1 - X``; the *burn rate* is the share that is late divided by it: at 1
the budget is spent exactly when the N hours are over. Warnings follow the multi-window,
multi-burn-rate rule of Google's SRE workbook, chapter "Alerting on SLOs": a long window
shows that much of the budget is being spent, a short one that it is still being spent.
The workbook's windows belong to a period of 30 days; here they are shares of N hours.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, cast

from cdc_assets.changes.latency import LatencyHistogram

MAX_BUCKETS_PER_HOUR: Final = 20
"""Most buckets of the current hour and of the one before; a spread up to 1:30 stays exact."""

PERIODS: Final = 24
"""The most periods of a window, so that the stored value does not grow with the window."""

PERCENTILES: Final = (50, 95, 99)
"""The percentiles that are shown, and that older hours keep."""

_SHARE: Final = 4
_LEAST_SECONDS: Final = 6.0
"""Below this, a small table's batches cost more than their changes."""

_ROUNDING: Final = 1e-9
"""Makes exactly the promised share sufficient, whatever 1 - 0.9 is in binary."""


class SloState(StrEnum):
    """The state of an SLO for a person: fine, look soon, or the promise is broken."""

    OK = "ok"
    WARN = "warn"
    ERROR = "error"
    HELD = "held"
    """People hold the table: nothing is promised until they let it go."""


@dataclass(frozen=True, slots=True)
class SloTarget:
    """``percent`` % of changes visible within ``within_seconds``, over ``over_hours``."""

    percent: float
    within_seconds: float
    over_hours: int

    @property
    def allowed_late(self) -> float:
        """The error budget as a share of the changes; a tiny value stands for "none at all"."""
        return max(1 - self.percent / 100, 1e-6)

    def __str__(self) -> str:
        minutes = self.within_seconds / 60
        return f"{self.percent:g} % within {minutes:g} min over {self.over_hours} h"


@dataclass(frozen=True, slots=True)
class BurnRule:
    """A rule that warns if the long window, a share of the SLO's hours, burns at least this fast.

    ``rate × share`` is the part of the whole budget that the long window has then spent.
    """

    share_of_period: float
    rate: float


BURN_RULES: Final = (
    BurnRule(share_of_period=1 / 24, rate=6),  # a quarter of the budget within an hour of a day
    BurnRule(share_of_period=1 / 4, rate=2),  # half of the budget within six hours of a day
)

SHORT_WINDOW_HOURS: Final = 1
"""The short window: the current hour and the one before, the finest stored resolution."""


@dataclass(frozen=True, slots=True)
class SloWindow:
    """Latencies of the changes published in each of the last hours.

    ``hours`` is ``((hours since 1970, histogram), …)``, ascending. The value is stored in
    the snapshot that publishes the changes, so it survives whatever the offsets survive.
    """

    hours: tuple[tuple[int, LatencyHistogram], ...] = ()

    def add(self, at: datetime, histogram: LatencyHistogram) -> SloWindow:
        """Counts the changes of a batch that was published at ``at`` (aware)."""
        if not histogram.buckets:
            return self
        hour = epoch_hour(at)
        merged = dict(self.hours)
        total = merged.get(hour, LatencyHistogram()) + histogram
        merged[hour] = total.coarsened(MAX_BUCKETS_PER_HOUR)
        return SloWindow(tuple(sorted(merged.items())))

    def trim(self, now: datetime, hours: int) -> SloWindow:
        """Keeps the current hour and the ``hours`` before it, so all of the window.

        The next hour stays too, as another process's clock may be ahead. Later hours are those of
        a clock that was wrong, and would count as the present one until they come.
        """
        newest = epoch_hour(now)
        kept = range(newest - hours, newest + 2)
        return SloWindow(tuple(each for each in self.hours if each[0] in kept))

    def kept(self, now: datetime, target: SloTarget) -> SloWindow:
        """Keeps only the data that the SLO's answers need from now on, in few bytes.

        The current hour and the one before stay unchanged. Each older hour in the window keeps only
        its number of late changes and its percentiles. With more than 24 hours, neighbours are
        joined into at most 24 periods, each in the place of its last hour: shares of the window
        then reach up to a period further back, and never less far.
        """
        newest = epoch_hour(now)
        length = math.ceil(target.over_hours / PERIODS)
        older: dict[int, LatencyHistogram] = {}
        last: dict[int, int] = {}
        recent: list[tuple[int, LatencyHistogram]] = []
        for hour, histogram in self.trim(now, target.over_hours).hours:
            if hour >= newest - SHORT_WINDOW_HOURS:
                recent.append((hour, histogram))
                continue
            period = hour // length
            older[period] = older.get(period, LatencyHistogram()) + histogram
            last[period] = hour
        summaries = (
            (last[period], histogram.summarised(PERCENTILES, target.within_seconds))
            for period, histogram in older.items()
        )
        return SloWindow((*summaries, *recent))

    def total(self) -> LatencyHistogram:
        """Returns the histogram of all hours together."""
        return sum((histogram for _, histogram in self.hours), LatencyHistogram())

    def to_json(self) -> str:
        """Returns compact canonical text: ``{"<hours since 1970>": [gap, count, …], …}``."""
        numbers = {str(hour): histogram.to_numbers() for hour, histogram in self.hours}
        return json.dumps(numbers, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> SloWindow:
        """Reads what `to_json` wrote.

        Raises:
            ValueError: if the text is something else.
        """
        numbers = cast("Mapping[str, list[int]]", json.loads(text))
        hours = {int(hour): LatencyHistogram.from_numbers(flat) for hour, flat in numbers.items()}
        return cls(tuple(sorted(hours.items())))


@dataclass(frozen=True, slots=True)
class SloReport:
    """A judgement of how well the target is met.

    ``budget_left`` is 1 for an untouched error budget, 0 for a spent one, negative beyond.
    ``burn_rate`` is that of the short window. Percentiles are seconds, NaN without changes.
    """

    state: SloState
    percent_within: float
    p50: float
    p95: float
    p99: float
    budget_left: float
    burn_rate: float
    changes: int
    late: int


def evaluate_slo(
    target: SloTarget, window: SloWindow, pending_late: int, now: datetime
) -> SloReport:
    """Judges a window, as of ``now``.

    Args:
        target: the promised target.
        window: latencies of published changes.
        pending_late: changes that are not yet visible although they are older than the
            target: the offsets between the committed ones and the earliest offset with a
            timestamp at or after ``now - within_seconds``. They count as late, now.
        now: aware time.
    """
    recent = window.trim(now, target.over_hours)
    latencies = recent.total()
    late = _late(latencies, target) + pending_late
    changes = latencies.count + pending_late
    late_share = late / changes if changes else 0.0
    return SloReport(
        state=_state(target, recent, pending_late, now, late_share),
        percent_within=100 * (1 - late_share),
        p50=latencies.percentile(50),
        p95=latencies.percentile(95),
        p99=latencies.percentile(99),
        budget_left=1 - late_share / target.allowed_late,
        burn_rate=burn_rate(target, recent, pending_late, now, SHORT_WINDOW_HOURS),
        changes=changes,
        late=late,
    )


@dataclass(frozen=True, slots=True)
class PublishPace:
    """The shortest time from a table's turn to its next one, in seconds, and the reason for it."""

    seconds: float
    why: str

    def __str__(self) -> str:
        return f"merged every {self.seconds:.3g} s: {self.why}"


def pace_of(target: SloTarget, budget_left: float) -> PublishPace:
    """Returns the pace that a target asks for.

    A change waits for one turn at most, and then for its batch. A quarter of the promised time
    leaves room for the batch, for its delivery before, and for one failure. As late changes spend
    the error budget, that becomes less, down to six seconds (or to that quarter, if it is less).

    Args:
        target: of the table.
        budget_left: see `SloReport`.
    """
    most, left = target.within_seconds / _SHARE, min(1.0, max(0.0, budget_left))
    why = f"a quarter of {target.within_seconds:g} s"
    if left == 1 or most <= _LEAST_SECONDS:
        return PublishPace(most, why)
    why = f"less than {why}, as {left:.0%} of the error budget is left"
    return PublishPace(max(_LEAST_SECONDS, most * left), why)


def burn_rate(
    target: SloTarget, window: SloWindow, pending_late: int, now: datetime, hours: int
) -> float:
    """Returns the late share in the current and last ``hours``, relative to the allowed share."""
    latencies = window.trim(now, hours).total()
    changes = latencies.count + pending_late
    late = _late(latencies, target) + pending_late
    return late / changes / target.allowed_late if changes else 0.0


def epoch_hour(at: datetime) -> int:
    """Returns the hours since 1970 of an aware time.

    Raises:
        ValueError: if the time has no zone.
    """
    if at.tzinfo is None:
        msg = "a time without a zone cannot be placed in an hour"
        raise ValueError(msg)
    return int(at.timestamp() // timedelta(hours=1).total_seconds())


def _late(latencies: LatencyHistogram, target: SloTarget) -> int:
    return latencies.count - latencies.count_within(target.within_seconds)


def _state(
    target: SloTarget, window: SloWindow, pending_late: int, now: datetime, late_share: float
) -> SloState:
    if late_share > 1 - target.percent / 100 + _ROUNDING:
        return SloState.ERROR
    burning = any(_burns(rule, target, window, pending_late, now) for rule in BURN_RULES)
    return SloState.WARN if burning else SloState.OK


def _burns(
    rule: BurnRule, target: SloTarget, window: SloWindow, pending_late: int, now: datetime
) -> bool:
    long_hours = max(SHORT_WINDOW_HOURS, round(rule.share_of_period * target.over_hours))
    return all(
        burn_rate(target, window, pending_late, now, hours) >= rule.rate
        for hours in (long_hours, SHORT_WINDOW_HOURS)
    )
