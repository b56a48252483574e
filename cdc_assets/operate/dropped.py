"""Tables that their sources have dropped: they are marked, and kept or dropped in the lake.

A table is dropped in the lake only if all of its topic is merged, and something proves that it is
not called otherwise: the statement that has dropped it, or PostgreSQL's number of it. Where its
topic goes on is recorded first: what comes then is of another table of its name. The files stay,
so that a person can register the table again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cdc_assets.changes.names import TableName
from cdc_assets.operate.schema_drift import Drift
from cdc_assets.operate.services import Services
from cdc_assets.operate.survey import Survey, TableSurvey
from cdc_assets.registry import Dropped, TableEntry

if TYPE_CHECKING:
    from cdc_assets.lake import TableState


@dataclass(frozen=True, slots=True)
class DropNews:
    """What has become known of a table; ``words`` for people."""

    entry: TableEntry
    words: str


def follow_drops(
    services: Services, seen: Survey, differing: Mapping[TableName, Drift]
) -> tuple[DropNews, ...]:
    """Mark what is gone, and what is there again; drop what is to be dropped.

    Args:
        services: the registry, the lake and the configuration.
        seen: the tables.
        differing: what is known of those that are in the lake.

    Raises:
        UnreachableError: if the registry or the catalog does not answer; what was begun is ended
            by the next look.
    """
    news: list[DropNews] = []
    marks: dict[TableName, Dropped | None] = {}
    for each in seen.tables:
        drift = differing.get(each.table)
        if drift is None or drift.untold or each.lag_changes != 0:
            continue
        known = each.entry.dropped
        if not drift.is_gone:
            if known is not None:
                marks[each.table] = None
                news.append(DropNews(each.entry, "the source has the table again"))
        elif drift.is_dropped and _goes(services, each):
            marks[each.table] = replace(known or Dropped(seen.at), end=each.committed)
        elif known is None and not drift.called:
            marks[each.table] = Dropped(seen.at)
            news.append(
                DropNews(each.entry, "; ".join(drift.lines()) + ": the lake keeps its rows")
            )
    if marks:
        services.registry.mark_dropped(marks)
    for each in seen.tables:
        mark = marks.get(each.table)
        if mark is not None and mark.end is not None and each.state is not None:
            at = _drop(services, each.entry, each.state)
            said = (
                f"the source has dropped the table, and so has the lake (dropped_table: drop){at}"
            )
            news.append(DropNews(each.entry, said))
    return tuple(news)


def _goes(services: Services, table: TableSurvey) -> bool:
    """Rows of other shards are in the same table."""
    is_told = services.config.source(table.table.source).drops(table.table)
    return is_told and table.entry.shard is None


def _drop(services: Services, entry: TableEntry, state: TableState) -> str:
    """What it remembers goes first: another table of its name would take it for its own."""
    from cdc_assets.lake.side import side_of

    published = state.published
    services.lake.drop(side_of(entry.stem, published.carried.side if published else None))
    last = services.lake.drop(entry.target)
    return f"; its files stay, the last metadata is {last}" if last else ""
