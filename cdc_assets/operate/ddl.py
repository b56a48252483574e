"""Statements that change replicated tables, as their sources' topics of schema changes tell them.

They are shown. What becomes of columns is decided by the records and the catalog, at each batch.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.errors import CdcError
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.values import RawRecord, Watermarks
from cdc_assets.operate.schema_drift import newest_drift
from cdc_assets.operate.services import Services
from cdc_assets.registry import TableEntry
from cdc_assets.schema.ddl import Ddl, Relation, TableChange, TableChangeKind

_AT_ONCE: Final = 200
_PLANS: Final = {
    TableChangeKind.CREATED: "rows go on in the same lake table: rebuild it if this is another one",
    TableChangeKind.RENAMED: "a topic of the new name becomes a new table; this one stays as it is",
    TableChangeKind.TRUNCATED: "emptied by the topic's truncate event, which the connector sends "
    "with skipped.operations: none",
    TableChangeKind.DROPPED: "the lake keeps its rows",
}


@dataclass
class Followed:
    """How far the topics are read; losing it shows statements twice.

    Attributes:
        ids: of the topics that were looked into.
        next: offsets to be read next, of those that hold schema changes.
    """

    ids: dict[str, str] = field(default_factory=dict)
    next: dict[str, dict[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, cursor: str | None) -> Followed:
        """Read a cursor."""
        fields: Mapping[str, Any] = json.loads(cursor) if cursor else {}
        offsets = {
            topic: {int(number): int(offset) for number, offset in each.items()}
            for topic, each in fields.get("next", {}).items()
        }
        return cls(dict(fields.get("ids", {})), offsets)

    def to_cursor(self) -> str:
        """What `of` reads."""
        return json.dumps({"ids": self.ids, "next": self.next}, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class TableStatement:
    """A statement on one table.

    Attributes:
        entry: of the table.
        ddl: the statement.
        text: of it; None if it names a column that the lake is not to have.
        changes: what it does to the table.
        plan: what becomes of it, in lines.
    """

    entry: TableEntry
    ddl: Ddl
    text: str | None
    changes: tuple[TableChange, ...]
    plan: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """What one look found.

    Attributes:
        statements: on replicated tables, in the log's order.
        unreadable: records that are no events.
        expired: topics whose records were deleted before they were read, with their number.
        topics: that are followed.
    """

    statements: tuple[TableStatement, ...] = ()
    unreadable: tuple[Coordinate, ...] = ()
    expired: Mapping[str, int] = field(default_factory=dict[str, int])
    topics: tuple[str, ...] = ()


def follow(services: Services, entries: Iterable[TableEntry], followed: Followed) -> Told:
    """Read what is new, and say of each table what becomes of it.

    Args:
        services: to read and to compare with.
        entries: the replicated tables.
        followed: how far the topics are read; moved on.

    Raises:
        UnreachableError: if Kafka or a registry of schemas does not answer.
    """
    tables = _tables_by_topic(services, entries)
    if not tables:
        return Told()
    marks = services.log.watermarks(tables)
    _look(services, tables, marks, followed)
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    expired: dict[str, int] = {}
    for topic in sorted(followed.next):
        for each in marks[topic].begin.ranges_to(marks[topic].end):
            begun = followed.next[topic].get(each.partition)
            start = max(each.start, begun or 0)
            if begun is not None and begun < each.start:
                expired[topic] = expired.get(topic, 0) + each.start - begun
            spans[topic, each.partition] = start, min(each.end, start + _AT_ONCE)
    statements: list[TableStatement] = []
    unreadable: list[Coordinate] = []
    plans: dict[TableEntry, tuple[str, ...]] = {}
    read = services.log.part({place: span for place, span in spans.items() if span[0] < span[1]})
    for record in sorted(read, key=lambda each: (each.timestamp, each.coordinate)):
        mine = tables[record.coordinate.topic]
        if record.value is not None and _kind(services, mine, record) is TopicKind.UNREADABLE:
            unreadable.append(record.coordinate)
        statements += _of_tables(services, mine, record, plans)
    for (topic, partition), (_, end) in spans.items():
        followed.next[topic][partition] = end
    return Told(tuple(statements), tuple(unreadable), expired, tuple(sorted(followed.next)))


def _tables_by_topic(
    services: Services, entries: Iterable[TableEntry]
) -> dict[str, list[TableEntry]]:
    """PostgreSQL sends no statements: nobody looks for a topic of them."""
    found: dict[str, list[TableEntry]] = defaultdict(list)
    for entry in entries:
        database = services.config.source(entry.table.source).database
        if database is not None and database.kind == "postgres":
            continue
        names = services.formats[entry.table.source].topics
        for topic in names.schema_change_topics(entry.topic, entry.table.qualified):
            found[topic].append(entry)
    return found


def _look(
    services: Services,
    tables: Mapping[str, Sequence[TableEntry]],
    marks: Mapping[str, Watermarks],
    followed: Followed,
) -> None:
    """Into topics that are new: another topic may have the name that one of statements has."""
    ids = {topic: each.topic_id for topic, each in services.log.identity(marks).items()}
    for topic in {*followed.ids} - {
        t for t, number in ids.items() if followed.ids.get(t) == number
    }:
        followed.ids.pop(topic)
        followed.next.pop(topic, None)
    for topic in sorted(ids.keys() - followed.ids.keys()):
        kinds = services.log.kinds([topic], lambda each, t=topic: _kind(services, tables[t], each))
        kind = kinds.get(topic, TopicKind.EMPTY)
        if kind is not TopicKind.EMPTY:
            followed.ids[topic] = ids[topic]
        if kind is TopicKind.SCHEMA_CHANGES:
            followed.next[topic] = {}


def _kind(services: Services, tables: Sequence[TableEntry], record: RawRecord) -> TopicKind:
    return services.formats[tables[0].table.source].kind(record)


def _of_tables(
    services: Services,
    tables: Iterable[TableEntry],
    record: RawRecord,
    plans: dict[TableEntry, tuple[str, ...]],
) -> Iterator[TableStatement]:
    by_source: dict[str, Ddl | None] = {}
    for entry in tables:
        source = entry.table.source
        if source not in by_source:
            by_source[source] = services.formats[source].ddl(record)
        ddl = by_source[source]
        if ddl is None:
            continue
        changes = tuple(ddl.statement.of(Relation(entry.table.schema, entry.table.name)))
        if not changes:
            continue
        hidden = services.config.source(source).overrides(entry.table)
        names = {name.casefold() for name in (*hidden.excluded, *hidden.masked)}
        text = None if names & ddl.statement.words else ddl.text
        yield TableStatement(entry, ddl, text, changes, _plan(services, entry, changes, plans))


def _plan(
    services: Services,
    entry: TableEntry,
    changes: Iterable[TableChange],
    plans: dict[TableEntry, tuple[str, ...]],
) -> tuple[str, ...]:
    kinds = dict.fromkeys(each.kind for each in changes)
    said = tuple(_PLANS[kind] for kind in kinds if kind in _PLANS)
    if {*kinds} <= {TableChangeKind.TRUNCATED, TableChangeKind.DROPPED}:
        return said
    if entry not in plans:
        plans[entry] = _drift(services, entry)
    return (*said, *plans[entry])


def _drift(services: Services, entry: TableEntry) -> tuple[str, ...]:
    """What the columns lack by now; that of a later statement too."""
    try:
        state = services.lake.state(entry.target, entry.shard_value)
        lines = tuple(newest_drift(services, entry, state).lines()) if state else ("not made yet",)
    except CdcError as error:
        return (f"not known: {error}",)
    return lines or ("the lake has the source's columns already",)
