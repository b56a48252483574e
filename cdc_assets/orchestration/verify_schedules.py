"""Defines a schedule for each source that runs the check `matches_source`.

Chooses the tables to compare with their sources at one tick of a schedule.

Each table has one turn per interval. A schedule that ticks many times in that interval takes a
share of the tables at each tick, longest waiting first, so that a thousand tables are not compared
at once. Tables that are in doubt, as rows of theirs may have changed at the source without events,
come first, whatever their turn (`cdc_assets.schema.silent`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import dagster as dg

from cdc_assets.changes.cron import Cron
from cdc_assets.config import ReplicationConfig
from cdc_assets.config.verify import VerifyConfig
from cdc_assets.errors import CdcError
from cdc_assets.operate.schema_drift import drifts
from cdc_assets.operate.services import Services
from cdc_assets.orchestration.keys import (
    TAG_MODE,
    TAG_SOURCE,
    UNFINISHED,
    VERIFY,
    is_of,
    mode_tags,
    named,
)
from cdc_assets.orchestration.matching import check_of, comparable
from cdc_assets.orchestration.mount import schedule_status
from cdc_assets.orchestration.side_by_side import side_by_side
from cdc_assets.registry import Registry, TableEntry

LONGEST: Final = timedelta(hours=12)
"""The longest duration of a run; a table that was not compared then gets another turn."""
COMPLETED: Final = frozenset({"SUCCEEDED", "FAILED"})
"""The statuses of checks that have an outcome."""


def verify_schedules(
    config: ReplicationConfig, registry: Registry
) -> Sequence[dg.ScheduleDefinition]:
    """Returns the schedules of the sources that configure one."""
    return [
        _schedule(config, source, config.source(source).verify, entries)
        for source, entries in comparable(config, registry).items()
        if config.source(source).verify.cron is not None
    ]


def _schedule(
    config: ReplicationConfig, source: str, said: VerifyConfig, entries: Sequence[TableEntry]
) -> dg.ScheduleDefinition:
    name = named(config, f"verify_{source}")
    chosen = [each for each in entries if said.compares(each.table)]
    checks = {each: check_of(config, each) for each in entries}
    tags = {**mode_tags(config, VERIFY), TAG_SOURCE: source}

    def evaluate(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        instance, cron = context.instance, said.cron
        now = context.scheduled_execution_time.astimezone(UTC)
        unfinished = instance.get_runs(dg.RunsFilter(statuses=list(UNFINISHED)))
        if any(_compares(config, run, source) for run in unfinished):
            return dg.SkipReason("the last run is not over yet")
        last = last_compared(instance, {each: checks[each] for each in chosen}, said.every)
        doubted = doubted_tables(Services(config), chosen)
        due = whose_turn(chosen, last, now, cron, said.every, doubted) if cron else ()
        if not due:
            return dg.SkipReason(f"{len(chosen)} tables, none of which has its turn now")
        return dg.RunRequest(
            asset_selection=[],
            asset_check_keys=[checks[each] for each in due],
            tags={
                **tags,
                "dagster/max_runtime": str(int(LONGEST.total_seconds())),
                "dagster/priority": "-1",
            },
        )

    return dg.ScheduleDefinition(
        name=f"{name}_schedule",
        job=dg.define_asset_job(
            name,
            dg.AssetSelection.checks(*checks.values()),
            executor_def=side_by_side,
            tags=tags,
            description=f"Compares tables of {source} with their source.",
        ),
        cron_schedule=said.schedule,
        execution_fn=evaluate,
        default_status=schedule_status(config),
        description=(
            f"Compares each table of {source} with its source once in {said.every_hours:g} h, some "
            "of them at a time."
        ),
    )


def last_compared(
    instance: dg.DagsterInstance,
    checks: Mapping[TableEntry, dg.AssetCheckKey],
    every: timedelta,
) -> dict[TableEntry, datetime]:
    """Returns when tables were compared last, by whomever; those never compared are absent.

    A comparison without an outcome is due again, after the tables that have waited longer.
    """
    found = instance.event_log_storage.get_latest_asset_check_execution_by_key([*checks.values()])
    last: dict[TableEntry, datetime] = {}
    for entry, key in checks.items():
        if (record := found.get(key)) is not None:
            begun = datetime.fromtimestamp(record.create_timestamp, UTC)
            last[entry] = begun if record.status.value in COMPLETED else begun - every
    return last


def _compares(config: ReplicationConfig, run: dg.DagsterRun, source: str) -> bool:
    is_mine = is_of(config, run) and run.tags[TAG_MODE] == VERIFY
    return is_mine and run.tags.get(TAG_SOURCE) == source


_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def whose_turn(
    entries: Sequence[TableEntry],
    last: Mapping[TableEntry, datetime],
    now: datetime,
    cron: Cron,
    every: timedelta,
    doubted: Mapping[TableEntry, datetime] | None = None,
) -> tuple[TableEntry, ...]:
    """Returns the tables to compare now: first those in doubt, then the longest waiting.

    Args:
        entries: all tables of this schedule.
        last: when tables were compared last; those never compared are absent. A time that is later
            by an interval is of a clock that was ahead, and counts as never.
        now: the time of the tick.
        cron: the schedule.
        every: the shortest interval between two comparisons of a table.
        doubted: tables in doubt, with since when. A comparison that began later and still found a
            difference does not make them come first again.
    """
    ticks = max(1, cron.ticks(now, every))
    # A comparison ends after its tick: without a margin it would miss its turn an interval later.
    before = now - every + every / (2 * ticks)
    doubts = doubted or {}
    last = {entry: at for entry, at in last.items() if at < now + every}
    first = {e for e in entries if e in doubts and last.get(e, _NEVER) <= doubts[e]}
    due = [each for each in entries if each in first or last.get(each, _NEVER) <= before]
    due.sort(key=lambda each: (each not in first, last.get(each, _NEVER), each.table))
    return tuple(due[: math.ceil(len(entries) / ticks)])


def doubted_tables(services: Services, entries: Sequence[TableEntry]) -> dict[TableEntry, datetime]:
    """Returns the tables in doubt, with since when; none if a part does not answer.

    A table whose changes continue without events, and which people have accepted so, has its turn
    as any other.
    """
    try:
        looked = services.lake.find_states([(each.target, each.shard_value) for each in entries])
        pairs = zip(entries, looked, strict=True)
        states = [(e, s) for e, s in pairs if s is not None and not isinstance(s, CdcError)]
        found = drifts(services, states)
    except CdcError:
        return {}
    since = {
        entry: [c.since for c in found[entry.table].silent if c.since and not c.is_standing]
        for entry, _ in states
        if entry.table in found
    }
    return {entry: max(times) for entry, times in since.items() if times}
