"""Judges a table's topic by rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.slo import SloTarget
from cdc_assets.log.settings import TopicSettings
from cdc_assets.log.values import Watermarks
from cdc_assets.operate.assess.finding import Finding, Place, no, yes_but

_ANEW: Final = (
    "let the producer choose partitions by the row's key, and build the table from a new snapshot: "
    "cdc-assets rebuild --from-snapshot (docs/operations.md#added-partitions)"
)
_KEPT: Final = "a record that leaves the log before it is merged stops the table"


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


def judge_topic(at: Place, topic: Topic) -> Iterator[Finding]:
    """Yields all findings on a topic."""
    if topic.marks is None:
        yield no(
            "topic_missing", at, f"topic {topic.name} does not exist",
            "there is nothing to merge", "let the connector make it, or remove the table",
        )  # fmt: skip
        return
    if topic.settings is None:
        yield yes_but(
            "topic_settings", at, f"the settings of topic {topic.name} may not be read",
            "whether it is compacted, or kept for long enough, is not known",
            "allow the user DescribeConfigs on the topics",
        )  # fmt: skip
    else:
        yield from _policy(at, topic, topic.settings)
        yield from _kept(at, topic, topic.settings)
        yield from _times(at, topic, topic.settings, len(topic.marks.end.offsets))
    yield from _keys(at, topic)
    yield from _start(at, topic, topic.marks)
    yield from _partitions(at, topic, topic.marks)


def _policy(at: Place, topic: Topic, settings: TopicSettings) -> Iterator[Finding]:
    if "compact" in settings.policies:
        yield no(
            "compacted", at,
            f"topic {topic.name} is compacted (cleanup.policy)",
            "a change, a delete included, may be removed before it is merged, and nobody can tell",
            "set cleanup.policy=delete",
            stops=True,
        )  # fmt: skip


def _kept(at: Place, topic: Topic, settings: TopicSettings) -> Iterator[Finding]:
    if "delete" not in settings.policies:
        return
    age, size = settings.retention.age, settings.retention.size
    if age is None:
        if size is None:
            yield yes_but(
                "remembered_deletes", at,
                f"topic {topic.name} is kept for ever (retention.ms)",
                "no delete can be forgotten, since the log may still undo it: what is remembered "
                "of deletes only grows",
                "set a retention that is longer than any outage, such as 7 days",
            )  # fmt: skip
    else:
        yield from _retention(at, topic, age)
    if size is not None:
        yield yes_but(
            "retention_bytes", at,
            f"topic {topic.name} is cut by size (retention.bytes={size})",
            f"how long changes are kept depends on the load: {_KEPT}",
            "set retention.bytes=-1 and a retention.ms",
        )  # fmt: skip


def _retention(at: Place, topic: Topic, kept: timedelta) -> Iterator[Finding]:
    window = timedelta(hours=topic.target.over_hours)
    problem = f"topic {topic.name} is kept for {kept} only (retention.ms)"
    remedy = "make it longer than the longest time in which nobody merges, such as 7 days"
    if kept < timedelta(seconds=topic.target.within_seconds):
        impact = f"that is less than the SLO gives a change ({topic.target}): {_KEPT}"
        yield no("retention", at, problem, impact, remedy)
    elif kept < window:
        impact = f"that is less than the {topic.target.over_hours} h that the SLO looks at: {_KEPT}"
        yield yes_but("retention", at, problem, impact, remedy)


def _times(at: Place, topic: Topic, settings: TopicSettings, partitions: int) -> Iterator[Finding]:
    if not settings.append_time:
        return
    problem = f"records of topic {topic.name} have their broker's time (LogAppendTime)"
    impact = "hours are cut by the brokers' clocks, and latencies in Kafka are not seen"
    remedy = "set message.timestamp.type=CreateTime: records that come from then on have the right"
    if topic.is_by_binlog and partitions > 1:
        impact = (
            f"{impact}; in {partitions} partitions times of one clock tell where a binlog begins "
            "again, and each broker has its own: a reset of the binlog stops the table for good"
        )
        yield no("append_time", at, problem, impact, f"{remedy} time")
    else:
        yield yes_but("append_time", at, problem, impact, f"{remedy} time")


def _keys(at: Place, topic: Topic) -> Iterator[Finding]:
    if topic.expects_keys and topic.keys and not any(topic.keys):
        partitions = len(topic.marks.end.offsets) if topic.marks else 0
        problem = f"records of topic {topic.name} have no key, and the table has one"
        impact = f"changes of one row may lie in any of its {partitions} partitions"
        yield yes_but(
            "records_without_key", at, problem,
            f"{impact}: batches cost more, and a record without a value deletes nothing",
            "let the connector write keys (message.key.columns; no transformation of keys)",
        )  # fmt: skip


def _start(at: Place, topic: Topic, marks: Watermarks) -> Iterator[Finding]:
    if not topic.is_new or topic.accepts_lost_start or topic.begin is not None:
        return
    lost = [f"{partition}:[0,{offset})" for partition, offset in marks.begin if offset]
    if lost:
        yield no(
            "log_begins_late", at,
            f"topic {topic.name} no longer holds its first records: {' '.join(lost)} is gone",
            "the table would lack the rows that have not changed since",
            "take a new snapshot, or set lost_start: accept if the rest is complete",
            stops=True,
        )  # fmt: skip


def _partitions(at: Place, topic: Topic, marks: Watermarks) -> Iterator[Finding]:
    before, now = topic.partitions, len(marks.end.offsets)
    if before in {None, now}:
        return
    used = sum(1 for _, end in marks.end if end > 0)
    problem = f"topic {topic.name} had {before} partition(s) when the table was begun and has {now}"
    order = "keys move between them, and Kafka's offsets alone order its changes"
    if used > 1:
        yield no("partitions_added", at, problem, f"{order}: the table stops", _ANEW)
    else:
        impact = f"{order}: the table stops once a second partition holds records"
        yield yes_but("partitions_added", at, problem, impact, _ANEW)
