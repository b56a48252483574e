"""Checks that a log still holds everything that a table needs of it next."""

from __future__ import annotations

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.errors import LogReplacedError, LostRangeError
from cdc_assets.lake.properties import Published
from cdc_assets.log.values import TopicIdentity, Watermarks
from cdc_assets.registry import TableEntry


def require_same_log(
    entry: TableEntry, published: Published, now: TopicIdentity, anew: str
) -> None:
    """Checks that the log is the one that offsets were counted in, as they mean nothing elsewhere.

    Args:
        entry: the table.
        published: its newest publish.
        now: the log as it is.
        anew: how the table can be built without what is lost.

    Raises:
        LogReplacedError: if the topic was recreated or the cluster is another one.
    """
    before = TopicIdentity(published.cluster_id, published.topic_id)
    if before == now:
        return
    other = "the cluster" if before.cluster_id != now.cluster_id else "the topic"
    what = f"{other} is not the one that this table was replicated from"
    where = f"table={entry.table} topic={entry.topic} was={before} is={now}"
    remedy = f"its offsets are not comparable: {anew}; or rebuild, once the new log has a snapshot"
    raise LogReplacedError(what, where=where, remedy=remedy)


def require_whole(entry: TableEntry, marks: Watermarks, own: OffsetVector) -> None:
    """Checks that the log has a table's first offset, which its first replication needs.

    Args:
        entry: the table.
        marks: of the log.
        own: where the table begins; empty if all of the log is its own.

    Raises:
        LostRangeError: if the log begins later; names the exact range.
    """
    gone = [f"{p}:[{own.get(p)},{at})" for p, at in marks.begin if at > own.get(p)]
    if gone:
        what = f"the log no longer holds its beginning: {' '.join(gone)} was never merged"
        where = f"table={entry.table} topic={entry.topic}"
        remedy = "if a snapshot of the whole table lies in what is left, set lost_start: accept"
        raise LostRangeError(what, where=where, remedy=remedy)


def require_kept(entry: TableEntry, start: OffsetVector, marks: Watermarks, anew: str) -> None:
    """Checks that the log still holds everything that was not merged.

    Args:
        entry: the table.
        start: its committed offsets.
        marks: of the log.
        anew: how the table can be built without what is lost.

    Raises:
        LostRangeError: if it begins after a start, or ends before it; names the exact range.
    """
    begin, end = marks.begin.as_dict(), marks.end.as_dict()
    where = f"table={entry.table} topic={entry.topic}"
    gone = [f"{p}:[{start.get(p)},{at})" for p, at in begin.items() if at > start.get(p)]
    if gone:
        what = f"the log no longer holds offsets that were never merged: {' '.join(gone)}"
        remedy = f"lengthen the topic's retention, and: {anew}"
        raise LostRangeError(what, where=where, remedy=remedy)
    ahead = [f"{p}: committed {at}, log ends at {end[p]}" for p, at in start if at > end.get(p, 0)]
    if ahead:
        what = f"the log ends before the committed offsets ({'; '.join(ahead)})"
        remedy = f"records were removed from the topic: {anew}"
        raise LostRangeError(what, where=where, remedy=remedy)
