"""Withholds the last batch of a turn, which becomes the result of the table's step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdc_assets.merge import BatchResult


class WithheldLast:
    """An iterator over batches that withholds the last one, and keeps it in ``last``.

    If the next batch fails, the one before it is passed on first: it was published.
    """

    def __init__(self, batches: Iterator[BatchResult]) -> None:
        self._batches = batches
        self.last: BatchResult | None = None

    def __iter__(self) -> Iterator[BatchResult]:
        try:
            for batch in self._batches:
                if self.last is not None:
                    yield self.last
                self.last = batch
        except Exception:
            if self.last is not None:
                yield self.last
            raise
