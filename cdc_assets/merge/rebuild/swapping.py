"""Step 3 of a rebuild: puts rows and offsets of the table beside in the old one's place."""

from __future__ import annotations

import uuid
from dataclasses import replace

from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.effects import effect
from cdc_assets.lake import Published, TableState
from cdc_assets.lake.at_source import AtSource
from cdc_assets.lake.carried import SideMark
from cdc_assets.lake.side import side_of
from cdc_assets.merge.rebuild.overwriting import as_in, overwrite, with_room
from cdc_assets.merge.rebuild.replacing import fits, replace_table
from cdc_assets.merge.rebuild.required import require_begun, require_own_topic
from cdc_assets.merge.rebuild.seen_rows import seen_rows
from cdc_assets.merge.rebuild.site import Site
from cdc_assets.merge.rebuild.standing import Standing, awaits_snapshot, generation_of
from cdc_assets.merge.rebuild.tags import tag_for
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated


def swap(site: Site, standing: Standing, begun: str | None, settled: int) -> bool:
    """Puts the new rows in the old one's place, unless they are not far enough.

    Args:
        site: of the rebuild.
        standing: of now.
        begun: id of the table beside, if this process has begun it.
        settled: see `Rebuild.swap`, also for what it returns and raises.
    """
    generation = standing.generation
    old, new = site.state(), site.state_beside(generation)
    if old is None or new is None or generation_of(old) != generation - 1:
        raise site.moved()
    require_begun(site, new, begun)
    require_own_topic(site, old, new)
    if new.published is None or _is_ahead(old.published, new.published):
        return False
    if not _is_settled(new.published, settled):
        return False
    shard = site.entry.shard_value
    is_read = new.published.carried.beside is not None or awaits_snapshot(new)
    known = AtSource.of(new, shard).in_place_of(
        AtSource.of(old, shard), str(uuid.uuid4()), is_read=is_read
    )
    published = _published(site, old.published, new.published, generation)
    published = replace(published, carried=replace(published.carried, at_source=known))
    rows = seen_rows(site, new)
    if site.entry.shard is not None:
        old = with_room(site, old, new)
        rows = as_in(site.spark().table(sql.table(site.catalog, old.name)), rows)
    _keep(site, old, generation)
    if site.entry.shard is not None or fits(old, new):
        overwrite(site, old, rows, published)
    else:
        replace_table(site, old, new, rows, published)
    return True


def _published(site: Site, old: Published | None, new: Published, generation: int) -> Published:
    """Returns the swap's record; ``old`` is None if it was lost with its snapshots."""
    mark = new.carried.side or SideMark()
    table = site.entry.table
    _, quarantined = site.quarantine.quarantined(table.source, table.qualified, 0)
    side = SideMark(mark.snapshot, str(side_of(site.entry_beside(generation).stem, mark)))
    return replace(
        new,
        start=old.offsets if old else new.offsets,
        attempt=str(uuid.uuid4()),
        run=site.run_id,
        kind=PublishKind.REBUILD,
        published_at=site.clock(),
        carried=replace(new.carried, side=side, generation=generation, beside=None),
        counts={**new.counts, "quarantined": quarantined},
        slo=old.slo if old else new.slo,
        others=old.others if old else {},
    )


def _keep(site: Site, old: TableState, generation: int) -> None:
    statement = sql.tag(
        site.catalog, old.name, tag_for(site, old, generation), old.snapshot_id or 0
    )
    with translated("tag the old table", site.where), effect("spark: tag old table"):
        site.spark().sql(statement)


def _is_ahead(old: Published | None, new: Published) -> bool:
    """Returns whether readers would see the table go back; another topic's offsets tell nothing."""
    if old is None:
        return False
    same = (old.topic_id, old.cluster_id) == (new.topic_id, new.cluster_id)
    return same and bool(new.offsets.ranges_to(old.offsets))


def _is_settled(new: Published, doubts: int) -> bool:
    """Returns whether a table read from its source is what that was, wherever it was read."""
    beside = new.carried.beside
    if beside is None:
        return True
    return (
        beside.until is not None
        and not new.offsets.ranges_to(beside.until)
        and beside.doubts == doubts
    )
