"""Marks tables that their sources have dropped, and keeps or drops them in the lake.

A table is dropped in the lake only if there is proof that it was not renamed: the statement that
dropped it, or PostgreSQL's number of the table; and that none of its changes is still to come:

1. A place in the source's log is read once the catalog has said that the table is gone. It is kept
   in the mark, since a connector at rest confirms it only when something else is written.
2. The connector has confirmed that place: Kafka has all changes before it. A connector sends a
   statement behind the table's changes, so that none is looked for where statements tell.
3. Only then the topic's end is read, once more, and all before it is merged.

Until then the mark says what is waited for. The end is recorded in the mark before the table is
dropped: later records belong to another table of its name. The files stay, so that a person can
register the table again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import total_length
from cdc_assets.errors import UnreachableError
from cdc_assets.operate.own_tables import own_tables
from cdc_assets.operate.schema_drift import BY_CATALOG, Drift
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
        if drift is None or drift.problem or each.lag_changes != 0:
            continue
        known = each.entry.dropped
        if not drift.is_gone:
            if known is not None:
                marks[each.table] = None
                news.append(DropNews(each.entry, "the source has the table again"))
        elif drift.is_dropped and _goes(services, each):
            mark = _ended(services, known or Dropped(seen.at), each, drift)
            marks[each.table] = mark
            if mark.waits_for and (known is None or not known.waits_for):
                said = (
                    f"the source no longer has the table: the lake drops it once {mark.waits_for}"
                )
                news.append(DropNews(each.entry, said))
        elif known is None and not drift.called:
            marks[each.table] = Dropped(seen.at)
            news.append(
                DropNews(each.entry, "; ".join(drift.lines()) + ": the lake keeps its rows")
            )
        elif known is not None and known.waits_for:  # it is not to be dropped any more
            marks[each.table] = replace(known, place="", waits_for="")
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


def _ended(services: Services, mark: Dropped, table: TableSurvey, drift: Drift) -> Dropped:
    """Returns the mark with the end of the table's changes, or with what it waits for."""
    if drift.by == BY_CATALOG:
        mark = _delivered(services, mark, table.entry)
        if mark.waits_for:
            return mark
    topic = table.entry.topic
    end = services.log.high_watermarks([topic]).get(topic)
    left = total_length(table.committed.ranges_to(end)) if end is not None else 0
    if left or end is None:
        return replace(mark, waits_for=f"its last {left} records are merged")
    topic_id = table.published.topic_id if table.published else ""
    return Dropped(mark.at, table.committed, topic_id)


def _delivered(services: Services, mark: Dropped, entry: TableEntry) -> Dropped:
    """Returns the mark with a place behind all changes, and who has yet to confirm that."""
    from cdc_assets.databases.postgres import server

    source = services.config.source(entry.table.source)
    if source.database is None or source.database.kind != "postgres":
        return replace(mark, waits_for="the statement that has dropped it is read")
    dsn, said = source.database.login(), source.verify
    try:
        place = mark.place or server.log_end(dsn)
        behind = server.unconfirmed(dsn, said.slot, place)
        if behind and said.nudge:
            server.nudge(dsn, said.nudge if isinstance(said.nudge, str) else None)
    except UnreachableError as error:
        return replace(mark, waits_for=f"the database tells how far its connector is: {error.what}")
    waits_for = f"{behind} has confirmed {place}" if behind else ""
    return replace(mark, place=place, waits_for=waits_for)


def _goes(services: Services, table: TableSurvey) -> bool:
    """Returns whether to drop the table; never one that holds rows of other shards, too."""
    is_wanted = services.config.source(table.table.source).drops(table.table)
    return is_wanted and table.entry.shard is None


def _drop(services: Services, entry: TableEntry, state: TableState) -> str:
    """Drops its side and shadow tables first: another table of its name would use them."""
    for name in dict.fromkeys(own_tables(entry, state)):
        services.lake.drop(name)
    last = services.lake.drop(entry.target)
    return f"; its files stay, the last metadata is {last}" if last else ""
