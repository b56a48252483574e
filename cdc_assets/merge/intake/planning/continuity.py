"""Checks that a log still holds every record that a table needs next."""

from __future__ import annotations

from typing import Final

from cdc_assets.changes.offsets import OffsetRange, OffsetVector
from cdc_assets.errors import LogReplacedError, LostRangeError
from cdc_assets.lake.carried import LastRecords
from cdc_assets.lake.packed import OFFSETS_AS_TEXT
from cdc_assets.lake.properties import Published
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.values import TopicIdentity, Watermarks
from cdc_assets.registry import TableEntry

_NEAR_END: Final = 2
"""Offsets to read at an end: a Kafka transaction ends with an offset without a record."""
_SHORT: Final = 2**12
"""Number of distinct digests for topics of many partitions, to keep publishes small."""
_NO_RECORD: Final = -1
"""The digest of no record, neither whole nor short."""


def require_same_log(
    entry: TableEntry, published: Published, now: TopicIdentity, rebuild: str
) -> None:
    """Fails if the log is not the one of the table's offsets, which are meaningless in another.

    Args:
        entry: the table.
        published: its newest publish.
        now: the log as it is.
        rebuild: the remedy: how to rebuild the table without the lost records.

    Raises:
        LogReplacedError: if the topic was recreated or the cluster is another one.
    """
    before = TopicIdentity(published.cluster_id, published.topic_id)
    if before == now:
        return
    other = "the cluster" if before.cluster_id != now.cluster_id else "the topic"
    what = f"{other} is not the one that this table was replicated from"
    where = f"table={entry.table} topic={entry.topic} was={before} is={now}"
    remedy = (
        f"its offsets are not comparable: {rebuild}; or rebuild, once the new log has a snapshot"
    )
    raise LogReplacedError(what, where=where, remedy=remedy)


def require_whole(entry: TableEntry, marks: Watermarks, own: OffsetVector) -> None:
    """Fails if the log has lost a table's first offset, which the first replication needs.

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
        remedy = "if the remaining log has a snapshot of the whole table, set lost_start: accept"
        raise LostRangeError(what, where=where, remedy=remedy, page="lost-beginning")


def require_kept(entry: TableEntry, start: OffsetVector, marks: Watermarks, rebuild: str) -> None:
    """Fails if the log has lost records that were not merged.

    Args:
        entry: the table.
        start: its committed offsets.
        marks: of the log.
        rebuild: the remedy: how to rebuild the table without the lost records.

    Raises:
        LostRangeError: if it begins after a start, or ends before it; names the exact range.
    """
    begin, end = marks.begin.as_dict(), marks.end.as_dict()
    where = f"table={entry.table} topic={entry.topic}"
    gone = [f"{p}:[{start.get(p)},{at})" for p, at in begin.items() if at > start.get(p)]
    if gone:
        what = f"the log no longer holds offsets that were never merged: {' '.join(gone)}"
        remedy = f"lengthen the topic's retention, and: {rebuild}"
        raise LostRangeError(what, where=where, remedy=remedy)
    ahead = [f"{p}: committed {at}, log ends at {end[p]}" for p, at in start if at > end.get(p, 0)]
    if ahead:
        what = f"the log ends before the committed offsets ({'; '.join(ahead)})"
        remedy = f"records were removed from the topic: {rebuild}"
        raise LostRangeError(what, where=where, remedy=remedy)


def last_records(
    log: KafkaLog,
    entry: TableEntry,
    published: Published | None,
    marks: Watermarks,
    ranges: tuple[OffsetRange, ...],
) -> tuple[LastRecords, LastRecords]:
    """Reads the last merged record before each range, and the last record of each range.

    A record that is not there any more is left out of the first ones, unless the topic keeps all
    from its beginning on: then its digest is one that no record has.

    Args:
        log: Kafka.
        entry: the table.
        published: its newest publish; None for the first batch.
        marks: of the log.
        ranges: of the batch.
    """
    known = published.carried.last_merged if published else {}
    begin, read = marks.begin.as_dict(), {each.partition for each in ranges}
    before = {p: (at, at + 1) for p, (at, _) in known.items()
              if p in read and begin.get(p, 0) <= at < marks.end.get(p)}  # fmt: skip
    ends = {each.partition: (max(each.start, each.end - _NEAR_END), each.end) for each in ranges}
    was, now = log.last_of(entry.topic, before, ends)
    found = {p: (record.coordinate.offset, record.digest) for p, record in was.items()}
    gone = before.keys() - found.keys()
    if gone and not _is_compacted(log, entry):
        found |= {p: (before[p][0], _NO_RECORD) for p in gone}
    modulo = 2**32 if len(marks.end.offsets) <= OFFSETS_AS_TEXT else _SHORT
    return found, {p: (r.coordinate.offset, r.digest % modulo) for p, r in now.items()}


def require_unchanged(
    entry: TableEntry, published: Published | None, found: LastRecords, rebuild: str
) -> None:
    """Fails if the log was cut back and has grown again since the last merge.

    Args:
        entry: the table.
        published: its newest publish; None for the first batch.
        found: the records that the log has where the last merged ones were.
        rebuild: the remedy: how to rebuild the table without the lost records.

    Raises:
        LostRangeError: if one is another record; names the range, whose beginning is unknown.
    """
    known = published.carried.last_merged if published else {}
    others = [
        f"{p}:[?,{at + 1})"
        for p, (at, digest) in sorted(found.items())
        if digest == _NO_RECORD or known[p][1] not in {digest, digest % _SHORT}
    ]
    if others:
        what = (
            "the log was cut back and has grown again: where the last merged record was, at the "
            f"end of {' '.join(others)}, is another one, and those before it were never merged"
        )
        where = f"table={entry.table} topic={entry.topic}"
        remedy = f"a broker lost records that it had acknowledged: {rebuild}"
        raise LostRangeError(what, where=where, remedy=remedy)


def _is_compacted(log: KafkaLog, entry: TableEntry) -> bool:
    """Whether records may be missing in the middle of the topic; true if that is unknown."""
    settings = log.settings([entry.topic]).get(entry.topic)
    return settings is None or "compact" in settings.policies
