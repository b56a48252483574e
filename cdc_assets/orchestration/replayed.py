"""Sums up a replay by hour: a replayed hour is one event, however many batches it took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cdc_assets.config import ReplicationConfig
from cdc_assets.log.hours import HourWindow
from cdc_assets.orchestration.metadata import Lag, Metadata, batch_metadata, lag_metadata
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge import BatchResult

_SUMMED = (
    "records",
    "rows_inserted",
    "rows_updated",
    "rows_deleted",
    "records_rejected",
    "records_stale",
    "duration_seconds",
)


class ReplayedHours:
    """The batches of a replay, by hour."""

    def __init__(self, windows: Sequence[HourWindow]) -> None:
        self._batches: dict[HourWindow, list[BatchResult]] = {window: [] for window in windows}

    def add(self, batch: BatchResult) -> None:
        """Adds a batch to its hour."""
        self._batches[batch.hour].append(batch)

    def metadata(
        self, config: ReplicationConfig, entry: TableEntry, lag: Lag | None
    ) -> Iterator[tuple[HourWindow, Metadata]]:
        """Yields for each hour the last batch's metadata with the sums of all; zeros if none."""
        for window, batches in self._batches.items():
            each = [batch_metadata(config, entry, batch, lag) for batch in batches]
            sums = {name: sum(one[name] for one in each) for name in _SUMMED}
            yield window, {**(each[-1] if each else lag_metadata(lag)), **sums, "replay": True}
