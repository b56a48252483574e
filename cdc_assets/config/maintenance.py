"""Configures when a lake table needs maintenance, and which snapshots and files must stay."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

from pydantic import Field

from cdc_assets.changes.upkeep import Thresholds
from cdc_assets.config.strict import Strict

_LONGEST_DAYS: Final = 3_650
"""Ten years: beyond any table's history, and a time that can still be reckoned with."""

_Minutes = Annotated[float, Field(le=_LONGEST_DAYS * 24 * 60)]
_Days = Annotated[float, Field(le=_LONGEST_DAYS)]


class MaintenanceConfig(Strict):
    """Configures the maintenance of a lake table, its side tables and its shadow table.

    Attributes:
        enabled: whether maintenance runs automatically. ``cdc-assets maintain`` always works.
        every_minutes: minimum minutes between two maintenance runs of a table.
        tiny_files: number of files below 8 MB in one partition at which a batch combines them.
        small_files: number of larger files, up to 3/4 of the target size, at which maintenance
            combines them.
        marked_percent: percentage of deleted rows above which data files are rewritten, once the
            whole table is above it.
        keep_minutes: minutes that a replaced snapshot stays readable.
        keep_snapshots: minimum number of commits that are kept, at any age.
        expired_at_once: number of removable snapshots at which they are expired; after a day in any
            case.
        manifests: number of manifests above which they are rewritten.
        remembered_deletes: number of delete markers at which those that nothing in the log can undo
            are removed.
        orphan_days: minimum age in days of removed files that no snapshot names. Must exceed any
            batch's duration. Checked daily.
    """

    enabled: bool = True
    every_minutes: _Minutes = Field(default=10, gt=0)
    tiny_files: int = Field(default=10, ge=2)
    small_files: int = Field(default=30, ge=2)
    marked_percent: float = Field(default=20, gt=0, le=100)
    keep_minutes: _Minutes = Field(default=20, ge=1)
    keep_snapshots: int = Field(default=10, ge=1)
    expired_at_once: int = Field(default=100, ge=1)
    manifests: int = Field(default=100, ge=2)
    remembered_deletes: int = Field(default=10_000, ge=1)
    orphan_days: _Days = Field(default=3, ge=1)

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds as a value of the core."""
        return Thresholds(
            tiny_files=self.tiny_files,
            small_files=self.small_files,
            marked=self.marked_percent / 100,
            keep=timedelta(minutes=self.keep_minutes),
            keep_publishes=self.keep_snapshots,
            expired_at_once=self.expired_at_once,
            manifests=self.manifests,
        )

    def laid_under(self, own: MaintenanceConfig | None) -> MaintenanceConfig:
        """Returns these settings, overridden by those of one table where it has any."""
        if own is None:
            return self
        return self.model_copy(update={n: getattr(own, n) for n in own.model_fields_set})
