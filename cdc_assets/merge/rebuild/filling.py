"""Step 2 of a rebuild: merges the log into the table beside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cdc_assets.merge.plan.result import BatchResult
from cdc_assets.merge.rebuild.required import require_begun
from cdc_assets.merge.rebuild.site import Site
from cdc_assets.merge.rebuild.standing import Standing
from cdc_assets.merge.replicate import Replicator

_ENOUGH: Final = float("inf")


def fill(
    site: Site, replicator: Replicator, standing: Standing, begun: str | None
) -> Iterator[BatchResult]:
    """Merges what the log holds now into the table beside; see `Rebuild.fill`.

    Args:
        site: of the rebuild.
        replicator: one that makes no tables.
        standing: of now.
        begun: id of the table beside, if this process has begun it.
    """
    entry, goes_on = site.entry_beside(standing.generation), True
    require_begun(site, site.state_beside(standing.generation), begun)
    end = site.planner.marks(site.entry).end
    while goes_on:  # a table's turn ends after a while, and a long log takes many of them
        goes_on = False
        for done in replicator.drain(
            entry, window=None, run_id=site.run_id, budget_seconds=_ENOUGH, until=end
        ):
            if isinstance(done, BatchResult):
                goes_on = bool(done.end.ranges_to(end))
                yield done
