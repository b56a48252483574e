"""Branches that killed or beaten writers have left."""

from __future__ import annotations

import re

from pyiceberg.table import Table


def dead_branches(table: Table, own: re.Pattern[str]) -> tuple[str, ...]:
    """Branches with names of this form that can never be fast-forwarded to.

    ``main`` may only move to a descendant of its head: a branch that does not have that among
    its ancestors was left by a writer that was killed, or beaten.
    """
    head = table.current_snapshot()
    if head is None:
        return ()
    parents = {each.snapshot_id: each.parent_snapshot_id for each in table.metadata.snapshots}

    def descends(snapshot: int | None) -> bool:
        while snapshot is not None and snapshot != head.snapshot_id:
            snapshot = parents.get(snapshot)
        return snapshot is not None

    refs = table.metadata.refs.items()
    ours = ((ref, each.snapshot_id) for ref, each in refs if own.fullmatch(ref))
    return tuple(ref for ref, snapshot in ours if not descends(snapshot))
