"""Statuses as they would be found, without a Kafka, a lake and a Connect."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from cdc_assets.changes.latency import LatencyHistogram
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.slo import SloWindow
from cdc_assets.desired import NOTHING, DirectiveNote, TableDirectives
from cdc_assets.lake.properties import Published
from cdc_assets.lake.state import TableState
from cdc_assets.log.connect import ConnectorPart, RunningConnector
from cdc_assets.log.deliveries import Delivery
from cdc_assets.log.values import Watermarks
from cdc_assets.operate.completeness import Completeness
from cdc_assets.operate.connectors import ConnectorView, Working
from cdc_assets.operate.failures import Failure
from cdc_assets.operate.slo import slo_report
from cdc_assets.operate.status import Status, TableStatus
from cdc_assets.operate.survey import TableSurvey
from cdc_assets_tests.world import NOW, entry_of, write_config

LATE = (1.0,) * 80 + (1_000.0,) * 20
"""Of changes that miss the SLO."""
PAUSED = TableDirectives(paused=DirectiveNote(NOW, "cdc-assets pause", "the warehouse is moved"))
SLO_LATENCIES = [1.0] * 97 + [1_000.0] * 3


def connector_of(state: str = "RUNNING", *tasks: str) -> RunningConnector:
    parts = tuple(ConnectorPart(n, each) for n, each in enumerate(tasks or ("RUNNING",)))
    return RunningConnector("shop", "shop", "cdc_shop", ConnectorPart(None, state), parts)


def view_of(connector: RunningConnector) -> ConnectorView:
    working = Working.UP if connector.is_up else Working.HELD
    if connector.has_failed:
        working = Working.DOWN
    return ConnectorView(working, connector.words, (connector,))


def table_status(
    folder: Path,
    name: str = "orders",
    *,
    failure: Failure | None = None,
    connector: ConnectorView | None = None,
    latencies: tuple[float, ...] = tuple(SLO_LATENCIES),
    unread: int = 5,
    desired: TableDirectives = NOTHING,
    now: datetime = NOW,
) -> TableStatus:
    """A table with 97 of 100 changes in time, and records that came ten seconds ago."""
    config = write_config(folder)
    window = SloWindow().add(now, LatencyHistogram.of(latencies))
    published = Published(
        offsets=OffsetVector.of({0: 100, 1: 50}), start=OffsetVector.of({0: 0, 1: 0}), topic="t",
        topic_id="", cluster_id="", attempt="a", run="", kind="tail",
        published_at=now - timedelta(minutes=1), counts={"quarantined": 0}, slo=window,
    )  # fmt: skip
    entry = entry_of(name, config)
    state = TableState(
        name=entry.target, snapshot_id=1, published=published, others={}, columns=(), key=(),
        properties={}, location="", is_empty=False, total_records=1234, head_columns={}, files=7,
    )  # fmt: skip
    marks = Watermarks(OffsetVector.of({0: 90, 1: 0}), OffsetVector.of({0: 100 + unread, 1: 50}))
    oldest = now - timedelta(seconds=10) if unread else None
    survey = TableSurvey(entry, state, marks, oldest, failure, desired=desired)
    target = config.sources["shop"].slo.target
    report = slo_report(survey, target, 0, now)
    delivery = Delivery(now - timedelta(seconds=20), now - timedelta(seconds=13))
    complete = Completeness(delivery, now - timedelta(seconds=43))
    return TableStatus(survey, now, target, report, connector or view_of(connector_of()), complete)


def status_of(*tables: TableStatus) -> Status:
    return Status(tables[0].at, tables)


def renamed(table: TableStatus, name: str) -> TableStatus:
    """The same of another table: quicker than making it from a configuration."""
    entry = table.survey.entry
    entry = replace(entry, table=replace(entry.table, name=name))
    return replace(table, survey=replace(table.survey, entry=entry))
