"""Which tables are compared with their sources at one time of a schedule.

Each table is to have its turn once in a while. A schedule that is due many times in that while
takes a share of the tables each time, those first that have waited longest, so that a thousand
tables are not compared at once.
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
    """The tables that are compared now, longest waiting first.

    Args:
        entries: all that are compared by this schedule.
        last: when they were compared; those that never were are left out.
        now: the time of the schedule.
        cron: the schedule.
        every: a table is compared so often at most.
    """
    ticks = max(1, cron.ticks(now, every))
    # A comparison ends after its tick began: without this it would miss the same tick's next one.
    before = now - every + every / (2 * ticks)
    due = [each for each in entries if last.get(each, _NEVER) <= before]
    due.sort(key=lambda each: (last.get(each, _NEVER), each.table))
    return tuple(due[: math.ceil(len(entries) / ticks)])
