"""Writers of one lake table that begin at the same moment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from cdc_assets.errors import ConflictError
from cdc_assets.merge import BatchResult
from cdc_assets_tests.pipeline import Pipeline


def merge_at_once(made: Pipeline, *tables: str) -> list[int]:
    """Each merged by a writer of its own; how many records each has published."""
    together = Barrier(len(tables))

    def write(table: str) -> int:
        replicator, merged = made.replicator(), 0
        together.wait(30)
        drained = replicator.drain(
            made.entry(table), window=None, run_id="at once", budget_seconds=300
        )
        try:
            for result in drained:
                merged += result.records if isinstance(result, BatchResult) else 0
        except ConflictError:
            pass  # beaten five times in a row: what it had published stays
        return merged

    with ThreadPoolExecutor(len(tables)) as writers:
        return list(writers.map(write, tables))
