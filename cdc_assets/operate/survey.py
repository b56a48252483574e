"""Surveys all tables: the offsets that the lake has committed, and the log beyond them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector, total_length
from cdc_assets.desired import NOTHING, TableDirectives, place_of
from cdc_assets.errors import CdcError, TerminalError
from cdc_assets.log.rounds import in_rounds
from cdc_assets.operate.failures import Failure, kind_of
from cdc_assets.operate.seen_states import Condition
from cdc_assets.operate.services import Services
from cdc_assets.reference import explained
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.lake import Looked, Published, TableState
    from cdc_assets.lake.shadow_progress import ShadowProgress
    from cdc_assets.log.values import Bounds, Watermarks

T = TypeVar("T")

LONGEST_COMMENT: Final = 1_000
"""Characters of a table's comment that the registry keeps."""

SNAPSHOT_REST: Final = timedelta(minutes=1)
"""How long after a publish of snapshot rows, with nothing unread, more of them are expected."""


@dataclass(frozen=True, slots=True)
class TableSurvey:
    """One table at one moment.

    ``state`` is None for a table that is not in the lake yet, ``marks`` for a topic that
    Kafka does not have (or if Kafka was not asked), ``oldest_unread`` if nothing is unread.
    ``has_moved``: whether a topic that a waiting table waits for has moved. ``desired``: people's
    directives for the table. ``problem``: why the table's state or its topic's bounds cannot be
    read, if that concerns this table alone; ``failure`` repeats it. ``reading``: how far its first
    rows are read from its source; None if they are not to be read, or have been read.
    """

    entry: TableEntry
    state: TableState | None
    marks: Watermarks | None
    oldest_unread: datetime | None
    failure: Failure | None
    has_moved: bool = False
    desired: TableDirectives = NOTHING
    problem: CdcError | None = None
    reading: ShadowProgress | None = None

    @property
    def table(self) -> TableName:
        """The source table."""
        return self.entry.table

    @property
    def published(self) -> Published | None:
        """The properties of the newest publish; None before the first."""
        return self.state.published if self.state else None

    @property
    def committed(self) -> OffsetVector:
        """The next offsets to read, as committed in the lake; empty for a new table."""
        published = self.published
        return published.offsets if published else OffsetVector()

    @property
    def position(self) -> OffsetVector:
        """Where reading continues: the committed offsets, or the log's begin if that is later.

        After the table was dropped at the source and in the lake: where the records of another
        table of its name begin. After people had it removed: where it began.
        """
        dropped = self.entry.dropped
        end = (dropped.end if dropped else None) or OffsetVector()
        if dropped and not dropped.topic_id and self.marks and _is_beyond(end, self.marks):
            end = OffsetVector()
        begins = self.entry.begins.at if self.entry.begins else OffsetVector()
        start = self.committed.merged_max(end).merged_max(begins)
        return start.merged_max(self.marks.begin) if self.marks else start

    @property
    def lag_changes(self) -> int | None:
        """The number of offsets from `position` to the log's end; None if unknown."""
        if self.marks is None or self.problem is not None:
            return None
        return total_length(self.position.ranges_to(self.marks.end))

    def lag_seconds(self, now: datetime) -> float | None:
        """Returns the age of the oldest unread record: 0 if all is read, None if unknown."""
        if self.lag_changes == 0:
            return 0.0
        if self.oldest_unread is None:
            return None
        return max(0.0, (now - self.oldest_unread).total_seconds())

    @property
    def waits(self) -> bool:
        """Whether it waits for the end of a transaction, and no awaited topic has moved."""
        return self.failure is not None and self.failure.is_waiting and not self.has_moved

    def takes_snapshot(self, now: datetime) -> bool:
        """Returns whether its last publish had snapshot rows, and more of them are expected."""
        published = self.published
        if published is None or not published.counts.get("r"):
            return False
        return bool(self.lag_changes) or now - published.published_at < SNAPSHOT_REST

    def condition(self, now: datetime, within_seconds: float) -> Condition:
        """Returns the state: by people's directives first, then by failures, then by progress."""
        if self.desired.dropped is not None:
            return Condition.DROPPED
        if self.desired.reset is not None or self.desired.paused is not None:
            return Condition.REBUILDING if self.desired.reset is not None else Condition.PAUSED
        if self.waits:
            return Condition.WAITING
        if self.failure is not None and not self.failure.is_waiting:
            return Condition.FAILING
        if self.desired.rebuild is not None:
            return Condition.REBUILDING
        if self.entry.dropped is not None and not self.lag_changes:
            return Condition.DROPPED
        if self.marks is None:
            return Condition.UNKNOWN
        if self.reading is not None and self.reading.waves:
            return Condition.SNAPSHOTTING
        if self.published is None:
            return Condition.NEW
        if self.takes_snapshot(now):
            return Condition.SNAPSHOTTING
        return self._by_lag(now, within_seconds)

    def _by_lag(self, now: datetime, within_seconds: float) -> Condition:
        lag = self.lag_seconds(now)
        is_near = lag is not None and lag <= within_seconds
        return Condition.REPLICATING if is_near else Condition.LAGGING


@dataclass(frozen=True, slots=True)
class Survey:
    """All tables at one moment, and the parts that did not answer.

    Whatever concerns one table alone is that table's ``problem``, and not among these.

    Attributes:
        is_whole: whether the log, the lake and the tables' failures could be read.
        knows_directives: whether people's directives for tables could be read.
    """

    at: datetime
    tables: tuple[TableSurvey, ...]
    problems: tuple[CdcError, ...] = ()
    is_whole: bool = True
    knows_directives: bool = True

    def answered(self) -> Survey:
        """Returns the survey itself if every part has answered.

        Raises:
            CdcError: the first problem, if there is any; one that needs a person before others.
        """
        for each in sorted(self.problems, key=lambda each: not isinstance(each, TerminalError)):
            raise each
        return self

    def complete(self) -> Survey:
        """Returns the survey itself if every part has answered, and every table could be read.

        Raises:
            CdcError: the first problem, if there is any.
        """
        for each in self.answered().tables:
            if each.problem is not None:
                raise each.problem
        return self


def survey(services: Services, entries: Sequence[TableEntry], *, ages: bool = True) -> Survey:
    """Reads Kafka (a few calls for all tables), the catalog, the failures and the directives.

    If a part cannot be read, the fields that need it are None, and ``problems`` names it: this
    function itself does not raise for it. A table that alone cannot be read, or whose directives
    cannot, has its own problem.

    Args:
        services: the services to ask.
        entries: the tables to survey.
        ages: whether to find the timestamps of the oldest unread records, too.
    """
    problems: list[CdcError] = []
    directives = _directives(services, entries)
    failures = _tried(services.failures.load, {}, problems)
    entries = _tried(partial(_in_their_topics, services, entries), entries, problems)
    topics = [entry.topic for entry in entries]
    awaited = {topic for each in failures.values() if each.hold for topic in each.hold.log_end}
    with ThreadPoolExecutor(1) as kafka:  # the log and the lake answer at the same time
        asked = kafka.submit(partial(_bounds, services, sorted({*topics, *awaited})))
        looked = _tried(partial(_looked, services, entries), {}, problems)
        reading = _tried(partial(_reading, services, entries, looked), {}, problems)
        bounds = _tried(asked.result, None, problems)
    marks = {**_to_come(services, entries, looked), **bounds.marks} if bounds else {}
    unread = bounds.problems if bounds else {}
    now = services.clock()
    tables = tuple(
        _troubled(
            TableSurvey(each, _state(looked.get(each.table)), marks.get(each.topic), None,
                        failures.get(each.table), _has_moved(failures.get(each.table), marks),
                        directives.found.get(each.table, NOTHING),
                        reading=reading.get(each.table)),
            directives.of_tables.get(each.table)
            or _problem(looked.get(each.table))
            or unread.get(each.topic),
            now,
        )
        for each in entries
    )  # fmt: skip
    if ages and not problems:
        tables = _tried(partial(_aged, services, tables), tables, problems)
    said = (*problems, *directives.problems)
    return Survey(services.clock(), tables, said, not problems, directives.are_known)


@dataclass(frozen=True, slots=True)
class _Directives:
    """People's directives; what cannot be read of them, for a table where one is known."""

    found: Mapping[TableName, TableDirectives]
    of_tables: Mapping[TableName, CdcError]
    problems: tuple[CdcError, ...]
    are_known: bool = True


def _directives(services: Services, entries: Sequence[TableEntry]) -> _Directives:
    problems: list[CdcError] = []
    nothing: tuple[dict[TableName, TableDirectives], dict[str, TerminalError]] = ({}, {})
    found, invalid = _tried(services.desired.readable, nothing, problems)
    places = {place_of(each.table): each.table for each in entries}
    of_tables = {places[at]: each for at, each in invalid.items() if at in places}
    others = [each for at, each in invalid.items() if at not in places]
    return _Directives(found, of_tables, (*problems, *others), not problems)


def _in_their_topics(services: Services, entries: Sequence[TableEntry]) -> Sequence[TableEntry]:
    """Returns the entries without the places in topics that were recreated."""
    placed = {
        each.topic
        for each in entries
        if each.begins or (each.dropped and each.dropped.end and each.dropped.topic_id)
    }
    ids = {topic: each.topic_id for topic, each in services.log.identity(placed).items()}
    return [_in_topic(each, ids[each.topic]) if each.topic in ids else each for each in entries]


def _in_topic(entry: TableEntry, topic_id: str) -> TableEntry:
    dropped, begins = entry.dropped, entry.begins
    if dropped is not None and dropped.topic_id:
        dropped = replace(dropped, end=dropped.end_in(topic_id))
    is_of_topic = begins is not None and begins.topic_id == topic_id
    return replace(entry, dropped=dropped, begins=begins if is_of_topic else None)


def _bounds(services: Services, topics: Sequence[str]) -> Bounds | None:
    return services.log.bounds(topics) if topics else None


def _looked(services: Services, entries: Sequence[TableEntry]) -> Mapping[TableName, Looked]:
    looked = services.lake.find_states([(each.target, each.shard_value) for each in entries])
    return {each.table: found for each, found in zip(entries, looked, strict=True)}


def _reading(
    services: Services, entries: Sequence[TableEntry], looked: Mapping[TableName, Looked]
) -> Mapping[TableName, ShadowProgress]:
    """Returns how far the tables are read that are yet to be read from their sources."""
    from cdc_assets.lake.shadow_progress import ShadowProgress
    from cdc_assets.operate.own_tables import shadow_name

    unread = [e for e in entries if looked.get(e.table) is None and _reads_first(services, e)]
    if not unread or not looked:
        return {}
    shadows = services.lake.find_states([(shadow_name(each, 0), "") for each in unread])
    found = (state.reading if (state := _state(each)) else None for each in shadows)
    return {e.table: each or ShadowProgress() for e, each in zip(unread, found, strict=True)}


def _to_come(
    services: Services, entries: Sequence[TableEntry], looked: Mapping[TableName, Looked]
) -> dict[str, Watermarks]:
    """Returns bounds for the topics that tables which are read first may be there before."""
    from cdc_assets.log.values import Watermarks

    nothing = Watermarks(OffsetVector(), OffsetVector())
    return {
        each.topic: nothing
        for each in entries
        if _reads_first(services, each) and not _topic_id(looked.get(each.table))
    }


def _reads_first(services: Services, entry: TableEntry) -> bool:
    return services.config.source(entry.table.source).reads_first(entry.table)


def _topic_id(looked: Looked) -> str:
    state = _state(looked)
    return state.published.topic_id if state and state.published else ""


def _is_beyond(end: OffsetVector, marks: Watermarks) -> bool:
    """Returns whether a topic does not reach an end, which then is of one before it."""
    log_end = marks.end.as_dict()
    return any(at > log_end.get(partition, 0) for partition, at in end)


def _state(looked: Looked) -> TableState | None:
    return None if isinstance(looked, CdcError) else looked


def _problem(looked: Looked) -> CdcError | None:
    return looked if isinstance(looked, CdcError) else None


def _troubled(table: TableSurvey, problem: CdcError | None, now: datetime) -> TableSurvey:
    """Returns the table with its problem, which replaces the reason of an earlier failure."""
    if problem is None:
        return table
    kind, message, known = kind_of(problem), explained(problem), table.failure
    if known is None or known.is_waiting:
        failure = Failure(now, kind, message)
    else:
        failure = replace(known, kind=kind, message=message, hold=None)
    return replace(table, failure=failure, has_moved=False, problem=problem)


def _aged(services: Services, tables: tuple[TableSurvey, ...]) -> tuple[TableSurvey, ...]:
    behind = {each.table: (each.entry.topic, each.position) for each in tables if each.lag_changes}
    oldest = in_rounds(behind, services.log.first_unread)
    return tuple(replace(each, oldest_unread=oldest.get(each.table)) for each in tables)


def _has_moved(failure: Failure | None, marks: Mapping[str, Watermarks]) -> bool:
    if failure is None or failure.hold is None:
        return False
    return failure.hold.has_moved({topic: mark.end for topic, mark in marks.items()})


def _tried(call: Callable[[], T], otherwise: T, problems: list[CdcError]) -> T:
    try:
        return call()
    except CdcError as problem:
        problems.append(problem)
        return otherwise


def follow_comments(services: Services, seen: Survey) -> None:
    """Records in the registry the comments that the lake tables have from their sources.

    Tables that are merged into one have one comment together, which is left out.

    Raises:
        UnreachableError: if the registry does not answer.
    """
    found = {
        each.table: each.state.properties.get("comment", "")[:LONGEST_COMMENT]
        for each in seen.tables
        if each.state is not None and each.entry.shard is None
    }
    new = {
        each.table: found[each.table]
        for each in seen.tables
        if found.get(each.table, each.entry.comment) != each.entry.comment
    }
    if new:
        services.registry.comment(new)
