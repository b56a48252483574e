"""Tries what a REST catalog does with branches, tags and conflicts, whatever it says of itself.

Such a server may accept a branch and not make it, keep only a table's newest snapshot, or carry
out a request for several tables one after the other. None of this is visible in its configuration,
so the trial changes small tables of its own:

1. Two tables are made, with two appends each: both snapshots must be there.
2. A branch and a tag are made, and looked for.
3. Two writers make a tag of one name in one table, at once and again and again: one must win.
4. One request changes both tables; then one whose second change must be refused, and nothing of it
   may be done. Then two writers send such requests at once, each with the tables in another
   order: a catalog that checks all changes first and then commits one table after the other leaves
   the one table as one writer wants it, and the other table as the other.
5. The tables are dropped, and their files deleted.

A race that was not seen is no proof that there is none: the trial can only refute.

With the other types of catalogs Iceberg's client makes each change itself, and only the pointer to
its metadata file is the catalog's: nothing is tried. In a database the pointers of several tables
change in one transaction (`moving_back`); Hive and Glue have no such thing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from threading import Barrier
from typing import TYPE_CHECKING, Final, cast

import requests
from pyiceberg.catalog import delete_data_files, delete_files
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    ValidationError,
)
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from cdc_assets.config import LakeConfig
from cdc_assets.effects import effect
from cdc_assets.lake.connection import CatalogConnection, EndingRestCatalog

if TYPE_CHECKING:
    import pyarrow as pa

_ROUNDS: Final = 20
_MOST_SECONDS: Final = 10.0
"""For the rounds of one race."""

_REFUSED: Final = (
    BadRequestError, CommitFailedException, NotImplementedError, ValidationError, ValueError,
)  # fmt: skip
_UNKNOWN_REQUEST: Final = frozenset({
    HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.NOT_ACCEPTABLE, HTTPStatus.NOT_IMPLEMENTED,
})  # fmt: skip


Pair = tuple[EndingRestCatalog, EndingRestCatalog]
"""Two clients of one catalog, each with connections of its own."""


class Together(Enum):
    """What a catalog does with changes of several tables."""

    WHOLE = "all tables of a request change, or none"
    ONE_BY_ONE = "the tables of a request change one after the other"
    NEVER = "a request changes one table"

    @property
    def is_whole(self) -> bool:
        """Whether several tables change in one step."""
        return self is Together.WHOLE


@dataclass(frozen=True, slots=True)
class CatalogAbilities:
    """What a catalog was seen to do.

    Attributes:
        format_version: of a table that was requested in the configured version.
        keeps_snapshots: whether a table's snapshots stay when it is written to.
        makes_refs: whether branches and tags are made.
        refuses_conflicts: whether one of two conflicting commits was refused each time; None if
            it was not tried, for want of tags.
        together: for several tables; None likewise.
    """

    format_version: int
    keeps_snapshots: bool
    makes_refs: bool
    refuses_conflicts: bool | None
    together: Together | None


_USUAL: Final[Mapping[str, Together]] = {
    "sql": Together.WHOLE, "hive": Together.NEVER, "glue": Together.NEVER,
}  # fmt: skip


def try_catalog(lake: LakeConfig, namespace: str) -> CatalogAbilities:
    """Tries what a REST catalog does, in a namespace that is made and dropped.

    Args:
        lake: the configuration.
        namespace: which does not exist.

    Returns:
        What was seen; with the other types, what their clients do.

    Raises:
        UnreachableError: if the catalog or the store does not answer.
        LoginRefusedError: if they refuse the login.
    """
    if lake.catalog.type != "rest":
        together = _USUAL[lake.catalog.type]
        return CatalogAbilities(
            lake.format_version, keeps_snapshots=True, makes_refs=True, refuses_conflicts=True,
            together=together,
        )  # fmt: skip
    connections = CatalogConnection(lake), CatalogConnection(lake)
    with connections[0].reachable(), effect("catalog: try"):
        pair = cast("Pair", (connections[0].catalog, connections[1].catalog))
        with _tables(pair[0], namespace, lake.format_version) as trial:
            makes_refs = trial.makes_refs()
            return CatalogAbilities(
                trial.format_version,
                trial.keeps_snapshots(),
                makes_refs,
                _Race(pair, trial.names[:1], "one").is_won_by_one() if makes_refs else None,
                _together(pair, trial.names) if makes_refs else None,
            )


def _together(catalogs: Pair, names: Sequence[str]) -> Together:
    first = catalogs[0]
    tables = [first.load_table(name) for name in names]
    heads = [each.metadata.refs["main"].snapshot_id for each in tables]
    if not _is_accepted(lambda: _send(first, tables, heads, "both")):
        return Together.NEVER
    if any(_at(first, name, "both") is None for name in names):
        return Together.ONE_BY_ONE  # it said that both were changed
    wrong = [_change(tables[0], "half", heads[0]), _change(tables[1], "both", heads[1])]
    is_refused = not _is_accepted(lambda: first.commit_together(wrong))
    if not is_refused or _at(first, names[0], "half") is not None:
        return Together.ONE_BY_ONE
    is_whole = _Race(catalogs, names, "many").is_won_by_one()
    return Together.WHOLE if is_whole else Together.ONE_BY_ONE


class _Race:
    """Two writers who make tags of one name at once, each on another snapshot."""

    def __init__(self, catalogs: Pair, names: Sequence[str], prefix: str) -> None:
        self._catalogs, self._names, self._prefix = catalogs, names, prefix
        self._start = Barrier(2)

    def is_won_by_one(self) -> bool:
        """Whether in each round at most one was accepted, and all tables are as it wants them."""
        end = time.monotonic() + _MOST_SECONDS
        with ThreadPoolExecutor(2) as pool:
            for number in range(_ROUNDS):
                tag = f"{self._prefix}_{number}"
                commits = [self._prepared(writer, tag) for writer in range(2)]
                runs = [pool.submit(self._sent, commit) for commit in commits]
                accepted = [run.result() for run in runs]
                if all(accepted) or len({self._winner(name, tag) for name in self._names}) > 1:
                    return False
                if time.monotonic() > end:
                    break
        return True

    def _winner(self, name: str, tag: str) -> int | None:
        """Returns the writer whose tag a table has."""
        table = self._catalogs[0].load_table(name)
        made = table.metadata.refs.get(tag)
        return _snapshots(table).index(made.snapshot_id) if made else None

    def _prepared(self, writer: int, tag: str) -> Callable[[], object]:
        """Returns one writer's commit: the tag on all first snapshots, or on all second ones."""
        catalog = self._catalogs[writer]
        tables = [catalog.load_table(name) for name in self._names[:: -1 if writer else 1]]
        snapshots = [_snapshots(each)[writer] for each in tables]
        if len(tables) > 1:
            return lambda: _send(catalog, tables, snapshots, tag)
        change = _change(tables[0], tag, snapshots[0])
        return lambda: catalog.commit_table(*change)

    def _sent(self, commit: Callable[[], object]) -> bool:
        self._start.wait(_MOST_SECONDS)
        return _is_accepted(commit)


def _snapshots(table: Table) -> list[int]:
    """Returns the first snapshot and the second one."""
    return [each.snapshot_id for each in table.metadata.snapshots][:2]


Change = tuple[Table, tuple[TableRequirement, ...], tuple[TableUpdate, ...]]


def _change(table: Table, tag: str, snapshot: int) -> Change:
    """Returns a new tag, with the requirement that the table has none of this name."""
    made = {"ref-name": tag, "type": "tag", "snapshot-id": snapshot}
    absent = AssertRefSnapshotId.model_validate({"ref": tag, "snapshot-id": None})
    return table, (absent,), (SetSnapshotRefUpdate.model_validate(made),)


def _send(
    catalog: EndingRestCatalog, tables: Sequence[Table], snapshots: Sequence[int], tag: str
) -> None:
    pairs = zip(tables, snapshots, strict=True)
    catalog.commit_together([_change(table, tag, snapshot) for table, snapshot in pairs])


def _is_accepted(commit: Callable[[], object]) -> bool:
    """Returns whether a commit was accepted; other errors than a refusal are raised."""
    try:
        commit()
    except _REFUSED:
        return False
    except requests.HTTPError as error:
        if error.response.status_code in _UNKNOWN_REQUEST:
            return False
        raise
    return True


def _at(catalog: RestCatalog, name: str, ref: str) -> int | None:
    found = catalog.load_table(name).metadata.refs.get(ref)
    return found.snapshot_id if found else None


class _CatalogTrial:
    """The tables of a trial.

    Attributes:
        names: of the two tables that are written to, with their namespace.
        format_version: see `CatalogAbilities`.
    """

    def __init__(self, catalog: RestCatalog, names: tuple[str, str], format_version: int) -> None:
        self._catalog = catalog
        self.names = names
        self.format_version = format_version

    def keeps_snapshots(self) -> bool:
        """Whether the first append's snapshot is there, as the parent of the second's."""
        table = self._catalog.load_table(self.names[0])
        known = {each.snapshot_id for each in table.metadata.snapshots}
        head = table.current_snapshot()
        return head is not None and head.parent_snapshot_id in known

    def makes_refs(self) -> bool:
        """Whether a branch and a tag are there after they were made."""
        table = self._catalog.load_table(self.names[0])
        head = table.metadata.refs["main"].snapshot_id
        with suppress(*_REFUSED):
            table.manage_snapshots().create_branch(head, "branch").commit()
            table.manage_snapshots().create_tag(head, "tag").commit()
        return {"branch", "tag"} <= self._catalog.load_table(self.names[0]).metadata.refs.keys()


@contextmanager
def _tables(catalog: RestCatalog, namespace: str, version: int) -> Iterator[_CatalogTrial]:
    """Makes the tables of a trial, and drops them with their files."""
    row, names = _row(), (f"{namespace}.first", f"{namespace}.second")
    catalog.create_namespace(namespace)
    try:
        for name in names:
            table = catalog.create_table(name, row.schema, properties={"format-version": "2"})
            table.append(row)
            table.append(row)
        asked = {"format-version": str(version)}
        empty = catalog.create_table(f"{namespace}.third", row.schema, properties=asked)
        yield _CatalogTrial(catalog, names, empty.metadata.format_version)
    finally:
        for name in (*names, f"{namespace}.third"):
            with suppress(NoSuchTableError):
                _drop(catalog, name)
        with suppress(NoSuchNamespaceError, NamespaceNotEmptyError):
            catalog.drop_namespace(namespace)


def _row() -> pa.Table:
    import pyarrow as pa

    return pa.table({"id": pa.array([1], pa.int64())})


def _drop(catalog: RestCatalog, name: str) -> None:
    """Drops a table and deletes its files, which not every catalog does for its clients."""
    table = catalog.load_table(name)
    metadata, io = table.metadata, table.io
    manifests = [each for snapshot in metadata.snapshots for each in snapshot.manifests(io)]
    lists = {each.manifest_list for each in metadata.snapshots}
    logged = {each.metadata_file for each in metadata.metadata_log}
    catalog.drop_table(name)
    with suppress(OSError):  # a file that stays is an orphan
        delete_data_files(io, manifests)
        delete_files(io, {each.manifest_path for each in manifests}, "manifest")
        delete_files(io, lists, "manifest list")
        delete_files(io, {*logged, table.metadata_location}, "metadata")
