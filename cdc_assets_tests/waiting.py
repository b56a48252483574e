"""Waiting for conditions, never for time alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from cdc_assets.log.hours import HourWindow, hour_of

Found = TypeVar("Found")


def until(
    find: Callable[[], Found | None],
    what: str = "the condition holds",
    *,
    within_seconds: float = 60,
    every_seconds: float = 0.1,
) -> Found:
    """Ask again and again until the answer is true; fail by name at the deadline."""
    deadline = time.monotonic() + within_seconds
    while not (found := find()):
        assert time.monotonic() < deadline, f"not within {within_seconds:g} s: {what}"
        time.sleep(every_seconds)
    return found


def roomy_hour(room: timedelta = timedelta(seconds=40)) -> HourWindow:
    """This hour, of which so much is left that a test that names it can end within it."""
    until(lambda: hour_of(datetime.now(UTC) + room) == hour_of(datetime.now(UTC)),
          "an hour has begun", within_seconds=2 * room.total_seconds())  # fmt: skip
    return hour_of(datetime.now(UTC))
