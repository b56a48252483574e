"""When a lake table needs upkeep, and what upkeep leaves alone."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from cdc_assets.changes.upkeep import Thresholds
from cdc_assets.config.strict import Strict


class MaintenanceConfig(Strict):
    """The upkeep of a lake table, and of what lies beside it.

    Attributes:
        enabled: whether it is done without being asked for; ``cdc-assets maintain`` works anyway.
        every_minutes: a table has a run of maintenance so often at most.
        small_files: so many in one partition are put together.
        marked_percent: data files of whose rows more are deleted are written anew, once that
            holds for the table as a whole.
        keep_minutes: for so long after readers could begin with a snapshot it can be read.
        keep_snapshots: so many publishes are kept, however old they are.
        expired_at_once: snapshots are expired once there are so many to expire, or after a day.
        manifests: above this, manifests are written anew.
        remembered_deletes: those that nothing in the log can undo any more are forgotten once the
            table beside has so many rows.
        orphan_days: files that no snapshot has ever named are removed when they are so old; once
            a day.
    """

    enabled: bool = True
    every_minutes: float = Field(default=10, gt=0)
    small_files: int = Field(default=30, ge=2)
    marked_percent: float = Field(default=20, gt=0, le=100)
    keep_minutes: float = Field(default=30, ge=1)
    keep_snapshots: int = Field(default=10, ge=1)
    expired_at_once: int = Field(default=100, ge=1)
    manifests: int = Field(default=100, ge=2)
    remembered_deletes: int = Field(default=10_000, ge=1)
    orphan_days: float = Field(default=3, ge=1)

    @property
    def thresholds(self) -> Thresholds:
        """The same as a value of the core."""
        return Thresholds(
            small_files=self.small_files,
            marked=self.marked_percent / 100,
            keep=timedelta(minutes=self.keep_minutes),
            keep_publishes=self.keep_snapshots,
            expired_at_once=self.expired_at_once,
            manifests=self.manifests,
        )

    def laid_under(self, own: MaintenanceConfig | None) -> MaintenanceConfig:
        """With what is said of one table instead, as far as something is."""
        if own is None:
            return self
        return self.model_copy(update={n: getattr(own, n) for n in own.model_fields_set})
