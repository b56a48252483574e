"""Finds what needs an alert in one look at everything, and what that look cannot judge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Final, assert_never
from urllib.parse import quote

from cdc_assets.changes.alerting import AlertFinding, AlertKind
from cdc_assets.changes.names import TableName
from cdc_assets.changes.slo import SloState
from cdc_assets.config.platform import AlertsConfig
from cdc_assets.errors import CdcError, LoginRefusedError, TransientError
from cdc_assets.operate.connectors import ConnectorView, Working
from cdc_assets.operate.numbers import Numbers, SourceNumbers
from cdc_assets.operate.parts import PartAnswers
from cdc_assets.operate.seen_states import Condition
from cdc_assets.operate.states import stopped_words
from cdc_assets.operate.status import TableStatus, quarantine_words
from cdc_assets.reference import explained
from cdc_assets.schema.silent import doubt_remedy, doubt_words

TRANSIENT: Final = timedelta(minutes=10)
"""How long a failure that may pass by itself lasts before it is an alert."""
BURNING: Final = timedelta(minutes=2)
HELD: Final = timedelta(minutes=2)
"""Longer than Connect takes to assign a connector's tasks to another worker."""
SILENT: Final = timedelta(minutes=5)

CONNECT: Final = "Kafka Connect"
ALL: Final = "all sources"
"""Stands for the source of what concerns every table; no source has such a name."""
THE_LOOK: Final = "the look at everything"


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """The last outcome of a check of a table.

    Attributes:
        kind: of the alert if it is red.
        table: the checked table.
        is_red: whether it found what it looks for; None if it could not tell.
        words: its description.
    """

    kind: AlertKind
    table: TableName
    is_red: bool | None
    words: str = ""


@dataclass(frozen=True)
class MonitoredState:
    """All that is known at one moment.

    Attributes:
        numbers: the numbers of all tables and sources.
        answers: the answers of the parts that these do not need.
        checks: the last outcomes of checks.
    """

    numbers: Numbers
    answers: PartAnswers = field(default_factory=PartAnswers)
    checks: tuple[CheckOutcome, ...] = ()

    def findings(self, config: AlertsConfig) -> list[AlertFinding]:
        """Returns all that is wrong."""
        tables = [each for each in self._tables.values() if each.condition is not Condition.DROPPED]
        there = {each.table for each in tables}
        return [
            *(found for each in tables for found in _of_table(each)),
            *_of_connectors(tables),
            *(found for source in self.numbers.sources for found in _of_slots(source, config)),
            *self._of_parts,
            *(_of_check(each) for each in self.checks if each.is_red and each.table in there),
        ]

    def judges(self, kind: AlertKind, source: str, member: str) -> bool:
        """Returns whether this look would have found something that is still wrong."""
        match kind:
            case (
                AlertKind.TABLE_FAILED
                | AlertKind.LOST_RANGE
                | AlertKind.QUARANTINED
                | AlertKind.BUDGET_BURNS
                | AlertKind.DOUBTED_ROWS
            ):
                return self._judges_table(kind, source, member)
            case AlertKind.ROWS_DIFFER | AlertKind.OFFSETS_GAP:
                is_gone = (source, member) not in self._tables
                return is_gone or (kind, source, member) in self._checked
            case AlertKind.CONNECTOR_DOWN:
                tables = self._tables.values()
                views = (each.connector for each in tables if each.table.source == source)
                return not any(v.is_configured and v.working is Working.UNKNOWN for v in views)
            case AlertKind.SLOT_GROWS:
                mine = (each for each in self.numbers.sources if each.source == source)
                return not any(each.slots and each.slots.problem for each in mine)
            case AlertKind.PART_AWAY:
                return self._judges_part(source, member)
            case AlertKind.LOGIN_REFUSED:
                away = AlertKind.PART_AWAY, source, member
                found = ((each.kind, each.source, each.member) for each in self._of_parts)
                return self._judges_part(source, member) and away not in found
            case AlertKind.CANNOT_LOOK:
                return True
            case _:
                assert_never(kind)

    def _judges_table(self, kind: AlertKind, source: str, member: str) -> bool:
        table = self._tables.get((source, member))
        if table is None or not self.numbers.status.is_whole:
            return table is None
        return table.survey.problem is None and (
            kind is not AlertKind.BUDGET_BURNS or table.slo is not None
        )

    def _judges_part(self, source: str, member: str) -> bool:
        """A part that is asked by none of these is judged by whatever needs it."""
        key = ("" if source == ALL else source, member)
        return key in self.answers.parts or member not in _ASKED_APART

    @cached_property
    def _of_parts(self) -> list[AlertFinding]:
        views = {each.table.source: each.connector for each in self._tables.values()}
        return [
            *(of_problem(each) for each in self.numbers.status.problems),
            *(of_problem(each.problem, each.source, each.part) for each in self.answers.away),
            *(of_problem(v.away, source, CONNECT) for source, v in views.items() if v.away),
        ]

    @cached_property
    def _tables(self) -> dict[tuple[str, str], TableStatus]:
        tables = self.numbers.status.tables
        return {(each.table.source, each.table.qualified): each for each in tables}

    @cached_property
    def _checked(self) -> set[tuple[AlertKind, str, str]]:
        return {
            (each.kind, each.table.source, each.table.qualified)
            for each in self.checks
            if each.is_red is not None
        }


_ASKED_APART: Final = frozenset(
    {"source database", "schema registry", "Spark server", "lake's store"}
)


def of_problem(problem: CdcError, source: str = "", part: str = "") -> AlertFinding:
    """Returns the finding for a part that does not answer, or refuses.

    Args:
        problem: what the part is like.
        source: the only source that needs it; empty if all do.
        part: its name; its address if empty.
    """
    kind, after = _kind_of(problem, is_part=bool(part))
    words = f"{explained(problem)}; then look at: cdc-assets status"
    return AlertFinding(kind, source or ALL, part or problem.where or problem.what, words, after)


def _kind_of(problem: CdcError, *, is_part: bool) -> tuple[AlertKind, timedelta]:
    if isinstance(problem, LoginRefusedError):
        return AlertKind.LOGIN_REFUSED, timedelta()
    if is_part or isinstance(problem, TransientError):
        return AlertKind.PART_AWAY, SILENT
    return AlertKind.CANNOT_LOOK, timedelta()


def _of_table(each: TableStatus) -> Iterator[AlertFinding]:
    source, name = each.table.source, each.table.qualified
    failure = each.survey.failure
    if each.condition is Condition.FAILING and failure is not None:
        after = timedelta() if failure.needs_person else TRANSIENT
        words = "; ".join(filter(None, (failure.message, stopped_words(each.survey))))
        yield AlertFinding(AlertKind.TABLE_FAILED, source, name, words, after)
    if each.retained is not None and each.retained.is_near:
        yield AlertFinding(AlertKind.LOST_RANGE, source, name, each.retained.words())
    if each.silent:
        why = "; ".join(map(doubt_words, each.silent))
        words = f"{why} → {doubt_remedy(str(each.table))}"
        yield AlertFinding(AlertKind.DOUBTED_ROWS, source, name, words)
    if each.quarantined:
        yield AlertFinding(
            AlertKind.QUARANTINED, source, name, quarantine_words(each.table, each.quarantined)
        )
    if each.slo is not None and each.slo.state in {SloState.WARN, SloState.ERROR}:
        words = (
            f"{each.slo.percent_within:.2f} % of changes in time, target {each.target}; "
            f"{each.slo.budget_left:.0%} of the error budget left, burning "
            f"{each.slo.burn_rate:.1f} times as fast as allowed → cdc-assets status"
        )
        yield AlertFinding(AlertKind.BUDGET_BURNS, source, name, words, BURNING)


_NOT_UP: Final = {
    Working.DOWN: timedelta(),
    Working.HELD: HELD,
}


def _of_connectors(tables: Sequence[TableStatus]) -> Iterator[AlertFinding]:
    """Yields one finding per connector, however many tables wait for it."""
    waiting: dict[tuple[str, str], list[TableStatus]] = {}
    for each in tables:
        view = each.connector
        if view.is_configured and view.working in _NOT_UP:
            names = ", ".join(one.name for one in view.connectors) or CONNECT
            waiting.setdefault((each.table.source, names), []).append(each)
    for (source, names), group in waiting.items():
        view = group[0].connector
        after = _NOT_UP[view.working]
        wait = sum(not each.survey.desired.held for each in group)
        whom = (
            f"{wait:,} table(s) wait for it"
            if wait
            else "nothing is merged into its tables now, as people want"
        )
        words = f"{view.trouble}; {whom}{_go_on(view)}"
        yield AlertFinding(AlertKind.CONNECTOR_DOWN, source, names, words, after)


def _go_on(view: ConnectorView) -> str:
    """Returns the requests to Kafka Connect that restart connectors."""
    down = [each for each in view.connectors if not each.is_up]
    asked = [
        f"POST /connectors/{quote(each.name)}/restart?includeTasks=true&onlyFailed=true"
        if each.has_failed
        else f"PUT /connectors/{quote(each.name)}/resume"
        for each in down
    ]
    return f" → once its reason is mended, ask Kafka Connect: {', '.join(asked)}" if asked else ""


def _of_slots(source: SourceNumbers, config: AlertsConfig) -> Iterator[AlertFinding]:
    for each in source.slots.slots if source.slots else ():
        is_lost = each.wal_status in {"unreserved", "lost"}
        if is_lost or each.retained_bytes > config.slot_bytes:
            reader = "is read" if each.active else "is not read by anybody"
            state = f", its WAL is {each.wal_status}" if is_lost else ""
            words = (
                f"the database keeps {each.retained_bytes:,} bytes of WAL for it{state}; "
                f"it {reader}: look at its connector, or if nobody needs the slot → "
                f"SELECT pg_drop_replication_slot('{each.name}')"
            )
            yield AlertFinding(AlertKind.SLOT_GROWS, source.source, each.name, words)


def _of_check(check: CheckOutcome) -> AlertFinding:
    table = check.table
    remedy = f"cdc-assets verify --table {table} --repair"
    if check.kind is AlertKind.OFFSETS_GAP:
        remedy = f"cdc-assets verify --table {table}, and if rows differ: {remedy}"
    return AlertFinding(check.kind, table.source, table.qualified, f"{check.words} → {remedy}")
