"""Defines the sensor `maintain`, which starts runs for lake tables that need upkeep.

It derives a table's needs from figures in the table's metadata and manifests. A table whose head
has not moved since the last look is examined again when its snapshots' retention has passed, and
once more a day later: nothing else can have changed.

There is one run at a time, of few tables, because nothing else merges a run's tables meanwhile.
Tables are visited in the order of their last visit, so that each has its turn, however many there
are. Tables that a run of people or a backlog works on are left out: their run would be queued until
that is over, and the others' tables would not be merged as long. One that is queued for long all
the same is cancelled.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import dagster as dg

from cdc_assets.changes.upkeep import LONGEST
from cdc_assets.config import ReplicationConfig
from cdc_assets.config.maintenance import MaintenanceConfig
from cdc_assets.errors import CdcError, message_of
from cdc_assets.operate.known_tables import replicated
from cdc_assets.operate.services import Clock, Services, utc_now
from cdc_assets.operations.maintain import by_target, needs_text, no_session, upkeep_of
from cdc_assets.operations.operation import Tables
from cdc_assets.orchestration.keys import (
    MAINTENANCE,
    TAG_BACKLOG,
    TAG_MODE,
    TAIL,
    UNFINISHED,
    is_of,
    maintenance_key,
    maintenance_op,
    named,
    run_tags,
)
from cdc_assets.orchestration.mount import sensor_status
from cdc_assets.orchestration.sensors.replicate import busy_tables
from cdc_assets.orchestration.sensors.skipping import skipping_when_unreachable
from cdc_assets.orchestration.target import target_of
from cdc_assets.registry import Registry

INTERVAL_SECONDS: Final = 60
LOOK_SECONDS: Final = 5.0
"""How long one tick examines tables, at least one; the next one continues with the others."""
TABLES_AT_ONCE: Final = 8
RUNTIME_SECONDS: Final = 3600
QUEUED_AT_MOST: Final = timedelta(minutes=5)
"""How long a run may be queued; the tables that it has chosen count as busy meanwhile."""
MOST_DOUBLED: Final = 6
_DAY: Final = 86_400.0


@dataclass
class TableVisits:
    """The sensor's memory of one table; times are in seconds since the epoch.

    Attributes:
        head: the table's head when last seen, and ``since`` when it has been that.
        looked: when its figures were last read and nothing was needed; 0 for never.
        asked: when a run was last requested, or a look failed; 0 for never.
        swept: when removal of orphans was last requested, or when the table was first seen.
        runs: number of runs requested; each begins elsewhere, see `Upkeep.carry_out`.
        unmet: number of runs requested since its head has moved; each next one waits twice as
            long, as what fails once often fails again.
    """

    head: int
    since: float
    looked: float = 0.0
    asked: float = 0.0
    swept: float = 0.0
    runs: int = 0
    unmet: int = 0

    @property
    def visited(self) -> float:
        """When the table last had a look or a run; 0 for never."""
        return max(self.looked, self.asked)


@dataclass(frozen=True, slots=True)
class MaintenanceRun:
    """A lake table that gets a run.

    Attributes:
        tables: that are merged into it.
        orphans: whether to remove its orphans.
        turn: number of the run.
    """

    tables: Tables
    orphans: bool
    turn: int


@dataclass
class MaintenanceCursor:
    """The sensor's cursor. Losing it only makes it look once more."""

    tables: dict[str, TableVisits] = field(default_factory=dict[str, TableVisits])

    @classmethod
    def of(cls, cursor: str | None) -> MaintenanceCursor:
        """Parses a cursor."""
        said: Mapping[str, Any] = json.loads(cursor) if cursor else {}
        return cls({name: TableVisits(*each) for name, each in said.items()})

    def to_cursor(self) -> str:
        """Returns the cursor that `of` parses."""
        rows = {name: list(astuple(seen)) for name, seen in self.tables.items()}
        return json.dumps(rows, separators=(",", ":"))

    def see(self, name: str, head: int, now: float) -> TableVisits:
        """Records a table's present head; forgets times that a clock that was ahead has left."""
        known = self.tables.get(name)
        if known is None or max(known.since, known.visited, known.swept) > now:
            known = self.tables[name] = TableVisits(
                head, now, swept=now, runs=known.runs if known else 0
            )
        elif known.head != head:
            known.head, known.since, known.unmet = head, now, 0
        return known


def maintain_sensor(
    config: ReplicationConfig, loaded: Registry, clock: Clock = utc_now
) -> dg.SensorDefinition:
    """Returns the sensor that starts runs for lake tables that need upkeep."""
    services = Services(config, clock)
    all_groups = by_target(replicated(config, loaded))
    groups = [each for each in all_groups if _upkeep_of(config, each).enabled]
    keys = [maintenance_key(config, each[0].target) for each in all_groups]

    @skipping_when_unreachable
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        memory = MaintenanceCursor.of(context.cursor)
        records = context.instance.get_run_records(dg.RunsFilter(statuses=list(UNFINISHED)))
        ours = [each for each in records if _is_ours(config, each.dagster_run)]
        if ours:
            said = _cancelled(context, ours, clock()) or "a run of maintenance is not over yet"
            return dg.SensorResult(skip_reason=said)
        others = [each.dagster_run for each in records if not _ends_for_others(each.dagster_run)]
        entries = [entry for tables in groups for entry in tables]
        taken = busy_tables(config, others, entries)
        free = [each for each in groups if taken.isdisjoint(entry.table for entry in each)]
        chosen = _chosen(context, services, free, memory)
        cursor = memory.to_cursor()
        if not chosen:
            said = f"{len(groups)} lake tables, none of which needs upkeep now"
            return dg.SensorResult(skip_reason=said, cursor=cursor)
        return dg.SensorResult(run_requests=[_request(config, chosen)], cursor=cursor)

    return dg.SensorDefinition(
        name=named(config, "maintain"),
        evaluation_fn=evaluate,
        **target_of(config, keys, "maintain_tables"),
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=sensor_status(config),
        description="Starts runs for lake tables with many small files, deletes or snapshots.",
    )


def _is_ours(config: ReplicationConfig, run: dg.DagsterRun) -> bool:
    return is_of(config, run) and run.tags[TAG_MODE] == MAINTENANCE


def _ends_for_others(run: dg.DagsterRun) -> bool:
    """Returns whether a run ends soon once another one is queued, as those of small tables do."""
    return run.tags.get(TAG_MODE) == TAIL and TAG_BACKLOG not in run.tags


def _cancelled(
    context: dg.SensorEvaluationContext, runs: Sequence[dg.RunRecord], now: datetime
) -> str:
    """Cancels runs that have been queued for long; returns what was done, for people."""
    late = [
        each.dagster_run.run_id
        for each in runs
        if each.dagster_run.status is dg.DagsterRunStatus.QUEUED
        and now - each.create_timestamp >= QUEUED_AT_MOST
    ]
    for run_id in late:
        context.instance.run_coordinator.cancel_run(run_id)
    if not late:
        return ""
    return f"cancelled {', '.join(late)}: another run has one of its tables; it is asked for again"


def is_worth_a_look(seen: TableVisits, said: MaintenanceConfig, now: float) -> bool:
    """Returns whether anything can be due that was not due at the last look at the table."""
    waits = 2 ** min(max(seen.unmet - 1, 0), MOST_DOUBLED)
    if now - seen.visited < said.every_minutes * 60 * waits:
        return False
    ripe = (0.0, said.keep_minutes * 60, LONGEST.total_seconds() + said.keep_minutes * 60)
    return any(seen.looked < seen.since + after <= now for after in ripe)


def _chosen(
    context: dg.SensorEvaluationContext,
    services: Services,
    groups: Sequence[Tables],
    memory: MaintenanceCursor,
) -> list[MaintenanceRun]:
    """Returns the tables for a run; begins with those that had neither look nor run for longest.

    A table whose needs cannot be found out is left out, with a warning.
    """
    now = services.clock().timestamp()
    states = services.lake.find_states([(each[0].target, "") for each in groups])
    seen = list[tuple[TableVisits, Tables]]()
    for tables, state in zip(groups, states, strict=True):
        if isinstance(state, CdcError):
            context.log.warning(f"not looked after: {state}")
        elif state is not None and state.snapshot_id is not None:
            seen.append((memory.see(str(state.name), state.snapshot_id, now), tables))
    ends, looks, chosen = time.monotonic() + LOOK_SECONDS, 0, list[MaintenanceRun]()
    for known, tables in sorted(seen, key=lambda each: each[0].visited):
        if len(chosen) == TABLES_AT_ONCE or (looks and time.monotonic() >= ends):
            break
        if not is_worth_a_look(known, _upkeep_of(services.config, tables), now):
            continue
        looks += 1
        try:
            needs = upkeep_of(services.config, tables, services.lake, no_session).needs()
        except Exception as error:  # of any kind: the other tables are looked after all the same
            known.asked = now  # and this one is looked at again later
            context.log.warning(f"{tables[0].target}: not looked after: {message_of(error)}")
            continue
        orphans = now - known.swept >= _DAY
        wanted = [each for each in needs if each.tasks]
        for each in wanted:
            context.log.info(needs_text(each))
        if wanted or orphans:
            known.asked = now
            known.swept = now if orphans else known.swept
            chosen.append(MaintenanceRun(tables, orphans, known.runs))
            known.runs += 1
            known.unmet += 1
        else:
            known.looked, known.unmet = now, 0
    return chosen


def _request(config: ReplicationConfig, chosen: Sequence[MaintenanceRun]) -> dg.RunRequest:
    entries = tuple(entry for each in chosen for entry in each.tables)
    targets = [each.tables[0].target for each in chosen]
    wishes = [{"orphans": each.orphans, "turn": each.turn} for each in chosen]
    return dg.RunRequest(
        asset_selection=[maintenance_key(config, target) for target in targets],
        run_config={
            "ops": {
                maintenance_op(config, target): {"config": wish}
                for target, wish in zip(targets, wishes, strict=True)
            }
        },
        tags={
            **run_tags(config, MAINTENANCE, entries),
            "dagster/max_runtime": str(RUNTIME_SECONDS),
            "dagster/priority": "1",  # its tables are not merged as long as it is queued
        },
    )


def _upkeep_of(config: ReplicationConfig, tables: Tables) -> MaintenanceConfig:
    first = tables[0].table
    return config.source(first.source).upkeep(first)
