"""Configures how soon changes are to be visible."""

from __future__ import annotations

from pydantic import Field

from cdc_assets.changes.slo import SloTarget
from cdc_assets.config.strict import Strict


class SloConfig(Strict):
    """``percent`` % of changes visible within ``within_minutes``, over ``over_hours``."""

    percent: float = Field(default=95, gt=0, le=100)
    within_minutes: float = Field(default=5, gt=0, le=7 * 24 * 60)
    over_hours: int = Field(default=24, ge=1, le=7 * 24)

    @property
    def target(self) -> SloTarget:
        """The target as a value of the core."""
        return SloTarget(self.percent, self.within_minutes * 60, self.over_hours)
