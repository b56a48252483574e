"""Converts the numbers into OpenMetrics families, by one table (`FAMILIES`).

The dashboard and the rules for Prometheus are made of the same table (`operate/dashboard.py`).

Names and units follow OpenMetrics: base units, a suffix for the unit, ratios between 0 and 1. All
are gauges of present values, so that a restart of this program breaks no series. An unknown value
has no sample, rather than a wrong one.

Labels are names of sources, tables, connectors and slots, and states from closed lists: their
number grows only with the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily, Metric, StateSetMetricFamily
from prometheus_client.registry import Collector

from cdc_assets.changes.slo import SloReport, SloState
from cdc_assets.errors import CdcError
from cdc_assets.log.connect import RESTARTING, RUNNING, RunningConnector
from cdc_assets.operate.numbers import Numbers
from cdc_assets.operate.seen_states import Condition
from cdc_assets.operate.status import SourceLag, TableStatus, finite

if TYPE_CHECKING:
    from cdc_assets.databases.postgres.server import Slot

PREFIX: Final = "cdc_assets_"
TABLE: Final = ("source", "schema", "table")
CONNECTOR: Final = ("source", "connector")
TASK_STATES: Final = (RUNNING, "FAILED", "PAUSED", "STOPPED", "UNASSIGNED", RESTARTING)
OTHER: Final = "OTHER"

Sample = tuple[Sequence[str], float | None]
"""The values of a family's labels, and the number; None if it is unknown."""


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of number.

    Attributes:
        name: without the prefix and the unit.
        unit: the base unit, which ends the metric's name; empty for a count.
        help: the text of ``# HELP``.
        labels: the names of its labels.
        of: returns the samples of a look.
    """

    name: str
    unit: str
    help: str
    labels: tuple[str, ...]
    of: Callable[[Numbers], Iterable[Sample]]

    @property
    def metric(self) -> str:
        """The name as it is exposed."""
        return f"{PREFIX}{self.name}_{self.unit}" if self.unit else PREFIX + self.name

    def exposed(self, numbers: Numbers) -> Metric:
        """Returns the family with the samples that are known."""
        family = GaugeMetricFamily(self.metric, self.help, labels=self.labels, unit=self.unit)
        for labels, value in self.of(numbers):
            if value is not None:
                family.add_metric(labels, float(value))
        return family


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


def _connectors(numbers: Numbers) -> Iterator[tuple[tuple[str, str], RunningConnector]]:
    for source in numbers.sources:
        yield from (((source.source, each.name), each) for each in source.connectors)


def _tasks(numbers: Numbers) -> Iterator[Sample]:
    for names, each in _connectors(numbers):
        states = [task.state for task in each.tasks]
        yield from (((*names, state), states.count(state)) for state in TASK_STATES)
        yield (*names, OTHER), sum(state not in TASK_STATES for state in states)


def _labels(each: TableStatus) -> tuple[str, str, str]:
    return each.table.source, each.table.schema, each.table.name


@dataclass(frozen=True, slots=True)
class StateSet(Family):
    """A family of each table that is 1 for the one state that holds, and 0 for the others.

    Attributes:
        states: the values of the label that has the metric's own name.
    """

    states: tuple[str, ...] = ()

    def exposed(self, numbers: Numbers) -> Metric:
        """Returns the states of each table."""
        family = StateSetMetricFamily(self.metric, self.help, labels=self.labels)
        for each in numbers.status.tables:
            held = {state: state == each.condition.value for state in self.states}
            family.add_metric(_labels(each), held)
        return family


TABLE_STATE: Final = StateSet(
    "table_state", "", "The table's state; see `cdc-assets status`.", TABLE,
    lambda _: (), tuple(each.value for each in Condition),
)  # fmt: skip


def _of_tables(
    name: str, unit: str, text: str, of: Callable[[TableStatus], float | None]
) -> Family:
    """Returns the family of one number of each table."""

    def samples(numbers: Numbers) -> Iterator[Sample]:
        return ((_labels(each), of(each)) for each in numbers.status.tables)

    return Family(f"table_{name}", unit, text, TABLE, samples)


def _of_sources(name: str, unit: str, text: str, of: Callable[[SourceLag], float | None]) -> Family:
    """Returns the family of one number of each source."""

    def samples(numbers: Numbers) -> Iterator[Sample]:
        return (((each.source,), of(each)) for each in numbers.status.sources)

    return Family(f"source_{name}", unit, text, ("source",), samples)


def _of_slots(name: str, unit: str, text: str, of: Callable[[Slot], float]) -> Family:
    """Returns the family of one number of each replication slot."""

    def samples(numbers: Numbers) -> Iterator[Sample]:
        for source in numbers.sources:
            for each in source.slots.slots if source.slots else ():
                yield (source.source, each.name), of(each)

    return Family(f"slot_{name}", unit, text, ("source", "slot"), samples)


def _of_the_look(name: str, unit: str, text: str, of: Callable[[Numbers], float]) -> Family:
    """Returns the family of one number of the look itself."""
    return Family(name, unit, text, (), lambda numbers: [((), of(numbers))])


SURVEY_SUCCESS: Final = _of_the_look(
    "survey_success", "", "1 if all parts answered.",
    lambda numbers: 0 if numbers.status.problems else 1,
)  # fmt: skip

FAMILIES: Final[tuple[Family, ...]] = (
    SURVEY_SUCCESS,
    _of_the_look("survey_duration", "seconds", "Duration of the last survey.",
                 lambda numbers: numbers.seconds),
    _of_the_look("survey_timestamp", "seconds", "Time of the last survey.",
                 lambda numbers: numbers.status.at.timestamp()),
    _of_the_look("tables", "", "Number of replicated tables.",
                 lambda numbers: len(numbers.status.tables)),
    TABLE_STATE,
    _of_tables("lag_records", "", "Number of unmerged records in the log.",
               lambda each: each.survey.lag_changes),
    _of_tables("kafka_to_lake_lag", "seconds", "Age in Kafka of the oldest unmerged record.",
               lambda each: each.survey.lag_seconds(each.at)),
    _of_tables("source_to_kafka_lag", "seconds", "Upper bound of the connector's lag.",
               lambda each: each.completeness.source_to_kafka_seconds),
    _of_tables("valid_through_timestamp", "seconds", "Time of the source before which every "
               "commit is in the table.",
               lambda each: each.valid_through and each.valid_through.timestamp()),
    _of_tables("valid_through_age", "seconds", "Upper bound of the table's lag behind its source.",
               lambda each: each.completeness.end_to_end_seconds(each.at)),
    _of_tables("slo_within", "ratio", "Share of changes visible in time, over the SLO's hours.",
               _of_slo(lambda slo: slo.percent_within / 100)),
    _of_tables("slo_target", "ratio", "Share of changes that the SLO promises.",
               lambda each: each.target.percent / 100),
    _of_tables("slo_budget_left", "ratio",
               "Share of the error budget left; negative once overdrawn.",
               _of_slo(lambda slo: slo.budget_left)),
    _of_tables("slo_burn_rate", "", "Late share of the last hour divided by the allowed one.",
               _of_slo(lambda slo: slo.burn_rate)),
    _of_tables("slo_changes", "", "Number of changes in the SLO's hours.",
               _of_slo(lambda slo: slo.changes)),
    _of_tables("slo_late_changes", "", "Number of these that were late, or wait too long.",
               _of_slo(lambda slo: slo.late)),
    _of_tables("latency_p95", "seconds",
               "95th percentile from commit to visible, over the SLO's hours.",
               lambda each: finite(each.slo.p95) if each.slo else None),
    _of_tables("failed_attempts", "", "Number of failed attempts since the last success.",
               _failed_attempts),
    _of_tables("quarantined_records", "", "Number of records in quarantine.",
               lambda each: each.quarantined),
    _of_tables("last_publish_timestamp", "seconds", "Time of the newest commit.",
               _published_at),
    _of_tables("retention_headroom_records", "", "Fewest records of a partition between the "
               "log's begin and the first unmerged one; negative once some are lost.",
               _headroom),
    _of_tables("rows", "", "Number of rows of the lake table.",
               lambda each: each.survey.state and each.survey.state.total_records),
    _of_tables("data_files", "", "Number of data files of the lake table.",
               lambda each: each.survey.state and each.survey.state.files),
    _of_sources("lag_records", "", "Maximum of `table_lag_records`, without held tables.",
                lambda each: each.lag_records),
    _of_sources("kafka_to_lake_lag", "seconds", "Maximum of the tables, without held ones.",
                lambda each: each.lag_seconds),
    _of_sources("valid_through_timestamp", "seconds", "Time of the source before which every "
                "commit is in all tables.",
                lambda each: each.valid_through and each.valid_through.timestamp()),
    _of_sources("valid_through_age", "seconds", "Upper bound of the lag of all tables.",
                lambda each: each.end_to_end_seconds),
    Family("connector_up", "", "1 if the connector and all its tasks run.", CONNECTOR,
           lambda numbers: ((names, float(each.is_up)) for names, each in _connectors(numbers))),
    Family("connector_tasks", "", "Number of the connector's tasks, by state.",
           (*CONNECTOR, "state"),
           _tasks),
    _of_slots("retained_wal", "bytes", "WAL that the database retains for the slot.",
              lambda each: each.retained_bytes),
    _of_slots("unconfirmed_wal", "bytes", "WAL that the slot's reader has not confirmed.",
              lambda each: each.unconfirmed_bytes),
    _of_slots("active", "", "1 if the slot has a reader.", lambda each: each.active),
    Family("slots_known", "", "1 if the database reported its slots.", ("source",),
           lambda numbers: (((each.source,), 0 if each.slots.problem else 1)
                            for each in numbers.sources if each.slots)),
)  # fmt: skip
"""Every family, in the order in which they are exposed."""


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
            yield GaugeMetricFamily(SURVEY_SUCCESS.metric, SURVEY_SUCCESS.help, value=0)
            return
        made = self._made
        if made is None or made[0] is not numbers:
            made = self._made = (numbers, tuple(families(numbers)))
        yield from made[1]


def families(numbers: Numbers) -> Iterator[Metric]:
    """Yields the families of all known numbers."""
    yield from (each.exposed(numbers) for each in FAMILIES)
