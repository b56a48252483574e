"""Finds the hour of the log that a table reads next."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.log.hours import HOUR, HOURS_START, HourWindow, hour_of

if TYPE_CHECKING:
    from cdc_assets.log.kafka import KafkaLog


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
    """Returns the first hour from a guess on that extends beyond a position.

    The guess is right unless timestamps are out of order. The hours after it, which may be those of
    years, are halved: the offsets of their ends never fall.
    """

    def is_beyond(hour: int) -> bool:
        end = guess.start + HOUR * (hour + 1)
        return _behind(position, log.offsets_at([topic], [end])[topic, end])

    hours = (current.start - guess.start) // HOUR
    if hours <= 0:
        return current
    found = 0 if is_beyond(0) else bisect_left(range(hours), True, lo=1, key=is_beyond)
    return hour_of(guess.start + HOUR * found)


def _behind(position: OffsetVector, boundary: OffsetVector) -> bool:
    return bool(position.ranges_to(boundary))
