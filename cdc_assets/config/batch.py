"""Configures the bounds of a batch (size, wait for a transaction, bad records), and the SLO."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cdc_assets.changes.slo import SloTarget
from cdc_assets.config.strict import Strict


class BatchConfig(Strict):
    """Bounds the size of a batch, and the time for which a run takes further batches.

    ``statement_seconds`` and ``table_seconds`` end a hanging step of a batch, and a table's hanging
    turn in a run. A record of more than ``max_record_bytes`` (key and value) is refused unread.
    """

    max_records: int = Field(default=1_000_000, ge=1)
    max_record_bytes: int = Field(default=32 << 20, ge=1 << 10, le=1 << 30)
    drain_seconds: float = Field(default=240, gt=0)
    statement_seconds: float = Field(default=900, gt=0)
    table_seconds: float = Field(default=3600, gt=0)


class TransactionsConfig(Strict):
    """The longest time for which a transaction may lack its end, and the reaction to it.

    ``then: stop``: the table stops, whole transactions only. ``publish``: the available part of the
    transaction is published, so that readers may see a part of it.
    """

    wait_minutes: float = Field(default=15, gt=0, le=7 * 24 * 60)
    then: Literal["stop", "publish"] = "stop"


class QuarantineConfig(Strict):
    """The largest part of one table in quarantine before the table stops anyway.

    ``max_bytes`` counts keys and values.
    """

    max_records: int = Field(default=1000, gt=0)
    max_bytes: int = Field(default=1 << 30, gt=0)


class SloConfig(Strict):
    """``percent`` % of changes visible within ``within_minutes``, over ``over_hours``."""

    percent: float = Field(default=95, gt=0, le=100)
    within_minutes: float = Field(default=5, gt=0, le=7 * 24 * 60)
    over_hours: int = Field(default=24, ge=1, le=7 * 24)

    @property
    def target(self) -> SloTarget:
        """The target as a value of the core."""
        return SloTarget(self.percent, self.within_minutes * 60, self.over_hours)
