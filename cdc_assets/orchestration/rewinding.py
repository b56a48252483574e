"""Runs `cdc-assets rewind`: rewinds a table to an earlier publish, and records it in Dagster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.effects import effect
from cdc_assets.operate.discovery import find_table
from cdc_assets.operate.rewind import Rewind, RewindPlan
from cdc_assets.operate.rewind_goal import Goal
from cdc_assets.operate.services import Services
from cdc_assets.orchestration.instance import has_instance, open_instance
from cdc_assets.orchestration.keys import (
    TAG_HAND_OVER,
    TAG_MODE,
    TAIL,
    UNFINISHED,
    is_of,
    names_in,
)
from cdc_assets.orchestration.rewound import observations
from cdc_assets.registry import TableEntry

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Rewinding:
    """A person's request for a rewind.

    Attributes:
        table: ``[source.][schema.]table``.
        goal: the target; None to drop the tags of earlier rewinds.
        dry_run: whether only to say what would be done.
    """

    table: str
    goal: Goal | None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Rewound:
    """The result of a request.

    Attributes:
        plan: the plan that was carried out, or would be; None if tags were to be dropped.
        forgotten: the tags that were dropped, or would be.
        is_done: whether there was anything to do, and it is done.
    """

    plan: RewindPlan | None = None
    forgotten: tuple[str, ...] = ()
    is_done: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Returns the result for ``--json``."""
        if self.plan is None:
            return {"forgotten": list(self.forgotten), "done": self.is_done}
        return {**self.plan.to_dict(), "done": self.is_done}


def run_rewind(config: ReplicationConfig, wish: Rewinding, say: Say) -> Rewound:
    """Runs the command; with $DAGSTER_HOME it also reports the rewind on the table's asset.

    Raises:
        CdcError: if there is no such table, or it cannot be rewound; it stays unchanged then.
    """
    if wish.dry_run:
        return rewound(Services(config), wish, say)
    with open_instance() as instance:
        services = Services(config)
        done = rewound(services, wish, say)
        if done.is_done and done.plan is not None:
            for each in observations(services, done.plan):
                with effect("dagster: event"):
                    instance.report_runless_asset_event(each)
            hand_over(config, instance, done.plan.tables)
            if not has_instance():
                say(
                    "$DAGSTER_HOME is not set: runs that stay with the table are not told, and "
                    "find it out with its next record; nor do its assets show it"
                )
        return done


def rewound(services: Services, wish: Rewinding, say: Say) -> Rewound:
    """Carries out the request, or says what would be done; raises as `run_rewind` does."""
    config = services.config
    entry = find_table(config, services.registry.load(), wish.table)
    rewind = Rewind(services, entry, say)
    if wish.goal is None:
        return _forgotten(services, entry, rewind, wish, say)
    plan = rewind.plan(wish.goal)
    for line in plan.lines():
        say(line)
    if wish.dry_run or plan.is_done:
        return Rewound(plan)
    done = rewind.carry_out(wish.goal, plan)
    if done is not plan:
        for line in done.lines():
            say(line)
    if done.is_done:
        return Rewound(done)
    for each in done.tables:
        services.failures.clear(each.table)
    say(f"{entry.table}: done; what it replaced is kept as {done.tag}")
    return Rewound(done, is_done=True)


def _forgotten(
    services: Services, entry: TableEntry, rewind: Rewind, wish: Rewinding, say: Say
) -> Rewound:
    if wish.dry_run:
        past = services.lake.past(entry.target)
        tags = tuple(past.tags) if past else ()
        say(f"{entry.table}: would let go of {', '.join(tags) or 'nothing'}")
        return Rewound(forgotten=tags)
    tags = rewind.forget()
    say(f"{entry.table}: let go of {', '.join(tags) or 'nothing: no rewind has kept anything'}")
    return Rewound(forgotten=tags, is_done=bool(tags))


def hand_over(
    config: ReplicationConfig, instance: dg.DagsterInstance, tables: Sequence[TableEntry]
) -> None:
    """Asks runs that stay with these tables to end: they take the tables for caught up."""
    names = {str(each.table) for each in tables}
    wanted = dg.RunsFilter(statuses=list(UNFINISHED), tags={TAG_MODE: TAIL})
    for run in instance.get_runs(wanted):
        if is_of(config, run) and names & names_in(run):
            instance.add_run_tags(run.run_id, {TAG_HAND_OVER: "true"})
