"""Marks tables that their sources have dropped, and keeps or drops them in the lake.

A table is dropped in the lake only if its whole topic is merged, and there is proof that it was not
renamed: the statement that dropped it, or PostgreSQL's number of the table. The position where its
topic continues is recorded first: later records belong to another table of its name. The files
stay, so that a person can register the table again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cdc_assets.changes.names import TableName
from cdc_assets.operate.beside import tables_beside
from cdc_assets.operate.schema_drift import Drift
from cdc_assets.operate.services import Services
from cdc_assets.operate.survey import Survey, TableSurvey
from cdc_assets.registry import Dropped, TableEntry

if TYPE_CHECKING:
    from cdc_assets.lake import TableState


@dataclass(frozen=True, slots=True)
class DropNews:
    """A piece of news about a table; ``words`` are for people."""

    entry: TableEntry
    words: str


def follow_drops(
    services: Services, seen: Survey, differing: Mapping[TableName, Drift]
) -> tuple[DropNews, ...]:
    """Marks tables that are gone or have come back; drops those that are to be dropped.

    Args:
        services: the registry, the lake and the configuration.
        seen: the tables.
        differing: the drifts of those that are in the lake.

    Raises:
        UnreachableError: if the registry or the catalog does not answer; the next look finishes
            what this one has begun.
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
            marks[each.table] = _ended(known or Dropped(seen.at), each)
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


def _ended(dropped: Dropped, table: TableSurvey) -> Dropped:
    topic_id = table.published.topic_id if table.published else ""
    return replace(dropped, end=table.committed, topic_id=topic_id)


def _goes(services: Services, table: TableSurvey) -> bool:
    """Returns whether to drop the table; never one that holds rows of other shards, too."""
    is_told = services.config.source(table.table.source).drops(table.table)
    return is_told and table.entry.shard is None


def _drop(services: Services, entry: TableEntry, state: TableState) -> str:
    """Drops the tables beside it first: another one of its name would take them for its own."""
    for name in dict.fromkeys(tables_beside(entry, state)):
        services.lake.drop(name)
    last = services.lake.drop(entry.target)
    return f"; its files stay, the last metadata is {last}" if last else ""
