"""Converts the numbers into OpenMetrics families.

Names and units follow OpenMetrics: base units, a suffix for the unit, ratios between 0 and 1. All
are gauges of present values, so that a restart of this program breaks no series. An unknown value
has no sample, rather than a wrong one.

Labels are names of sources, tables, connectors and slots, and states from closed lists: their
number grows only with the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from prometheus_client.core import GaugeMetricFamily, Metric, StateSetMetricFamily
from prometheus_client.registry import Collector

from cdc_assets.changes.slo import SloReport, SloState
from cdc_assets.errors import CdcError
from cdc_assets.log.connect import RESTARTING, RUNNING
from cdc_assets.operate.numbers import Numbers, SourceNumbers
from cdc_assets.operate.seen_states import Condition
from cdc_assets.operate.status import SourceLag, TableStatus, finite

PREFIX: Final = "cdc_assets_"
TABLE: Final = ("source", "schema", "table")
TASK_STATES: Final = (RUNNING, "FAILED", "PAUSED", "STOPPED", "UNASSIGNED", RESTARTING)
OTHER: Final = "OTHER"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Gauge(Generic[T]):
    """One number of each table, or of each source; ``of`` returns None if it is unknown."""

    name: str
    unit: str
    help: str
    of: Callable[[T], float | None]


def _failed_attempts(each: TableStatus) -> int:
    failure = each.survey.failure
    return failure.attempts if failure and not failure.is_waiting else 0


def _published_at(each: TableStatus) -> float | None:
    published = each.survey.published
    return published.published_at.timestamp() if published else None


def _of_slo(of: Callable[[SloReport], float]) -> Callable[[TableStatus], float | None]:
    """Makes a gauge of a table's SLO; a table that people hold has none."""

    def value(each: TableStatus) -> float | None:
        return of(each.slo) if each.slo and each.slo.state is not SloState.HELD else None

    return value


def _headroom(each: TableStatus) -> int | None:
    marks, published = each.survey.marks, each.survey.published
    if marks is None or published is None:
        return None
    room = [published.offsets.get(partition) - begin for partition, begin in marks.begin]
    return min(room, default=None)


TABLE_GAUGES: Final[tuple[Gauge[TableStatus], ...]] = (
    Gauge("lag_records", "", "Records in the log that are not merged.",
          lambda each: each.survey.lag_changes),
    Gauge("kafka_to_lake_lag", "seconds", "Age in Kafka of the oldest unmerged record.",
          lambda each: each.survey.lag_seconds(each.at)),
    Gauge("source_to_kafka_lag", "seconds", "How far the connector is behind, at most.",
          lambda each: each.completeness.source_to_kafka_seconds),
    Gauge("valid_through_timestamp", "seconds", "Everything committed at the source before is "
          "in the table, by the source's clock.",
          lambda each: each.valid_through and each.valid_through.timestamp()),
    Gauge("valid_through_age", "seconds", "How far the table is behind its source, at most.",
          lambda each: each.completeness.end_to_end_seconds(each.at)),
    Gauge("slo_within", "ratio", "Share of changes visible in time, over the SLO's hours.",
          _of_slo(lambda slo: slo.percent_within / 100)),
    Gauge("slo_target", "ratio", "The share that is promised.",
          lambda each: each.target.percent / 100),
    Gauge("slo_budget_left", "ratio", "Of the error budget; negative once it is overdrawn.",
          _of_slo(lambda slo: slo.budget_left)),
    Gauge("slo_burn_rate", "", "Late share of the last hour divided by the allowed one.",
          _of_slo(lambda slo: slo.burn_rate)),
    Gauge("slo_changes", "", "Changes within the SLO's hours.",
          _of_slo(lambda slo: slo.changes)),
    Gauge("slo_late_changes", "", "Those of them that were late, or wait for too long.",
          _of_slo(lambda slo: slo.late)),
    Gauge("latency_p95", "seconds", "From commit to visible, over the SLO's hours.",
          lambda each: finite(each.slo.p95) if each.slo else None),
    Gauge("failed_attempts", "", "Attempts that failed since the last success.",
          _failed_attempts),
    Gauge("quarantined_records", "", "Records that were set aside and not merged.",
          lambda each: each.quarantined),
    Gauge("last_publish_timestamp", "seconds", "When the newest publish was made.",
          _published_at),
    Gauge("retention_headroom_records", "", "Records between the log's begin and the first "
          "unmerged one, of the partition that has the fewest; negative once some are lost.",
          _headroom),
    Gauge("rows", "", "Rows of the lake table.",
          lambda each: each.survey.state and each.survey.state.total_records),
    Gauge("data_files", "", "Data files of the lake table.",
          lambda each: each.survey.state and each.survey.state.files),
)  # fmt: skip

SOURCE_GAUGES: Final[tuple[Gauge[SourceLag], ...]] = (
    Gauge("lag_records", "", "The highest `table_lag_records` of tables that nobody holds.",
          lambda each: each.lag_records),
    Gauge("kafka_to_lake_lag", "seconds", "The highest of tables that nobody holds.",
          lambda each: each.lag_seconds),
    Gauge("valid_through_timestamp", "seconds", "The lowest: everything committed at the "
          "source before is in all tables.",
          lambda each: each.valid_through and each.valid_through.timestamp()),
    Gauge("valid_through_age", "seconds", "How far any table is behind its source, at most.",
          lambda each: each.end_to_end_seconds),
)  # fmt: skip


class NumbersCollector(Collector):
    """A collector of the newest numbers' families.

    Args:
        get: returns the numbers; if it raises `CdcError`, there is only a ``survey_success`` of 0.
    """

    def __init__(self, get: Callable[[], Numbers]) -> None:
        self._get = get
        self._made: tuple[Numbers, Sequence[Metric]] | None = None

    def describe(self) -> list[Metric]:
        """Returns nothing, so that registering the collector takes no look."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yields all families; builds them once as long as the numbers are the same."""
        try:
            numbers = self._get()
        except CdcError:
            yield _gauge("survey_success", "", "Whether all parts answered.", 0)
            return
        made = self._made
        if made is None or made[0] is not numbers:
            made = self._made = (numbers, tuple(families(numbers)))
        yield from made[1]


def families(numbers: Numbers) -> Iterator[Metric]:
    """Yields the families of all known numbers."""
    status = numbers.status
    complete = 0 if status.problems else 1
    yield _gauge("survey_success", "", "Whether all parts answered.", complete)
    yield _gauge("survey_duration", "seconds", "How long the last look took.", numbers.seconds)
    yield _gauge("survey_timestamp", "seconds", "When it was.", status.at.timestamp())
    yield _gauge("tables", "", "Replicated tables.", len(status.tables))
    yield _states(status.tables)
    for gauge in TABLE_GAUGES:
        yield _family(gauge, "table", TABLE, status.tables, _labels)
    for gauge in SOURCE_GAUGES:
        yield _family(gauge, "source", ("source",), status.sources, lambda each: (each.source,))
    yield from _connectors(numbers.sources)
    yield from _slots(numbers.sources)


def _gauge(name: str, unit: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(_name(name, unit), text, value=value, unit=unit)


def _name(name: str, unit: str) -> str:
    return f"{PREFIX}{name}_{unit}" if unit else PREFIX + name


def _labelled(name: str, unit: str, text: str, labels: Sequence[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(_name(name, unit), text, labels=labels, unit=unit)


def _family(
    gauge: Gauge[T],
    kind: str,
    names: Sequence[str],
    measured: Sequence[T],
    labels: Callable[[T], Sequence[str]],
) -> Metric:
    family = _labelled(f"{kind}_{gauge.name}", gauge.unit, gauge.help, names)
    for each in measured:
        value = gauge.of(each)
        if value is not None:
            family.add_metric(labels(each), float(value))
    return family


def _states(tables: Sequence[TableStatus]) -> Metric:
    text = "The table's state; see `cdc-assets status`."
    family = StateSetMetricFamily(PREFIX + "table_state", text, labels=TABLE)
    for each in tables:
        family.add_metric(_labels(each), {c.value: c is each.condition for c in Condition})
    return family


def _labels(each: TableStatus) -> tuple[str, str, str]:
    return each.table.source, each.table.schema, each.table.name


def _connectors(sources: Sequence[SourceNumbers]) -> Iterator[Metric]:
    labels = ("source", "connector")
    up = _labelled("connector_up", "", "Whether the connector and all its tasks run.", labels)
    text = "Tasks of the connector by their state."
    tasks = _labelled("connector_tasks", "", text, (*labels, "state"))
    for source in sources:
        for each in source.connectors:
            up.add_metric((source.source, each.name), float(each.is_up))
            states = [task.state for task in each.tasks]
            for state in TASK_STATES:
                tasks.add_metric((source.source, each.name, state), states.count(state))
            others = sum(state not in TASK_STATES for state in states)
            tasks.add_metric((source.source, each.name, OTHER), others)
    yield up
    yield tasks


def _slots(sources: Sequence[SourceNumbers]) -> Iterator[Metric]:
    labels = ("source", "slot")
    text = "WAL that the database keeps because of the slot."
    retained = _labelled("slot_retained_wal", "bytes", text, labels)
    text = "WAL that the slot's reader has not confirmed."
    unconfirmed = _labelled("slot_unconfirmed_wal", "bytes", text, labels)
    active = _labelled("slot_active", "", "Whether somebody reads the slot.", labels)
    text = "Whether the source's database named its slots."
    answered = _labelled("slots_known", "", text, ("source",))
    for source in sources:
        if source.slots is None:
            continue
        answered.add_metric((source.source,), 0 if source.slots.problem else 1)
        for each in source.slots.slots:
            place = (source.source, each.name)
            retained.add_metric(place, each.retained_bytes)
            unconfirmed.add_metric(place, each.unconfirmed_bytes)
            active.add_metric(place, float(each.active))
    yield from (retained, unconfirmed, active, answered)
