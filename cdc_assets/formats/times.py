"""Times that producers write as numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_END: Final = 253_402_300_800_000  # the year 10000


def time_of_millis(millis: object) -> datetime | None:
    """Returns an aware time from milliseconds since 1970; None if the value is no such number."""
    if not isinstance(millis, int) or not 0 < millis < _END:
        return None
    return _EPOCH + timedelta(milliseconds=millis)
