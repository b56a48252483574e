"""Follows one table's incremental snapshot through a connector's notifications.

Rules without I/O. A snapshot is identified by the collections that are still to be read, and not by
its id: the id of a signal that comes while another snapshot runs replaces the earlier one's, and
such a signal is not answered by a ``STARTED`` of its own. Its collections are queued after the
others, so a collection that was asked for twice is read twice.

Who must know that a table was read from its first key on since a signal was sent goes by the first
notice with the signal's id: the connector has queued its collections by then.

A table that was read is reported by ``TABLE_SCAN_COMPLETED``; a snapshot that ends without it was
stopped. A chunk that was being read when a snapshot was paused is reported after the pause. A
restart of the connector ends a pause without a notification, so that a second chunk after the pause
shows that it is over.
https://debezium.io/documentation/reference/3.6/configuration/notification.html
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

_NUMBER: Final = re.compile(r"-?[0-9]{1,38}")
_SCANNED: Final = frozenset({"SUCCEEDED", "EMPTY"})
"""The statuses with which the reading of a table ends if all of its rows were sent."""


class NoticeKind(StrEnum):
    """The kind of a notice, as Debezium writes it."""

    STARTED = "STARTED"
    IN_PROGRESS = "IN_PROGRESS"
    PAUSED = "PAUSED"
    RESUMED = "RESUMED"
    ABORTED = "ABORTED"
    TABLE_SCAN_COMPLETED = "TABLE_SCAN_COMPLETED"
    COMPLETED = "COMPLETED"


@dataclass(frozen=True, slots=True)
class Notice:
    """One notification about incremental snapshots.

    Attributes:
        kind: see `NoticeKind`.
        connector: the connector's ``topic.prefix``.
        collections: collections that are still to be read, the present one first.
        collection: the one that is being read, or was.
        status: of a collection that was read.
        rows: number of its rows that were read since the connector has started.
        last_key: last key of the rows that were read; ``most_key`` of those to be read. They are
            values of rows, and must not be shown.
        at_ms: by the connector's clock.
        id: of the newest signal that the connector has taken up.
    """

    kind: NoticeKind
    connector: str
    collections: tuple[str, ...] = ()
    collection: str = ""
    status: str = ""
    rows: int = 0
    last_key: str = ""
    most_key: str = ""
    at_ms: int = 0
    id: str = ""


class Phase(StrEnum):
    """The progress of one table's snapshot."""

    UNKNOWN = "unknown"
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """The known state of the newest incremental snapshot of one table.

    Attributes:
        connector: its ``topic.prefix``.
        collection: the connector's name of the table.
        phase: its progress.
        waiting: collections that are read before or after it.
        chunks: number of its chunks that were read, as far as they were followed.
        rows: number of its rows that were read.
        status: the status with which it ended.
        percent: percentage of its keys passed, if they are numbers; None if unknown.
        begun_ms: its beginning, by the connector's clock; older notices are of another one.
        first: the last key of its first chunk, if it is a number.
        is_whole: whether it was followed from its beginning on.
        is_late: whether a chunk was reported after it was paused.
        signal: id of the signal before which nothing is about it; empty if any snapshot will do.
        heard: number of notices about it, also of those that only tell of tables ahead of it.
    """

    connector: str
    collection: str
    phase: Phase = Phase.UNKNOWN
    waiting: tuple[str, ...] = ()
    chunks: int = 0
    rows: int = 0
    status: str = ""
    percent: int | None = None
    begun_ms: int = 0
    first: int | None = None
    is_whole: bool = False
    is_late: bool = False
    signal: str = ""
    heard: int = 0

    @property
    def is_under_way(self) -> bool:
        """Whether the connector reads it, or will."""
        return self.phase in {Phase.RUNNING, Phase.PAUSED}

    @property
    def is_over(self) -> bool:
        """Whether it has ended, one way or another."""
        return self.phase in {Phase.DONE, Phase.STOPPED, Phase.FAILED}

    def concerns(self, notice: Notice) -> bool:
        """Returns whether a notice is about it."""
        if notice.connector != self.connector or notice.at_ms < self.begun_ms:
            return False
        if self.phase is Phase.UNKNOWN and self.signal not in {"", notice.id}:
            return False
        if notice.kind in {NoticeKind.COMPLETED, NoticeKind.ABORTED}:
            is_mine = not notice.collections or self.collection in notice.collections
            return self.is_under_way and is_mine
        return self.collection in {*notice.collections, notice.collection}

    def after(self, notice: Notice) -> TableSnapshot:
        """Returns the state after one more notice."""
        if not self.concerns(notice):
            return self
        waiting = tuple(c for c in notice.collections if c != self.collection)
        now = replace(self, waiting=waiting, heard=self.heard + 1)
        match notice.kind:
            case NoticeKind.STARTED:
                return TableSnapshot(
                    self.connector,
                    self.collection,
                    Phase.RUNNING,
                    now.waiting,
                    begun_ms=notice.at_ms,
                    is_whole=True,
                    signal=self.signal,
                    heard=now.heard,
                )
            case NoticeKind.IN_PROGRESS:
                is_late = self.phase is Phase.PAUSED and not self.is_late
                now = replace(
                    now, phase=Phase.PAUSED if is_late else Phase.RUNNING, is_late=is_late
                )
                return _read(now, notice) if notice.collection == self.collection else now
            case NoticeKind.PAUSED:
                return replace(now, phase=Phase.PAUSED, is_late=False)
            case NoticeKind.RESUMED:
                return replace(now, phase=Phase.RUNNING)
            case (
                NoticeKind.ABORTED | NoticeKind.COMPLETED
            ):  # a stopped snapshot is reported by both
                return replace(now, phase=Phase.STOPPED, waiting=())
            case NoticeKind.TABLE_SCAN_COMPLETED:
                return _scanned(now, notice)


def _read(of: TableSnapshot, notice: Notice) -> TableSnapshot:
    last, most = notice.last_key, notice.most_key
    here = replace(of, chunks=of.chunks + 1, rows=max(of.rows, notice.rows))
    if not (of.is_whole and _NUMBER.fullmatch(last) and _NUMBER.fullmatch(most)):
        return here
    first = int(last) if of.first is None else of.first
    passed = (int(last) - first) * 100 // max(int(most) - first, 1)
    return replace(here, first=first, percent=min(max(passed, 0), 100))


def _scanned(of: TableSnapshot, notice: Notice) -> TableSnapshot:
    if notice.collection != of.collection:
        return replace(of, phase=Phase.RUNNING)
    here = replace(of, rows=notice.rows, status=notice.status)
    is_earlier = bool(of.signal) and of.phase is Phase.UNKNOWN  # it was read when the signal came
    if is_earlier or notice.collections.count(of.collection) > 1:  # the same once more, behind it
        return replace(here, phase=Phase.RUNNING)
    is_done = notice.status in _SCANNED
    return replace(here, phase=Phase.DONE if is_done else Phase.FAILED)
