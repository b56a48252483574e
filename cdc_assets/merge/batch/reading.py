"""Reads, decodes and folds a batch, counts its records in the same pass, and keeps the fold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Final

from pyspark.sql import DataFrame

from cdc_assets.changes.mode import Mode
from cdc_assets.formats.order import order_of
from cdc_assets.merge.apply.keyed import within
from cdc_assets.merge.apply.multiset import events
from cdc_assets.merge.apply.telling import recordable
from cdc_assets.merge.batch.means import Means
from cdc_assets.merge.batch.passes import Pass, PlannedBatch
from cdc_assets.merge.fold.changeset import Knowledge
from cdc_assets.merge.fold.lost import watched
from cdc_assets.merge.fold.newest import newest_by_key
from cdc_assets.merge.fold.restarts import RestartWatch
from cdc_assets.merge.fold.summary import Summary, read_through, require_told
from cdc_assets.merge.intake.observe import BatchObserver, Watched
from cdc_assets.merge.intake.read import is_one_task
from cdc_assets.merge.plan.parts import Part
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements.pinning import interpreted, kept
from cdc_assets.registry import Taken

INTERPRETED: Final = 1_000
"""Of up to this many records Spark evaluates the fold without writing code for it."""
PINNED_VALUES: Final = 100_000
"""Up to this many values (records times columns) are kept by a checkpoint: some five megabytes.
A session's last few are not collected at once, as Spark Connect remembers the last 16 plans."""


class Reader:
    """Reads a batch as often as needed.

    Args:
        means: of the batch's execution.
        watch: searches for restarts; None if none is looked for.
    """

    def __init__(self, means: Means, watch: RestartWatch | None) -> None:
        self._means = means
        self._watch = watch

    @contextmanager
    def folded(self, batch: PlannedBatch, knowledge: Knowledge) -> Iterator[Pass]:
        """Yields the folded changes, kept during the block, and the figures of the records.

        Args:
            batch: under its plan.
            knowledge: facts that its fold needs.
        """
        observer, ranges, steps = self._observer(batch), batch.plan.ranges, self._means.steps
        small, summary = _is_small(batch.plan), Summary()
        with steps.step("read, decode, fold"):
            folding = _folding(batch, knowledge, observer)
            if small:  # of many rows, a query of what is kept counts for less
                folding = summary.attach(folding)
        with ExitStack() as during:
            few = small and sum(each.length for each in ranges) <= INTERPRETED
            by_itself = interpreted(folding.sparkSession) if few else nullcontext()
            with steps.step("read, decode, fold"), by_itself:
                frame = during.enter_context(kept(folding, "folded", is_small=small))
                read = folding if small else read_through(summary.attach(frame))
            folded, figures = summary.told(frame, read), observer.figures(read)
            if small and (folded is None or figures is None):
                with steps.step("read once more, for its figures"):
                    read = read_through(folding)
                folded, figures = summary.told(frame, read), observer.figures(read)
            where = batch.plan.where
            yield Pass(batch, knowledge, require_told(folded, where), require_told(figures, where))

    def changes_of(self, batch: PlannedBatch, knowledge: Knowledge, part: Part) -> DataFrame:
        """Returns the changes of a part: read again, as no two plans may hold one observation."""
        again = batch.changes.mergeable(knowledge, self._observer(batch))
        return within(again, part, batch.plan.numbers)

    def _observer(self, batch: PlannedBatch) -> BatchObserver:
        plan, decoder = batch.plan, batch.decoder
        return BatchObserver(
            plan.entry.topic,
            plan.ranges,
            self._means.clock(),
            Watched(
                others=decoder.format.has_many_tables,
                strays=_may_stray(batch),
                key_schemas=plan.watches_keys and decoder.tells_key_schema,
                snapshot=order_of(plan.layout.scheme).has_floors and plan.may_begin_snapshot,
                before=self._watch.before() if self._watch else None,
            ),
            pardoned=[each.sent_as for each in decoder.doubtful],
        )


def _folding(batch: PlannedBatch, knowledge: Knowledge, observer: BatchObserver) -> DataFrame:
    plan, unset_able = batch.plan, batch.changes.unset_able
    changes = batch.changes.mergeable(knowledge, observer)
    if plan.mode is Mode.CHANGELOG:
        return recordable(changes, plan)
    if plan.mode is Mode.HISTORY:
        return recordable(changes, plan, unset_able)
    if not plan.schema.key:
        return events(changes, plan)
    doubt = watched(batch.decoder.doubt, plan.numbers)
    return newest_by_key(changes, plan.schema.key, plan.numbers, unset_able, doubt)


def _may_stray(batch: PlannedBatch) -> bool:
    """Returns whether records may name another table, and are read as if none did."""
    entry = batch.plan.entry
    return (
        batch.decoder.format.names_tables and entry.taken is not Taken.ALL and not entry.is_shared
    )


def _is_small(plan: BatchPlan) -> bool:
    """Returns whether a batch's fold is kept by a checkpoint, according to its largest size."""
    values = sum(each.length for each in plan.ranges) * len(plan.schema.columns)
    return is_one_task(plan.ranges) and values <= PINNED_VALUES
