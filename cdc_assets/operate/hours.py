"""Finds the hour of the log that a table reads next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.log.hours import HOUR, HOURS_START, HourWindow, hour_of

if TYPE_CHECKING:
    from cdc_assets.log.kafka import KafkaLog

HOURS_PER_LOOK: Final = 48


def hours_to_read(
    log: KafkaLog,
    positions: Mapping[str, OffsetVector],
    now: datetime,
    first: datetime = HOURS_START,
) -> dict[str, HourWindow]:
    """Returns each topic's first hour whose window ``[f(H), f(H+1))`` extends beyond the position.

    That is not always the hour of the first unread record's timestamp: if timestamps are out of
    order, that hour may already be read to its end, and requesting it again would make no
    progress. The current hour takes all remaining records, so that a record with a timestamp in
    the future does not wait for that time.

    Args:
        log: Kafka.
        positions: next-to-read offsets of topics that have something unread.
        now: the aware time.
        first: the start of the tables' first hour, which holds all older records.
    """
    current = hour_of(now, first)
    begin = log.offsets_at(list(positions), [current.start])
    late = {t: positions[t] for (t, _), start in begin.items() if _behind(positions[t], start)}
    found = dict.fromkeys(positions.keys() - late.keys(), current)
    for topic, time in log.first_unread(late).items() if late else ():
        guess = hour_of(time, first) if time else current
        found[topic] = _first_from(log, topic, positions[topic], guess, current)
    return found


def _first_from(
    log: KafkaLog, topic: str, position: OffsetVector, guess: HourWindow, current: HourWindow
) -> HourWindow:
    hour = guess
    while hour.start < current.start:
        ends = _hour_ends(hour, current)
        offsets = log.offsets_at([topic], ends)
        for end in ends:
            if _behind(position, offsets[topic, end]):
                return hour_of(end - HOUR)
        hour = hour_of(ends[-1])
    return current


def _hour_ends(first: HourWindow, current: HourWindow) -> Sequence[datetime]:
    hours = int((current.start - first.start) / HOUR)
    return [first.start + HOUR * (n + 1) for n in range(min(hours, HOURS_PER_LOOK))]


def _behind(position: OffsetVector, boundary: OffsetVector) -> bool:
    return bool(position.ranges_to(boundary))
