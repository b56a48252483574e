"""Chooses the tables to compare with their sources at one tick of a schedule.

Each table has one turn per interval. A schedule that ticks many times in that interval takes a
share of the tables at each tick, longest waiting first, so that a thousand tables are not compared
at once. Tables that are in doubt, as rows of theirs may have changed at the source without events,
come first, whatever their turn (`cdc_assets.schema.silent`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from cdc_assets.changes.cron import Cron
from cdc_assets.errors import CdcError
from cdc_assets.operate.schema_drift import drifts
from cdc_assets.operate.services import Services
from cdc_assets.registry import TableEntry

_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def whose_turn(
    entries: Sequence[TableEntry],
    last: Mapping[TableEntry, datetime],
    now: datetime,
    cron: Cron,
    every: timedelta,
    doubted: Mapping[TableEntry, datetime] | None = None,
) -> tuple[TableEntry, ...]:
    """Returns the tables to compare now: first those in doubt, then the longest waiting.

    Args:
        entries: all tables of this schedule.
        last: when tables were compared last; those never compared are absent.
        now: the time of the tick.
        cron: the schedule.
        every: the shortest interval between two comparisons of a table.
        doubted: tables in doubt, with since when. A comparison that began later and still found a
            difference does not make them come first again.
    """
    ticks = max(1, cron.ticks(now, every))
    # A comparison ends after its tick: without a margin it would miss its turn an interval later.
    before = now - every + every / (2 * ticks)
    doubts = doubted or {}
    first = {e for e in entries if e in doubts and last.get(e, _NEVER) <= doubts[e]}
    due = [each for each in entries if each in first or last.get(each, _NEVER) <= before]
    due.sort(key=lambda each: (each not in first, last.get(each, _NEVER), each.table))
    return tuple(due[: math.ceil(len(entries) / ticks)])


def in_doubt(services: Services, entries: Sequence[TableEntry]) -> dict[TableEntry, datetime]:
    """Returns the tables in doubt, with since when; none if a part does not answer.

    A table whose changes continue without events, and which people have accepted so, has its turn
    as any other.
    """
    try:
        looked = services.lake.looked([(each.target, each.shard_value) for each in entries])
        pairs = zip(entries, looked, strict=True)
        states = [(e, s) for e, s in pairs if s is not None and not isinstance(s, CdcError)]
        found = drifts(services, states)
    except CdcError:
        return {}
    since = {
        entry: [c.since for c in found[entry.table].silent if c.since and not c.is_standing]
        for entry, _ in states
        if entry.table in found
    }
    return {entry: max(times) for entry, times in since.items() if times}
