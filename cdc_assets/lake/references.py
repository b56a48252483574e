"""Moves tables' branches by single commits that state their preconditions: REST catalogs only.

Such a catalog takes a list of requirements with a list of changes, and does all or nothing. So a
branch is made only while ``main`` is where the plan saw it, and publishing is one request: the
catalog compares ``main`` and the branch with the last look, moves the one to the other, and drops
branches that are no longer needed. Through Spark the same takes ten requests.

Other catalogs take metadata that the client has written, which is left to Spark: PyIceberg cannot
write everything in format version 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
)
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from cdc_assets.changes.names import LakeName
from cdc_assets.errors import ConflictError, TerminalError
from cdc_assets.lake.connection import EndingRestCatalog

_MAIN = "main"


def moves_branches(catalog: Catalog) -> bool:
    """Returns whether a catalog carries out changes of branches itself."""
    return isinstance(catalog, RestCatalog)


def make_branch(table: Table, branch: str, head: int) -> Table:
    """Makes a branch from the head of ``main``, if that is still this snapshot; returns the table.

    Raises:
        ConflictError: if it is not, or the table is another one.
        TerminalError: if the catalog accepts the branch and does not make it.
    """
    required = (_at(branch, None), _at(_MAIN, head))
    made = _committed(table, required, (_set(table, branch, head),))
    _require_made(made, branch, head)
    return made


def publish_branch(table: Table, branch: str, dead: Iterable[str]) -> Table:
    """Moves ``main`` to a branch and drops that branch, if both are unchanged since the look.

    Args:
        table: as it was looked at.
        branch: has ``main``'s head among its ancestors.
        dead: other branches to drop, wherever they are by now.

    Raises:
        ConflictError: if they have changed, or the table is another one; nothing has changed then,
            unless something on the request's way sent it twice.
    """
    main = table.metadata.refs.get(_MAIN)
    tip = table.metadata.refs[branch].snapshot_id
    required = (_at(_MAIN, main.snapshot_id if main else None), _at(branch, tip))
    return _committed(table, required, (_set(table, _MAIN, tip), *_gone((branch, *dead))))


def set_main(table: Table, to: int, tag: str, own: Iterable[str]) -> Table:
    """Sets ``main`` to any snapshot, tags the one that it leaves, and drops branches.

    Raises:
        ConflictError: if ``main`` has moved since the look at the table, the tag exists, or the
            table is another one.
        TerminalError: if the catalog accepts the tag and does not make it.
    """
    main = table.metadata.refs[_MAIN].snapshot_id
    required = (_at(_MAIN, main), _at(tag, None))
    tagged = {"ref-name": tag, "type": "tag", "snapshot-id": main}
    updates = (SetSnapshotRefUpdate.model_validate(tagged), _set(table, _MAIN, to), *_gone(own))
    moved = _committed(table, required, updates)
    _require_made(moved, tag, main)
    return moved


def _require_made(table: Table, ref: str, snapshot: int) -> None:
    """Refuses a catalog that drops changes of branches and tags: what is written goes to ``main``.

    Only for a name that no other writer uses: another could have moved a shared one meanwhile.
    """
    made = table.metadata.refs.get(ref)
    if made is None or made.snapshot_id != snapshot:
        what = f"the catalog accepted the branch or tag {ref}, and did not make it"
        remedy = "use a catalog that keeps Iceberg's branches and tags: cdc-assets assess tries it"
        raise TerminalError(what, where=f"lake={LakeName(*table.name())}", remedy=remedy)


def drop_refs(table: Table, names: Iterable[str]) -> Table:
    """Drops tags or branches, wherever they are by now.

    Raises:
        ConflictError: if the table is another one.
    """
    return _committed(table, (), tuple(_gone(names)))


def tag_tables(tables: Sequence[tuple[Table, int]], tag: str) -> bool:
    """Sets a tag on a snapshot of each table; returns whether one request did so for all.

    One request for several tables is optional for a catalog; whether it takes them all or none
    cannot be seen from here.

    Raises:
        ConflictError: if a table is another one.
    """
    catalog = tables[0][0].catalog
    if isinstance(catalog, EndingRestCatalog) and catalog.commits_tables_together:
        changes = [(table, (_same(table),), (_set_tag(tag, to),)) for table, to in tables]
        with _conflicts(tables[0][0]):
            catalog.commit_together(changes)
        return True
    for table, to in tables:
        _committed(table, (), (_set_tag(tag, to),))
    return len(tables) == 1


def _set_tag(tag: str, to: int) -> SetSnapshotRefUpdate:
    return SetSnapshotRefUpdate.model_validate({"ref-name": tag, "type": "tag", "snapshot-id": to})


def conflict(name: LakeName) -> ConflictError:
    """Returns the error for another writer that came first."""
    what = "another writer published while this batch was at work"
    remedy = "the range is merged again by the next try"
    return ConflictError(what, where=f"lake={name}", remedy=remedy)


def _at(ref: str, snapshot: int | None) -> AssertRefSnapshotId:
    return AssertRefSnapshotId.model_validate({"ref": ref, "snapshot-id": snapshot})


def _gone(names: Iterable[str]) -> Iterator[RemoveSnapshotRefUpdate]:
    return (RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in names)


def _set(table: Table, ref: str, snapshot: int) -> SetSnapshotRefUpdate:
    """Sets a branch, keeping its settings on how long its snapshots are kept."""
    now = table.metadata.refs.get(ref)
    kept = now.model_dump(by_alias=True, exclude_none=True) if now else {"type": "branch"}
    return SetSnapshotRefUpdate.model_validate(kept | {"ref-name": ref, "snapshot-id": snapshot})


def _committed(
    table: Table, required: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
) -> Table:
    """Returns the table after the commit. Old metadata files are left to the catalog."""
    with _conflicts(table):
        said: CommitTableResponse = table.catalog.commit_table(
            table, (_same(table), *required), updates
        )
    at = said.metadata_location
    return Table(table.name(), said.metadata, at, table.io, table.catalog, table.config)


def _same(table: Table) -> AssertTableUUID:
    return AssertTableUUID(uuid=table.metadata.table_uuid)


@contextmanager
def _conflicts(table: Table) -> Iterator[None]:
    try:
        yield
    except (CommitFailedException, NoSuchTableError, NoSuchNamespaceError):
        raise conflict(LakeName(*table.name())) from None
