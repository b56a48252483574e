"""Looks at a table's topic: its identity, beginning and end.

Reads where a table begins in its topic, if that is not the log's beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.errors import ConflictError, LogReplacedError, LostRangeError
from cdc_assets.lake import TableState
from cdc_assets.log.hours import HourWindow, WindowOffsets
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.values import TopicIdentity, Watermarks
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.registry import TableEntry


@dataclass(frozen=True, slots=True)
class TopicNow:
    """A topic at the time of a look.

    Attributes:
        identity: of the topic.
        marks: its watermarks, no older than the identity: see `Topics.require_same`.
    """

    identity: TopicIdentity
    marks: Watermarks


_NOTHING: Final = Watermarks(OffsetVector(), OffsetVector())
"""The watermarks of a topic that does not exist yet."""


def continued(state: TableState | None, now: TopicNow) -> TableState | None:
    """Returns a table's state with the topic that has come since its newest publish.

    All records of the topic are the table's, from the first one on.
    """
    published = state.published if state else None
    if state is None or published is None or published.topic_id or not now.identity.topic_id:
        return state
    partitions = len(now.marks.end.offsets)
    carried = replace(
        published.carried,
        partitions=partitions,
        partitions_seen=partitions,
        snapshot_starts=dict.fromkeys(range(partitions), ()),
    )
    named = replace(published, topic_id=now.identity.topic_id, carried=carried)
    return replace(state, published=named)


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of tables.

    A table whose first rows are read from its source may be there before its topic: its connector
    makes that with the table's first change. Until then the topic counts as an empty one.

    Attributes:
        log: Kafka, asked by each call.
        may_come: returns whether a table may be there before its topic.
    """

    log: KafkaLog
    may_come: Callable[[TableEntry], bool]

    def present(self, entry: TableEntry, *, was_there: bool) -> TopicNow:
        """Returns the table's present topic.

        Args:
            entry: the table.
            was_there: whether a publish of the table names the topic.

        Raises:
            LostRangeError: if it does not exist.
            ConflictError: if it was just created.
        """
        identity = self.log.identity([entry.topic]).get(entry.topic)
        if identity is None and not was_there and self.may_come(entry):
            return TopicNow(TopicIdentity(self.log.cluster_id(), ""), _NOTHING)
        marks = self.log.settled_watermarks(entry.topic)
        if marks is None:
            raise _gone(entry)
        if identity is None:
            what = "the topic was created while it was looked at"
            raise ConflictError(what, where=f"topic={entry.topic}", remedy="it is looked at again")
        return TopicNow(identity, marks)

    def marks(self, entry: TableEntry) -> Watermarks:
        """Returns the watermarks of the table's topic.

        Raises:
            LostRangeError: if the topic does not exist.
        """
        marks = self.log.settled_watermarks(entry.topic)
        if marks is None and self.may_come(entry):
            return _NOTHING
        if marks is None:
            raise _gone(entry)
        return marks

    def offsets_at(self, entry: TableEntry, at: datetime) -> OffsetVector:
        """Returns the first offsets not older than a time; the log's end without such offsets.

        Raises:
            LostRangeError: if the topic does not exist.
        """
        found = self.log.offsets_at([entry.topic], [at]).get((entry.topic, at))
        if found is None and self.may_come(entry):
            return _NOTHING.end
        if found is None:
            raise _gone(entry)
        return found

    def in_hour(self, entry: TableEntry, window: HourWindow) -> WindowOffsets:
        """Returns an hour's offsets in the table's topic.

        Raises:
            LostRangeError: if the topic does not exist.
        """
        offsets = self.log.window_offsets([entry.topic], [window], entry.hours_from)
        found = offsets.get((entry.topic, window))
        if found is None:
            raise _gone(entry)
        return found

    def require_same(self, plan: BatchPlan) -> None:
        """Fails if the topic was recreated between planning and reading.

        Raises:
            LogReplacedError: if the topic was recreated.
        """
        if not plan.identity.topic_id:
            return
        now = self.log.identity([plan.entry.topic]).get(plan.entry.topic)
        if now != plan.identity:
            what = "the topic was recreated while it was read"
            where = f"{plan.where} was={plan.identity} is={now}"
            remedy = "nothing was published; rebuild the table: cdc-assets rebuild TABLE"
            raise LogReplacedError(what, where=where, remedy=remedy)


def _gone(entry: TableEntry) -> LostRangeError:
    what = "the topic does not exist any more"
    remedy = "if it was removed for good, take the table out of the registry"
    return LostRangeError(what, where=f"table={entry.table} topic={entry.topic}", remedy=remedy)


BEGIN: Final = "cdc-assets.begin"
"""Property of a lake table: the offsets before its first batch, if not the log's beginning."""
BEGIN_TOPIC: Final = "cdc-assets.begin-topic"
"""Property with `BEGIN`: the id of the topic of its offsets."""
BEGIN_WHOLE: Final = "cdc-assets.begin-whole"
"""Property with `BEGIN`: the whole table follows its offsets, so that no snapshot is awaited."""


def begin_of(state: TableState | None) -> OffsetVector | None:
    """Returns where a table built from a new snapshot begins; None for the log's beginning.

    Args:
        state: of the lake's table; None if there is no table.

    Returns:
        The first offset to read of each partition, inclusive.
    """
    text = state.properties.get(BEGIN) if state else None
    return OffsetVector.from_json(text) if text else None
