"""Finds statements that change replicated tables in their sources' topics of schema changes.

It only reports them, with their effects. Batches follow them independently, each as far as its
records go (`cdc_assets.formats.histories`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.errors import CdcError, printable
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.values import Watermarks
from cdc_assets.operate.judged_kinds import Judge, judged_kinds
from cdc_assets.operate.schema_drift import Drift, drifts, newest_drift
from cdc_assets.operate.services import Services
from cdc_assets.registry import TableEntry
from cdc_assets.schema.ddl import Ddl, Relation, TableChange, TableChangeKind
from cdc_assets.schema.history import SILENT, OnBreak
from cdc_assets.schema.silent import OnSilent

if TYPE_CHECKING:
    from cdc_assets.formats.format import Format
    from cdc_assets.lake import TableState

_AT_ONCE: Final = 100
_PLANS: Final = {
    TableChangeKind.TRUNCATED: "emptied by the topic's truncate event, which the connector sends "
    "with skipped.operations: none",
    TableChangeKind.DROPPED: "the lake keeps its rows",
}
_RENAMED: Final = {
    True: "the table continues under the new name (renamed_table: follow)",
    False: "a topic of the new name becomes a new table; this one stays (renamed_table: new)",
}
_BREAKS: Final = {
    OnBreak.STOP: "if the lake has rows of the one before, the table stops (recreated_table)",
    OnBreak.TRUNCATE: "rows of the one before go (recreated_table: truncate)",
    OnBreak.KEEP: "rows stay (recreated_table: keep)",
}
_REACTIONS: Final = {
    OnSilent.STOP: "the table stops until a person accepts it (silent_changes)",
    OnSilent.MARK: "the table continues, in doubt until it is compared (silent_changes: mark)",
    OnSilent.IGNORE: "rows stay as they are (silent_changes: ignore)",
}


@dataclass
class DdlProgress:
    """The progress in reading the topics; if it is lost, statements are reported twice.

    Attributes:
        ids: the ids of the topics that were examined.
        next: by topic of schema changes and partition, the offset to read next.
    """

    ids: dict[str, str] = field(default_factory=dict)
    next: dict[str, dict[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, cursor: str | None) -> DdlProgress:
        """Parses a cursor."""
        fields: Mapping[str, Any] = json.loads(cursor) if cursor else {}
        offsets = {
            topic: {int(number): int(offset) for number, offset in each.items()}
            for topic, each in fields.get("next", {}).items()
        }
        return cls(dict(fields.get("ids", {})), offsets)

    def to_cursor(self) -> str:
        """Returns the cursor that `of` parses."""
        return json.dumps({"ids": self.ids, "next": self.next}, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class TableStatement:
    """A statement on one table.

    Attributes:
        entry: the table's entry.
        ddl: the statement.
        text: its text; None if it names a column that is excluded from the lake or masked there.
        changes: its changes to the table.
        plan: its effects in the lake, in lines.
    """

    entry: TableEntry
    ddl: Ddl
    text: str | None
    changes: tuple[TableChange, ...]
    plan: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DdlReading:
    """The result of one look.

    Attributes:
        statements: statements on replicated tables, in the log's order.
        unreadable: coordinates of records that are no events.
        expired: by topic, the number of records that were deleted before they were read.
        topics: the followed topics.
    """

    statements: tuple[TableStatement, ...] = ()
    unreadable: tuple[Coordinate, ...] = ()
    expired: Mapping[str, int] = field(default_factory=dict[str, int])
    topics: tuple[str, ...] = ()


def follow(services: Services, entries: Iterable[TableEntry], followed: DdlProgress) -> DdlReading:
    """Reads new statements, and describes their effects on each table.

    Args:
        services: the services to read from and compare with.
        entries: the replicated tables.
        followed: the progress in reading; advanced by this call.

    Raises:
        UnreachableError: if Kafka or a registry of schemas does not answer.
    """
    tables = _tables_by_topic(services, entries)
    if not tables:
        return DdlReading()
    marks = services.log.watermarks(tables)
    _look(services, tables, marks, followed)
    spans, expired = _spans(marks, followed)
    found: list[tuple[TableEntry, Ddl, tuple[TableChange, ...]]] = []
    unreadable: list[Coordinate] = []
    for record in sorted(
        services.log.part(spans), key=lambda each: (each.timestamp, each.coordinate)
    ):
        mine = tables[record.coordinate.topic]
        ddls = {e.table.source: services.formats[e.table.source].ddl(record) for e in mine}
        is_read = any(ddls.values()) or record.value is None
        if not is_read and Judge(_format(services, mine)).kind(record) is TopicKind.UNREADABLE:
            unreadable.append(record.coordinate)
        found += _of_tables(mine, ddls)
    for (topic, partition), (_, end) in spans.items():
        followed.next[topic][partition] = end
    lacks = _lacks(services, [entry for entry, _, changes in found if _may_lack(changes)])
    statements = tuple(
        TableStatement(
            entry,
            ddl,
            _shown(services, entry, ddl),
            changes,
            _plan(services, entry, changes, lacks.get(entry, ())),
        )
        for entry, ddl, changes in found
    )
    return DdlReading(statements, tuple(unreadable), expired, tuple(sorted(followed.next)))


def among_rows(
    services: Services, entry: TableEntry, statements: Iterable[Ddl]
) -> tuple[TableStatement, ...]:
    """Returns statements that came among a table's rows; its batch has followed them already."""
    return tuple(
        TableStatement(
            entry,
            ddl,
            _shown(services, entry, ddl),
            changes,
            _plan(services, entry, changes, ()),
        )
        for ddl in statements
        for _, _, changes in _of_tables([entry], {entry.table.source: ddl})
    )


def _tables_by_topic(
    services: Services, entries: Iterable[TableEntry]
) -> dict[str, list[TableEntry]]:
    """Groups tables by their topics of schema changes; PostgreSQL has none, as it sends none."""
    found: dict[str, list[TableEntry]] = defaultdict(list)
    for entry in entries:
        database = services.config.source(entry.table.source).database
        if database is not None and database.kind == "postgres":
            continue
        names = services.formats[entry.table.source].topics
        for topic in names.schema_change_topics(entry.topic, entry.at_source.qualified):
            found[topic].append(entry)
    return found


def _look(
    services: Services,
    tables: Mapping[str, Sequence[TableEntry]],
    marks: Mapping[str, Watermarks],
    followed: DdlProgress,
) -> None:
    """Examines new topics, and ones made again under a known name: only some hold statements."""
    ids = {topic: each.topic_id for topic, each in services.log.identity(marks).items()}
    for topic in [topic for topic, number in followed.ids.items() if ids.get(topic) != number]:
        followed.ids.pop(topic)
        followed.next.pop(topic, None)
    for topic in sorted(ids.keys() - followed.ids.keys()):
        judged = judged_kinds(services.log, [topic], _format(services, tables[topic]))
        kind = judged.kinds.get(topic, TopicKind.EMPTY)
        if kind is not TopicKind.EMPTY:
            followed.ids[topic] = ids[topic]
        if kind is TopicKind.SCHEMA_CHANGES:
            followed.next[topic] = {}


def _spans(
    marks: Mapping[str, Watermarks], followed: DdlProgress
) -> tuple[dict[tuple[str, int], tuple[int, int]], dict[str, int]]:
    """Returns the spans to read next, and by topic the number of records deleted unread."""
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    expired: dict[str, int] = {}
    for topic in sorted(followed.next):
        for each in marks[topic].begin.ranges_to(marks[topic].end):
            begun = followed.next[topic].get(each.partition, each.start)
            if begun < each.start:
                expired[topic] = expired.get(topic, 0) + each.start - begun
            start = max(each.start, begun)
            if start < each.end:
                spans[topic, each.partition] = start, min(each.end, start + _AT_ONCE)
    return spans, expired


def _format(services: Services, tables: Sequence[TableEntry]) -> Format:
    return services.formats[tables[0].table.source]


def _of_tables(
    tables: Iterable[TableEntry], by_source: Mapping[str, Ddl | None]
) -> Iterator[tuple[TableEntry, Ddl, tuple[TableChange, ...]]]:
    """Yields the tables that a record's statement changes."""
    for entry in tables:
        ddl = by_source[entry.table.source]
        if ddl is None or ddl.is_of_snapshot:
            continue
        changes = tuple(ddl.statement.of(_relation(entry)))
        if changes:
            yield entry, ddl, changes


def _relation(entry: TableEntry) -> Relation:
    return Relation(entry.at_source.schema, entry.at_source.name)


def _shown(services: Services, entry: TableEntry, ddl: Ddl) -> str | None:
    """Returns the text to show; None for a statement on an excluded or masked column.

    A default of such a column may be as secret as its values.
    """
    overrides = services.config.source(entry.table.source).overrides(entry.table)
    hidden = {name.casefold() for name in (*overrides.excluded, *overrides.masked)}
    return None if hidden & ddl.statement.words else printable(ddl.text, lines=True)


def _may_lack(changes: Iterable[TableChange]) -> bool:
    ends = {TableChangeKind.TRUNCATED, TableChangeKind.DROPPED}
    return any(each.kind not in ends for each in changes)


def _plan(
    services: Services, entry: TableEntry, changes: Sequence[TableChange], lacks: Sequence[str]
) -> tuple[str, ...]:
    said = dict.fromkeys(_outcome(services, entry, each) for each in changes)
    plan = tuple(each for each in said if each)
    return (*plan, *lacks) if _may_lack(changes) else plan


def _outcome(services: Services, entry: TableEntry, change: TableChange) -> str:
    """Says what a change does to the lake's rows; empty if nothing."""
    mine = _relation(entry)
    policy = services.config.source(entry.table.source).recreated(entry.table)
    is_taken = change.kind is TableChangeKind.RENAMED and not change.table.includes(mine)
    if change.kind is TableChangeKind.CREATED:
        return _BREAKS[policy]
    if change.kind in SILENT:
        silent = services.config.source(entry.table.source).silent(entry.table)
        return _REACTIONS[silent.reactions[SILENT[change.kind]]]
    if is_taken:
        return _BREAKS[OnBreak.KEEP if policy is OnBreak.KEEP else OnBreak.STOP]
    if change.kind is TableChangeKind.RENAMED:
        source = services.config.source(entry.table.source)
        return _RENAMED[source.follows_renamed(entry.table)]
    return _PLANS.get(change.kind, "")


def _lacks(services: Services, entries: Iterable[TableEntry]) -> dict[TableEntry, tuple[str, ...]]:
    """Returns the differences of the lake's columns by now, including those of later statements.

    Asks each database once for all of its tables, so that one that does not answer cannot delay
    the reports on the others.
    """
    found: dict[TableEntry, tuple[str, ...]] = {}
    asked: list[tuple[TableEntry, TableState]] = []
    for entry in dict.fromkeys(entries):
        try:
            state = services.lake.state(entry.target, entry.shard_value)
            if state is None:
                found[entry] = ("not made yet",)
            elif services.config.source(entry.table.source).database is not None:
                asked.append((entry, state))
            else:
                found[entry] = _lines(newest_drift(services, entry, state))
        except CdcError as error:
            found[entry] = (f"not known: {error}",)
    drifted = drifts(services, asked)
    return found | {entry: _lines(drifted[entry.table]) for entry, _ in asked}


def _lines(drift: Drift) -> tuple[str, ...]:
    return tuple(drift.lines()) or ("the lake has the source's columns already",)
