"""Configures the bounds of a batch (size, waiting, bad records), cuts, and the SLO."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final, Literal

from pydantic import Field, field_validator

from cdc_assets.changes.slo import SloTarget
from cdc_assets.config.strict import Strict, refuse

_DURATION: Final = re.compile(r"(?P<number>[1-9][0-9]{0,6})(?P<unit>[smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class BatchConfig(Strict):
    """Bounds the size of a batch, and the time for which a run takes further batches.

    Attributes:
        max_records: maximum number of offsets in a batch, unless one transaction is larger.
        max_record_bytes: maximum bytes of a record's key and value, decompressed. Larger records
            are refused unparsed.
        drain_seconds: seconds for which one run takes further batches of a table.
        statement_seconds: maximum seconds of one step of a batch. A longer step is ended, and the
            batch publishes nothing.
        table_seconds: maximum seconds of a table's turn in a run; ended likewise.
    """

    max_records: int = Field(default=1_000_000, ge=1)
    max_record_bytes: int = Field(default=32 << 20, ge=1 << 10, le=1 << 30)
    drain_seconds: float = Field(default=240, gt=0)
    statement_seconds: float = Field(default=900, gt=0)
    table_seconds: float = Field(default=3600, gt=0)


class TransactionsConfig(Strict):
    """The longest time for which a transaction may lack its end, and the reaction to it.

    Attributes:
        wait_minutes: maximum minutes from a transaction's last record to its end. Must exceed the
            arrival time of the largest transaction.
        then: reaction after that. ``stop``: the table fails until the end comes. ``publish``: the
            available part is published.
    """

    wait_minutes: float = Field(default=15, gt=0, le=7 * 24 * 60)
    then: Literal["stop", "publish"] = "stop"


class ConsistentConfig(Strict):
    """Cuts: states of all tables of a source as of one of its commits.

    Attributes:
        every: minimum time between two cuts, such as ``30s``, ``1m``, ``2h`` or ``1d``.
        keep: time for which a cut can be read.
        without_stopped: whether a cut leaves out tables that are paused or fail, instead of
            waiting.
    """

    every: str = "1m"
    keep: str = "1d"
    without_stopped: bool = False

    @field_validator("every", "keep")
    @classmethod
    def _is_duration(cls, text: str) -> str:
        if _DURATION.fullmatch(text) is None:
            what = f"{text!r} is not a duration"
            raise refuse(what, "write 30s, 1m, 2h or 1d, for example")
        return text

    @property
    def interval(self) -> timedelta:
        """``every`` as a duration."""
        return _duration(self.every)

    @property
    def kept(self) -> timedelta:
        """``keep`` as a duration."""
        return _duration(self.keep)


def _duration(text: str) -> timedelta:
    found = _DURATION.fullmatch(text)
    number, unit = (found["number"], found["unit"]) if found else ("1", "m")
    return timedelta(**{_UNITS[unit]: int(number)})


class QuarantineConfig(Strict):
    """The largest part of one table in quarantine before the table stops anyway.

    Attributes:
        max_records: maximum number of a table's records in quarantine. Above it the table stops.
        max_bytes: maximum bytes of their keys and values. Above it the table stops.
    """

    max_records: int = Field(default=1000, gt=0)
    max_bytes: int = Field(default=1 << 30, gt=0)


class SloConfig(Strict):
    """``percent`` % of changes visible within ``within_minutes``, over ``over_hours``.

    Attributes:
        percent: percentage of changes that must become visible in time.
        within_minutes: minutes from commit to visible that are promised.
        over_hours: hours over which the percentage is computed.
    """

    percent: float = Field(default=95, gt=0, le=100)
    within_minutes: float = Field(default=5, gt=0, le=7 * 24 * 60)
    over_hours: int = Field(default=24, ge=1, le=7 * 24)

    @property
    def target(self) -> SloTarget:
        """The target as a value of the core."""
        return SloTarget(self.percent, self.within_minutes * 60, self.over_hours)
