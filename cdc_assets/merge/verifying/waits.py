"""Waits until source, connector and lake are at a point where rows of both can be compared."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.config import ReplicationConfig
from cdc_assets.databases.rows import SourceRows
from cdc_assets.errors import ConflictError
from cdc_assets.lake import Lake
from cdc_assets.merge.intake.planning import Planner
from cdc_assets.merge.plan.result import Waiting
from cdc_assets.merge.replicate import Replicator
from cdc_assets.registry import TableEntry

_POLL_SECONDS: Final = 1.0
_NUDGE_SECONDS: Final = 3.0


class Waits:
    """The waits for tables of one configuration, each for ``verify.wait_seconds`` at most.

    Args:
        config: the configuration.
        lake: for reading the tables' state.
        planner: for reading the log's ends.
        replicator: merges what the lake lacks; None if others do.
        run_id: recorded with these merges.
    """

    def __init__(
        self,
        config: ReplicationConfig,
        lake: Lake,
        planner: Planner,
        replicator: Replicator | None,
        run_id: str,
    ) -> None:
        self._config = config
        self._lake = lake
        self._planner = planner
        self._replicator = replicator
        self._run_id = run_id

    def until_visible(self, entry: TableEntry, source: SourceRows, position: str) -> str:
        """Waits until readers see all that is committed, and new changes are above a position.

        Args:
            entry: the table.
            source: its rows.
            position: the highest that the lake has applied, hexadecimal; empty for none.

        Returns:
            The reason if that is not so in the end; empty if it is.
        """
        said = self._config.source(entry.table.source).verify
        ends = time.monotonic() + said.wait_seconds
        nudge = _Nudge(source, is_allowed=bool(said.nudge))
        while position and not source.is_past(position):
            if time.monotonic() >= ends:
                return (
                    "nothing was written to the source's log since the table's snapshot: repeat "
                    "it once something was, or set verify.nudge"
                )
            nudge.now_and_then()
            time.sleep(_POLL_SECONDS / 10)
        moment = source.moment()
        while not source.is_over(moment):
            if time.monotonic() >= ends:
                return (
                    f"a transaction that writes was open for more than {said.wait_seconds:g} s: "
                    "compare once it has ended"
                )
            time.sleep(_POLL_SECONDS / 10)
        return ""

    def caught_up(self, entry: TableEntry, source: SourceRows, until: str) -> str:
        """Waits until the lake has everything up to a place in the source's log.

        Returns:
            The reason if it has not in the end; empty if it has.
        """
        said = self._config.source(entry.table.source).verify
        ends = time.monotonic() + said.wait_seconds
        return self.until_delivered(entry, source, until) or self.until_merged(entry, ends)

    def until_delivered(self, entry: TableEntry, source: SourceRows, until: str) -> str:
        """Waits until Kafka has everything up to a place in the source's log.

        Returns:
            The reason if it has not in the end; empty if it has.
        """
        said = self._config.source(entry.table.source).verify
        ends = time.monotonic() + said.wait_seconds
        nudge = _Nudge(source, is_allowed=bool(said.nudge))
        while not (delivery := source.delivery(until)).is_done:
            if delivery.is_hopeless:
                return f"nothing tells how far changes are delivered: {delivery.who}"
            if time.monotonic() >= ends:
                return (
                    f"{delivery.who} had not confirmed {until} after {said.wait_seconds:g} s (at "
                    "rest a connector confirms nothing: set heartbeat.interval.ms and "
                    "heartbeat.action.query, or verify.nudge)"
                )
            nudge.now_and_then()
            time.sleep(_POLL_SECONDS)
        return ""

    def until_merged(self, entry: TableEntry, ends: float | None = None) -> str:
        """Waits until the lake has merged what the log holds now.

        Args:
            entry: the table.
            ends: a deadline by the monotonic clock; None for the usual one.

        Returns:
            The reason if it has not in the end; empty if it has.
        """
        said = self._config.source(entry.table.source).verify
        ends = time.monotonic() + said.wait_seconds if ends is None else ends
        log = self._planner.marks(entry).end
        while True:
            state = self._lake.state(entry.target, entry.shard_value)
            left = state.published.offsets.ranges_to(log) if state and state.published else None
            if left is not None and not sum(each.length for each in left):
                return ""
            if self._replicator is not None and time.monotonic() < ends:
                self._merge(self._replicator, entry, log, ends - time.monotonic())
                continue
            if time.monotonic() >= ends:
                unmerged = " ".join(map(str, left or ()))
                return (
                    f"the lake had not merged {unmerged} after {said.wait_seconds:g} s: run "
                    "cdc-assets replicate, or the daemon, meanwhile"
                )
            time.sleep(_POLL_SECONDS)

    def _merge(
        self, replicator: Replicator, entry: TableEntry, until: OffsetVector, seconds: float
    ) -> None:
        done = replicator.drain(
            entry, window=None, run_id=self._run_id, budget_seconds=seconds, until=until
        )
        waits = True
        with suppress(ConflictError):  # another writer came first; the state is read again
            waits = any(isinstance(each, Waiting) for each in done)
        if waits:
            time.sleep(_POLL_SECONDS)


class _Nudge:
    """A nudge that has something written to the source's log, if that is allowed."""

    def __init__(self, source: SourceRows, *, is_allowed: bool) -> None:
        self._source = source
        self._is_allowed = is_allowed
        self._last = -_NUDGE_SECONDS

    def now_and_then(self) -> None:
        """Nudges the source, at most every few seconds."""
        if self._is_allowed and time.monotonic() - self._last >= _NUDGE_SECONDS:
            self._source.nudge()
            self._last = time.monotonic()
