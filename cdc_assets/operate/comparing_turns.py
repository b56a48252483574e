"""Chooses the tables to compare with their sources at one tick of a schedule.

Each table has one turn per interval. A schedule that ticks many times in that interval takes a
share of the tables at each tick, longest waiting first, so that a thousand tables are not compared
at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from cdc_assets.changes.cron import Cron
from cdc_assets.registry import TableEntry

_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def whose_turn(
    entries: Sequence[TableEntry],
    last: Mapping[TableEntry, datetime],
    now: datetime,
    cron: Cron,
    every: timedelta,
) -> tuple[TableEntry, ...]:
    """Returns the tables to compare now, longest waiting first.

    Args:
        entries: all tables of this schedule.
        last: when tables were compared last; those never compared are absent.
        now: the time of the tick.
        cron: the schedule.
        every: the shortest interval between two comparisons of a table.
    """
    ticks = max(1, cron.ticks(now, every))
    # A comparison ends after its tick: without a margin it would miss its turn an interval later.
    before = now - every + every / (2 * ticks)
    due = [each for each in entries if last.get(each, _NEVER) <= before]
    due.sort(key=lambda each: (last.get(each, _NEVER), each.table))
    return tuple(due[: math.ceil(len(entries) / ticks)])
