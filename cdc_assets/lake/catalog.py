"""Reads the Iceberg catalog's tables through PyIceberg.

Tests by trying whether files can be written to the warehouse and deleted from it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from pyiceberg.exceptions import (
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import load_file_io
from pyiceberg.table import Table

from cdc_assets.changes.names import LakeName
from cdc_assets.changes.upkeep import Figures
from cdc_assets.config import ReplicationConfig
from cdc_assets.effects import effect
from cdc_assets.errors import ConflictError, TerminalError, UnreachableError
from cdc_assets.lake.branches import BranchState, dead_branches, is_built
from cdc_assets.lake.carried import SideMark
from cdc_assets.lake.connection import CatalogConnection
from cdc_assets.lake.figures import read_figures
from cdc_assets.lake.foreign import ForeignTable, read_foreign
from cdc_assets.lake.kept import KeptMetadata
from cdc_assets.lake.moving_back import can_move_back, drop_tags, move_back
from cdc_assets.lake.past import Past, read_past
from cdc_assets.lake.place import TablePlace, place_of
from cdc_assets.lake.pointers import NewestFiles, pointers
from cdc_assets.lake.properties import Published
from cdc_assets.lake.references import conflict, make_branch, moves_branches, publish_branch
from cdc_assets.lake.side import SideState, read_side
from cdc_assets.lake.state import TableState, ancestry, published_by, publishes
from cdc_assets.lake.states import Looked, States, state_in

_SIDES: Final = NewestFiles[SideState](256)
"""For all catalogs. Only merging needs these, and their size is that of their snapshots."""


class Lake:
    """A lake whose tables are read through PyIceberg, and whose branches the catalog may move.

    Opens the catalog at the first use. Only Spark writes rows.
    """

    def __init__(self, config: ReplicationConfig) -> None:
        self._connection = CatalogConnection(config.lake)
        self._states = States(self._connection, KeptMetadata(config.registry))
        self._published: tuple[LakeName, Table] | None = None
        self._sides: set[LakeName] = set()

    @property
    def address(self) -> str:
        """The catalog's address without credentials, for messages."""
        return self._connection.address

    def state(self, name: LakeName, shard: str = "") -> TableState | None:
        """Returns a table's present state; None if it does not exist.

        Args:
            name: of the table.
            shard: the shard whose publishes count; empty for a table with one source table.

        Raises:
            UnreachableError: if the catalog or the table's metadata cannot be read.
        """
        self._published = None
        return self._states.state_of(name, shard)

    def find_states(self, tables: Sequence[tuple[LakeName, str]]) -> list[Looked]:
        """Looks at many tables and shards, in their order, with few calls.

        A table that cannot be read is an error in the list, and prevents no other.

        Raises:
            UnreachableError: if the catalog does not answer, or no table's metadata is to be had.
        """
        return self._states.find_states(tables)

    def states(self, tables: Sequence[tuple[LakeName, str]]) -> list[TableState | None]:
        """Returns the states of tables like `find_states`.

        Raises:
            CdcError: if one of them cannot be read.
        """
        return [state_in(each) for each in self._states.find_states(tables)]

    def side(self, name: LakeName) -> SideState | None:
        """Returns a side table; None if it does not exist. See `cdc_assets.lake.side.side_of`."""

        def look() -> SideState | None:
            at = pointers(self._connection.catalog, [name])
            if at is not None and (known := _SIDES.of(name, at.get(name))) is not None:
                return known
            table = self._connection.loaded(name)
            if table is None:
                return None
            return _SIDES.keep(name, table.metadata_location, read_side(name, table))

        return self._connection.call("lake: load table", look)

    def has_side(self, name: LakeName) -> bool:
        """Returns whether there is a side table.

        Where that takes loading the table, one that existed is not looked for again: whatever
        needs it looks itself, and finds it gone.
        """
        if name in self._sides:
            return True
        found = self.side(name) is not None
        if found and self.moves_branches:
            self._sides.add(name)
        return found

    def history(
        self, name: LakeName, limit: int, shard: str = "", head: int | None = None
    ) -> tuple[Published, ...]:
        """Returns up to ``limit`` of our publishes of a shard, newest first.

        Args:
            name: of the table.
            limit: the most publishes.
            shard: the shard whose publishes count; empty for a table with one source table.
            head: the snapshot to begin with; None for the head of ``main``.
        """
        table = self._connection.load(name)
        if table is None:
            return ()
        with self._connection.reading(name, table.metadata_location):
            mine = (each for each in publishes(table, head) if each.shard == shard)
            return tuple(islice(mine, limit))

    def read_from_store(self, name: LakeName) -> None:
        """Reads the beginning of a table's metadata file; does nothing if there is no table.

        Raises:
            CdcError: if the catalog or the table's folder does not answer, or the file is gone.
        """
        table = self._connection.load(name)
        if table is None:
            return
        with self._connection.reading(name, table.metadata_location):
            with table.io.new_input(table.metadata_location).open() as file:
                file.read(1)

    def past(self, name: LakeName) -> Past | None:
        """Returns a table's past; None if it does not exist, or has no snapshot."""
        table = self._connection.load(name)
        return read_past(table) if table else None

    @property
    def moves_back(self) -> bool:
        """Whether `move_back` and `drop_tags` are available; see `moving_back`."""
        return can_move_back(self._connection.catalog)

    def move_back(self, past: Past, to: int, own: re.Pattern[str]) -> None:
        """Sets ``main`` to a snapshot, tags the old one with `Past.next_tag`, drops our branches.

        Raises:
            ConflictError: if the table has changed since that look; nothing was done, unless the
                request was sent twice.
            UnreachableError: if the catalog does not answer; it may have been done.
        """
        branches = [each for each in past.table.metadata.refs if own.fullmatch(each)]
        self._connection.call(
            "lake: move main back", lambda: move_back(past.table, to, past.next_tag, branches)
        )

    def drop_tags(self, past: Past, tags: Collection[str]) -> None:
        """Drops tags in one commit; raises as `move_back` does."""
        self._connection.call("lake: drop tags", lambda: drop_tags(past.table, tags))

    def exists(self, name: LakeName) -> bool:
        """Returns whether the catalog has a table.

        Raises:
            UnreachableError: if it does not answer.
        """
        return self._connection.load(name) is not None

    def drop(self, name: LakeName) -> str:
        """Removes a table from the catalog; its files stay.

        Returns:
            The place of its last metadata, from which it can be registered again; empty if it did
            not exist, or its metadata cannot be read.

        Raises:
            UnreachableError: if the catalog does not answer.
        """
        try:
            table = self._connection.load(name)
            last = table.metadata_location if table is not None else None
        except TerminalError:  # it is to go, whatever became of its files
            last = ""
        if last is None:
            return ""
        with (
            self._connection.reachable(),
            effect("catalog: drop table"),
            suppress(NoSuchTableError, NoSuchNamespaceError),
        ):
            self._connection.catalog.drop_table((name.namespace, name.name))
        return last

    def rename(self, name: LakeName, to: LakeName, otherwise: str) -> None:
        """Gives a table another name; its snapshots, properties and files stay.

        Args:
            name: of the table.
            to: its new name.
            otherwise: what to do if the catalog cannot.

        Raises:
            ConflictError: if there is a table of the new name, or none of the old one any more.
            TerminalError: if the catalog cannot rename tables.
            UnreachableError: if the catalog does not answer: look which name the table has.
        """
        where = f"lake={to} was={name}"
        try:
            with self._connection.reachable(), effect("catalog: rename table"):
                self._connection.catalog.rename_table(
                    (name.namespace, name.name), (to.namespace, to.name)
                )
        except (TableAlreadyExistsError, NoSuchTableError):
            what = "another process has made the table, or has renamed it"
            raise ConflictError(what, where=where, remedy="the next try looks again") from None
        except NotImplementedError:
            what = f"the {self.address} cannot rename tables"
            raise TerminalError(what, where=where, remedy=otherwise) from None

    def has_attempt(self, name: LakeName, attempt: str) -> bool:
        """Returns whether this attempt is in the ancestry of ``main``, so that it was published."""
        table = self._connection.load(name)
        return table is not None and any(each.attempt == attempt for each in publishes(table))

    def is_taken_back(self, name: LakeName, attempt: str) -> bool:
        """Returns whether a table was rewound behind an attempt that it had, or was made again.

        False if the attempt's snapshot has expired: then nothing tells.
        """
        table = self._connection.load(name)
        line = list(ancestry(table)) if table else []
        if table is None or not line:
            return True
        if any(each.attempt == attempt for each in publishes(table)):
            return False
        kept = map(published_by, table.metadata.snapshots)
        is_kept = any(each is not None and each.attempt == attempt for each in kept)
        return is_kept or line[-1].sequence_number == 1  # nothing has expired

    def branches(self, name: LakeName) -> dict[str, int]:
        """Returns branch names and the snapshots they point to, ``main`` included."""
        table = self._connection.load(name)
        return {ref: each.snapshot_id for ref, each in table.metadata.refs.items()} if table else {}

    def dead_branches(self, name: LakeName, own: re.Pattern[str]) -> tuple[str, ...]:
        """Returns branches with names of this form that can never be published; see `branches`."""
        table = self._connection.load(name)
        head = table.current_snapshot() if table else None
        return dead_branches(table, own, head.snapshot_id) if table and head else ()

    def figures(
        self, name: LakeName, own: re.Pattern[str], named: Collection[int] = ()
    ) -> Figures | None:
        """Returns a table's figures for its upkeep; None if it does not exist.

        Args:
            name: of the table.
            own: the form of our branches' names.
            named: snapshots that are needed elsewhere.
        """
        table = self._connection.load(name)
        if table is None:
            return None
        return self._connection.call(
            "lake: read manifests", lambda: read_figures(table, own, named)
        )

    def foreign(self, name: LakeName) -> ForeignTable | None:
        """Returns the parts of a table that another program made; None if it does not exist.

        Raises:
            UnreachableError: if the catalog does not answer, or files cannot be read.
        """
        table = self._connection.load(name)
        if table is None:
            return None
        return self._connection.call("lake: read manifests", lambda: read_foreign(table))

    def place(self, name: LakeName) -> TablePlace | None:
        """Returns a table's place, and what other tables have there; None if it does not exist.

        Raises:
            UnreachableError: if the catalog does not answer, or files cannot be read.
        """
        table = self._connection.load(name)
        if table is None:
            return None
        return self._connection.call("lake: look for other tables", lambda: place_of(table))

    def side_marks(self, name: LakeName, shard: str) -> frozenset[SideMark]:
        """Returns the side tables' snapshots that any kept publish names, or the newest one.

        Another program may have expired the newest publish's snapshot.
        """
        table, newest = self._connection.load(name), self._states.state_of(name, shard)
        said = (published_by(each) for each in table.metadata.snapshots) if table else ()
        of_shard = [each.of_shard(shard) for each in said if each]
        of_shard.append(newest.published if newest else None)
        return frozenset(each.carried.side for each in of_shard if each and each.carried.side)

    def dead_once_published(
        self, name: LakeName, built: BranchState, own: re.Pattern[str]
    ) -> tuple[str, ...] | None:
        """Returns the branches that can never be published after this one.

        None if this one is not ready to be published; see `branches.is_built`.
        """
        table = self._connection.load(name)
        return None if table is None else _dead_after(table, built, own)

    @property
    def moves_branches(self) -> bool:
        """Whether `make_branch` and `publish` are available; see `references`."""
        return moves_branches(self._connection.catalog)

    def make_branch(self, name: LakeName, branch: str, head: int) -> None:
        """Makes a branch from the head of ``main``, if that is still this snapshot: one request.

        Raises:
            ConflictError: if it is not.
            UnreachableError: if the catalog does not answer; the branch may exist.
        """
        table = self._connection.last(name) or self._connection.load(name)
        if table is None:
            raise conflict(name)
        with self._connection.reachable(), effect("lake: create branch"):
            make_branch(table, branch, head)

    def publish(self, name: LakeName, built: BranchState, own: re.Pattern[str]) -> None:
        """Looks, then moves ``main`` to a branch, and drops that and dead ones: two requests.

        Raises:
            ConflictError: if it is not ready to be published, or ``main`` has moved since.
            UnreachableError: if the catalog does not answer; it may have been published.
        """
        table = self._connection.load(name)
        dead = None if table is None else _dead_after(table, built, own)
        if table is None or dead is None:
            raise conflict(name)
        with self._connection.reachable(), effect("lake: publish"):
            after = publish_branch(table, built.branch, dead)
        self._published = name, after

    def after_publish(self, name: LakeName, shard: str = "") -> TableState | None:
        """Returns the table's state right after `publish`, once, unless `state` was asked since.

        Others may have published meanwhile: a plan based on it finds that out. The next batch may
        be published by Spark alone, so a second time it would be an old state.
        """
        published, self._published = self._published, None
        if published is None or published[0] != name:
            return None
        return self._states.published_state(name, shard, published[1])

    def require_open(self) -> None:
        """Lists the catalog's namespaces.

        Raises:
            UnreachableError: if it does not answer, or does not allow that.
        """
        self._connection.call("lake: namespaces", lambda: self._connection.catalog)
        with self._connection.reachable():
            self._connection.catalog.list_namespaces()

    def write_and_delete(self, place: str) -> str:
        """Writes a file of a few bytes as PyIceberg writes files, reads it and deletes it.

        Returns:
            The place, if the file cannot be deleted; empty if it is gone.

        Raises:
            UnreachableError: if it cannot be written, or cannot be read.
        """
        return try_place(self._connection, place)

    def parents(self, name: LakeName) -> tuple[int, ...]:
        """Returns snapshot ids from the head of ``main`` back."""
        table = self._connection.load(name)
        return tuple(snapshot.snapshot_id for snapshot in ancestry(table)) if table else ()


def _dead_after(table: Table, built: BranchState, own: re.Pattern[str]) -> tuple[str, ...] | None:
    if not is_built(table, built):
        return None
    return dead_branches(table, own, table.metadata.refs[built.branch].snapshot_id)


_TRIED: Final = b"written by cdc-assets assess; may be deleted"


def try_place(connection: CatalogConnection, place: str) -> str:
    """Writes a file of a few bytes, reads it, and deletes it.

    Args:
        connection: provides the properties for access to files.
        place: URL of a file that nobody else writes.

    Returns:
        The place, if the file cannot be deleted; empty if it is gone.

    Raises:
        UnreachableError: if it cannot be written, or cannot be read.
    """
    io = load_file_io(connection.catalog.properties, place)
    try:
        with io.new_output(place).create(overwrite=True) as out:
            out.write(_TRIED)
        with io.new_input(place).open() as found:
            is_same = found.read() == _TRIED
    except Exception as error:  # each file system has its own exceptions
        raise _refused(place, type(error).__name__) from None
    try:
        io.delete(place)
        is_there = io.new_input(place).exists()
    except Exception:  # of any file system: what matters is that the file is still there
        return place
    if not is_same:
        raise _refused(place, "other bytes were read than were written")
    return place if is_there else ""


def _refused(place: str, why: str) -> UnreachableError:
    where = f"warehouse {place.rpartition('/')[0]}"
    what = f"the warehouse cannot be written to and read from ({why})"
    remedy = "allow reading, writing and deleting below it, and check lake.catalog.properties"
    return UnreachableError(what, where=where, remedy=remedy)
