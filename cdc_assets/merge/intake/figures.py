"""The figures of a batch, which `cdc_assets.merge.intake.observe` counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from cdc_assets.changes.latency import LatencyHistogram
from cdc_assets.merge.plan.result import UnknownColumn

MOST_OTHERS: Final = 1000
"""So many other tables of a topic are named at most."""


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """Counts of one batch's records.

    Attributes:
        records: with a value; tombstones are counted separately.
        by_op: changes per operation.
        rejected: number of records that cannot be merged.
        unknown_columns: of the record that differs most from the table, those the table lacks.
        absent_columns: of the same record, those that it lacks.
        ages: latencies at ``asked_at``; to be shifted by the time until the publish.
        in_doubt: changes with a placeholder that may stand for another row's value, see
            `cdc_assets.merge.guards.placeholders`.
        rekeyed: updates that changed the key, see `cdc_assets.merge.fold.rekeyed`.
        lone_tombstones: whether a record without a value may follow no delete event.
        has_unwritten: whether a record has a schema that the plan does not know.
        controls: records that are no changes and were passed over; ``statements`` of them may have
            changed the table other than row by row.
        others: changes of other tables in the same topic; ``other_tables`` names some of them.
        has_strays: whether a record names another table.
        suspicious: whether a record may be of a numbering that began again, see
            `cdc_assets.merge.guards.restarts`; false where none is looked for.
        newest_told_ms: the highest time that the source gave for a row, in milliseconds; None if it
            gave none.
        key_schemas: the lowest 16 of the records' keys, see `Format.key_schema`; empty if they
            were not watched.
        max_read, min_floating: see `cdc_assets.changes.position`; None if there are none.
        begun_at_start: the LSN of the one snapshot that the batch has rows of, if its rows begin
            with the first offset of every range; None otherwise.
    """

    records: int
    tombstones: int
    by_op: dict[str, int]
    rejected: int
    unknown_columns: tuple[UnknownColumn, ...]
    absent_columns: tuple[str, ...]
    ages: LatencyHistogram
    asked_at: datetime
    in_doubt: int
    rekeyed: int
    lone_tombstones: bool
    has_unwritten: bool
    controls: int
    statements: int
    others: int
    other_tables: tuple[str, ...]
    suspicious: bool
    newest_told_ms: int | None
    max_read: int | None
    min_floating: int | None
    has_strays: bool = False
    begun_at_start: int | None = None
    key_schemas: frozenset[int] = frozenset()

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
