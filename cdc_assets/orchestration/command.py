"""Runs the assets without the daemon, for `cdc-assets replicate` and `replay`.

With $DAGSTER_HOME the runs are recorded in that instance and appear in its UI; without it no record
of them is kept, only the merged rows.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import dagster as dg
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector, total_length
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError, ConfigError
from cdc_assets.log.hours import HourWindow, hour_of
from cdc_assets.operate.discovery import discover, find_table, replicated
from cdc_assets.operate.services import Services
from cdc_assets.operate.states import held_words, stopped_words
from cdc_assets.operate.survey import TableSurvey, survey
from cdc_assets.orchestration import liveness
from cdc_assets.orchestration.assets import table_asset
from cdc_assets.orchestration.heartbeat import Listener
from cdc_assets.orchestration.keys import (
    MAINTENANCE,
    REPLAY,
    TAG_PROCESS,
    TAIL,
    UNFINISHED,
    maintenance_op,
    op_name,
    run_tags,
    spark_key,
)
from cdc_assets.orchestration.maintaining import Tables, maintenance_asset, words
from cdc_assets.orchestration.planning import RunPlan, Slots, is_due, plan_runs
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.orchestration.sensors.replicate import busy_tables, with_hours
from cdc_assets.orchestration.side_by_side import materialize
from cdc_assets.orchestration.table_run import OnBatch
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge.upkeep import Done

RANGE_START: Final = "dagster/asset_partition_range_start"
RANGE_END: Final = "dagster/asset_partition_range_end"
QUIET: Final = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
WAIT_SECONDS: Final = 1.0
PATIENCE_LOOKS: Final = 3
"""The first look, and two more at growing intervals: half a minute without new records."""

Failed = dict[TableName, str]


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected tables, and whether to continue until they have caught up."""

    source: str | None = None
    table: str | None = None
    until_caught_up: bool = False

    def left_out(self, seen: Sequence[TableSurvey]) -> tuple[dict[TableName, str], Failed]:
        """Returns the tables that people hold, and those that count as failed, with the reasons.

        A table that has stopped is tried if it is named, because a person then asks for it.
        """
        held = {
            each.table: held_words(each.table, each.desired) for each in seen if each.desired.held
        }
        if self.table is not None:
            return held, {**_unread(seen), **held}
        stopped = {
            each.table: f"{stopped_words(each)}: {each.failure.message}"
            for each in seen
            if each.failure is not None and each.failure.stopped and each.table not in held
        }
        return held, {**stopped, **_unread(seen)}


@dataclass
class Work:
    """The work of one command, across its runs.

    ``given_up``: the tables given up because they wait for the end of a transaction, with the
    reason. ``name``: the command's name in liveness; its runs are alive as long as it is.
    """

    config: ReplicationConfig
    services: Services
    instance: dg.DagsterInstance
    progress: Progress
    failed: Failed = field(default_factory=dict)
    given_up: Failed = field(default_factory=dict)
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    listener: Listener = field(default_factory=Listener)

    def run(
        self,
        entries: Sequence[TableEntry],
        mode: str,
        partition: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Executes one Dagster run of these tables, and collects failures."""
        liveness.hold(self.config.home, self.name)
        result = materialize(
            [table_asset(self.config, entry, self._on_batch(entry)) for entry in entries],
            partition_key=partition,
            instance=self.instance,
            resources={spark_key(self.config): spark_resource(self.config)},
            run_config=QUIET,
            tags={**run_tags(self.config, mode, entries), TAG_PROCESS: self.name, **(tags or {})},
        )
        self.failed.update(_failures(self.config, result, entries))

    def _on_batch(self, entry: TableEntry) -> OnBatch:
        task = next(
            (each.id for each in self.progress.tasks if each.fields["table"] == entry.table), None
        )
        if task is None:
            task = self.progress.add_task(str(entry.table), table=entry.table, total=None)
        return lambda batch: self.progress.advance(task, total_length(batch.ranges))

    def say_waiting(self, entries: Sequence[TableEntry]) -> None:
        """Names the tables that wait for the end of a transaction."""
        held = self.services.failures.load()
        for entry in entries:
            failure = held.get(entry.table)
            if failure is not None and failure.is_waiting:
                self.progress.console.print(Text(f"waiting: {entry.table}: {failure.message}"))

    def expect(self, table: TableSurvey) -> None:
        """Adds a table's unread offsets to the progress bar."""
        self.progress.add_task(str(table.table), table=table.table, total=table.lag_changes or 0)


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
    with _work(config) as work:
        entries = _selected(work.services, selection)
        first = survey(work.services, entries, ages=False).answered()
        goals = {each.table: each.marks.end for each in first.tables if each.marks}
        held, failed = selection.left_out(first.tables)
        work.failed.update(failed)
        for table, words in held.items():
            work.progress.console.print(Text(f"left out: {table}: {words}"))
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


def run_replay(config: ReplicationConfig, table: str, first: str, last: str) -> Failed:
    """Merges the hours from ``first`` to ``last`` (both inclusive) once more.

    Raises:
        CdcError: if the table or the hours do not exist.
    """
    start, end = parse_hour(first), parse_hour(last)
    if end < start:
        msg = f"--to {end.key} is before --from {start.key}"
        raise ConfigError(msg, remedy="give the earlier hour first")
    with _work(config) as work:
        entry = find_table(config, work.services.registry.load(), table)
        tags = {RANGE_START: start.key, RANGE_END: end.key}
        work.run([entry], REPLAY, tags=tags)
        return work.failed


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
    spark, failed = spark_resource(config), Failed()
    replicator, out = Replicator(config, spark.session, clock=services.clock), Console()
    try:
        for entry in entries:
            try:
                found = replicator.plan(entry)
            except CdcError as error:
                failed[entry.table] = str(error)
                continue
            text = found.describe() if found else f"nothing to merge of {entry.topic}"
            out.print(f"{entry.table}: {text}", highlight=False, markup=False, soft_wrap=True)
    finally:
        spark.forget()
    return failed


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


def _plans(
    work: Work, entries: Sequence[TableEntry], goals: Mapping[TableName, OffsetVector]
) -> tuple[RunPlan, ...]:
    """Returns the next runs; waits while other runs have tables that are short of their goal."""
    while True:
        done = {*work.failed, *work.given_up}
        left = [entry for entry in entries if entry.table not in done]
        seen = survey(work.services, left, ages=False).answered()
        work.failed |= _unread(seen.tables)
        behind = [
            each for each in seen.tables
            if each.table in goals
            and each.problem is None
            and not each.desired.held
            and each.position.ranges_to(goals[each.table])
        ]  # fmt: skip
        work.given_up |= _given_up(behind, seen.at)
        behind = [each for each in behind if each.table not in work.given_up]
        liveness.fail_dead_runs(work.instance, work.config.home, work.listener)
        runs = work.instance.get_runs(dg.RunsFilter(statuses=list(UNFINISHED)))
        busy = busy_tables(work.config, runs, entries)
        due = [each for each in behind if is_due(each, busy, seen.at, ignore_backoff=True)]
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


def _unread(tables: Sequence[TableSurvey]) -> Failed:
    """Returns the tables that cannot be read, with the reason."""
    return {
        each.table: str(each.problem)
        for each in tables
        if each.problem is not None and not each.desired.held
    }


def _given_up(behind: Sequence[TableSurvey], now: datetime) -> Failed:
    return {
        each.table: f"waiting: {each.failure.message}"
        for each in behind
        if each.waits
        and each.failure is not None
        and each.failure.attempts >= PATIENCE_LOOKS
        and each.failure.is_waited_for(now)
    }


def _selected(services: Services, selection: Selection) -> tuple[TableEntry, ...]:
    registry = discover(services).registry
    if selection.table is not None:
        return (find_table(services.config, registry, selection.table),)
    entries = replicated(services.config, registry)
    if selection.source is None:
        return entries
    services.config.source(selection.source)
    return tuple(entry for entry in entries if entry.table.source == selection.source)


def maintain_tables(
    config: ReplicationConfig,
    groups: Sequence[Tables],
    *,
    orphans: bool,
    say: Callable[..., None],
) -> dict[str, str]:
    """Maintains lake tables, one after the other.

    Args:
        config: the configuration.
        groups: for each lake table, the tables that are merged into it.
        orphans: whether also to remove the files that no snapshot names.
        say: receives each step in words.

    Returns:
        The lake tables that failed, with the reason.
    """
    failed, name = dict[str, str](), uuid.uuid4().hex
    with open_instance() as instance:
        for tables in groups:
            target, steps = tables[0].target, list[str]()

            def told(done: Done, steps: list[str] = steps) -> None:
                steps.append(words(done))
                say(words(done), highlight=False, soft_wrap=True)

            liveness.hold(config.home, name)
            wish = {"orphans": orphans, "whole": True}
            result = materialize(
                [maintenance_asset(config, tables, told)],
                instance=instance,
                resources={spark_key(config): spark_resource(config)},
                run_config={**QUIET, "ops": {maintenance_op(config, target): {"config": wish}}},
                tags={**run_tags(config, MAINTENANCE, tables), TAG_PROCESS: name},
            )
            for event in result.get_step_failure_events():
                failed[str(target)] = _reason(event)
            if not steps and str(target) not in failed:
                say(f"{target}: nothing to do", highlight=False)
    return failed


@contextmanager
def _work(config: ReplicationConfig) -> Iterator[Work]:
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )
    with open_instance() as instance, progress:
        yield Work(config, Services(config), instance, progress)


@contextmanager
def open_instance() -> Iterator[dg.DagsterInstance]:
    """Opens the instance of $DAGSTER_HOME; without it an ephemeral one."""
    if os.environ.get("DAGSTER_HOME"):
        with dg.DagsterInstance.get() as instance:
            yield instance
    else:
        with dg.DagsterInstance.ephemeral() as instance:
            yield instance


def _failures(
    config: ReplicationConfig, result: dg.ExecuteInProcessResult, entries: Sequence[TableEntry]
) -> Failed:
    by_step = {op_name(config, entry.table): entry.table for entry in entries}
    return {
        by_step[event.step_key]: _reason(event)
        for event in result.get_step_failure_events()
        if event.step_key in by_step
    }


def _reason(event: dg.DagsterEvent) -> str:
    data: Any = event.step_failure_data
    failure = data.user_failure_data
    described = failure.description if failure else None
    if described:
        return described.partition(": ")[2]  # the table is named beside it
    return f"failed ({data.error.cls_name if data.error else 'unknown error'})"
