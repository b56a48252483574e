"""Carries out the part of `drop` and `reset` that concerns runs and Spark."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TerminalError, UnreachableError
from cdc_assets.naming import some_of
from cdc_assets.operate import removal
from cdc_assets.operate.removal import Hands
from cdc_assets.operate.services import Services
from cdc_assets.operate.steering import Choice, Order, Say, Steered, chosen
from cdc_assets.orchestration import liveness
from cdc_assets.orchestration.keys import TAG_HAND_OVER, TAG_MODE, TAIL
from cdc_assets.orchestration.resources import ReplicationSpark, spark_resource
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

LOOK_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 1800.0


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs that may be working on a table.

    Attributes:
        config: the replication's configuration.
        instance: the instance that records the runs.
        own: the id of the removing run; empty if it is none.
        say: receives messages about waits.
        patience: the longest wait for each table, in seconds.
        are_seen: whether the instance is the one of other runs; not an ephemeral one.
    """

    config: ReplicationConfig
    instance: dg.DagsterInstance
    own: str
    say: Callable[[str], None]
    patience: float = PATIENCE_SECONDS
    are_seen: bool = True

    def require_seen(self) -> None:
        """Requires that nobody is at work whose runs are not seen; says so if that is unknown.

        Raises:
            TerminalError: if runs of an instance that is not known work on this machine.
        """
        self._require_none_unseen()
        if not self.are_seen:
            self.say(f"{UNSEEN}: see that none is at work elsewhere")

    def wait(self, entry: TableEntry) -> None:
        """Waits until no other run works on a table; asks runs that stay to end.

        Raises:
            UnreachableError: if one still works on it after ``patience`` seconds.
            TerminalError: as `require_seen`; one may have begun before the wish was put down.
        """
        self._require_none_unseen()
        began, said = time.monotonic(), False
        while at_work := self._at_work(entry):
            if not said:
                self.say(f"{entry.table}: waits for run {', '.join(r.run_id for r in at_work)}")
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
            if run.tags.get(TAG_MODE) == TAIL and TAG_HAND_OVER not in run.tags:
                self.instance.add_run_tags(run.run_id, {TAG_HAND_OVER: "true"})
        return found


def run_removal(
    config: ReplicationConfig,
    command: str,
    choice: Choice,
    order: Order,
    runs: Runs,
    say: Say,
) -> Steered:
    """Carries out `drop`, `drop --lake` or `reset`.

    Raises:
        CdcError: if the choice is wrong, or the registry does not answer.
    """
    services, spark = Services(config), spark_resource(config)
    entries = chosen(services, choice)
    if command != "drop" and not order.dry_run:
        runs.require_seen()
    hands = Hands(runs.wait, _clearing(config, spark), runs.say)
    try:
        match command:
            case "reset":
                return removal.reset(services, entries, order, say, hands)
            case "drop --lake":
                return removal.drop(services, entries, order, say, hands)
            case _:
                return removal.drop(services, entries, order, say, None)
    finally:
        spark.forget()


def _clearing(config: ReplicationConfig, spark: ReplicationSpark) -> removal.Clear:
    def clear(entry: TableEntry) -> None:
        from cdc_assets.merge.statements.failures import translated
        from cdc_assets.merge.tables.quarantine import Quarantine

        with translated("clear the quarantine", f"table={entry.table}"):
            catalog = config.lake.catalog.name
            Quarantine(spark.session(), catalog, entry.table.source).clear(entry.table)

    return clear
