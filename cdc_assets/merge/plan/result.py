"""What a batch reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from cdc_assets.changes.latency import LatencyHistogram
from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.offsets import Coordinate, OffsetRange, OffsetVector
from cdc_assets.changes.slo import SloWindow
from cdc_assets.log.hours import HourWindow
from cdc_assets.schema.ddl import Ddl
from cdc_assets.schema.types import TableSchema


@dataclass(frozen=True, slots=True)
class BatchResult:
    """One merged batch.

    Attributes:
        ranges: what was read.
        start, end: committed offsets before and after; equal for a replay.
        hour: the partition that the batch belongs to.
        snapshot_id: head of ``main`` after the batch.
        records: change events with a value.
        inserted, updated, deleted: change events of each kind (snapshot rows are inserts).
        tombstones_skipped: records without a value: Debezium sends one after each delete.
        passed_over: records that are no changes; ``of_others`` those of other tables in the topic,
            of which ``other_tables`` names the most frequent as ``schema.table``.
        statements: on the table, that came among its rows.
        stale: keys whose newest change in the batch was older than what the lake had.
        latency: publish time minus source commit time, of the changes of this batch.
        slo: latencies of all the hours that the SLO looks at, after this batch.
        lag_records: offsets that were not merged when the batch was planned.
        row_count: rows in the table; None if unknown. ``file_count``: data files.
        steps: seconds per step.
        valid_through: everything committed at the source before is in the table; None if nothing is
            proven.
    """

    table: TableName
    target: LakeName
    topic: str
    ranges: tuple[OffsetRange, ...]
    start: OffsetVector
    end: OffsetVector
    hour: HourWindow
    snapshot_id: int | None
    attempt_id: str
    records: int
    inserted: int
    updated: int
    deleted: int
    tombstones_skipped: int
    rejected: int
    stale: int
    latency: LatencyHistogram
    slo: SloWindow
    lag_records: int
    row_count: int | None
    file_count: int | None
    schema: TableSchema
    plan_text: str
    replay: bool
    duration_seconds: float
    published_at: datetime
    steps: Mapping[str, float]
    valid_through: datetime | None = None
    passed_over: int = 0
    of_others: int = 0
    other_tables: tuple[str, ...] = ()
    statements: tuple[Ddl, ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """Unread records that cannot be merged yet: the first transaction in them is not finished.

    Attributes:
        table: the table.
        topic: of its changes.
        transaction: the id, as the source gives it.
        reason: what is missing, in words; ``remedy``: what to look at.
        since: when the connector sent the last that is there of the transaction.
        stops_at: when the wait is over.
        unread: offsets that are not merged.
        log_end: by topic, where the log ended when it was looked at; nothing can have changed
            as long as it ends there.
    """

    table: TableName
    topic: str
    transaction: str
    reason: str
    remedy: str
    since: datetime
    stops_at: datetime
    unread: int
    log_end: Mapping[str, OffsetVector]

    @property
    def where(self) -> str:
        """Coordinates for errors."""
        return f"table={self.table} topic={self.topic} transaction={self.transaction}"


@dataclass(frozen=True, slots=True)
class QuarantineReplay:
    """What became of records that were merged again out of quarantine.

    Attributes:
        merged: are in the table now.
        overtaken: were older than what their rows carry by now. Like the merged ones they have
            left the quarantine.
        rejected: still cannot be merged, and why; they stay.
    """

    table: TableName
    merged: tuple[Coordinate, ...]
    overtaken: tuple[Coordinate, ...]
    rejected: tuple[tuple[Coordinate, str], ...]


@dataclass(frozen=True, slots=True)
class UnknownColumn:
    """A column that the schema does not have, and a record that has it."""

    name: str
    coordinate: Coordinate
