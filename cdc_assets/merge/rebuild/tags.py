"""The tags on what rebuilds of a table have replaced: one for each, by which its rows stay."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping

from cdc_assets.lake import TableState
from cdc_assets.merge.rebuild.site import Site


def tags_of(site: Site) -> dict[int, str]:
    """Returns the tags by their numbers, the newest last."""
    names = re.compile(f"{site.kept}([0-9]+)")
    found = {int(n[1]): tag for tag in _refs(site) if (n := names.fullmatch(tag))}
    return dict(sorted(found.items()))


def tag_for(site: Site, old: TableState, generation: int) -> str:
    """Returns the tag for the head of a table that is about to be replaced.

    Args:
        site: of the rebuild.
        old: the table.
        generation: of the rebuild.
    """
    tags, refs = tags_of(site), _refs(site)
    snapshots = {number: refs[tag] for number, tag in tags.items() if tag in refs}
    own = {old.snapshot_id, *(site.lake.parents(old.name) if old.published else ())}
    return f"{site.kept}{number_for(snapshots, generation, own)}"


def number_for(snapshots: Mapping[int, int], generation: int, own: Container[int | None]) -> int:
    """Returns the number of the tag.

    A swap that was interrupted, or beaten, has tagged an earlier head: that tag is moved. One of an
    earlier rebuild never is. There are some if the table has lost its publishes, so that its
    rebuilds are counted from the first one again.

    Args:
        snapshots: of the tags that are there, by their numbers.
        generation: of the rebuild.
        own: the head, and earlier heads that it goes on from; the head alone if that is unknown.
    """
    newest = max(snapshots, default=0)
    is_own = newest >= generation and snapshots[newest] in own
    return newest if is_own else max(newest + 1, generation)


def _refs(site: Site) -> dict[str, int]:
    return site.lake.branches(site.entry.target)
