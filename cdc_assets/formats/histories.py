"""Reads the schema history of tables from the topics that hold statements."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from cdc_assets.changes.position import Scheme
from cdc_assets.errors import UnreachableError
from cdc_assets.formats.format import Format
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.values import Watermarks
from cdc_assets.registry import TableEntry
from cdc_assets.schema.ddl import Ddl, Relation
from cdc_assets.schema.history import StatementHistory
from cdc_assets.schema.types import TableSchema

_SCHEMES: Final = frozenset({Scheme.BINLOG, Scheme.MARIADB, Scheme.SQLSERVER, Scheme.ORACLE})
"""Schemes of databases that send statements."""

_AT_ONCE: Final = 100
_RENAMES: Final = 100
"""A table with this many names before a change under any of them is not followed."""

_log = logging.getLogger(__name__)


@dataclass
class _Topic:
    """The statements of a topic, in their order.

    Attributes:
        id: of the topic.
        first: by partition, the first offset that the log held then, inclusive.
        begin: by partition, the first offset that was read, inclusive.
        next: by partition, the next offset to read.
        statements: the statements in between.
        at: their identities, by partition and offset.
        last: by partition, the offset of the last of them.
    """

    id: str
    first: Mapping[int, int]
    begin: Mapping[int, int]
    next: dict[int, int]
    statements: list[Ddl] = field(default_factory=list[Ddl])
    at: dict[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])
    last: dict[int, int] = field(default_factory=dict[int, int])

    def reaches(self, offsets: Mapping[int, int]) -> bool:
        """Returns whether it has all statements from these offsets on that the log held."""
        return all(at <= max(offsets.get(p, 0), self.first[p]) for p, at in self.begin.items())

    def add(self, ddl: Ddl) -> None:
        """Adds the next statement."""
        at = ddl.coordinate
        self.statements.append(ddl)
        self.at[at.partition, at.offset] = ddl.identity
        self.last[at.partition] = at.offset

    def is_continued(self, history: StatementHistory) -> bool:
        """Returns whether it still begins with what a history knows of it.

        It does not, if it ends before that, or has another statement where the last one was. One
        that has expired proves nothing.
        """
        return all(at <= self.next.get(p, 0) for p, at in history.next.items()) and all(
            at < self.begin.get(p, 0) or self.at.get((p, at)) == identity
            for p, (at, identity) in history.ends.items()
        )

    def after(self, history: StatementHistory, table: Relation) -> StatementHistory:
        """Returns the history of a table, continued to the topic's end.

        The history of a renamed table ends at its renaming, unless its name is given to a table
        again: later statements are on its new name.
        """
        gone = history if history.became else None
        looks_back, ends = history.cascades is None, dict(history.ends)
        for ddl in self.statements:
            at = ddl.coordinate
            ends[at.partition] = at.offset, self.at[at.partition, at.offset]
            if at.offset < history.next.get(at.partition, 0):
                history = history.with_keys_of(ddl, table) if looks_back else history
                continue
            was_there, history = history.is_there, history.after(ddl, table)
            if was_there and history.became:
                next_ = {**history.next, at.partition: at.offset + 1}
                gone = replace(history, next=next_, ends=dict(ends))
        if gone is not None and not history.is_there:
            return gone
        return replace(history, next=dict(self.next), ends=ends, cascades=history.cascades or ())


class Histories:
    """Reads each topic of statements once, for all tables in it.

    Args:
        log: Kafka.
        looks_once: whether records that arrive after a topic's first reading are ignored.
    """

    def __init__(self, log: KafkaLog, *, looks_once: bool = False) -> None:
        self._log = log
        self._looks_once = looks_once
        self._topics: dict[str, _Topic] = {}
        self._kinds: dict[str, TopicKind] = {}
        self._names: dict[str, str] = {}

    def of(
        self, entry: TableEntry, fmt: Format, scheme: Scheme, stored: StatementHistory | None
    ) -> StatementHistory | None:
        """Returns the history of a table up to now; None if no topic ever held statements on it.

        Args:
            entry: the table.
            fmt: the format of its source's records.
            scheme: the scheme of their positions.
            stored: the history known before.

        Raises:
            UnreachableError: if Kafka does not answer.
        """
        name = self._topic_of(entry, fmt) if scheme in _SCHEMES else None
        if name is None:
            return stored
        history = stored or StatementHistory()
        topic = self._read(name, fmt, history)
        if history.topic != topic.id:
            history = history.found_in(topic.id, topic.statements)
        elif not topic.is_continued(history):
            _log.warning("table=%s topic=%s: statements were cut off", entry.table, name)
            topic = self._read(name, fmt, StatementHistory())
            history = history.found_in(topic.id, topic.statements)
        for partition, begin in topic.begin.items():
            known = history.next.get(partition, begin)
            if known < begin:
                gone = f"{name}/{partition}:[{known},{begin})"
                _log.warning("table=%s: %s: statements were deleted unread", entry.table, gone)
        return topic.after(history, Relation(entry.at_source.schema, entry.at_source.name))

    def continued(
        self,
        entry: TableEntry,
        fmt: Format,
        scheme: Scheme,
        stored: StatementHistory | None,
        table: TableSchema,
    ) -> tuple[StatementHistory | None, StatementHistory | None]:
        """Returns a table's history before new statements, and `of`.

        The one before has numbers of the lake's columns also where the statements that made them
        have expired. It is None if no new statement changes columns, or nothing is stored yet.

        Args:
            entry: as for `of`.
            fmt: as for `of`.
            scheme: as for `of`.
            stored: as for `of`.
            table: the lake's columns.

        Raises:
            UnreachableError: if Kafka does not answer.
        """
        found = self.of(entry, fmt, scheme, stored)
        if stored is None or found is None or found.known == stored.known:
            return None, found
        before = stored.before(found, table)
        return before, self.of(entry, fmt, scheme, before)

    def renamed(
        self,
        entry: TableEntry,
        fmt: Format,
        scheme: Scheme,
        stored: StatementHistory | None,
        called: Relation,
    ) -> StatementHistory | None:
        """Returns the history of a table right after its renaming; None if it never got that name.

        Args:
            entry: the table, under its former name.
            fmt: as for `of`.
            scheme: as for `of`.
            stored: as for `of`.
            called: the other name.

        Raises:
            UnreachableError: if Kafka does not answer.
        """
        found = self.of(entry, fmt, scheme, stored)
        for _ in range(_RENAMES):
            if found is None or found.became is None:
                return None
            became, found = found.became, found.by_its_new_name
            if became.includes(called):
                return found
            found = self._topics[self._names[entry.topic]].after(found, became)
        return None

    def names_before(self, entry: TableEntry, fmt: Format) -> Iterator[Relation]:
        """Yields a table's former names, from the statements that renamed it, newest first.

        Raises:
            UnreachableError: if Kafka does not answer.
        """
        name = self._topic_of(entry, fmt)
        if name is None:
            return
        topic = self._read(name, fmt, StatementHistory())
        start, called = (
            StatementHistory(topic=topic.id),
            Relation(entry.table.schema, entry.table.name),
        )
        for _ in range(_RENAMES):
            was = topic.after(start, called).was
            if was is None:
                return
            yield was
            called = was

    def _topic_of(self, entry: TableEntry, fmt: Format) -> str | None:
        """Returns the first candidate topic that holds schema changes."""
        if entry.topic not in self._names:
            names = fmt.topics.schema_change_topics(entry.topic, entry.at_source.qualified)
            there = {*self._log.topics()} if names else ()
            present = [each for each in names if each in there]
            unknown = [each for each in present if each not in self._kinds]
            kinds = self._log.kinds(unknown, fmt.kind) if unknown else {}
            self._kinds |= {n: kind for n, kind in kinds.items() if kind is not TopicKind.EMPTY}
            mine = (n for n in present if self._kinds.get(n) is TopicKind.SCHEMA_CHANGES)
            if (found := next(mine, None)) is not None:
                self._names[entry.topic] = found
        return self._names.get(entry.topic)

    def _read(self, name: str, fmt: Format, history: StatementHistory) -> _Topic:
        """Reads a topic to its end, from the first offset that this or another table does not know.

        Raises:
            UnreachableError: if it has just vanished.
        """
        topic = self._topics.get(name)
        if topic is not None and self._looks_once and topic.reaches(_known(history, topic.id)):
            return topic
        identity, marks = self._log.identity([name]).get(name), self._log.watermarks([name])
        if identity is None or name not in marks:
            what = "the topic of schema changes was there a moment ago"
            raise UnreachableError(what, where=f"topic={name}", remedy="it is looked at again")
        id_, known, there = identity.topic_id, _known(history, identity.topic_id), marks[name]
        is_enough = topic is not None and topic.id == id_ and topic.reaches(known)
        if topic is None or not is_enough or not self._read_on(topic, name, fmt, there):
            first = there.begin.as_dict()
            begin = {p: max(at, known.get(p, 0)) for p, at in first.items()}
            topic = self._topics[name] = _Topic(id_, first, begin, dict(begin))
            self._read_on(topic, name, fmt, there)
        return topic

    def _read_on(self, topic: _Topic, name: str, fmt: Format, there: Watermarks) -> bool:
        """Reads a topic to its end; returns whether its last known statement is still there.

        That one is read again with those after it, unless it has expired.
        """
        first = there.begin.as_dict()
        for partition, upto in there.end:
            next_, last = topic.next.get(partition, 0), topic.last.get(partition, -1)
            if upto < next_:
                return False
            checks = first.get(partition, 0) <= last and next_ < upto
            start = last if checks else max(next_, first.get(partition, 0))
            for at in range(start, upto, _AT_ONCE):
                records = self._log.part({(name, partition): (at, min(upto, at + _AT_ONCE))})
                found = [ddl for each in records if (ddl := fmt.ddl(each)) is not None]
                if checks and at == start:
                    again = [(d.coordinate.offset, d.identity) for d in found[:1]]
                    if again != [(last, topic.at[partition, last])]:
                        return False
                    found = found[1:]
                for ddl in found:
                    topic.add(ddl)
            topic.next[partition] = upto
        return True


def _known(history: StatementHistory, topic: str) -> Mapping[int, int]:
    """Returns from where on a topic is to be read for a table: from what it knows of its end.

    An older version did not look for foreign keys: for its tables all is read.
    """
    if history.topic != topic or history.cascades is None:
        return {}
    return {**history.next, **{p: at for p, (at, _) in history.ends.items()}}


def statements_on(entry: TableEntry, statements: Iterable[Ddl]) -> tuple[Ddl, ...]:
    """Returns the statements that may affect a table."""
    table = Relation(entry.at_source.schema, entry.at_source.name)
    return tuple(ddl for ddl in statements if any(ddl.statement.of(table)))


def after_statements(
    history: StatementHistory, entry: TableEntry, statements: Iterable[Ddl], *, is_empty: bool
) -> StatementHistory:
    """Returns the history of a table after statements that came among its rows, in their order.

    Statements that it already knows are left out: their batch may be planned again.
    """
    table = Relation(entry.at_source.schema, entry.at_source.name)
    known, next_ = history.next, dict(history.next)
    for ddl in statements:
        at = ddl.coordinate
        if at.offset >= known.get(at.partition, 0):
            history = history.among_rows(ddl, table, is_empty=is_empty)
            next_[at.partition] = max(at.offset + 1, next_.get(at.partition, 0))
    return replace(history, next=next_)
