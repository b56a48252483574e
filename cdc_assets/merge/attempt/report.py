"""Reports a merged batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from cdc_assets.changes.offsets import total_length
from cdc_assets.changes.slo import SloWindow
from cdc_assets.lake import Published, TableState
from cdc_assets.log.hours import HourWindow, hour_of
from cdc_assets.merge.batch import Executed
from cdc_assets.merge.plan.result import BatchResult
from cdc_assets.schema.ddl import Ddl


@dataclass(frozen=True, slots=True)
class MergedBatch:
    """A batch that was merged.

    Attributes:
        done: the result of the execution.
        unread: number of offsets that were not merged when it was planned.
        after: the lake's table after it; None if it is not there.
        statements: on the table, among its records.
        seconds: duration of the try.
        steps: seconds per step.
        read_again: corner cases for which its records were read more than once, in words.
    """

    done: Executed
    unread: int
    after: TableState | None
    statements: tuple[Ddl, ...]
    seconds: float
    steps: Mapping[str, float]
    read_again: tuple[str, ...]

    def result(self, window: HourWindow | None, clock: Callable[[], datetime]) -> BatchResult:
        """Returns the report.

        Args:
            window: the hour that the batch belongs to; None for the present one.
            clock: wall clock, aware.
        """
        plan, done, after = self.done.plan, self.done, self.after
        figures, published = done.figures, done.published
        before = plan.published.slo if plan.published else SloWindow()
        return BatchResult(
            table=plan.entry.table,
            target=plan.entry.target,
            topic=plan.entry.topic,
            ranges=plan.ranges,
            start=plan.start,
            end=plan.end,
            hour=window or hour_of(clock()),
            snapshot_id=after.snapshot_id if after else None,
            attempt_id=plan.attempt,
            records=figures.records,
            inserted=figures.by_op["c"] + figures.by_op["r"],
            updated=figures.by_op["u"],
            deleted=figures.by_op["d"],
            tombstones_skipped=figures.tombstones,
            rejected=figures.rejected,
            stale=done.stale,
            latency=done.latency,
            slo=published.slo if published else before,
            lag_records=self.unread - (0 if plan.replay else total_length(plan.ranges)),
            row_count=after.total_records if after and not plan.entry.shard else None,
            file_count=after.files if after else None,
            schema=plan.schema,
            plan_text=plan.describe(done.apply, done.parts),
            replay=plan.replay,
            duration_seconds=self.seconds,
            published_at=published.published_at if published else clock(),
            steps=self.steps,
            valid_through=_valid_through(published or plan.published),
            passed_over=figures.controls,
            of_others=figures.others,
            other_tables=figures.other_tables,
            statements=self.statements,
            read_again=self.read_again,
        )


def _valid_through(published: Published | None) -> datetime | None:
    return published.valid_through if published else None
