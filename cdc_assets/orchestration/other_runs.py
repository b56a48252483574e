"""Waits for runs that work on a table, and asks runs that stay with the table to end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TerminalError, UnreachableError
from cdc_assets.naming import some_of
from cdc_assets.orchestration import liveness
from cdc_assets.orchestration.keys import (
    TAG_MODE,
    TAIL,
    UNFINISHED,
    ask_to_end,
    is_of,
    names_in,
)
from cdc_assets.orchestration.sensors.replicate import busy_tables
from cdc_assets.registry import TableEntry

AT_WORK: Final = (
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
"""The states of runs to wait for; one that has not begun finds out by itself when it does."""

_NAMED: Final = 3
UNSEEN: Final = "$DAGSTER_HOME is not set, so that runs of a Dagster instance are not seen"
NOT_ASKED: Final = (
    "$DAGSTER_HOME is not set: runs that stay with the table are not notified, and find it out "
    "with its next record; nor do its assets show it"
)

LOOK_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 1800.0


@dataclass(frozen=True, slots=True)
class OtherRuns:
    """The runs that may be working on a table.

    Attributes:
        config: the replication's configuration.
        instance: the instance that records the runs.
        own: the id of the run that asks; empty if none asks.
        patience: the longest wait for each table, in seconds.
        are_seen: whether the instance is the one of other runs; not an ephemeral one.
    """

    config: ReplicationConfig
    instance: dg.DagsterInstance
    own: str
    patience: float = PATIENCE_SECONDS
    are_seen: bool = True

    def require_seen(self) -> Iterator[str]:
        """Requires that no unseen run is at work; yields a warning if that is unknown.

        Raises:
            TerminalError: if runs of an instance that is not known work on this machine.
        """
        self._require_none_unseen()
        if not self.are_seen:
            yield f"{UNSEEN}: see that none is at work elsewhere"

    def wait(self, entry: TableEntry) -> Iterator[str]:
        """Waits until no other run works on a table; asks runs that stay to end.

        Yields:
            A message, for people, before a wait begins.

        Raises:
            UnreachableError: if one still works on it after ``patience`` seconds.
            TerminalError: as `require_seen`; one may have begun before the directive was stored.
        """
        self._require_none_unseen()
        began, said = time.monotonic(), False
        while at_work := self._at_work(entry):
            if not said:
                yield f"{entry.table}: waits for run {', '.join(r.run_id for r in at_work)}"
                said = True
            if time.monotonic() - began > self.patience:
                what = f"runs are still at the table: {', '.join(r.run_id for r in at_work)}"
                remedy = "terminate them, and run the same command again"
                raise UnreachableError(what, where=f"table={entry.table}", remedy=remedy)
            time.sleep(LOOK_SECONDS)

    def _require_none_unseen(self) -> None:
        alive = () if self.are_seen else liveness.alive_elsewhere(self.config.home)
        if not alive:
            return
        what = f"{UNSEEN}, and some are at work: {some_of(alive, _NAMED)}"
        usual = self.config.home / "dagster"  # of the demo, and of the README's first steps
        folder = f"the instance's folder{f' ({usual}?)' if usual.is_dir() else ''}"
        remedy = (
            f"set it to {folder}; without it `dagster dev` has made one called .tmp_dagster_home_… "
            "where it was started. Or run the same command again once they have ended"
        )
        raise TerminalError(what, where=f"home={self.config.home}", remedy=remedy)

    def _at_work(self, entry: TableEntry) -> list[dg.DagsterRun]:
        liveness.fail_dead_runs(self.instance, self.config.home)
        runs = self.instance.get_runs(dg.RunsFilter(statuses=list(AT_WORK)))
        others = (each for each in runs if each.run_id != self.own)
        found = [each for each in others if busy_tables(self.config, [each], [entry])]
        for run in found:
            if run.tags.get(TAG_MODE) == TAIL:
                ask_to_end(self.instance, run)
        return found

    def hand_over(self, tables: Sequence[TableEntry]) -> str:
        """Asks runs that stay with these tables to end: they take the tables for caught up.

        Returns:
            What could not be done, for people; empty if all was.
        """
        names = {str(each.table) for each in tables}
        wanted = dg.RunsFilter(statuses=list(UNFINISHED), tags={TAG_MODE: TAIL})
        for run_ in self.instance.get_runs(wanted):
            if is_of(self.config, run_) and names & names_in(run_):
                ask_to_end(self.instance, run_)
        return "" if self.are_seen else NOT_ASKED
