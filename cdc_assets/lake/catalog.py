"""What the Iceberg catalog says of tables, read through PyIceberg."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Final

from cdc_assets.changes.names import LakeName
from cdc_assets.changes.upkeep import Figures
from cdc_assets.config import ReplicationConfig
from cdc_assets.effects import effect
from cdc_assets.lake.branches import dead_branches
from cdc_assets.lake.carried import SideMark
from cdc_assets.lake.connection import CatalogConnection
from cdc_assets.lake.figures import read_figures
from cdc_assets.lake.kept import KeptMetadata
from cdc_assets.lake.pointers import Recent, pointers
from cdc_assets.lake.properties import Published
from cdc_assets.lake.side import SideState, read_side
from cdc_assets.lake.state import TableState, ancestry, published_by, publishes
from cdc_assets.lake.states import States

_SIDES: Final = Recent[SideState](256)
"""Of all catalogs. Only merging asks for these, and their size is that of their snapshots."""


class Lake:
    """Reads tables through PyIceberg, and writes none. Opens the catalog at the first use."""

    def __init__(self, config: ReplicationConfig) -> None:
        self._connection = CatalogConnection(config.lake)
        self._states = States(self._connection, KeptMetadata(config.registry))

    @property
    def address(self) -> str:
        """Where the catalog is, without credentials, for messages."""
        return self._connection.address

    def state(self, name: LakeName, shard: str = "") -> TableState | None:
        """What the table says now; None if it does not exist.

        Args:
            name: of the table.
            shard: whose publishes count; empty for a table of one source table.

        Raises:
            UnreachableError: if the catalog or the table's metadata cannot be read.
        """
        return self._states.one(name, shard)

    def states(self, tables: Sequence[tuple[LakeName, str]]) -> list[TableState | None]:
        """The same of many tables and shards, in their order, for few calls."""
        return self._states.all(tables)

    def side(self, name: LakeName) -> SideState | None:
        """A side table; None if it does not exist. See `cdc_assets.lake.side.side_of`."""

        def look() -> SideState | None:
            at = pointers(self._connection.catalog, [name])
            if at is not None and (known := _SIDES.of((at.get(name), name))) is not None:
                return known
            table = self._connection.loaded(name)
            if table is None:
                return None
            return _SIDES.keep((table.metadata_location, name), read_side(name, table))

        return self._connection.asked("lake: load table", look)

    def history(self, name: LakeName, limit: int, shard: str = "") -> tuple[Published, ...]:
        """Up to ``limit`` of our publishes of a shard, newest first."""
        table = self._connection.load(name)
        mine = (each for each in publishes(table) if each.shard == shard) if table else ()
        return tuple(islice(mine, limit))

    def drop(self, name: LakeName) -> str:
        """Takes a table out of the catalog; its files stay.

        Returns:
            Where its last metadata is, by which it can be registered again; empty if it was not
            there.

        Raises:
            UnreachableError: if the catalog does not answer.
        """
        table = self._connection.load(name)
        if table is None:
            return ""
        with self._connection.reachable(), effect("catalog: drop table"):
            self._connection.catalog.drop_table((name.namespace, name.name))
        return table.metadata_location

    def has_attempt(self, name: LakeName, attempt: str) -> bool:
        """Whether this attempt is in the ancestry of ``main``: then it was published."""
        table = self._connection.load(name)
        return table is not None and any(each.attempt == attempt for each in publishes(table))

    def branches(self, name: LakeName) -> dict[str, int]:
        """Branch names and the snapshots they point to, ``main`` included."""
        table = self._connection.load(name)
        return {ref: each.snapshot_id for ref, each in table.metadata.refs.items()} if table else {}

    def dead_branches(self, name: LakeName, own: re.Pattern[str]) -> tuple[str, ...]:
        """Branches with names of this form that can never be fast-forwarded to.

        ``main`` may only move to a descendant of its head: a branch that does not have that
        among its ancestors was left by a writer that was killed, or beaten.
        """
        table = self._connection.load(name)
        return dead_branches(table, own) if table else ()

    def figures(
        self, name: LakeName, own: re.Pattern[str], named: Collection[int] = ()
    ) -> Figures | None:
        """What a table is made of, for its upkeep; None if it does not exist.

        Args:
            name: of the table.
            own: the form of our branches' names.
            named: snapshots that somebody else needs.
        """
        table = self._connection.load(name)
        if table is None:
            return None
        return self._connection.asked(
            "lake: read manifests", lambda: read_figures(table, own, named)
        )

    def side_marks(self, name: LakeName, shard: str = "") -> frozenset[SideMark]:
        """What any publish that is kept has named of side tables."""
        table = self._connection.load(name)
        said = (published_by(each) for each in table.metadata.snapshots) if table else ()
        of_shard = (each.of_shard(shard) for each in said if each)
        return frozenset(each.carried.side for each in of_shard if each and each.carried.side)

    def is_built_on(
        self, name: LakeName, branch: str, head: int | None, attempt: str, at_most: int
    ) -> bool:
        """Whether a branch is ``at_most`` so many snapshots of this attempt, and then ``head``.

        And ``main`` is still at ``head``. Iceberg makes a branch that is missing when something
        is written to it, on whatever ``main`` has become: what was written before is lost then,
        and a fast-forward would publish the rest.
        """
        table = self._connection.load(name)
        ref = table.metadata.refs.get(branch) if table else None
        if table is None or ref is None:
            return False
        main = table.current_snapshot()
        if (main.snapshot_id if main else None) != head:
            return False
        snapshot = table.snapshot_by_id(ref.snapshot_id)
        last = published_by(snapshot) if snapshot else None
        if last is None or last.attempt != attempt:
            return False
        for _ in range(at_most):
            if snapshot is None:
                return False
            if snapshot.parent_snapshot_id == head:
                return True
            snapshot = table.snapshot_by_id(snapshot.parent_snapshot_id or -1)
            if snapshot is not None and published_by(snapshot) is not None:
                return False
        return False

    def parents(self, name: LakeName) -> tuple[int, ...]:
        """Snapshot ids from the head of ``main`` back."""
        table = self._connection.load(name)
        return tuple(snapshot.snapshot_id for snapshot in ancestry(table)) if table else ()
