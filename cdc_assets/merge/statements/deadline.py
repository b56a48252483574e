"""Ends a statement that hangs, so that one of them cannot hold up all tables of a run.

Spark Connect's client has no time-out: it waits for as long as the connection lives, even if the
server was stopped or hangs. So another thread watches the clock:

1. At the deadline it asks the server to interrupt the statements of this step.
2. If the step is not over a little later, the server does not answer either, and the client's
   channel is closed: whatever waits on it returns with an error. The session is then unusable.

A table's turn as a whole has a deadline too, which also ends statements between the steps.

The block itself always ends in the thread that it began in. A classic session has no channel, so
only step 1 is possible there.

Measures a batch's steps, ends them at their deadline, and translates Spark's exceptions.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import SparkSession

from cdc_assets.errors import HungError, OutcomeUnknownError
from cdc_assets.merge.statements.failures import translated

GRACE_SECONDS: Final = 15.0
"""Time that an interrupted statement may take to end by itself."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits of one step and of one table's whole turn, in seconds."""

    statement: float
    table: float


class Watch:
    """The deadlines of one table's turn, which begins when this object is created.

    Args:
        session: returns the session that the steps use; None if there is none yet.
        limits: of the turn and its steps.
        grace: seconds that an interrupted statement has to end.
    """

    def __init__(
        self,
        session: Callable[[], SparkSession | None],
        limits: Limits,
        *,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._session = session
        self._limits = limits
        self._grace = grace
        self._turn_ends = time.monotonic() + limits.table

    @contextmanager
    def turn(self, where: str) -> Iterator[None]:
        """Ends the block when the turn is over.

        Raises:
            HungError: if it had to be ended.
        """
        alarm = _Alarm(self._session, self._left, self._grace)
        with self._translated(alarm, "the table's turn", where, "table_seconds"), alarm.set():
            yield

    @contextmanager
    def step(self, name: str, where: str, *, publishes: bool = False) -> Iterator[None]:
        """Ends the block at its deadline.

        Args:
            name: of the step, for people.
            where: coordinates for errors.
            publishes: whether the outcome is unknown if the step does not end by itself.

        Raises:
            HungError: if it had to be ended, or the turn was over before it began.
            OutcomeUnknownError: if it had to be ended and was publishing.
        """
        if self._left <= 0:
            raise self._turn_is_over(name, where)
        alarm = _Alarm(self._session, min(self._left, self._limits.statement), self._grace)
        with self._translated(alarm, f"the step '{name}'", where, "statement_seconds"):
            try:
                with alarm.set():
                    yield
            except OutcomeUnknownError:
                raise
            except Exception as error:
                if publishes and alarm.rang:
                    raise _unknown(name, where) from error
                raise

    @contextmanager
    def _translated(self, alarm: _Alarm, what: str, where: str, key: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        except (HungError, OutcomeUnknownError):
            raise
        except Exception as error:
            if not alarm.rang:
                raise
            seconds = time.monotonic() - started
            _log.warning("%s was ended after %.0f s (%s)", what, seconds, type(error).__name__)
            text = f"{what} was not over after {seconds:.0f} s and was given up"
            raise HungError(text, where=where, remedy=_remedy(key)) from None

    @property
    def _left(self) -> float:
        return self._turn_ends - time.monotonic()

    def _turn_is_over(self, name: str, where: str) -> HungError:
        what = f"the table's turn was over after {self._limits.table:.0f} s, before: {name}"
        return HungError(what, where=where, remedy=_remedy("table_seconds"))


class _Alarm:
    """One deadline. ``rang``: it passed before the block was over."""

    def __init__(
        self, session: Callable[[], SparkSession | None], seconds: float, grace: float
    ) -> None:
        self.rang = False
        self._session = session
        self._seconds = seconds
        self._grace = grace
        self._over = threading.Event()

    @contextmanager
    def set(self) -> Iterator[None]:
        """Ends the statements of this block at the deadline."""
        watching = threading.Thread(target=self._watch, name="deadline", daemon=True)
        watching.start()
        try:
            yield
        finally:
            self._over.set()

    def _watch(self) -> None:
        if self._over.wait(self._seconds):
            return
        self.rang = True
        session = self._session()
        if session is None:
            return
        # A server that hangs does not answer this either.
        interrupting = threading.Thread(target=_interrupt, args=[session], daemon=True)
        interrupting.start()
        if not self._over.wait(self._grace):
            close_channel(session)


def _interrupt(session: SparkSession) -> None:
    try:
        session.interruptAll()
    except Exception as error:  # whatever fails: the channel is closed next
        _log.debug("nothing could be interrupted: %s", type(error).__name__)


def close_channel(session: Any) -> None:
    """Closes a Connect session's channel: every call on it returns at once, with an error.

    ``client.close()`` would not do: it first waits for calls that are under way.
    """
    channel = getattr(getattr(session, "client", None), "_channel", None)
    if channel is not None:
        channel.close()


def _unknown(name: str, where: str) -> OutcomeUnknownError:
    what = f"the step '{name}' did not end in time; whether it has published is not known"
    remedy = "nothing was removed; the next run looks for the attempt before it merges"
    return OutcomeUnknownError(what, where=where, remedy=remedy)


def _remedy(key: str) -> str:
    return (
        "nothing was published; look at the Spark server, and raise batch."
        f"{key} if such a step may take longer"
    )


@dataclass
class Steps:
    """The steps of one batch, measured; a step that hangs is ended.

    Attributes:
        where: coordinates for errors.
        watch: the deadlines.
        seconds: durations by step; a repeated step adds up.
        cases: corner cases for which records are read once more, in words.
    """

    where: str
    watch: Watch
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    cases: list[str] = field(default_factory=list[str])

    def note(self, case: str) -> None:
        """Notes a corner case for which the batch's records are read once more."""
        if case not in self.cases:
            self.cases.append(case)

    @contextmanager
    def step(self, name: str, *, publishes: bool = False) -> Iterator[None]:
        """Measures a block, and translates Spark's exceptions in it; see `Watch.step`."""
        started = time.monotonic()
        watched = self.watch.step(name, self.where, publishes=publishes)
        try:
            with watched, translated(name, self.where):
                yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - started
