"""What the Iceberg catalog says of tables, read through PyIceberg."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Final

from pyiceberg.table import Table

from cdc_assets.changes.names import LakeName
from cdc_assets.changes.upkeep import Figures
from cdc_assets.config import ReplicationConfig
from cdc_assets.effects import effect
from cdc_assets.lake.branches import Built, dead_branches, is_built
from cdc_assets.lake.carried import SideMark
from cdc_assets.lake.connection import CatalogConnection
from cdc_assets.lake.figures import read_figures
from cdc_assets.lake.kept import KeptMetadata
from cdc_assets.lake.moving_back import can_move_back, drop_tags, move_back
from cdc_assets.lake.past import Past, read_past
from cdc_assets.lake.pointers import Recent, pointers
from cdc_assets.lake.properties import Published
from cdc_assets.lake.references import conflict, make_branch, moves_branches, publish_branch
from cdc_assets.lake.side import SideState, read_side
from cdc_assets.lake.state import TableState, ancestry, published_by, publishes
from cdc_assets.lake.states import States
from cdc_assets.lake.trying import try_place

_SIDES: Final = Recent[SideState](256)
"""Of all catalogs. Only merging asks for these, and their size is that of their snapshots."""


class Lake:
    """Reads tables through PyIceberg, and moves their branches where the catalog does that.

    Opens the catalog at the first use. Rows are written by Spark alone.
    """

    def __init__(self, config: ReplicationConfig) -> None:
        self._connection = CatalogConnection(config.lake)
        self._states = States(self._connection, KeptMetadata(config.registry))
        self._published: tuple[LakeName, Table] | None = None
        self._sides: set[LakeName] = set()

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
        self._published = None
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

    def has_side(self, name: LakeName) -> bool:
        """Whether there is a side table.

        Where that takes loading the table, one that was there is not looked for again: whatever
        needs it looks itself, and finds it gone.
        """
        if name in self._sides:
            return True
        found = self.side(name) is not None
        if found and self.moves_branches:
            self._sides.add(name)
        return found

    def history(self, name: LakeName, limit: int, shard: str = "") -> tuple[Published, ...]:
        """Up to ``limit`` of our publishes of a shard, newest first."""
        table = self._connection.load(name)
        mine = (each for each in publishes(table) if each.shard == shard) if table else ()
        return tuple(islice(mine, limit))

    def past(self, name: LakeName) -> Past | None:
        """What a table was; None if it does not exist, or holds nothing."""
        table = self._connection.load(name)
        return read_past(table) if table else None

    @property
    def moves_back(self) -> bool:
        """Whether `move_back` and `drop_tags` are to be had; see `moving_back`."""
        return can_move_back(self._connection.catalog)

    def move_back(self, past: Past, to: int, own: re.Pattern[str]) -> None:
        """Set ``main`` to a snapshot, keep what it was at as `Past.next_tag`, drop our branches.

        Raises:
            ConflictError: if the table has changed since that look; nothing was done, unless the
                request was sent twice.
            UnreachableError: if the catalog does not answer; it may be done.
        """
        self._published = None
        branches = [each for each in past.table.metadata.refs if own.fullmatch(each)]
        self._connection.asked(
            "lake: move main back", lambda: move_back(past.table, to, past.next_tag, branches)
        )

    def drop_tags(self, past: Past, tags: Collection[str]) -> None:
        """Drop tags in one commit; raises as `move_back` does."""
        self._published = None
        self._connection.asked("lake: drop tags", lambda: drop_tags(past.table, tags))

    def exists(self, name: LakeName) -> bool:
        """Whether the catalog has a table.

        Raises:
            UnreachableError: if it does not answer.
        """
        return self._connection.load(name) is not None

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
        """Branches with names of this form that can never be published; see `branches`."""
        table = self._connection.load(name)
        head = table.current_snapshot() if table else None
        return dead_branches(table, own, head.snapshot_id) if table and head else ()

    def figures(
        self, name: LakeName, own: re.Pattern[str], named: Collection[int] = ()
    ) -> Figures | None:
        """What a table is made of, for its upkeep; None if it does not exist.

        Args:
            name: of the table.
            own: the form of our branches' names.
            named: snapshots that somebody else needs.
        """
        self._published = None  # what is done with them moves ``main``
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
        """Whether a branch is ready to be published; see `branches.is_built`."""
        table = self._connection.load(name)
        return table is not None and is_built(table, Built(branch, head, attempt, at_most))

    @property
    def moves_branches(self) -> bool:
        """Whether `make_branch` and `publish` are to be had; see `references`."""
        return moves_branches(self._connection.catalog)

    def make_branch(self, name: LakeName, branch: str, head: int) -> None:
        """Make a branch from the head of ``main``, if that is still this snapshot: one request.

        Raises:
            ConflictError: if it is not.
            UnreachableError: if the catalog does not answer; the branch may be there.
        """
        table = self._connection.last(name) or self._connection.load(name)
        if table is None:
            raise conflict(name)
        with self._connection.reachable(), effect("lake: create branch"):
            make_branch(table, branch, head)

    def publish(self, name: LakeName, built: Built, own: re.Pattern[str]) -> None:
        """Look, then move ``main`` to a branch, and drop that and dead ones: two requests.

        Raises:
            ConflictError: if it is not ready to be published, or ``main`` has moved since.
            UnreachableError: if the catalog does not answer; it may be published.
        """
        table = self._connection.load(name)
        if table is None or not is_built(table, built):
            raise conflict(name)
        tip = table.metadata.refs[built.branch].snapshot_id
        dead = dead_branches(table, own, tip)
        with self._connection.reachable(), effect("lake: publish"):
            after = publish_branch(table, built.branch, dead)
        self._published = name, after

    def after_publish(self, name: LakeName, shard: str = "") -> TableState | None:
        """What the table said when `publish` had moved ``main``, if nothing was asked since.

        Others may have published meanwhile: whoever plans by it will find that out.
        """
        if self._published is None or self._published[0] != name:
            return None
        return self._states.known(name, shard, self._published[1])

    def require_open(self) -> None:
        """Lists the catalog's namespaces.

        Raises:
            UnreachableError: if it does not answer, or does not allow that.
        """
        self._connection.asked("lake: namespaces", lambda: self._connection.catalog)
        with self._connection.reachable():
            self._connection.catalog.list_namespaces()

    def write_and_delete(self, place: str) -> str:
        """Write a file of a few bytes as PyIceberg writes files, read it and delete it.

        Returns:
            The place, if the file cannot be deleted; empty if it is gone.

        Raises:
            UnreachableError: if it cannot be written, or not read.
        """
        return try_place(self._connection, place)

    def parents(self, name: LakeName) -> tuple[int, ...]:
        """Snapshot ids from the head of ``main`` back."""
        table = self._connection.load(name)
        return tuple(snapshot.snapshot_id for snapshot in ancestry(table)) if table else ()
