"""Evaluates each table's replication SLO from the lake's histograms and the unread log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector, total_length
from cdc_assets.changes.slo import SloReport, SloTarget, SloWindow, evaluate_slo
from cdc_assets.operate.services import Services
from cdc_assets.operate.survey import TableSurvey


def slo_target(services: Services, table: TableName) -> SloTarget:
    """Returns the SLO target of the table's source."""
    return services.config.source(table.source).slo.target


def slo_reports(
    services: Services, tables: Sequence[TableSurvey], now: datetime
) -> dict[TableName, SloReport]:
    """Evaluates each table; changes that wait for longer than the target count as late.

    Raises:
        UnreachableError: if Kafka does not answer.
    """
    late = late_offsets(services, tables, now)
    return {
        each.table: evaluate_slo(
            slo_target(services, each.table),
            each.published.slo if each.published else SloWindow(),
            late.get(each.table, 0),
            now,
        )
        for each in tables
    }


def late_offsets(
    services: Services, tables: Sequence[TableSurvey], now: datetime
) -> Mapping[TableName, int]:
    """Counts by table the uncommitted offsets of records older than the target."""
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
        each.table: _unread_before(each.position, offsets[each.entry.topic, deadline])
        for each in tables
        if (each.entry.topic, deadline) in offsets
    }


def _unread_before(position: OffsetVector, boundary: OffsetVector) -> int:
    return total_length(position.ranges_to(boundary))
