"""Classifies topics one by one: a record that cannot be judged stops no other topic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from cdc_assets.errors import CdcError, TerminalError
from cdc_assets.formats.format import Format
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.kinds import TopicKind
from cdc_assets.log.values import RawRecord


@dataclass(frozen=True, slots=True)
class JudgedKinds:
    """The kinds of topics; ``problems``: why no kind is known of the other topics."""

    kinds: dict[str, TopicKind]
    problems: dict[str, CdcError]


@dataclass(slots=True)
class Judge:
    """Classifies records by a format.

    Attributes:
        fmt: the format.
        problems: by topic, the first error that a record raised.
    """

    fmt: Format
    problems: dict[str, CdcError] = field(default_factory=dict[str, CdcError])

    def kind(self, record: RawRecord) -> TopicKind:
        """Classifies a record; UNREADABLE if that raises a terminal error, which is remembered."""
        try:
            return self.fmt.kind(record)
        except TerminalError as error:
            self.problems.setdefault(record.coordinate.topic, error)
            return TopicKind.UNREADABLE


def judged_kinds(log: KafkaLog, topics: Iterable[str], fmt: Format) -> JudgedKinds:
    """Returns the kinds of topics.

    No kind is known of a topic of which a partition has no leader, nor of one without a readable
    record if the reason is an error, such as a schema that a registry does not know.

    Raises:
        UnreachableError: if Kafka or a registry does not answer.
    """
    judge, bounds = Judge(fmt), log.bounds(topics)
    kinds = log.kinds(bounds.marks, judge.kind) if bounds.marks else {}
    unread = {topic for topic, kind in kinds.items() if kind is TopicKind.UNREADABLE}
    problems = {topic: each for topic, each in judge.problems.items() if topic in unread}
    judged = {topic: kind for topic, kind in kinds.items() if topic not in problems}
    return JudgedKinds(judged, {**bounds.problems, **problems})
