"""Upkeep of a lake table and of what lies beside it: planned from figures, then carried out.

None of it changes a row, and each step is one that may be left at any point: what was committed
stays, what was not has changed nothing. Steps are small, so that somebody who waits for the table
need not wait for long, and each is planned anew if another writer came first.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, assert_never

from pyspark.sql import SparkSession

from cdc_assets.changes.names import LakeName
from cdc_assets.changes.upkeep import (
    MIB,
    TINY,
    Figures,
    Task,
    Thresholds,
    Tier,
    expirable,
    tasks,
    tier_of,
)
from cdc_assets.config import ReplicationConfig
from cdc_assets.config.maintenance import MaintenanceConfig
from cdc_assets.effects import effect
from cdc_assets.errors import CdcError, ConflictError
from cdc_assets.lake import Lake
from cdc_assets.lake.pointers import Recent
from cdc_assets.lake.side import side_of
from cdc_assets.merge.plan.plan import OWN_BRANCH
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.deadline import Limits, Watch
from cdc_assets.merge.statements.steps import Steps
from cdc_assets.registry import TableEntry

_TRIES: Final = 3
"""A step meets another writer's commit so often before it is left for the next time."""

_AT_ONCE: Final = 256 * MIB
"""So much is written anew with one commit, a few seconds' work, unless one file is larger."""

_EXPIRED_AT_ONCE: Final = 1_000

_DELETES_AS_FILES: Final = 2
"""Of this format version deletes are files, of which a data file may have many, and which may
outlive it. https://iceberg.apache.org/spec/#position-delete-files"""

_FILES_LOOKED_AT: Final = Recent[int](4_096)
"""How many data files tables had when they were last looked at, in all of this process."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Needs:
    """What one table needs.

    Attributes:
        name: of the lake table, or of one beside it.
        figures: what it is made of now.
        tasks: in the order to do them.
        expirable: the snapshots that may go.
        limits: by which that was told.
    """

    name: LakeName
    figures: Figures
    tasks: tuple[Task, ...]
    expirable: tuple[int, ...]
    limits: Thresholds


@dataclass(frozen=True, slots=True)
class Done:
    """One step that was taken.

    Attributes:
        name: of the table.
        task: of its kind.
        seconds: that it took.
        counts: what Iceberg says of it, such as ``rewritten_data_files_count``.
    """

    name: LakeName
    task: Task
    seconds: float
    counts: Mapping[str, int]


IsOver = Callable[[], bool]
"""Whether to stop before the next step."""


class Upkeep:
    """Looks after one lake table.

    Args:
        config: the configuration.
        entries: the source tables that are merged into it.
        lake: where it is looked at.
        session: gives the Spark session; called when the first statement is sent.
        clock: wall clock.
    """

    def __init__(
        self,
        config: ReplicationConfig,
        entries: Sequence[TableEntry],
        lake: Lake,
        session: Callable[[], SparkSession],
        clock: Callable[[], datetime],
    ) -> None:
        self._entries, self._lake, self._session, self._clock = entries, lake, session, clock
        self._catalog = config.lake.catalog.name
        source = config.source(entries[0].table.source)
        self._is_v2 = config.lake.format_version == _DELETES_AS_FILES
        self._deadlines = Limits(source.batch.statement_seconds, source.batch.table_seconds)
        self.said: MaintenanceConfig = source.upkeep(entries[0].table)

    def needs(self) -> list[Needs]:
        """Of the lake table and of those beside it; of those that exist.

        Raises:
            UnreachableError: if the lake cannot be read.
        """
        return list(self._each())

    def carry_out(self, *, orphans: bool, is_over: IsOver = lambda: False) -> Iterator[Done]:
        """Do what is needed; yields each step as it is done.

        Args:
            orphans: also remove the files that no snapshot names.
            is_over: asked before each step. What is left is needed the next time, too.

        Raises:
            CdcError: if a step fails; the others' outcome stays.
        """
        for needs in self._each():
            wanted = [*needs.tasks, *([Task.REMOVE_ORPHANS] if orphans else [])]
            for task in wanted:
                yield from self._carried_out(needs, task, is_over)

    def after_batch(self, files: int | None) -> None:
        """Put the tiny files of the lake table together, if batches have left many of them.

        A moment's work, also for a large table; the rest is left to `carry_out`. What fails is
        logged, as it must not hold the table up.

        Args:
            files: how many data files the table has by its head's own count.
        """
        if not self.said.enabled or files is None:
            return
        key = self._catalog, self._lake.address, self._entries[0].target
        before = _FILES_LOOKED_AT.of(key) or 0
        if files - before < self.said.small_files:
            if files < before:
                _FILES_LOOKED_AT.keep(key, files)
            return
        try:
            for needs in self._needs_of(self._entries[0].target, ()):
                if needs.figures.tiny < self.said.small_files:
                    continue
                for done in self._compacted(needs, Tier.TINY, lambda: False):
                    _log.info("%s", done)
                    files += done.counts.get("added_data_files_count", 0)
                    files -= done.counts.get("rewritten_data_files_count", 0)
        except CdcError as error:
            _log.warning("%s: its files were not put together: %s", self._entries[0].target, error)
        _FILES_LOOKED_AT.keep(key, files)

    def _each(self) -> Iterator[Needs]:
        """One after the other: what is beside a table is needed less once that was looked after."""
        target = self._entries[0].target
        yield from self._needs_of(target, ())
        for entry in self._entries:
            named: dict[LakeName, set[int]] = {side_of(entry.stem, None): set()}
            for mark in self._lake.side_marks(target, entry.shard_value):
                ids = named.setdefault(side_of(entry.stem, mark), set())
                ids.update([] if mark.snapshot is None else [mark.snapshot])
            for name, ids in named.items():
                yield from self._needs_of(name, ids)

    def _needs_of(self, name: LakeName, named: Collection[int]) -> Iterator[Needs]:
        """None, if there is no such table."""
        figures = self._lake.figures(name, OWN_BRANCH, tuple(named))
        if figures is not None:
            now, limits = round(self._clock().timestamp() * 1000), self.said.thresholds
            gone = expirable(figures.history, limits, now)
            yield Needs(name, figures, tasks(figures, limits, now), gone, limits)

    def _carried_out(self, needs: Needs, task: Task, is_over: IsOver) -> Iterator[Done]:
        if is_over():
            return
        match task:
            case Task.COMPACT:
                tier = tier_of(needs.figures, needs.limits)
                if tier is not None:
                    yield from self._compacted(needs, tier, is_over)
            case Task.DROP_BRANCHES:
                for branch in needs.figures.dead_branches:
                    yield self._done(
                        needs, task, sql.drop_branch(self._catalog, needs.name, branch)
                    )
            case Task.MERGE_MANIFESTS:
                yield self._done(needs, task, sql.merge_manifests(self._catalog, needs.name))
            case Task.EXPIRE:
                for begin in range(0, len(needs.expirable), _EXPIRED_AT_ONCE):
                    some = needs.expirable[begin : begin + _EXPIRED_AT_ONCE]
                    yield self._done(
                        needs, task, sql.expire_snapshots(self._catalog, needs.name, some)
                    )
            case Task.REMOVE_ORPHANS:
                before = self._clock() - timedelta(days=self.said.orphan_days)
                yield self._done(needs, task, sql.remove_orphans(self._catalog, needs.name, before))
            case unexpected:
                assert_never(unexpected)

    def _compacted(self, needs: Needs, tier: Tier, is_over: IsOver) -> Iterator[Done]:
        """A few files with each commit, until there is nothing left to put together."""
        statement = sql.compact(self._catalog, needs.name, self._options(needs, tier))
        while not is_over():
            done = self._done(needs, Task.COMPACT, statement)
            if not done.counts.get("rewritten_data_files_count"):
                return
            yield done
            if tier is Tier.TINY:
                return

    def _done(self, needs: Needs, task: Task, statement: str) -> Done:
        """One statement, sent again if another writer came first.

        Raises:
            CdcError: if it fails.
        """
        where = f"lake={needs.name}"
        watch = Watch(self._session, self._deadlines)
        for tries in range(1, _TRIES + 1):
            begun = time.monotonic()
            try:
                with Steps(where, watch).step(task.value), effect(f"spark: {task.value}"):
                    rows = self._spark().sql(statement).collect()
            except ConflictError:
                if tries == _TRIES:
                    raise
                continue
            return Done(needs.name, task, time.monotonic() - begun, _counts(rows))
        raise AssertionError  # pragma: no cover - the last try returns or raises

    def _spark(self) -> SparkSession:
        """The session, for which times in statements are UTC."""
        session = self._session()
        session.conf.set("spark.sql.session.timeZone", "UTC")
        return session

    def _options(self, needs: Needs, tier: Tier) -> dict[str, object]:
        """Of Iceberg's procedure. What is not named has its default."""
        limits, figures = needs.limits, needs.figures
        options: dict[str, object] = {
            "min-input-files": max(2, limits.small_files // 3),
            "max-concurrent-file-group-rewrites": 1,  # the cores are others', too
        }
        if tier is Tier.TINY:
            return options | {"min-file-size-bytes": TINY, "delete-ratio-threshold": 1.0}
        average = max(1, figures.file_bytes // max(1, figures.files))
        if self._is_v2:
            options |= {"delete-file-threshold": 5, "remove-dangling-deletes": "true"}
        return options | {
            "delete-ratio-threshold": limits.marked,
            "max-files-to-rewrite": max(2 * limits.small_files, _AT_ONCE // average),
        }


def _counts(rows: Sequence[Any]) -> dict[str, int]:
    """What a procedure says in its one row; how many rows, where it says something else."""
    if len(rows) != 1:
        return {"files": len(rows)} if rows else {}
    return {name: n for name, n in rows[0].asDict().items() if isinstance(n, int)}
