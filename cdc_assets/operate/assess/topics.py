"""Judges a table's topic by rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.slo import SloTarget
from cdc_assets.log.settings import TopicSettings
from cdc_assets.log.values import Watermarks
from cdc_assets.operate.assess.finding import Finding, Obstacle, Rule, Subject, Verdict, judged

_NO, _PARTIAL = Verdict.NO, Verdict.PARTIAL
_REBUILD: Final = (
    "partition by the row's key, then rebuild from a new snapshot: cdc-assets rebuild TABLE "
    "--from-snapshot (docs/how-to/tables/add-partitions.md)"
)
_KEPT: Final = "a record that leaves the log before it is merged stops the table"
_LONGER: Final = "set it longer than any pause of merging, such as 7 days"
_BROKERS: Final = "hours are cut by the brokers' clocks, and latencies in Kafka are not seen"
_CREATE_TIME: Final = "set message.timestamp.type=CreateTime, which corrects later records"
_MOVE: Final = "keys move between them, and Kafka's offsets alone order its changes"


@dataclass(frozen=True, slots=True)
class Topic:
    """A table's topic, and the table's requirements of it.

    Attributes:
        marks: the log's bounds; None if the topic does not exist.
        settings: the topic's settings; None if reading them is not allowed.
        keys: whether the first record of each non-empty partition has a key.
        expects_keys: whether its format writes keys, and the table has a primary key.
        is_new: whether the lake does not have the table yet.
        accepts_lost_start: whether ``lost_start: accept`` is configured.
        begin: where the table begins, if not at the log's beginning.
        partitions: the number of partitions that the table began with, if Kafka's offsets alone
            order its changes; None otherwise, where partitions may be added.
        is_by_binlog: whether places in a binlog order its changes.
        has_others: whether the lake table has rows that another condition has chosen.
    """

    name: str
    marks: Watermarks | None
    settings: TopicSettings | None
    target: SloTarget
    keys: tuple[bool, ...] = ()
    expects_keys: bool = False
    is_new: bool = True
    accepts_lost_start: bool = False
    begin: OffsetVector | None = None
    partitions: int | None = None
    is_by_binlog: bool = False
    has_others: bool = False

    @property
    def known(self) -> TopicSettings | None:
        """The settings of a topic that exists."""
        return self.settings if self.marks is not None else None

    @property
    def width(self) -> int:
        """The number of its partitions."""
        return len(self.marks.end.offsets) if self.marks is not None else 0

    @property
    def used(self) -> int:
        """The number of its partitions that have held records."""
        return sum(1 for _, end in self.marks.end if end > 0) if self.marks is not None else 0

    @property
    def kept(self) -> timedelta | None:
        """How long its records are kept; None without such a limit."""
        settings = self.known
        is_cut = settings is not None and "delete" in settings.policies
        return settings.retention.age if settings is not None and is_cut else None


def judge_topic(at: Subject, topic: Topic) -> Iterator[Finding]:
    """Yields all findings on a topic."""
    return judged(RULES, at, topic)


def _missing(topic: Topic) -> str:
    return "" if topic.marks is not None else f"topic {topic.name} does not exist"


def _unread(topic: Topic) -> str:
    is_unread = topic.marks is not None and topic.settings is None
    return f"the settings of topic {topic.name} may not be read" if is_unread else ""


def _compacted(topic: Topic) -> str:
    is_compacted = topic.known is not None and "compact" in topic.known.policies
    return f"topic {topic.name} is compacted (cleanup.policy)" if is_compacted else ""


def _size(topic: Topic) -> int | None:
    settings = topic.known
    if settings is None or "delete" not in settings.policies:
        return None
    return settings.retention.size


def _kept_for_ever(topic: Topic) -> str:
    settings = topic.known
    is_cut = settings is not None and "delete" in settings.policies
    if not is_cut or topic.kept is not None or _size(topic) is not None:
        return ""
    return f"topic {topic.name} is kept for ever (retention.ms)"


def _below_slo(topic: Topic) -> Iterable[Obstacle]:
    kept, target = topic.kept, topic.target
    if kept is not None and kept < timedelta(seconds=target.within_seconds):
        yield Obstacle(_kept_only(topic, kept), words={"target": str(target)})


def _below_window(topic: Topic) -> Iterable[Obstacle]:
    kept, target = topic.kept, topic.target
    least = timedelta(seconds=target.within_seconds)
    if kept is not None and least <= kept < timedelta(hours=target.over_hours):
        yield Obstacle(_kept_only(topic, kept), words={"hours": str(target.over_hours)})


def _kept_only(topic: Topic, kept: timedelta) -> str:
    return f"topic {topic.name} is kept for {kept} only (retention.ms)"


def _cut_by_size(topic: Topic) -> str:
    size = _size(topic)
    return "" if size is None else f"topic {topic.name} is cut by size (retention.bytes={size})"


def _brokers_times(topic: Topic, *, is_binlog: bool) -> Iterable[Obstacle]:
    settings = topic.known
    mixes = topic.is_by_binlog and topic.width > 1
    if settings is not None and settings.append_time and mixes is is_binlog:
        problem = f"records of topic {topic.name} have their broker's time (LogAppendTime)"
        yield Obstacle(problem, words={"partitions": str(topic.width)})


def _without_keys(topic: Topic) -> Iterable[Obstacle]:
    is_known = topic.marks is not None and topic.expects_keys and topic.keys
    if is_known and not any(topic.keys):
        problem = f"records of topic {topic.name} have no key, and the table has one"
        yield Obstacle(problem, words={"partitions": str(topic.width)})


def _begins_late(topic: Topic) -> str:
    if not topic.is_new or topic.accepts_lost_start or topic.begin is not None:
        return ""
    begin = topic.marks.begin if topic.marks is not None else ()
    lost = [f"{partition}:[0,{offset})" for partition, offset in begin if offset]
    gone = f"topic {topic.name} no longer holds its first records: {' '.join(lost)} is gone"
    return gone if lost else ""


def _added(topic: Topic, *, is_used: bool) -> str:
    before, now = topic.partitions, topic.width
    if topic.marks is None or before in {None, now} or (topic.used > 1) is not is_used:
        return ""
    return f"topic {topic.name} had {before} partition(s) when the table was begun and has {now}"


RULES: Final[tuple[Rule[Topic], ...]] = (
    Rule(
        "topic_missing", _NO, "the topic", _missing,
        "there is nothing to merge", "let the connector create it, or remove the table",
    ),
    Rule(
        "topic_settings", _PARTIAL, "rights on the topic's settings", _unread,
        "whether it is compacted, or kept for long enough, is not known",
        "allow the user DescribeConfigs on the topics",
    ),
    Rule(
        "compacted", _NO, "`cleanup.policy`", _compacted,
        "a change, a delete included, may be removed before it is merged, and nobody can tell",
        "set cleanup.policy=delete", stops=True,
    ),
    Rule(
        "rows_chosen_otherwise", _PARTIAL, "the lake table's `where`",
        lambda topic: "`where` is not what it was" if topic.has_others else "",
        "rows that have not changed since are there, or missing, by the former condition",
        "cdc-assets rebuild TABLE",
    ),
    Rule(
        "remembered_deletes", _PARTIAL, "`retention.ms`", _kept_for_ever,
        "no delete can be forgotten, since the log may still undo it: what is remembered of "
        "deletes only grows",
        "set it longer than any outage, such as 7 days",
    ),
    Rule(
        "retention", _NO, "`retention.ms`", _below_slo,
        f"that is less than the SLO gives a change ({{target}}): {_KEPT}", _LONGER,
    ),
    Rule(
        "retention", _PARTIAL, "`retention.ms`", _below_window,
        f"that is less than the {{hours}} h that the SLO looks at: {_KEPT}", _LONGER,
    ),
    Rule(
        "retention_bytes", _PARTIAL, "`retention.bytes`", _cut_by_size,
        f"how long changes are kept depends on the load: {_KEPT}",
        "set retention.bytes=-1 and retention.ms",
    ),
    Rule(
        "append_time", _NO, "`message.timestamp.type`, with binlog positions",
        lambda topic: _brokers_times(topic, is_binlog=True),
        f"{_BROKERS}; in {{partitions}} partitions times of one clock tell where a binlog begins "
        "again, and each broker has its own: a reset of the binlog stops the table for good",
        _CREATE_TIME,
    ),
    Rule(
        "append_time", _PARTIAL, "`message.timestamp.type`",
        lambda topic: _brokers_times(topic, is_binlog=False), _BROKERS, _CREATE_TIME,
    ),
    Rule(
        "records_without_key", _PARTIAL, "the first records", _without_keys,
        "changes of one row may be in any of its {partitions} partitions: batches cost more, and "
        "a record without a value deletes nothing",
        "make the connector write keys (message.key.columns; no transformation of keys)",
    ),
    Rule(
        "log_begins_late", _NO, "first offsets of a new table's topic", _begins_late,
        "the table would lack the rows that have not changed since",
        "take a new snapshot, or set lost_start: accept if the rest is complete", stops=True,
    ),
    Rule(
        "partitions_added", _NO, "partitions, where only offsets order changes",
        lambda topic: _added(topic, is_used=True), f"{_MOVE}: the table stops", _REBUILD,
    ),
    Rule(
        "partitions_added", _PARTIAL, "partitions, where only offsets order changes",
        lambda topic: _added(topic, is_used=False),
        f"{_MOVE}: the table stops once a second partition holds records", _REBUILD,
    ),
)  # fmt: skip
