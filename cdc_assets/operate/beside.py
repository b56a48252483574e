"""Names the lake tables that belong to another one: side tables and shadow tables.

A table that takes its name later would take them for its own, so they go with it, and before it: as
long as it is there, it says which they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cdc_assets.changes.names import LakeName
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.lake import TableState


def tables_beside(entry: TableEntry, state: TableState | None) -> Iterator[LakeName]:
    """Yields the tables of its rebuilds, and what is remembered; each may exist or not.

    A rebuild leaves the table another side table than the default one, which then belongs to
    nobody.
    """
    from cdc_assets.lake.side import side_name, side_of

    published = state.published if state else None
    generation = published.carried.generation if published else 0
    for number in (generation, generation + 1):
        stem = LakeName(entry.stem.namespace, f"{entry.stem.name}__rebuild{number}")
        yield side_name(stem)
        yield stem
    yield side_of(entry.stem, published.carried.side if published else None)
    yield side_name(entry.stem)
