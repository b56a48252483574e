"""Judges branches by one look at a table: whether one may be published, and which never can be."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyiceberg.table import Table

from cdc_assets.lake.state import published_by


@dataclass(frozen=True, slots=True)
class BranchState:
    """The state of a branch before it is published.

    Attributes:
        branch: its name.
        head: of ``main``, on which it was built.
        attempt: the attempt that wrote it.
        at_most: the most snapshots.
    """

    branch: str
    head: int | None
    attempt: str
    at_most: int


def is_built(table: Table, built: BranchState) -> bool:
    """Returns whether a branch is up to ``at_most`` snapshots of this attempt on top of ``head``.

    And whether ``main`` is still at ``head``. Iceberg recreates a missing branch when something
    is written to it, on the present head of ``main``: earlier writes are then lost, and a
    fast-forward would publish the rest.
    """
    ref = table.metadata.refs.get(built.branch)
    main = table.current_snapshot()
    if ref is None or (main.snapshot_id if main else None) != built.head:
        return False
    snapshot = table.snapshot_by_id(ref.snapshot_id)
    last = published_by(snapshot) if snapshot else None
    if last is None or last.attempt != built.attempt:
        return False
    for _ in range(built.at_most):
        if snapshot is None:
            return False
        if snapshot.parent_snapshot_id == built.head:
            return True
        snapshot = table.snapshot_by_id(snapshot.parent_snapshot_id or -1)
        if snapshot is not None and published_by(snapshot) is not None:
            return False
    return False


def dead_branches(table: Table, own: re.Pattern[str], head: int | None) -> tuple[str, ...]:
    """Returns branches with names of this form that can never be fast-forwarded to.

    ``main`` may only move to a descendant of its head: a branch that does not have that
    among its ancestors was left by a writer that was killed, or beaten.

    Args:
        table: as it was looked at.
        own: the form of the names that count.
        head: the present or next head of ``main``.
    """
    if head is None:
        return ()
    parents = {each.snapshot_id: each.parent_snapshot_id for each in table.metadata.snapshots}

    def descends(snapshot: int | None) -> bool:
        while snapshot is not None and snapshot != head:
            snapshot = parents.get(snapshot)
        return snapshot is not None

    refs = table.metadata.refs.items()
    ours = ((ref, each.snapshot_id) for ref, each in refs if own.fullmatch(ref))
    return tuple(ref for ref, snapshot in ours if not descends(snapshot))
