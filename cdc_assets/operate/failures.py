"""Records each table's failure or wait until its next success.

Each table that fails or waits has one small JSON document in the registry's folder. It decides two
things: the table's state in `cdc-assets status`, and when a sensor tries the table again.

A transient failure (something did not answer) is tried again soon, for as long as
``runs.retry_hours`` says; a refused login likewise, but less often, since databases lock users.
Then the table has *stopped*. It is only *probed* then, about once an hour, and continues by itself
if the cause is gone, as after a weekend's outage; a person who resumes or materializes it need not
wait for that.

A terminal failure needs a person, but its remedy is usually outside this program (a grant, a topic,
a source setting), and trying is harmless because a failed batch publishes nothing: so it is tried
again, too, at growing intervals of up to an hour. A person who has acted need not wait:
materializing the asset, or ``cdc-assets replicate --table``, ignores the interval.

A table that waits for the end of a transaction has not failed. It is tried again when a topic in
which the end can come has moved, or when its interval is over. Once the wait has expired, it has
stalled: that needs a person, but the table still continues by itself when a topic moves.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.errors import (
    CdcError,
    LoginRefusedError,
    OutcomeUnknownError,
    StalledError,
    TerminalError,
)


class FailureKind(StrEnum):
    """The kind of a failure, which decides what to do next."""

    TRANSIENT = "transient"
    LOGIN_REFUSED = "login_refused"
    """A part refused our login or its rights: renewed ones are found by the next attempt."""
    TERMINAL = "terminal"
    OUTCOME_UNKNOWN = "outcome_unknown"
    UNEXPECTED = "unexpected"
    WAITING = "waiting"
    """Not a failure: unread records cannot be merged yet."""
    STALLED = "stalled"
    """The wait has expired."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Doubling intervals between attempts."""

    first: timedelta
    longest: timedelta

    def after(self, attempts: int) -> timedelta:
        """Returns the wait after this many failed attempts (at least one)."""
        doublings = min(max(attempts, 1) - 1, 30)
        return min(self.first * 2**doublings, self.longest)


BACKOFF: Final[Mapping[FailureKind, Backoff]] = {
    FailureKind.TRANSIENT: Backoff(timedelta(seconds=10), timedelta(minutes=5)),
    FailureKind.LOGIN_REFUSED: Backoff(timedelta(minutes=1), timedelta(minutes=5)),
    FailureKind.OUTCOME_UNKNOWN: Backoff(timedelta(seconds=10), timedelta(minutes=5)),
    FailureKind.UNEXPECTED: Backoff(timedelta(minutes=1), timedelta(hours=1)),
    FailureKind.TERMINAL: Backoff(timedelta(minutes=1), timedelta(hours=1)),
    FailureKind.WAITING: Backoff(timedelta(seconds=10), timedelta(minutes=5)),
    FailureKind.STALLED: Backoff(timedelta(minutes=1), timedelta(hours=1)),
}


RETRIED: Final = frozenset({
    FailureKind.TRANSIENT, FailureKind.LOGIN_REFUSED, FailureKind.OUTCOME_UNKNOWN,
})  # fmt: skip
"""Failures that may pass by themselves, and after which a table stops eventually."""

_FOR_PEOPLE: Final = frozenset({
    FailureKind.TERMINAL, FailureKind.UNEXPECTED, FailureKind.STALLED, FailureKind.LOGIN_REFUSED,
})  # fmt: skip

PROBED: Final = RETRIED | {FailureKind.UNEXPECTED}
"""Kinds of a stopped table's last failure after which it is probed."""

PROBE_EVERY: Final = timedelta(hours=1)

LONGEST_STEP: Final = timedelta(hours=1)
"""The most time between two attempts that counts: a clock may jump, and nobody may try for days."""

LEAST_TRIES: Final = 5
"""The number of attempts before a table may stop: time without attempts does not count."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A table's wait for the end of a transaction.

    Attributes:
        transaction: the incomplete transaction.
        since: when the connector sent the transaction's last record so far.
        stops_at: when the wait expires.
        log_end: by topic, the log's end at the last attempt.
    """

    transaction: str
    since: datetime
    stops_at: datetime
    log_end: Mapping[str, OffsetVector]

    def has_moved(self, ends: Mapping[str, OffsetVector]) -> bool:
        """Returns whether a topic's end has moved; topics absent from ``ends`` are ignored."""
        return any(ends[topic] != end for topic, end in self.log_end.items() if topic in ends)


@dataclass(frozen=True, slots=True)
class Failure:
    """A table's failure or wait at its last attempt.

    ``attempts`` counts those since its last success; for a table that waits, those that found the
    log unmoved. ``hold`` describes the wait, if it waits.

    Attributes:
        since: the time of the first of these attempts; None if an earlier version did not write it.
        retried: the number of failures in a row that may pass by themselves.
        retried_for: the time between these that counts; see `LONGEST_STEP`.
        stopped: whether sensors have given up, but for a probe from time to time.
        probe_at: when a stopped table is probed; None if it is not.
    """

    at: datetime
    kind: FailureKind
    message: str
    attempts: int = 1
    hold: Hold | None = None
    since: datetime | None = None
    retried: int = 0
    retried_for: timedelta = timedelta()
    stopped: bool = False
    probe_at: datetime | None = None

    @property
    def began(self) -> datetime:
        """The time of the first of these attempts; of the last one if unknown."""
        return self.since or self.at

    @property
    def retry_at(self) -> datetime:
        """When a sensor may try again; for a table that waits, no later than its wait expires."""
        after = self.at + BACKOFF[self.kind].after(self.attempts)
        if self.hold is not None and self.at < self.hold.stops_at:
            return min(after, self.hold.stops_at)
        return after

    def is_waited_for(self, now: datetime) -> bool:
        """Returns whether a sensor has to wait; not after a time that a wrong clock has written."""
        return self.at <= now < self.retry_at

    def is_held_back(self, now: datetime) -> bool:
        """Returns whether it has stopped and is not to be probed now."""
        return self.stopped and (self.probe_at is None or self.at <= now < self.probe_at)

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is wrong so far."""
        return self.kind is FailureKind.WAITING

    @property
    def needs_person(self) -> bool:
        """Whether trying again without a change is not expected to help."""
        return self.stopped or self.kind in _FOR_PEOPLE

    def after(self, before: Failure | None, give_up_after: timedelta | None) -> Failure:
        """Returns this failure, counted together with the one before.

        Args:
            before: the failure of the last attempt; None if that succeeded.
            give_up_after: how long failures that may pass by themselves are tried again; None for
                ever.
        """
        is_more = before is not None and _is_same(before, self.kind, self.hold)
        attempts = before.attempts + 1 if before and is_more else 1
        since = before.began if before and is_more else self.at
        was_stopped = before is not None and before.stopped and not self.is_waiting
        counted = replace(self, attempts=attempts, since=since, stopped=was_stopped)
        if self.kind not in RETRIED:
            return counted
        goes_on = before is not None and before.retried > 0
        if before is None or not goes_on:
            return replace(counted, retried=1)
        step = LONGEST_STEP if give_up_after is None else give_up_after / LEAST_TRIES
        passed = min(max(self.at - before.at, timedelta()), step, LONGEST_STEP)
        retried, retried_for = before.retried + 1, before.retried_for + passed
        is_over = give_up_after is not None and retried_for >= give_up_after
        stopped = was_stopped or (is_over and retried >= LEAST_TRIES)
        return replace(counted, retried=retried, retried_for=retried_for, stopped=stopped)

    def probed(self, table: TableName) -> Failure:
        """Returns this failure with the time of the next probe, if it is one of a stopped table.

        The interval differs by table, from half an hour to one and a half: what has stopped many at
        once is not met by all of them at once.
        """
        if not self.stopped or self.kind not in PROBED:
            return replace(self, probe_at=None)
        share = zlib.crc32(str(table).encode()) / 2**32
        return replace(self, probe_at=self.at + PROBE_EVERY * (0.5 + share))


def kind_of(error: Exception) -> FailureKind:
    """Classifies an error by the roots of `cdc_assets.errors`."""
    if isinstance(error, StalledError):
        return FailureKind.STALLED
    if isinstance(error, TerminalError):
        return FailureKind.TERMINAL
    if isinstance(error, OutcomeUnknownError):
        return FailureKind.OUTCOME_UNKNOWN
    if isinstance(error, LoginRefusedError):
        return FailureKind.LOGIN_REFUSED
    return FailureKind.TRANSIENT if isinstance(error, CdcError) else FailureKind.UNEXPECTED


def _is_same(before: Failure, kind: FailureKind, hold: Hold | None) -> bool:
    """Returns whether an attempt counts together with the one before."""
    if hold is None or before.hold is None:
        return hold is before.hold
    return before.kind is kind and before.hold.log_end == hold.log_end
