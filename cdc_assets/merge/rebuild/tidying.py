"""Step 4 of a rebuild, and how it ends otherwise: drops tables beside, and tags."""

from __future__ import annotations

from cdc_assets.changes.names import LakeName
from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.effects import effect
from cdc_assets.lake import TableState
from cdc_assets.lake.at_source import AtSource
from cdc_assets.lake.side import side_of
from cdc_assets.merge.rebuild.site import Site
from cdc_assets.merge.rebuild.standing import look, side_mark_of
from cdc_assets.merge.rebuild.tags import tags_of
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated


def tidy(site: Site) -> None:
    """Drops the table beside of a rebuild that was swapped in.

    What it remembers of the source's table was published by the swap. An older version's swap did
    not: then it is the table's own from now on, unless others have published since.
    """
    standing = look(site)
    if not standing.swapped:
        return
    done = standing.generation - 1
    state, shard = site.state_beside(done), site.entry.shard_value
    if _lacks_memory(standing.old, shard):
        said = AtSource.of(state, shard).to_properties(shard)
        statement = sql.set_properties(site.catalog, site.entry.target, said)
        with translated("remember the source's table", site.where), effect("spark: remember"):
            site.spark().sql(statement)
    _drop(site, site.entry_beside(done).target)


def _lacks_memory(swapped: TableState, shard: str) -> bool:
    published = swapped.published
    is_newest = published is not None and published.kind == PublishKind.REBUILD
    return is_newest and not AtSource.of(swapped, shard).since


def abandon(site: Site) -> bool:
    """Drops the tables beside of a rebuild that was not; returns whether there were any.

    The side table goes first, and goes even if it is the only one left: the next rebuild
    would take it for its own, with what it remembers of another log.
    """
    standing = look(site)
    beside = site.entry_beside(standing.generation)
    side = side_of(beside.stem, side_mark_of(standing.beside))
    has_side = site.lake.side(side) is not None
    if has_side:
        _drop(site, side)
    if standing.beside is not None:
        _drop(site, beside.target)
    return has_side or standing.beside is not None


def forget(site: Site) -> tuple[str, ...]:
    """Lets go of what earlier rebuilds have replaced; returns the tags' names."""
    tags = tuple(tags_of(site).values())
    for tag in tags:
        with translated("drop tag", site.where), effect("spark: drop tag"):
            site.spark().sql(sql.drop_tag(site.catalog, site.entry.target, tag))
    return tags


def _drop(site: Site, name: LakeName) -> None:
    with translated("drop the table beside", site.where), effect("spark: drop table"):
        site.spark().sql(sql.drop_table(site.catalog, name))
