"""The figures of a batch, which `cdc_assets.merge.intake.observe` counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from cdc_assets.changes.latency import LatencyHistogram

MOST_OTHERS: Final = 1000
"""So many other tables of a topic are named at most."""


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """Counts of one batch's records.

    Attributes:
        records: with a value; tombstones are counted separately.
        by_op: changes per operation.
        rejected: number of records that cannot be merged.
        ages: latencies at ``asked_at``; to be shifted by the time until the publish.
        lone_tombstones: whether a record without a value may follow no delete event.
        controls: records that are no changes and were passed over.
        others: changes of other tables in the same topic; ``other_tables`` names some of them.
        max_read, min_floating: see `cdc_assets.changes.position`; None if there are none.
        begun_at_start: the LSN of the one snapshot that the batch has rows of, if its rows begin
            with the first offset of every range; None otherwise.
        signs: all that was counted, as ``figures/Records.java`` tells it: each guard knows the
            name of its own.
    """

    records: int
    tombstones: int
    by_op: dict[str, int]
    rejected: int
    ages: LatencyHistogram
    asked_at: datetime
    lone_tombstones: bool
    controls: int
    others: int
    other_tables: tuple[str, ...]
    max_read: int | None
    min_floating: int | None
    begun_at_start: int | None = None
    signs: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)

    @property
    def may_be_anywhere(self) -> bool:
        """Whether a change may have any position, and another one each time it is delivered.

        Truncates have no key, and may come again in any partition. So may changes without a last
        commit, or without an event.
        """
        is_odd = self.by_op["t"] > 0 or self.lone_tombstones
        return is_odd or self.min_floating is not None

    def with_others(self, left_out: Mapping[str, int]) -> BatchFigures:
        """Adds the numbers, by table, of other tables' changes that the batch was not given."""
        frequent = sorted(left_out, key=lambda name: (-left_out[name], name))[:MOST_OTHERS]
        names = sorted({*self.other_tables, *frequent})
        others = self.others + sum(left_out.values())
        return replace(self, others=others, other_tables=tuple(names))
