"""Merges tables without the daemon: the commands `replicate`, `replay` and `plan`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import dagster as dg
from rich.console import Console
from rich.text import Text

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError, ConfigError
from cdc_assets.log.hours import HourWindow, hour_of
from cdc_assets.operate.discovery import discover
from cdc_assets.operate.known_tables import find_table, replicated, selected, why_no_tables
from cdc_assets.operate.services import Services
from cdc_assets.operate.states import held_words, reading_words, stopped_words
from cdc_assets.operate.survey import TableSurvey, survey
from cdc_assets.orchestration import liveness
from cdc_assets.orchestration.command_work import Failed, Work, unread, working
from cdc_assets.orchestration.keys import REPLAY, TAIL, UNFINISHED
from cdc_assets.orchestration.planning import RunPlan, Slots, is_due, one_run_reads, plan_runs
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.orchestration.sensors.replicate import busy_tables, with_hours
from cdc_assets.reference import explained
from cdc_assets.registry import TableEntry

WAIT_SECONDS: Final = 1.0
PATIENCE_LOOKS: Final = 3
"""The first look, and two more at growing intervals: half a minute without new records."""
RANGE_START: Final = "dagster/asset_partition_range_start"
RANGE_END: Final = "dagster/asset_partition_range_end"


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected tables, and whether to continue until they have caught up."""

    source: str | None = None
    table: str | None = None
    until_caught_up: bool = False

    def left_out(
        self, seen: Sequence[TableSurvey], now: datetime
    ) -> tuple[dict[TableName, str], Failed]:
        """Returns the tables that people hold, and those that count as failed, with the reasons.

        A table that has stopped is tried if it is named, because a person then asks for it, or if
        its probe is due.
        """
        held = {
            each.table: held_words(each.table, each.desired) for each in seen if each.desired.held
        }
        if self.table is not None:
            return held, {**unread(seen), **held}
        stopped = {
            each.table: f"{stopped_words(each)}: {each.failure.message}"
            for each in seen
            if each.failure is not None
            and each.failure.is_held_back(now)
            and each.table not in held
        }
        return held, {**stopped, **unread(seen)}


def run_replicate(config: ReplicationConfig, selection: Selection) -> Failed:
    """Merges due tables once, or until everything that the log held at the start is merged.

    Tables that people have paused or dropped are skipped and named; one that was requested by name
    counts as failed. Tables that have stopped count as failed unless they were requested by name.

    A table that waits for the end of a transaction is tried again when the log has moved or its
    interval is over, and given up once `PATIENCE_LOOKS` attempts have found the log unmoved.

    Returns:
        The tables that failed or were given up, with the reason; the others were merged.

    Raises:
        CdcError: if a part that all tables need does not answer, or nothing is selected.
    """
    with working(config) as work:
        if selection.source is not None:
            config.source(selection.source)  # before others are waited for
        entries = selected(
            config, discover(work.services).registry, selection.source, selection.table
        )
        first = survey(work.services, entries, ages=False).answered()
        goals = {each.table: each.marks.end for each in first.tables if each.marks}
        held, failed = selection.left_out(first.tables, first.at)
        work.failed.update(failed)
        for table, words in held.items():
            work.progress.console.print(Text(f"left out: {table}: {words}"), soft_wrap=True)
        for each in first.tables:
            if each.lag_changes and each.table not in {*held, *failed}:
                work.expect(each)
        while plans := _plans(work, entries, goals):
            for plan in plans:
                work.run(plan.entries, TAIL, plan.hour.key)
            if not selection.until_caught_up:
                work.say_waiting(entries)
                return work.failed
            entries, goals = _as_called_now(work.services, entries, goals)
        return work.failed | work.given_up


def _plans(
    work: Work, entries: Sequence[TableEntry], goals: Mapping[TableName, OffsetVector]
) -> tuple[RunPlan, ...]:
    """Returns the next runs; waits while other runs have tables that are short of their goal."""
    while True:
        done = {*work.failed, *work.given_up}
        left = [entry for entry in entries if entry.table not in done]
        seen = survey(work.services, left, ages=False).answered()
        work.failed |= unread(seen.tables)
        behind = [
            each for each in seen.tables
            if each.table in goals
            and each.problem is None
            and not each.desired.held
            and (each.reading is not None or each.position.ranges_to(goals[each.table]))
        ]  # fmt: skip
        work.given_up |= _given_up(behind, seen.at)
        behind = [each for each in behind if each.table not in work.given_up]
        liveness.fail_dead_runs(work.instance, work.config.home, work.listener)
        runs = work.instance.get_runs(dg.RunsFilter(statuses=list(UNFINISHED)))
        busy = busy_tables(work.config, runs, entries)
        due = [each for each in behind if is_due(each, busy, seen.at, ignore_backoff=True)]
        due = one_run_reads(due, seen.tables, busy)
        if due or not behind:
            slots = Slots(runs=len(due), backlogs=len(due))
            return plan_runs(with_hours(work.services, due, seen), slots)
        time.sleep(WAIT_SECONDS)


def _as_called_now(
    services: Services, entries: Sequence[TableEntry], goals: Mapping[TableName, OffsetVector]
) -> tuple[tuple[TableEntry, ...], dict[TableName, OffsetVector]]:
    """Returns tables and goals after a run, which may have found that a table was renamed.

    A table that turned out to be another table's new name is replaced by that table, with the
    present end of the log as its goal.
    """
    registry = services.registry.load()
    by_topic = {each.topic: each for each in registry if each.renamed}
    now = [registry.get(each.table) or by_topic.get(each.topic) for each in entries]
    found = {each.table: each for each in now if each is not None}
    before = {each.table: each.topic for each in entries}
    moved = [each for each in found.values() if each.topic != before.get(each.table)]
    marks = services.log.watermarks([each.topic for each in moved]) if moved else {}
    ends = {each.table: marks[each.topic].end for each in moved if each.topic in marks}
    return tuple(found.values()), {**goals, **ends}


def _given_up(behind: Sequence[TableSurvey], now: datetime) -> Failed:
    return {
        each.table: f"waiting: {each.failure.message}"
        for each in behind
        if each.waits
        and each.failure is not None
        and each.failure.attempts >= PATIENCE_LOOKS
        and each.failure.is_waited_for(now)
    }


def run_replay(config: ReplicationConfig, table: str, first: str, last: str) -> Failed:
    """Merges the hours from ``first`` to ``last`` (both inclusive) once more.

    Hours before the table's first one belong to the first.

    Raises:
        CdcError: if the table or the hours do not exist.
    """
    start, end = parse_hour(first), parse_hour(last)
    if end < start:
        msg = f"--to {end.key} is before --from {start.key}"
        raise ConfigError(msg, remedy="give the earlier hour first")
    with working(config) as work:
        entry = find_table(config, work.services.registry.load(), table)
        start, end = (hour_of(each.start, entry.hours_from) for each in (start, end))
        tags = {RANGE_START: start.key, RANGE_END: end.key}
        work.run([entry], REPLAY, tags=tags)
        return work.failed


def parse_hour(text: str) -> HourWindow:
    """Parses ``2026-03-01-07:00`` (a partition key) or ISO 8601, which is UTC without a zone.

    Raises:
        ConfigError: if the text is neither, or the hour is outside of the partitions.
    """
    try:
        return HourWindow.from_key(text)
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        msg = f"{text!r} is not an hour"
        raise ConfigError(msg, remedy="write 2026-03-01T07:00, in UTC") from None
    return hour_of(at if at.tzinfo else at.replace(tzinfo=UTC))


def run_plan(config: ReplicationConfig, table: str | None) -> Failed:
    """Prints the plan of each table's next batch; changes nothing.

    Returns:
        The tables that could not be planned, with the reason.

    Raises:
        CdcError: if a part that all tables need does not answer, or nothing is selected.
    """
    from cdc_assets.merge import Replicator

    services = Services(config)
    registry = services.registry.load()
    entries = [find_table(config, registry, table)] if table else replicated(config, registry)
    if not entries:
        raise why_no_tables(services)
    seen = survey(services, entries, ages=False).answered()  # once, not by each table in turn
    spark, failed, out = spark_resource(config), unread(seen.tables), Console()
    to_read = {each.table: each.reading for each in seen.tables if each.reading is not None}
    replicator = Replicator(config, spark.session, clock=services.clock)
    try:
        for entry in (each for each in entries if each.table not in failed):
            if (reading := to_read.get(entry.table)) is not None:
                text = f"to be read into {entry.target}: {reading_words(reading)}"
            else:
                try:
                    found = replicator.plan(entry)
                except CdcError as error:
                    failed[entry.table] = explained(error)
                    continue
                text = found.describe() if found else f"nothing to merge of {entry.topic}"
            out.print(Text(f"{entry.table}: {text}"), soft_wrap=True)
    finally:
        spark.forget()
    return failed
