"""Collects each table's state, offsets, lag, SLO and last error for `cdc-assets status`.

Does not need Spark.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cdc_assets.changes.names import TableName
from cdc_assets.changes.slo import SloReport, SloTarget
from cdc_assets.errors import CdcError, TransientError
from cdc_assets.operate.completeness import Completeness, completeness, deliveries_of
from cdc_assets.operate.connectors import ConnectorView
from cdc_assets.operate.known_tables import not_tables, replicated, why_no_tables
from cdc_assets.operate.retained import RetentionState, retained
from cdc_assets.operate.seen_states import Condition, SeenState
from cdc_assets.operate.services import Services
from cdc_assets.operate.slo import slo_reports, slo_target
from cdc_assets.operate.states import TableCondition, standing_of
from cdc_assets.operate.survey import Survey, TableSurvey, survey
from cdc_assets.registry import OtherTopic, TableEntry
from cdc_assets.schema.silent import SilentChange

if TYPE_CHECKING:
    from cdc_assets.lake.shadow_progress import ShadowProgress
    from cdc_assets.lake.state import TableState

T = TypeVar("T")

_CURRENT: Final = "CURRENT"


@dataclass(frozen=True, slots=True)
class TableStatus:
    """The status of one table.

    ``slo`` and ``retained`` are None if Kafka did not answer; ``retained`` also for a table that is
    not behind. ``has_others``: whether rows of the table were chosen by another condition
    (``where``) than the configured one.
    """

    survey: TableSurvey
    at: datetime
    target: SloTarget
    slo: SloReport | None
    connector: ConnectorView
    completeness: Completeness = field(default_factory=Completeness)
    retained: RetentionState | None = None
    seen: SeenState | None = None
    has_others: bool = False

    @property
    def valid_through(self) -> datetime | None:
        """Everything committed at the source before this is in the table; None if unproven."""
        return self.completeness.valid_through

    @property
    def table(self) -> TableName:
        """The source table."""
        return self.survey.table

    @property
    def condition(self) -> Condition:
        """The state in a word."""
        return self.survey.condition(self.at, self.target.within_seconds)

    @property
    def standing(self) -> TableCondition:
        """The state, its beginning, and the reason."""
        return standing_of(self.survey, self.at, self.target.within_seconds, self.seen)

    @property
    def quarantined(self) -> int:
        """The number of its records in quarantine."""
        return quarantined(self.survey)

    @property
    def silent(self) -> tuple[SilentChange, ...]:
        """Changes of its rows without events that the lake table remembers: they are in doubt."""
        return silent_of(self.survey)

    def to_dict(self) -> dict[str, Any]:
        """Returns the status for ``--json``; unknown values are null."""
        view = self.survey
        return {
            "table": str(view.table),
            "state": _first_word(self),
            "condition": self.standing.to_dict(),
            "topic": view.entry.topic,
            "target": str(view.entry.target),
            "snapshot_id": view.state.snapshot_id if view.state else None,
            "published_at": _iso(view.published.published_at) if view.published else None,
            "offsets": {str(p): o for p, o in view.committed},
            "lag": self._lag_dict(),
            "slo": _slo_dict(self.target, self.slo),
            "quarantined": self.quarantined,
            "in_doubt": [each.to_dict() for each in self.silent],
            "other_where": self.has_others,
            "last_error": None if _is_waiting(view) else _failure_dict(view),
            "waiting": _waiting_dict(view),
            "connector": _connector_dict(self.connector),
            "desired": view.desired.to_dict(),
            "retention": self.retained.to_dict() if self.retained else None,
            "initial": _reading_dict(view.reading),
        }

    def _lag_dict(self) -> dict[str, Any]:
        found, seconds = self.completeness, self.survey.lag_seconds(self.at)
        return {
            "changes": self.survey.lag_changes,
            "seconds": seconds,
            "source_to_kafka_seconds": found.source_to_kafka_seconds,
            "kafka_to_lake_seconds": seconds,
            "end_to_end_seconds": found.end_to_end_seconds(self.at),
            "valid_through": _iso(found.valid_through),
        }


@dataclass(frozen=True, slots=True)
class SourceLag:
    """How far the tables of a source are behind; those that are dropped are left out.

    Attributes:
        source: its name.
        tables: how many tables are counted.
        lag_records: the highest number of unmerged records of a table; without tables that people
            hold, which lag on purpose. None if no table's is known.
        lag_seconds: the highest age in Kafka of an unmerged record; the same holds.
        valid_through: everything committed at the source before this is in each of the tables,
            those that people hold, too. None if that is not proven of one of them.
        end_to_end_seconds: the age of ``valid_through``.
    """

    source: str
    tables: int
    lag_records: int | None
    lag_seconds: float | None
    valid_through: datetime | None
    end_to_end_seconds: float | None

    def to_dict(self) -> dict[str, Any]:
        """Returns it for ``--json``, with the keys that tables have; null if unknown."""
        through = self.valid_through
        return {
            "source": self.source,
            "tables": self.tables,
            "lag": {
                "changes": self.lag_records,
                "kafka_to_lake_seconds": self.lag_seconds,
                "end_to_end_seconds": self.end_to_end_seconds,
                "valid_through": through.isoformat() if through else None,
            },
        }


@dataclass(frozen=True, slots=True)
class Status:
    """All tables, the parts that did not answer, and the topics that are no tables.

    ``why_none``: why there are no tables; empty if there are, or if Kafka does not answer.
    ``is_whole``: whether all that is said of tables could be read.
    """

    at: datetime
    tables: tuple[TableStatus, ...]
    problems: tuple[CdcError, ...] = ()
    not_tables: tuple[OtherTopic, ...] = ()
    why_none: str = ""
    is_whole: bool = True

    @property
    def sources(self) -> tuple[SourceLag, ...]:
        """How far the tables of each source are behind."""
        return _source_lags(self.tables)

    @property
    def waiting(self) -> tuple[TableStatus, ...]:
        """The tables in state WAITING."""
        return tuple(each for each in self.tables if each.condition is Condition.WAITING)

    @property
    def held(self) -> tuple[TableStatus, ...]:
        """The tables that people have paused or dropped, or begun to reset."""
        return tuple(each for each in self.tables if each.survey.desired.held)

    @property
    def overtaken(self) -> tuple[TableStatus, ...]:
        """The tables whose unread changes the log's retention has reached or soon will reach."""
        return tuple(each for each in self.tables if each.retained and each.retained.is_near)

    @property
    def failing(self) -> tuple[TableStatus, ...]:
        """The tables in state FAILING."""
        return tuple(each for each in self.tables if each.condition is Condition.FAILING)

    def to_json(self) -> str:
        """Returns the document that ``--json`` prints."""
        document = {
            "at": self.at.isoformat(),
            "sources": [each.to_dict() for each in self.sources],
            "tables": [each.to_dict() for each in self.tables],
            "not_tables": [_other_dict(each) for each in self.not_tables],
            "problems": [str(problem) for problem in self.problems],
        }
        return json.dumps(document, indent=2)


def read_status(services: Services, entries: Sequence[TableEntry] | None = None) -> Status:
    """Reads the status of all registered tables, or of these; names parts that do not answer.

    Raises:
        CdcError: if the registry cannot be read, or a secret is missing.
    """
    others: tuple[OtherTopic, ...] = ()
    if entries is None:
        registry = services.registry.load()
        entries = replicated(services.config, registry)
        others = not_tables(services.config, registry)
    with ThreadPoolExecutor(1) as connect:  # asked at the same time as the log and the lake
        asked = connect.submit(services.connects.ask, entries)
        seen = survey(services, entries)
        deliveries = deliveries_of(services, seen.tables)
        complete = completeness(services, seen.tables, deliveries)
        reports, kept, problems = _reports(services, seen)
        asked.result()
    since = services.states.known()
    tables = tuple(
        TableStatus(
            each,
            seen.at,
            slo_target(services, each.table),
            reports.get(each.table),
            services.connects.view(each.entry),
            complete[each.table],
            kept.get(each.table),
            since.get(each.table),
            has_others(services, each.entry, each.state),
        )
        for each in seen.tables
    )
    why_none, silent = ("", ()) if tables else _why_none(services)
    said = (*seen.problems, *problems, *silent)
    is_whole = seen.is_whole and not problems
    return Status(seen.at, tables, said, others, why_none, is_whole)


def _source_lags(tables: Sequence[TableStatus]) -> tuple[SourceLag, ...]:
    """Returns the lag of each source that has tables, ordered by name."""
    found: dict[str, list[TableStatus]] = {}
    for each in tables:
        if each.condition is not Condition.DROPPED:
            found.setdefault(each.table.source, []).append(each)
    return tuple(_lag(source, mine) for source, mine in sorted(found.items()))


def _lag(source: str, tables: Sequence[TableStatus]) -> SourceLag:
    merged = [each for each in tables if each.survey.desired.held is None]
    through = _known(each.valid_through for each in tables)
    ages = _known(each.completeness.end_to_end_seconds(each.at) for each in tables)
    is_proven = len(through) == len(tables)
    return SourceLag(
        source,
        len(tables),
        max(_known(each.survey.lag_changes for each in merged), default=None),
        max(_known(each.survey.lag_seconds(each.at) for each in merged), default=None),
        min(through) if is_proven else None,
        max(ages) if is_proven else None,
    )


def _known(values: Iterable[T | None]) -> list[T]:
    return [each for each in values if each is not None]


def _why_none(services: Services) -> tuple[str, tuple[CdcError, ...]]:
    try:
        return str(why_no_tables(services)), ()
    except TransientError as problem:
        return "", (problem,)


def _reports(
    services: Services, seen: Survey
) -> tuple[dict[TableName, SloReport], dict[TableName, RetentionState], tuple[CdcError, ...]]:
    if not seen.is_whole:
        return {}, {}, ()
    try:
        # Of a table that people hold nothing is promised, and who they are is not known.
        reports = slo_reports(services, seen.tables, seen.at) if seen.knows_directives else {}
        return reports, retained(services, seen.tables, seen.at), ()
    except CdcError as problem:
        return {}, {}, (problem,)


def _reading_dict(progress: ShadowProgress | None) -> dict[str, Any] | None:
    """Returns how far a table's first rows are read from its source."""
    if progress is None:
        return None
    return {
        "rows": progress.rows,
        "rows_estimated": progress.about or None,
        "percent": progress.percent,
        "rows_per_second": progress.rows_per_second,
        "seconds_left": progress.seconds_left,
        "is_read": progress.is_read,
    }


def _slo_dict(target: SloTarget, report: SloReport | None) -> dict[str, Any] | None:
    if report is None:
        return None
    return {
        "state": report.state.value,
        "target": str(target),
        "percent_within": report.percent_within,
        "p50_seconds": finite(report.p50),
        "p95_seconds": finite(report.p95),
        "p99_seconds": finite(report.p99),
        "budget_left": report.budget_left,
        "burn_rate": report.burn_rate,
        "changes": report.changes,
        "late": report.late,
    }


def _connector_dict(view: ConnectorView) -> dict[str, Any] | None:
    """Returns the connectors' states; None if no Connect is configured."""
    if not view.is_configured:
        return None
    return {
        "state": view.working.value,
        "words": view.words,
        "connectors": [
            {
                "name": each.name,
                "state": each.own.state,
                "tasks": [{"id": task.task, "state": task.state} for task in each.tasks],
            }
            for each in view.connectors
        ],
    }


def _first_word(each: TableStatus) -> str:
    """Returns the ``state`` in its original words, which programs compare with."""
    if each.condition is Condition.REPLICATING:
        return _CURRENT
    if each.survey.reading is not None and each.condition is Condition.SNAPSHOTTING:
        return Condition.NEW.value
    if each.condition is Condition.SNAPSHOTTING:
        lag = each.survey.lag_seconds(each.at)
        is_near = lag is not None and lag <= each.target.within_seconds
        return _CURRENT if is_near else Condition.LAGGING.value
    return each.condition.value


def _other_dict(other: OtherTopic) -> dict[str, str | None]:
    return {"topic": other.topic, "holds": other.holds, "looked_at": _iso(other.looked_at)}


def _is_waiting(view: TableSurvey) -> bool:
    return view.failure is not None and view.failure.is_waiting


def _waiting_dict(view: TableSurvey) -> dict[str, Any] | None:
    """Returns the wait, also that of a table that has waited for too long."""
    failure = view.failure
    if failure is None or failure.hold is None or view.has_moved:
        return None
    hold = failure.hold
    return {
        "transaction": hold.transaction,
        "since": _iso(hold.since),
        "stops_at": _iso(hold.stops_at),
        "reason": failure.message,
        "looks": failure.attempts,
        "next_look_at": _iso(failure.retry_at),
    }


def _failure_dict(view: TableSurvey) -> dict[str, Any] | None:
    failure = view.failure
    if failure is None:
        return None
    return {
        "at": _iso(failure.at),
        "kind": failure.kind.value,
        "message": failure.message,
        "attempts": failure.attempts,
        "needs_person": failure.needs_person,
        "retry_at": _iso(failure.probe_at if failure.stopped else failure.retry_at),
        "since": _iso(failure.began),
        "stopped": failure.stopped,
    }


def quarantined(table: TableSurvey) -> int:
    """Returns the number of records in quarantine as of the table's newest publish."""
    return table.published.counts.get("quarantined", 0) if table.published else 0


def has_others(services: Services, entry: TableEntry, state: TableState | None) -> bool:
    """Returns whether rows of a table were chosen by another condition than the configured one."""
    source = services.config.sources.get(entry.table.source)
    if state is None or source is None:
        return False
    from cdc_assets.lake.properties import WHERE

    return state.properties.get(WHERE, "") != source.overrides(entry.table).condition_text


def silent_of(table: TableSurvey) -> tuple[SilentChange, ...]:
    """Returns the changes without events that a table's rows are in doubt because of."""
    from cdc_assets.lake.at_source import AtSource

    return AtSource.of(table.state, table.entry.shard_value).silent


def quarantine_words(table: TableName, count: int) -> str:
    """Says how many records are in quarantine, and which command lists them."""
    verb = "record is" if count == 1 else "records are"
    return f"{count:,} {verb} in quarantine: cdc-assets quarantine list --table {table}"


def finite(value: float) -> float | None:
    """Returns None for NaN, the percentile of no changes."""
    return None if math.isnan(value) else value


def _iso(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
