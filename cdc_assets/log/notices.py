"""What a connector says of an incremental snapshot, and what is known of one table's after it.

Rules without I/O. A snapshot is told by the collections that are still to be read, and not by its
id: that of a signal which comes while another snapshot runs takes the place of the earlier one's,
and such a signal is not answered by a ``STARTED`` of its own. Its collections are added behind, so
one that was asked for twice is read twice.

A table that was read is told of by ``TABLE_SCAN_COMPLETED``; what ends without that was stopped.
A chunk that was being read when a snapshot was paused is told after the pause. A restart of the
connector ends a pause without a word, so that a second chunk after it tells that it is over.
https://debezium.io/documentation/reference/3.6/configuration/notification.html
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

_NUMBER: Final = re.compile(r"-?[0-9]{1,38}")
_SCANNED: Final = frozenset({"SUCCEEDED", "EMPTY"})
"""What the reading of a table ends with if all of its rows were sent."""


class Kind(StrEnum):
    """Of a notice, as Debezium writes it."""

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
        kind: see `Kind`.
        connector: the ``topic.prefix`` of whom it is.
        collections: that are still to be read, the present one first.
        collection: the one that is being read, or was.
        status: of one that was.
        rows: that were read of it since the connector has started.
        last_key: of the rows that were read; ``most_key`` of those that are to be. They are values
            of rows, and not to be shown.
        at_ms: by the connector's clock.
    """

    kind: Kind
    connector: str
    collections: tuple[str, ...] = ()
    collection: str = ""
    status: str = ""
    rows: int = 0
    last_key: str = ""
    most_key: str = ""
    at_ms: int = 0


class Phase(StrEnum):
    """How far the snapshot of one table is."""

    UNKNOWN = "unknown"
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """What is known of the newest incremental snapshot of one table.

    Attributes:
        connector: its ``topic.prefix``.
        collection: what the connector calls the table.
        phase: how far it is.
        waiting: collections that are read before or after it.
        chunks: of it that were read, as far as they were followed.
        rows: that were read of it.
        status: that it ended with.
        percent: of its keys that are passed, if they are numbers; None if that is not known.
        begun_ms: when it began, by the connector's clock; what is older is of another one.
        first: the last key of its first chunk, if it is a number.
        is_whole: it was followed from its beginning on.
        is_late: a chunk was told of after it was paused.
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

    @property
    def is_under_way(self) -> bool:
        """Whether the connector reads it, or will."""
        return self.phase in {Phase.RUNNING, Phase.PAUSED}

    @property
    def is_over(self) -> bool:
        """Whether it has ended, one way or another."""
        return self.phase in {Phase.DONE, Phase.STOPPED, Phase.FAILED}

    def concerns(self, notice: Notice) -> bool:
        """Whether a notice says something of it."""
        if notice.connector != self.connector or notice.at_ms < self.begun_ms:
            return False
        if notice.kind in {Kind.COMPLETED, Kind.ABORTED}:
            is_mine = not notice.collections or self.collection in notice.collections
            return self.is_under_way and is_mine
        return self.collection in {*notice.collections, notice.collection}

    def after(self, notice: Notice) -> TableSnapshot:
        """With one notice more."""
        if not self.concerns(notice):
            return self
        now = replace(self, waiting=tuple(c for c in notice.collections if c != self.collection))
        match notice.kind:
            case Kind.STARTED:
                return TableSnapshot(
                    self.connector,
                    self.collection,
                    Phase.RUNNING,
                    now.waiting,
                    begun_ms=notice.at_ms,
                    is_whole=True,
                )
            case Kind.IN_PROGRESS:
                is_late = self.phase is Phase.PAUSED and not self.is_late
                now = replace(
                    now, phase=Phase.PAUSED if is_late else Phase.RUNNING, is_late=is_late
                )
                return _read(now, notice) if notice.collection == self.collection else now
            case Kind.PAUSED:
                return replace(now, phase=Phase.PAUSED, is_late=False)
            case Kind.RESUMED:
                return replace(now, phase=Phase.RUNNING)
            case Kind.ABORTED | Kind.COMPLETED:  # one that is stopped is told of by both
                return replace(now, phase=Phase.STOPPED, waiting=())
            case Kind.TABLE_SCAN_COMPLETED:
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
    if notice.collections.count(of.collection) > 1:  # the same once more, behind it
        return replace(here, phase=Phase.RUNNING)
    is_done = notice.status in _SCANNED
    return replace(here, phase=Phase.DONE if is_done else Phase.FAILED)
