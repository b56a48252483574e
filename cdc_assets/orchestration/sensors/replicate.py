"""Defines the sensor `replicate`, which starts runs for tables with unread changes.

There is no ``run_key``: Dagster never starts a second run for a key whose first run failed,
so a key made of offsets would stop a table for ever at its first failure. Instead a table is
skipped while an unfinished run has it, and after a failure until its back-off is over. The
lake's offsets decide which tables are due; the cursor is not used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import Final

import dagster as dg

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.log.hours import hour_of
from cdc_assets.log.rounds import in_rounds
from cdc_assets.naming import some_of
from cdc_assets.operate.hours import hours_to_read
from cdc_assets.operate.known_tables import as_registered, replicated
from cdc_assets.operate.services import Clock, Services, utc_now
from cdc_assets.operate.survey import Survey, TableSurvey, survey
from cdc_assets.orchestration import liveness
from cdc_assets.orchestration.checks import check_specs
from cdc_assets.orchestration.instance import has_slot, run_limit
from cdc_assets.orchestration.keys import (
    TAG_BACKLOG,
    TAG_MODE,
    TAG_PROCESS,
    TAIL,
    UNFINISHED,
    VERIFY,
    ask_to_end,
    is_asked_to_end,
    is_of,
    maintenance_key,
    named,
    names_in,
    pool_name,
    pools_of,
    run_tags,
    table_key,
)
from cdc_assets.orchestration.liveness import Listener
from cdc_assets.orchestration.mount import sensor_status
from cdc_assets.orchestration.planning import Due, RunPlan, Slots, is_due, one_run_reads, plan_runs
from cdc_assets.orchestration.sensors.skipping import skipping_when_unreachable
from cdc_assets.orchestration.target import target_of
from cdc_assets.registry import HOURS_START, Registry, TableEntry

INTERVAL_SECONDS: Final = 5
"""The sensor daemon evaluates no more often than every five seconds."""

RUNS_IF_UNLIMITED: Final = 10
GRACE_SECONDS: Final = 600

NAMED: Final = 20
"""The most tables that a tick names for one reason: Dagster stores the text of each."""

RECENT: Final = timedelta(minutes=10)


def replicate_sensor(
    config: ReplicationConfig, loaded: Registry, clock: Clock = utc_now
) -> dg.SensorDefinition:
    """Returns the sensor that starts runs for due tables: few runs, with many tables each."""
    services = Services(config, clock)
    tables, listener = replicated(config, loaded), Listener()

    @skipping_when_unreachable
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        for run_id in liveness.fail_dead_runs(context.instance, config.home, listener):
            context.log.warning(f"Run {run_id} had lost its process and was marked as failed")
        runs = context.instance.get_runs(dg.RunsFilter(statuses=list(UNFINISHED)))
        entries = as_registered(services, tables)
        busy = busy_tables(config, runs, entries)
        seen = survey(services, entries, ages=False).answered()
        due = [each for each in seen.tables if is_due(each, busy, seen.at)]
        due = one_run_reads(due, seen.tables, busy)
        slots = free_slots(config, context.instance, runs)
        if due and slots.runs <= 0:
            ask_for_room(context.instance, runs)
        together = [*due, *recent(seen, busy, due)] if due else []
        plans = plan_runs(with_hours(services, together, seen), slots)
        if not plans:
            return dg.SensorResult(skip_reason=_why_nothing(seen, busy, due))
        return dg.SensorResult(run_requests=[run_request(config, plan) for plan in plans])

    return dg.SensorDefinition(
        name=named(config, "replicate"),
        evaluation_fn=evaluate,
        **target_of(config, [table_key(config, each) for each in tables], "replicate_tables"),
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=sensor_status(config),
        description="Starts runs for tables whose topics hold changes not merged yet.",
    )


def busy_tables(
    config: ReplicationConfig, runs: Iterable[dg.DagsterRun], entries: Sequence[TableEntry]
) -> frozenset[TableName]:
    """Returns the tables that unfinished runs merge or maintain, whoever started them.

    They are those that a run selects, or that its tag names, as commands select no assets; of a job
    that selects none all those whose pools it takes. Comparing is no work on a table.
    """
    pools = {entry: pool_name(config, entry) for entry in entries}
    ours = frozenset(pools.values())
    found = set[TableName]()
    for run in runs:
        taken = pools_of(run)
        if taken is not None and taken.isdisjoint(ours):
            continue
        selected = frozenset(run.asset_selection or ())
        compares = run.tags.get(TAG_MODE) == VERIFY
        names = names_in(run) if is_of(config, run) and not compares else frozenset[str]()
        is_whole = taken is not None and not (selected or names or compares)
        found |= {
            entry.table
            for entry in entries
            if (taken is None or pools[entry] in taken)
            and (is_whole or names.issuperset(str(entry.table).split())
                 or table_key(config, entry) in selected
                 or maintenance_key(config, entry.target) in selected)
        }  # fmt: skip
    return frozenset(found)


def free_slots(
    config: ReplicationConfig, instance: dg.DagsterInstance, unfinished: Sequence[dg.DagsterRun]
) -> Slots:
    """Returns how many runs to add: the instance's limit less its unfinished runs.

    Of queued runs those of replications count, but for those that wait to compare tables. Others'
    may be as many as a backfill has partitions, and would take each slot that becomes free: as long
    as they wait, and no run merges small tables, one is added all the same. Its priority is higher.
    """
    limit = run_limit(instance) or RUNS_IF_UNLIMITED
    backlogs = sum(TAG_BACKLOG in run.tags for run in unfinished)
    comparing = sum(run.tags.get(TAG_MODE) == VERIFY and has_slot(run) for run in unfinished)
    others = [run for run in unfinished if not has_slot(run) and TAG_MODE not in run.tags]
    waiting = [run for run in unfinished if not has_slot(run) and run.tags.get(TAG_MODE) == VERIFY]
    free = limit - (len(unfinished) - len(others) - len(waiting))
    if others and not any(_merges_small_tables(config, run) for run in unfinished):
        free = max(1, free)
    return Slots(free, max(1, limit - 1 - comparing) - backlogs)


def _merges_small_tables(config: ReplicationConfig, run: dg.DagsterRun) -> bool:
    """Returns whether a run of this sensor is none of a backlog."""
    is_mine = is_of(config, run) and run.tags[TAG_MODE] == TAIL
    return is_mine and not run.tags.keys() & {TAG_BACKLOG, TAG_PROCESS}


def recent(
    seen: Survey, busy: Collection[TableName], due: Sequence[TableSurvey]
) -> list[TableSurvey]:
    """Returns tables that had changes recently, so that a run that stays includes them.

    Otherwise each would start a run of its own at its next change.
    """
    left_out = {*busy, *(each.table for each in due)}
    return [
        each
        for each in seen.tables
        if each.table not in left_out
        and each.failure is None
        and each.desired.held is None
        and each.published is not None
        and seen.at - each.published.published_at < RECENT
    ]


def ask_for_room(instance: dg.DagsterInstance, unfinished: Sequence[dg.DagsterRun]) -> None:
    """Asks the oldest run that stays to end, because other tables wait: its tables join theirs.

    Also asks runs that compare tables to end after their current table.
    """
    for run in unfinished:
        compares = run.tags.get(TAG_MODE) == VERIFY and run.status is dg.DagsterRunStatus.STARTED
        if compares:
            ask_to_end(instance, run)
    staying = [
        run
        for run in unfinished
        if run.status is dg.DagsterRunStatus.STARTED
        and run.tags.get(TAG_MODE) == TAIL
        and TAG_PROCESS not in run.tags
    ]
    if staying and not any(is_asked_to_end(run) for run in staying):
        oldest = min(instance.get_run_records(
            dg.RunsFilter(run_ids=[run.run_id for run in staying])
        ), key=lambda record: record.create_timestamp)  # fmt: skip
        ask_to_end(instance, oldest.dagster_run)


def with_hours(services: Services, due: Sequence[TableSurvey], seen: Survey) -> list[Due]:
    """Finds for each due table the hour in which reading continues.

    A table whose first rows are yet to be read from its source has the present one: what its log
    holds from before is in these rows.
    """
    unread = [
        Due(each.entry, hour_of(seen.at, each.entry.hours_from), 0)
        for each in due
        if each.reading is not None
    ]
    rest = [each for each in due if each.reading is None]
    positions = {each.table: (each.entry.topic, each.position) for each in rest}
    first = min((each.entry.hours_from for each in rest), default=HOURS_START)
    hours = in_rounds(positions, lambda asked: hours_to_read(services.log, asked, seen.at, first))
    return [*unread, *(Due(e.entry, hours[e.table], e.lag_changes or 0) for e in rest)]


def run_request(config: ReplicationConfig, plan: RunPlan) -> dg.RunRequest:
    """Returns a run request; its time limit keeps a lost run from blocking its tables for ever.

    The limit is that of the longest table after the age at which the run ends. Tables work side by
    side, and what a run that is ended has not come to is due again at once.
    """
    seconds = max(_longest(config, entry) for entry in plan.entries)
    return dg.RunRequest(
        partition_key=plan.hour.key,
        asset_selection=[table_key(config, entry) for entry in plan.entries],
        asset_check_keys=[
            spec.key for entry in plan.entries for spec in check_specs(table_key(config, entry))
        ],
        tags={
            **run_tags(config, TAIL, plan.entries),
            "dagster/max_runtime": str(int(seconds + config.runs.most_seconds) + GRACE_SECONDS),
            "dagster/priority": "0" if plan.backlog else "1",
            **({TAG_BACKLOG: "true"} if plan.backlog else {}),
        },
    )


def _longest(config: ReplicationConfig, entry: TableEntry) -> float:
    """Returns the seconds that one table may take: a batch begun in time is finished."""
    batch = config.sources[entry.table.source].batch
    return max(batch.drain_seconds, batch.table_seconds)


def _why_nothing(seen: Survey, busy: frozenset[TableName], due: Sequence[TableSurvey]) -> str:
    if due:
        return f"{len(due)} tables are due; waiting for a free run"
    paused = some_of((str(each.table) for each in seen.tables if each.desired.held), NAMED)
    held = [
        each for each in seen.tables
        if each.failure and not each.problem and each.table not in busy and not each.desired.held
    ]  # fmt: skip
    unread = some_of(
        (str(each.problem) for each in seen.tables if each.problem and not each.desired.held),
        NAMED,
        between="; ",
    )
    said = f"{len(seen.tables)} tables: {len(busy)} in unfinished runs, the others read to the end"
    failing = _again([each for each in held if not each.waits and not _is_stopped(each)])
    stopped = some_of((str(each.table) for each in held if _is_stopped(each)), NAMED)
    said += f"; paused or dropped: {paused}" if paused else ""
    said += f"; stopped, and probed once an hour or resumed: {stopped}" if stopped else ""
    said += f"; cannot be read: {unread}" if unread else ""
    waiting = _again([each for each in held if each.waits])
    said += f"; failing: {failing}" if failing else ""
    return said + (f"; waiting for the end of a transaction: {waiting}" if waiting else "")


def _is_stopped(table: TableSurvey) -> bool:
    return table.failure is not None and table.failure.stopped


def _again(tables: Sequence[TableSurvey]) -> str:
    waiting = (
        f"{each.table} again at {each.failure.retry_at:%H:%M:%S}Z"
        for each in tables
        if each.failure
    )
    return some_of(waiting, NAMED)
