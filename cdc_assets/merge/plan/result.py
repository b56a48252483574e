"""Values that a batch reports."""

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
        ranges: offsets read.
        start, end: committed offsets before and after; equal for a replay.
        hour: the partition that the batch belongs to.
        snapshot_id: head of ``main`` after the batch.
        records: change events with a value.
        inserted, updated, deleted: change events of each kind (snapshot rows are inserts).
        passed_over: records that are no changes; ``of_others`` those of other tables in the topic,
            of which ``other_tables`` names the most frequent as ``schema.table``.
        statements: on the table, found among its records.
        stale: keys whose newest change in the batch was older than the lake's.
        latency: publish time minus source commit time, of the changes of this batch.
        slo: latencies of all the hours that the SLO looks at, after this batch.
        lag_records: offsets not yet merged when the batch was planned.
        row_count: rows in the table; None if unknown. ``file_count``: data files.
        steps: seconds per step.
        read_again: corner cases for which records were read more than once, in words.
        valid_through: the table has everything that the source committed before this time; None if
            nothing is proven.
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
    steps: Mapping[str, float]
    valid_through: datetime | None = None
    passed_over: int = 0
    of_others: int = 0
    other_tables: tuple[str, ...] = ()
    statements: tuple[Ddl, ...] = ()
    read_again: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """Unread records that cannot be merged yet: the first transaction in them is not finished.

    Attributes:
        table: the table.
        topic: of its changes.
        transaction: the id, as the source gives it.
        reason: the missing part, in words; ``remedy``: advice where to look.
        since: time at which the connector sent the newest record of the transaction.
        stops_at: end of the wait.
        unread: number of offsets not merged.
        log_end: ends of the log by topic when it was looked at; nothing can have changed as long
            as it ends there.
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
    """The outcome for records that were merged again out of quarantine.

    Attributes:
        topic_id: of the table's present topic.
        merged: records that are in the table now.
        overtaken: records older than their rows are by now. Like the merged ones they have left
            the quarantine.
        rejected: records that still cannot be merged, with the reason; they stay.
        unread: records that the table's offsets have not passed yet, which stay: the next batch
            reads them, after what comes before them in the log.
        before: records from before the table's beginning; they have left the quarantine, too.
        foreign: records of another topic than the present one, which stay.
    """

    table: TableName
    topic_id: str
    merged: tuple[Coordinate, ...] = ()
    overtaken: tuple[Coordinate, ...] = ()
    rejected: tuple[tuple[Coordinate, str], ...] = ()
    unread: tuple[Coordinate, ...] = ()
    foreign: tuple[Coordinate, ...] = ()
    before: tuple[Coordinate, ...] = ()


@dataclass(frozen=True, slots=True)
class UnknownColumn:
    """A column that the schema lacks, and a record that has it."""

    name: str
    coordinate: Coordinate
