"""Reads, decodes and folds a batch, counts its records in the same pass, and keeps the fold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
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
from cdc_assets.merge.fold.summary import Counted, counted_by_partition, summarized
from cdc_assets.merge.intake.figures import BatchFigures
from cdc_assets.merge.intake.observe import FEW_SCHEMAS, BatchObserver, Watched
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
        small = _is_small(batch.plan)
        counted = Counted(ranges) if small and Counted.pays(ranges) else None
        with steps.step("read, decode, fold"):
            folding = _folding(batch, knowledge, observer)
            if counted is not None:
                folding = counted.attach(folding)
        with ExitStack() as during:
            few = small and sum(each.length for each in ranges) <= INTERPRETED
            by_itself = interpreted(folding.sparkSession) if few else nullcontext()
            with steps.step("read, decode, fold"), by_itself:
                frame = during.enter_context(kept(folding, "folded", is_small=small))
                rows, read = counted.told(folding) if counted else None, folding
                if rows is None:
                    asked = counted_by_partition(frame)
                    rows, read = asked.collect(), folding if small else asked
            folded, figures = summarized(frame, rows), self._figures(observer, folding, read)
            if figures.has_more_key_schemas:
                with steps.step("look at the schemas of keys"):
                    schemas = batch.changes.key_schemas(FEW_SCHEMAS)
                figures = replace(figures, key_schemas=schemas)
            yield Pass(batch, knowledge, folded, figures)

    def changes_of(self, batch: PlannedBatch, knowledge: Knowledge, part: Part) -> DataFrame:
        """Returns the changes of a part: read again, as no two plans may hold one observation."""
        again = batch.changes.mergeable(knowledge, self._observer(batch))
        return within(again, part, batch.plan.numbers)

    def _figures(
        self, observer: BatchObserver, folding: DataFrame, read: DataFrame
    ) -> BatchFigures:
        """Returns the batch's figures; reads it again if Spark has not told them."""
        if not observer.has_figures(read):
            with self._means.steps.step("read once more, for its figures"):
                read = counted_by_partition(folding)
                read.collect()
        return observer.figures(read)

    def _observer(self, batch: PlannedBatch) -> BatchObserver:
        plan, decoder = batch.plan, batch.decoder
        before = plan.published.carried.key_schemas if plan.published else ()
        return BatchObserver(
            plan.entry.topic,
            plan.ranges,
            self._means.clock(),
            self._watch.suspicion() if self._watch else None,
            Watched(
                others=decoder.format.has_many_tables,
                strays=_may_stray(batch),
                key_schemas=plan.watches_keys and decoder.tells_key_schema,
                counts_key_schemas=len(before) > 1,
                snapshot=order_of(plan.layout.scheme).has_floors and plan.may_begin_snapshot,
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
