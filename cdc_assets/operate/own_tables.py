"""Names the lake tables that belong to a replicated one: side tables and shadow tables.

A later table of the same name would take these tables for its own. So they are dropped with their
table, and before it: as long as the table exists, its newest publish names them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cdc_assets.changes.names import LakeName
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.lake import TableState


def shadow_name(entry: TableEntry, number: int) -> LakeName:
    """Returns the name of the shadow table of a rebuild; number 0 is the first read's."""
    return LakeName(entry.stem.namespace, f"{entry.stem.name}__rebuild{number}")


def own_tables(entry: TableEntry, state: TableState | None) -> Iterator[LakeName]:
    """Yields the names of a table's shadow tables and side tables; each may exist or not.

    Shadow table 0 is that of the first read from the source. After a rebuild the table has another
    side table than the default one, which is left over.
    """
    from cdc_assets.lake.side import side_name, side_of

    published = state.published if state else None
    generation = published.carried.generation if published else 0
    for number in dict.fromkeys((0, generation, generation + 1)):
        stem = shadow_name(entry, number)
        yield side_name(stem)
        yield stem
    yield side_of(entry.stem, published.carried.side if published else None)
    yield side_name(entry.stem)
