"""The work of one command: its runs, what failed in them, and its progress."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import dagster as dg
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import total_length
from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.services import Services
from cdc_assets.operate.survey import TableSurvey
from cdc_assets.orchestration import liveness
from cdc_assets.orchestration.assets import table_asset
from cdc_assets.orchestration.instance import QUIET, open_instance, reason_of
from cdc_assets.orchestration.keys import TAG_PROCESS, op_name, run_tags, spark_key
from cdc_assets.orchestration.liveness import Listener
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.orchestration.side_by_side import materialize
from cdc_assets.orchestration.table_run import OnBatch
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge import BatchResult

Failed = dict[TableName, str]


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

        def merged(batch: BatchResult) -> None:
            self.progress.advance(task, total_length(batch.ranges))
            at = self._at(task)
            if at.total is not None and at.completed > at.total:  # more came meanwhile
                self.progress.update(task, total=at.completed)
            self._say_progress(task)

        return merged

    def say_waiting(self, entries: Sequence[TableEntry]) -> None:
        """Names the tables that wait for the end of a transaction."""
        held = self.services.failures.load()
        for entry in entries:
            failure = held.get(entry.table)
            if failure is not None and failure.is_waiting:
                self.progress.console.print(
                    Text(f"waiting: {entry.table}: {failure.message}"), soft_wrap=True
                )

    def expect(self, table: TableSurvey) -> None:
        """Adds a table's unread offsets to the progress bar."""
        task = self.progress.add_task(
            str(table.table), table=table.table, total=table.lag_changes or 0
        )
        self._say_progress(task)

    def _say_progress(self, task: TaskID) -> None:
        """Prints a line where no bar is shown: in a file or a pipe."""
        if self.progress.console.is_terminal:
            return
        at = self._at(task)
        of = "" if at.total is None else f" of {at.total:,.0f}"
        self.progress.console.print(
            Text(f"{at.fields['table']}: {at.completed:,.0f}{of} changes merged"), soft_wrap=True
        )

    def _at(self, task: TaskID) -> Task:
        return self.progress.tasks[self.progress.task_ids.index(task)]


@contextmanager
def working(config: ReplicationConfig) -> Iterator[Work]:
    """Begins the work of a command, with its progress on standard error: bars in a terminal."""
    console = Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    with open_instance() as instance, progress:
        yield Work(config, Services(config), instance, progress)


def unread(tables: Sequence[TableSurvey]) -> Failed:
    """Returns the tables that cannot be read, with the reason."""
    return {
        each.table: str(each.problem)
        for each in tables
        if each.problem is not None and not each.desired.held
    }


def _failures(
    config: ReplicationConfig, result: dg.ExecuteInProcessResult, entries: Sequence[TableEntry]
) -> Failed:
    by_step = {op_name(config, entry.table): entry.table for entry in entries}
    return {
        by_step[event.step_key]: reason_of(event)
        for event in result.get_step_failure_events()
        if event.step_key in by_step
    }
