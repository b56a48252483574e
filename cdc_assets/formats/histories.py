"""What statements have made of tables, read from the topics that tell them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from cdc_assets.changes.position import Scheme
from cdc_assets.errors import UnreachableError
from cdc_assets.formats.format import Format
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.kinds import TopicKind
from cdc_assets.registry import TableEntry
from cdc_assets.schema.ddl import Ddl, Relation
from cdc_assets.schema.history import History

_SCHEMES: Final = frozenset({Scheme.BINLOG, Scheme.MARIADB, Scheme.SQLSERVER, Scheme.ORACLE})
"""Of databases that send statements."""

_AT_ONCE: Final = 100
_log = logging.getLogger(__name__)


@dataclass
class _Topic:
    """Statements of a topic in their order.

    Attributes:
        id: of the topic.
        begin: by partition, the first offset that was looked at.
        next: likewise the next one.
        told: the statements in between.
    """

    id: str
    begin: Mapping[int, int]
    next: dict[int, int]
    told: list[Ddl] = field(default_factory=list[Ddl])

    def reaches(self, offsets: Mapping[int, int]) -> bool:
        """Whether it has all from these offsets on."""
        return all(at <= offsets.get(p, 0) for p, at in self.begin.items())


class Histories:
    """Reads each topic of statements once, for all tables that it tells of.

    Args:
        log: Kafka.
        looks_once: what comes to a topic after it was first looked at is of no account.
    """

    def __init__(self, log: KafkaLog, *, looks_once: bool = False) -> None:
        self._log = log
        self._looks_once = looks_once
        self._topics: dict[str, _Topic] = {}
        self._kinds: dict[str, TopicKind] = {}
        self._found: dict[str, str] = {}

    def of(
        self, entry: TableEntry, fmt: Format, scheme: Scheme, stored: History | None
    ) -> History | None:
        """What is known of a table by now; None if nothing ever told of it.

        Args:
            entry: the table.
            fmt: of its source's records.
            scheme: of their positions.
            stored: what was known of it before.

        Raises:
            UnreachableError: if Kafka does not answer.
        """
        name = self._topic_of(entry, fmt) if scheme in _SCHEMES else None
        if name is None:
            return stored
        history = stored or History()
        topic = self._read(name, fmt, history)
        if history.topic != topic.id:
            history = replace(history, topic=topic.id, next={})
        for partition, begin in topic.begin.items():
            known = history.next.get(partition, begin)
            if known < begin:
                gone = f"{name}/{partition}:[{known},{begin})"
                _log.warning("table=%s: %s: statements were deleted unread", entry.table, gone)
        table = Relation(entry.table.schema, entry.table.name)
        for ddl in topic.told:
            if ddl.coordinate.offset >= history.next.get(ddl.coordinate.partition, 0):
                history = history.after(ddl, table)
        return replace(history, next=dict(topic.next))

    def _topic_of(self, entry: TableEntry, fmt: Format) -> str | None:
        """The first of the topics that may tell of it that holds such records."""
        if entry.topic not in self._found:
            names = fmt.topics.schema_change_topics(entry.topic, entry.table.qualified)
            there = {*self._log.topics()} if names else ()
            present = [each for each in names if each in there]
            unknown = [each for each in present if each not in self._kinds]
            kinds = self._log.kinds(unknown, fmt.kind) if unknown else {}
            self._kinds |= {n: kind for n, kind in kinds.items() if kind is not TopicKind.EMPTY}
            mine = (n for n in present if self._kinds.get(n) is TopicKind.SCHEMA_CHANGES)
            if (found := next(mine, None)) is not None:
                self._found[entry.topic] = found
        return self._found.get(entry.topic)

    def _read(self, name: str, fmt: Format, history: History) -> _Topic:
        """Up to its end, from what this table or another one does not know yet.

        Raises:
            UnreachableError: if it has just vanished.
        """
        topic = self._topics.get(name)
        if topic is not None and self._looks_once and topic.reaches(history.next):
            return topic
        identity, marks = self._log.identity([name]).get(name), self._log.watermarks([name])
        if identity is None or name not in marks:
            what = "the topic of schema changes was there a moment ago"
            raise UnreachableError(what, where=f"topic={name}", remedy="it is looked at again")
        id_, begin = identity.topic_id, marks[name].begin.as_dict()
        known = history.next if history.topic == id_ else {}
        wanted = {p: max(at, known.get(p, 0)) for p, at in begin.items()}
        if topic is None or topic.id != id_ or not topic.reaches(wanted):
            topic = self._topics[name] = _Topic(id_, wanted, dict(wanted))
        for partition, end in marks[name].end:
            while (start := topic.next.setdefault(partition, 0)) < end:
                upto = min(end, start + _AT_ONCE)
                records = self._log.part({(name, partition): (start, upto)})
                topic.told += [ddl for each in records if (ddl := fmt.ddl(each)) is not None]
                topic.next[partition] = upto
        return topic
