"""Plans the upkeep of a lake table and its side tables from figures, and carries it out.

No step changes a row, and each may be interrupted at any point: what was committed stays, and
what was not has changed nothing. Steps are small, so that nobody waits long for the table, and
each is planned again if another writer came first.

Chooses the options with which Iceberg rewrites a few files.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Final, TypeVar, assert_never

from pyspark.sql import SparkSession

from cdc_assets.changes.upkeep import AT_ONCE, TINY, Figures, Task, Tier, files_at_once, tier_of
from cdc_assets.config import ReplicationConfig
from cdc_assets.config.maintenance import MaintenanceConfig
from cdc_assets.errors import CdcError, TransientError, UnreachableError
from cdc_assets.lake import Lake
from cdc_assets.lake.cuts import snapshots_in_cuts
from cdc_assets.lake.place import TablePlace
from cdc_assets.lake.pointers import Recent
from cdc_assets.log.pending_cuts import PendingCuts
from cdc_assets.merge.plan.plan import OWN_BRANCH
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.deadline import Limits
from cdc_assets.merge.upkeep.needs import Needs, NeedsReader, UpkeepTable
from cdc_assets.merge.upkeep.statements import UpkeepStatements, UpkeepStep
from cdc_assets.naming import some_of
from cdc_assets.registry import TableEntry

T = TypeVar("T")

_EXPIRED_AT_ONCE: Final = 1_000

_ANY_SHARE: Final = 1e-9
"""A share of deleted rows that is below that of any file with one."""

_NAMED: Final = 3
"""Files that a message names."""

_SHARED: Final = "the table has gc.enabled = false: other tables may have its files"

_FILES_LOOKED_AT: Final = Recent[int](4_096)
"""Numbers of data files of tables when they were last looked at, for the whole process."""

_log = logging.getLogger(__name__)

IsOver = Callable[[], bool]
"""Returns whether to stop before the next step."""


class Upkeep:
    """The upkeep of one lake table.

    Args:
        config: the configuration.
        entries: the source tables that are merged into it.
        lake: for reading its state.
        session: returns the Spark session; called when the first statement is sent.
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
        self._entries, self._lake, self._clock = entries, lake, clock
        self._catalog = config.lake.catalog.name
        source = config.source(entries[0].table.source)
        deadlines = Limits(source.batch.statement_seconds, source.batch.table_seconds)
        self._statements = UpkeepStatements(session, deadlines)
        self._is_silent = False  # a statement had no answer: the session may be lost
        self.said: MaintenanceConfig = source.upkeep(entries[0].table)
        cutting = {e.table.source for e in entries if config.source(e.table.source).consistent}
        in_cuts = partial(snapshots_in_cuts, config, cutting)
        pending = partial(_pending, config, cutting, clock)
        self._reader = NeedsReader(entries, lake, self.said.thresholds, clock, in_cuts, pending)

    def needs(self) -> list[Needs]:
        """Returns the needs of the lake table and of its side tables, as far as they exist.

        Raises:
            UnreachableError: if the lake cannot be read.
        """
        found = (self._reader.of(each) for each in self._reader.tables())
        return [each for each in found if each is not None]

    def carry_out(
        self, *, orphans: bool, is_over: IsOver = lambda: False, turn: int = 0
    ) -> Iterator[UpkeepStep]:
        """Carries out the needed steps; yields each when it is done.

        The tables take turns, with a step each. A task that fails ends that task alone, unless a
        part did not answer, which all need: the rest is then left to the next time.

        Args:
            orphans: whether also to remove the files that no snapshot names.
            is_over: called before each step but the first. Steps left out are needed the next
                time, too.
            turn: number of this time. Each begins with another table, and in it with another task,
                so that none is left out for ever where there is only time for one step.

        Raises:
            CdcError: at the end, if a step has failed.
        """
        failed, tables = list[CdcError](), list(self._reader.tables())
        self._is_silent = False
        first, round_ = turn % len(tables), turn // len(tables)
        steps = [self._steps(each, orphans, round_, failed) for each in _from(first, tables)]
        waiting, is_first = deque(steps), True
        while waiting and not self._is_silent and (is_first or not is_over()):
            table = waiting.popleft()
            done = next(table, None)
            if done is not None:
                yield done
                waiting.append(table)
            is_first = is_first and done is None and not failed
        if failed:
            raise _all_of(failed)

    def after_batch(self, files: int | None) -> None:
        """Combines the tiny files of the lake table, if batches have left many of them.

        This is quick even for a large table; the rest is left to `carry_out`. A failure of any
        kind is only logged, as it must not hold the table up.

        Args:
            files: number of the table's data files, according to its head.
        """
        if not self.said.enabled or files is None:
            return
        key = self._catalog, self._lake.address, self._entries[0].target
        before = _FILES_LOOKED_AT.of(key) or 0
        if files - before < self.said.tiny_files:
            if files < before:
                _FILES_LOOKED_AT.keep(key, files)
            return
        try:
            needs = self._reader.of(UpkeepTable(self._entries[0].target, None))
            if needs is not None and needs.figures.tiny >= self.said.tiny_files:
                for done in islice(self._compacted(needs, Tier.TINY), 1):
                    _log.info("%s", done)
                    files += done.counts.get("added_data_files_count", 0)
                    files -= done.counts.get("rewritten_data_files_count", 0)
        except Exception as error:  # other errors than ours may quote values
            why = error if isinstance(error, CdcError) else type(error).__name__
            _log.warning("%s: its files were not put together: %s", self._entries[0].target, why)
        _FILES_LOOKED_AT.keep(key, files)

    def compact(self) -> Iterator[UpkeepStep]:
        """Combines all small files, and rewrites all files with deleted rows; yields each commit.

        The thresholds do not count. Files are combined until a commit makes no progress.

        Raises:
            CdcError: if a statement fails; a `ConflictError` if other writers kept coming first.
        """
        everything = replace(self.said.thresholds, tiny_files=2, small_files=2, marked=_ANY_SHARE)
        for table in self._reader.tables():
            needs = self._reader.of(table)
            if needs is not None:
                yield from self._compacted(replace(needs, limits=everything), Tier.SMALL)

    def rewrite(self) -> UpkeepStep | None:
        """Rewrites all files of the lake table in its present layout; None if there are none.

        Each group of files is a commit of its own: ``failed_data_files_count`` counts the files
        whose commit was refused, as another writer came first.

        Raises:
            CdcError: if the statement fails.
        """
        needs = self._reader.of(UpkeepTable(self._entries[0].target, None))
        if needs is None or not needs.figures.files:
            return None
        options, in_order = rewrite_all_options(needs), needs.figures.is_sorted
        statement = sql.compact(self._catalog, needs.name, options, in_order=in_order)
        return self._statements.run(needs.name, Task.COMPACT, statement, is_bounded=False)

    def _steps(
        self, table: UpkeepTable, orphans: bool, round_: int, failed: list[CdcError]
    ) -> Iterator[UpkeepStep]:
        """Carries out the steps of one table; adds the error of each task that fails.

        It looks at a side table late: upkeep of the lake table reduces its needs.
        """
        try:
            needs = self._reader.of(table)
        except CdcError as error:
            failed.append(error)
            return
        if needs is None:
            return
        also = {Task.REMOVE_ORPHANS} if orphans else set[Task]()
        wanted = [each for each in Task if each in {*needs.tasks, *also}]
        for task in _from(round_ % max(1, len(wanted)), wanted):
            try:
                yield from self._carried_out(needs, task)
            except CdcError as error:
                failed.append(error)
                self._is_silent = isinstance(error, UnreachableError)
            except Exception as error:  # of a library; its text may quote what must not be shown
                what = f"{task} met an unexpected {type(error).__name__}"
                failed.append(CdcError(what, where=f"lake={needs.name}"))
            if self._is_silent:
                return

    def _carried_out(self, needs: Needs, task: Task) -> Iterator[UpkeepStep]:
        match task:
            case Task.EXPIRE:
                for begin in range(0, len(needs.expirable), _EXPIRED_AT_ONCE):
                    some = needs.expirable[begin : begin + _EXPIRED_AT_ONCE]
                    yield self._statements.run(
                        needs.name, task, sql.expire_snapshots(self._catalog, needs.name, some)
                    )
            case Task.DROP_BRANCHES:
                for branch in needs.figures.dead_branches:
                    yield self._statements.run(
                        needs.name, task, sql.drop_branch(self._catalog, needs.name, branch)
                    )
            case Task.MERGE_MANIFESTS:
                yield self._statements.run(
                    needs.name, task, sql.merge_manifests(self._catalog, needs.name)
                )
            case Task.REMOVE_ORPHANS:
                place = self._lake.place(needs.name)
                if needs.figures.shares_files:
                    yield UpkeepStep(needs.name, task, 0.0, {}, _SHARED)
                elif place is not None and place.foreign:
                    yield UpkeepStep(needs.name, task, 0.0, {}, _not_alone(place))
                elif place is not None:
                    before = self._clock() - timedelta(days=self.said.orphan_days)
                    statement = sql.remove_orphans(
                        self._catalog, needs.name, before, by_prefix=place.is_listed_by_prefix
                    )
                    yield self._statements.run(needs.name, task, statement)
            case Task.COMPACT:
                tier = tier_of(needs.figures, needs.limits)
                if tier is not None:
                    yield from self._compacted(needs, tier)
            case unexpected:
                assert_never(unexpected)

    def _compacted(self, needs: Needs, tier: Tier) -> Iterator[UpkeepStep]:
        """Combines a few files with each commit, until there is nothing left to combine.

        As files grow, fewer of them are taken. It ends, too, if a commit has made no progress.
        """
        figures: Figures | None = needs.figures
        while figures is not None:
            options = rewrite_options(needs, figures, tier)
            in_order = figures.is_sorted and tier is not Tier.TINY
            statement = sql.compact(self._catalog, needs.name, options, in_order=in_order)
            done = self._statements.run(needs.name, Task.COMPACT, statement)
            if not done.counts.get("rewritten_data_files_count"):
                return
            yield done
            before, figures = figures, self._lake.figures(needs.name, OWN_BRANCH)
            if figures and figures.files >= before.files and figures.marked >= before.marked:
                return
            if figures and tier is Tier.TINY and figures.tiny < needs.limits.tiny_files:
                return


def _pending(
    config: ReplicationConfig, sources: Collection[str], clock: Callable[[], datetime]
) -> timedelta:
    """Returns for how long cuts of some sources have been pending.

    Those that have been pending for longer than cuts are kept do not count: nothing waits for a
    stopped table for ever.

    Raises:
        UnreachableError: if pending cuts cannot be read.
    """
    longest = timedelta()
    for source in sources:
        cuts = config.source(source).consistent
        for each in PendingCuts(config.registry).of_source(source) if cuts else ():
            age = clock() - each.begun_at
            if cuts and age <= cuts.kept:
                longest = max(longest, age)
    return longest


def _not_alone(place: TablePlace) -> str:
    """Describes why nothing is removed where another table's files would be taken for orphans."""
    some = some_of(place.foreign, _NAMED)
    return (
        f"another table has its files at {place.location} too, by its metadata {some}. If it "
        "is needed, move it to another location; if not, and no catalog has it, delete these "
        "metadata files: the rest of it is removed then"
    )


def _from(first: int, of: Sequence[T]) -> list[T]:
    """Returns all of them, beginning with one of them."""
    return [*of[first:], *of[:first]]


def _all_of(failed: Sequence[CdcError]) -> CdcError:
    """Returns one error for all tasks that have failed."""
    if len(failed) == 1:
        return failed[0]
    passes = all(isinstance(each, TransientError) for each in failed)
    what = "; ".join(str(each) for each in failed)
    return (TransientError if passes else CdcError)(f"{len(failed)} tasks have failed: {what}")


_COMMITS: Final = 10_000
"""More than a rewrite has groups of files, so that each is a commit of its own."""


def rewrite_all_options(needs: Needs) -> dict[str, object]:
    """Returns options with which Iceberg rewrites all files, a few with each commit."""
    deletes = {"remove-dangling-deletes": "true"} if needs.figures.has_delete_files else {}
    return {
        "rewrite-all": "true",
        "max-concurrent-file-group-rewrites": 1,
        "max-file-group-size-bytes": AT_ONCE,
        "partial-progress.enabled": "true",
        "partial-progress.max-commits": _COMMITS,
        **deletes,
    }


def rewrite_options(needs: Needs, figures: Figures, tier: Tier) -> dict[str, object]:
    """Returns options for Iceberg's procedure; others have their defaults.

    They select only files of the kinds that `files_at_once` counts with.

    Args:
        needs: decides which files are rewritten.
        figures: of the files that there are now.
        tier: of the files.
    """
    limits, is_marked = needs.limits, needs.figures.is_marked(needs.limits)
    wanted = limits.tiny_files if tier is Tier.TINY else limits.small_files
    options: dict[str, object] = {
        "min-input-files": max(2, wanted // 3),
        "max-concurrent-file-group-rewrites": 1,  # other work needs the cores, too
    }
    if tier is Tier.TINY:
        return options | {
            "min-file-size-bytes": TINY,
            "delete-ratio-threshold": 1.0,
            "max-files-to-rewrite": files_at_once(figures, tier, with_marked=False),
        }
    if tier is Tier.MARKED:
        options |= {"min-file-size-bytes": 0}
    if needs.figures.has_delete_files:
        options |= {"remove-dangling-deletes": "true"}
    if needs.figures.has_delete_files and is_marked:
        options |= {"delete-file-threshold": 5}
    return options | {
        "delete-ratio-threshold": limits.marked if is_marked else 1.0,
        "max-files-to-rewrite": files_at_once(figures, tier, with_marked=is_marked),
    }
