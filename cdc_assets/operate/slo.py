"""Evaluates each table's replication SLO from the lake's histograms and the unread log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector, total_length
from cdc_assets.changes.slo import (
    PublishPace,
    SloReport,
    SloState,
    SloTarget,
    SloWindow,
    evaluate_slo,
)
from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.services import Services
from cdc_assets.operate.survey import TableSurvey


def slo_target(services: Services, table: TableName) -> SloTarget:
    """Returns the SLO target of the table's source."""
    return services.config.source(table.source).slo.target


def pace_after(
    config: ReplicationConfig, table: TableName, window: SloWindow, now: datetime
) -> PublishPace:
    """Returns the pace of a table's turns, as of a batch.

    Args:
        config: the configuration.
        table: the table.
        window: latencies of its changes, after the batch.
        now: aware time.
    """
    target = config.source(table.source).slo.target
    return config.runs.pace(target, evaluate_slo(target, window, 0, now).budget_left)


def slo_reports(
    services: Services, tables: Sequence[TableSurvey], now: datetime
) -> dict[TableName, SloReport]:
    """Evaluates each table; changes that wait for longer than the target count as late.

    Raises:
        UnreachableError: if Kafka does not answer.
    """
    late = late_offsets(services, tables, now)
    return {
        each.table: slo_report(each, slo_target(services, each.table), late.get(each.table, 0), now)
        for each in tables
    }


def slo_report(table: TableSurvey, target: SloTarget, waiting: int, now: datetime) -> SloReport:
    """Evaluates one table; one that people hold has no SLO, only figures.

    Args:
        table: the table.
        target: its SLO.
        waiting: the number of its changes that wait for longer than the target.
        now: aware time.
    """
    window = table.published.slo if table.published else SloWindow()
    report = evaluate_slo(target, window, waiting, now)
    return replace(report, state=SloState.HELD) if table.desired.held else report


def late_offsets(
    services: Services, tables: Sequence[TableSurvey], now: datetime
) -> Mapping[TableName, int]:
    """Counts by table the uncommitted offsets of records older than the target.

    A record of the future hides those after it, as Kafka finds offsets by the first later time:
    where the first uncommitted one is older, but none is found, all count.
    """
    by_target: dict[float, list[TableSurvey]] = defaultdict(list)
    for each in tables:
        if each.lag_changes:
            by_target[slo_target(services, each.table).within_seconds].append(each)
    return {
        table: count
        for within, behind in by_target.items()
        for table, count in _late_by(services, behind, now - timedelta(seconds=within)).items()
    }


def _late_by(
    services: Services, tables: Sequence[TableSurvey], deadline: datetime
) -> dict[TableName, int]:
    offsets = services.log.offsets_at([each.entry.topic for each in tables], [deadline])
    return {
        each.table: _unread_before(each, offsets[each.entry.topic, deadline], deadline)
        for each in tables
        if (each.entry.topic, deadline) in offsets
    }


def _unread_before(table: TableSurvey, boundary: OffsetVector, deadline: datetime) -> int:
    found = total_length(table.position.ranges_to(boundary))
    if not found and table.oldest_unread is not None and table.oldest_unread < deadline:
        return table.lag_changes or 0
    return found
