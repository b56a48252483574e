"""Requires that the table beside can take the old one's place, and is still the same one."""

from __future__ import annotations

from cdc_assets.changes.mode import Mode
from cdc_assets.errors import TerminalError, TransientError
from cdc_assets.lake import TableState
from cdc_assets.lake.at_source import AtSource
from cdc_assets.lake.properties import MODE
from cdc_assets.merge.rebuild.site import Site
from cdc_assets.merge.rebuild.standing import Standing, id_of, topic_of


def require_possible(site: Site, standing: Standing) -> None:
    """Requires that a table of the wanted mode can take the old one's place.

    Iceberg deletes no rows of a table that was once partitioned by a column that is gone.

    Raises:
        TerminalError: if it cannot, or what was built is of another topic.
        TransientError: if the table has another topic by now.
    """
    require_own_topic(site, standing.old, standing.beside)
    mode = site.config.source(site.entry.table.source).mode_of(site.entry.table)
    if standing.old.properties.get(MODE) != Mode.HISTORY or mode is Mode.HISTORY:
        return
    what = f"the table is a history, in whose place no {mode} can be put"
    remedy = "have it dropped and merged again: cdc-assets reset"
    raise TerminalError(what, where=site.where, remedy=remedy)


def require_own_topic(site: Site, old: TableState, new: TableState | None) -> None:
    """Requires the topic of a table that may be found to be renamed while it is built anew.

    What a former topic's end comes to is no more than what the present one began with.

    Raises:
        TerminalError: if the new table was filled from another topic than the old one's.
        TransientError: if there is nothing new yet, and the old one has another topic by now.
    """
    topic = topic_of(old) or site.entry.topic
    renamed = AtSource.of(old, site.entry.shard_value).renamed_to(topic)
    if renamed is None:
        return
    what = f"a run has found it renamed at its source, and gone on with it as {renamed.name}"
    if (topic_of(new) or topic) != topic:
        what = f"{what}: what was built so far is of the topic before"
        again = f"cdc-assets rebuild {site.entry.table} --abandon"
        raise TerminalError(what, where=site.where, remedy=f"begin again, after: {again}")
    if site.entry.topic != topic:
        raise TransientError(what, where=site.where, remedy="run the same command again")


def require_begun(site: Site, beside: TableState | None, begun: str | None) -> None:
    """Requires the table that was begun with, by a process that has begun it.

    Args:
        site: of the rebuild.
        beside: the table beside as it is now.
        begun: id of the one that was begun with; None for a process that has begun none.

    Raises:
        ConflictError: if another process has dropped it, or made it anew.
    """
    if beside is None or (begun is not None and id_of(beside) != begun):
        raise site.moved()
