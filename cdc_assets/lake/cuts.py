"""Stores the cuts of a source: commits up to which several tables have been merged, no further.

A cut is one row of ``cdc_assets_consistent.<source>``, with a snapshot of each table. The commit
that adds the row is the moment at which readers have the new state of all tables, whole. The tag
`TAG` is moved to these snapshots afterwards, for engines that run no code; in one commit for all
tables where the catalog has one. Tables in Hive and Glue get no tag.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.catalog import Catalog, delete_files
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.snapshots import Snapshot

from cdc_assets.changes.names import LakeName, cuts_name
from cdc_assets.config import ReplicationConfig
from cdc_assets.effects import effect
from cdc_assets.errors import ConfigError, ConflictError
from cdc_assets.lake.catalog import Lake
from cdc_assets.lake.moving_back import set_tag

if TYPE_CHECKING:
    import pyarrow as pa

TAG: Final = "consistent"

_MOST_FILES: Final = 100
"""Files of the table at which its rows are written again, in one file."""

_LATE: Final = 1.25
"""How much longer than asked for a cut may be kept, so that not every cut rewrites the table."""

_READ_FOR: Final = timedelta(hours=1)
"""How long a state of the table can be read after it was replaced."""

_ONCE: Final = {"commit.retry.num-retries": "0"}
"""PyIceberg would repeat a refused commit on top of what another process has added."""

_PROPERTIES: Final = {
    "format-version": "2",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    **_ONCE,
}


@dataclass(frozen=True, slots=True)
class CutSnapshot:
    """The state of one table in a cut.

    Attributes:
        schema, table: the source table's.
        lake_namespace, lake_table: the Iceberg table's.
        table_uuid: of the Iceberg table: a table that was made again is another one.
        snapshot: id.
    """

    schema: str
    table: str
    lake_namespace: str
    lake_table: str
    table_uuid: str
    snapshot: int

    @property
    def target(self) -> LakeName:
        """The Iceberg table."""
        return LakeName(self.lake_namespace, self.lake_table)

    @property
    def qualified(self) -> str:
        """``schema.table``."""
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class StoredCut:
    """A cut.

    Attributes:
        number: from 1, in order.
        log: the topic of the source's transactions.
        transaction: the id of the last transaction that is included.
        end_offset, end_sent_at: of its ``END`` in that topic.
        committed_at: when the source committed it, aware.
        added_at: when the cut was added, aware.
        tables: of the source, by name.
    """

    number: int
    log: str
    transaction: str
    end_offset: int
    end_sent_at: datetime
    committed_at: datetime
    added_at: datetime
    tables: tuple[CutSnapshot, ...]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> StoredCut:
        """Reads a row."""
        tables = tuple(CutSnapshot(**each) for each in row["tables"])
        return cls(**{**row, "tables": tables})

    def is_before(self, other: StoredCut) -> bool:
        """Returns whether a cut of the same log is later: the log may have been made again."""
        return self.end_offset < other.end_offset or self.end_sent_at < other.end_sent_at


def _schema() -> pa.Schema:
    import pyarrow as pa

    time = pa.timestamp("us", tz="UTC")
    text, number = pa.string(), pa.int64()
    of_table = pa.struct([
        pa.field(name, number if name == "snapshot" else text, nullable=False)
        for name in CutSnapshot.__slots__
    ])  # fmt: skip
    tables = pa.list_(pa.field("element", of_table, nullable=False))
    types = (number, text, text, number, time, time, time, tables)
    fields = zip(StoredCut.__slots__, types, strict=True)
    return pa.schema([pa.field(name, each, nullable=False) for name, each in fields])


class CutLake(Lake):
    """A lake with the tables of cuts. PyIceberg writes these; they hold no rows of anybody's."""

    def __init__(self, config: ReplicationConfig) -> None:
        super().__init__(config)
        self._read: dict[LakeName, tuple[str, tuple[StoredCut, ...]]] = {}

    def cuts(self, source: str) -> tuple[StoredCut, ...]:
        """Returns the kept cuts of a source, newest first; of all its logs.

        Raises:
            UnreachableError: if the catalog or the table's files cannot be read.
        """
        table = self._connection.load(cuts_name(source))
        return self._cuts(cuts_name(source), table) if table else ()

    def _cuts(self, name: LakeName, table: Table) -> tuple[StoredCut, ...]:
        """Returns the cuts in a table, newest first; reads its files if it has changed."""
        at, known = self._read.get(name, ("", ()))
        if at != table.metadata_location:
            found = self._connection.call("lake: read cuts", lambda: _rows(table))
            known = tuple(sorted(found, key=lambda each: each.number, reverse=True))
            self._read[name] = table.metadata_location, known
        return known

    def add_cut(self, source: str, cut: StoredCut, keep: timedelta) -> StoredCut | None:
        """Adds a cut, and removes those that are older than ``keep``, or were withdrawn.

        Removes those of a clock that was ahead by more than ``keep``, too.

        Returns:
            The cut, with the next number if its own is taken by a cut of another log; None if there
            is a cut of its log that is not earlier.

        Raises:
            ConflictError: if another writer came first.
            UnreachableError: if the catalog does not answer; it may have been added.
        """
        name = cuts_name(source)
        table = self._connection.load(name) or self._made(name)
        if not table.properties.items() >= _ONCE.items():  # of an older release
            with self._connection.reachable(), effect("lake: add cut"), table.transaction() as once:
                once.set_properties(_ONCE)
        known = self._cuts(name, table)
        if any(each.log == cut.log and not each.is_before(cut) for each in known):
            return None
        next_number = 1 + max((each.number for each in known), default=0)
        cut = replace(cut, number=max(cut.number, next_number))
        kept = [each for each in known if abs(cut.added_at - each.added_at) < keep]
        head = table.current_snapshot()
        summary = head.summary.additional_properties if head and head.summary else {}
        is_full = int(summary.get("total-data-files", "0")) >= _MOST_FILES
        oldest = min((each.added_at for each in known), default=cut.added_at)
        if is_full or cut.added_at - oldest > keep * _LATE:
            self._replace("lake: add cut", name, table, [*kept, cut])
            return cut
        with _alone(name), self._connection.reachable(), effect("lake: add cut"):
            table.append(_arrow([cut]))
        return cut

    def settle(self, source: str, cut: StoredCut) -> bool:
        """Moves the tag to a cut's snapshots, and withdraws cuts of which a snapshot is gone.

        A snapshot is gone once its table was rebuilt, or was moved back and has expired snapshots.
        If one of the cut itself is gone, no tag moves: a table whose tag names a snapshot that it
        does not have cannot be read any more.

        Returns:
            Whether one commit moved the tag of all tables; otherwise readers may see some moved, or
            none moved: the cut was withdrawn, or the catalog's tables get no tag, see `set_tag`.

        Raises:
            ConflictError: if a table has changed meanwhile, where one commit moves all tags; or if
                another writer has changed the cuts.
            UnreachableError: if the catalog does not answer.
        """
        name = cuts_name(source)
        table = self._connection.load(name)
        cuts = self._cuts(name, table) if table else ()
        targets = {each.target for one in (cut, *cuts) for each in one.tables}
        loaded = {target: self._connection.load(target) for target in targets}
        there = {target: _snapshots(each) for target, each in loaded.items()}

        def is_whole(one: StoredCut) -> bool:
            return all((each.table_uuid, each.snapshot) in there[each.target]
                       for each in one.tables)  # fmt: skip

        kept = [one for one in cuts if is_whole(one)]
        if table is not None and len(kept) < len(cuts):
            self._replace("lake: withdraw cuts", name, table, kept)
        if not is_whole(cut):
            return False
        wanted = {each.target: each.snapshot for each in cut.tables}
        tagged = [(each, to) for target, to in wanted.items() if (each := loaded[target])]
        with self._connection.reachable(), effect("lake: tag cut"):
            return set_tag(tagged, TAG)

    def _replace(self, what: str, name: LakeName, table: Table, cuts: Sequence[StoredCut]) -> None:
        """Writes all cuts to one file; removes the files of snapshots that nobody reads any more.

        The files stay if the process ends between this commit and their removal.
        """
        with _alone(name), self._connection.reachable(), effect(what):
            table.overwrite(_arrow(cuts), AlwaysTrue())
            _forget_snapshots(table)

    def _made(self, name: LakeName) -> Table:
        catalog = self._connection.catalog
        with self._connection.reachable(), effect("lake: create table of cuts"):
            catalog.create_namespace_if_not_exists(name.namespace)
            return catalog.create_table_if_not_exists(
                (name.namespace, name.name), _schema(), properties=_PROPERTIES
            )


def snapshots_in_cuts(
    config: ReplicationConfig, sources: Collection[str], name: LakeName
) -> tuple[int, ...]:
    """Returns the snapshots of a lake table that the kept cuts of some sources name.

    Raises:
        UnreachableError: if the catalog or the files of cuts cannot be read.
    """
    if not sources:
        return ()
    lake = CutLake(config)
    cuts = (cut for source in sources for cut in lake.cuts(source))
    return tuple(each.snapshot for cut in cuts for each in cut.tables if each.target == name)


def _rows(table: Table) -> list[StoredCut]:
    if table.current_snapshot() is None:
        return []
    return [StoredCut.of(row) for row in table.scan().to_arrow().to_pylist()]


def _arrow(cuts: Sequence[StoredCut]) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_pylist([asdict(each) for each in cuts], schema=_schema())


def _snapshots(table: Table | None) -> set[tuple[str, int]]:
    """Returns the snapshots of a table, each with the table's UUID."""
    if table is None:
        return set()
    uuid = str(table.metadata.table_uuid)
    return {(uuid, each.snapshot_id) for each in table.metadata.snapshots}


def _forget_snapshots(table: Table) -> None:
    """Expires old snapshots, and removes their files: PyIceberg expires, and removes none.

    Each manifest is read once, however many snapshots name it. A file that cannot be removed stays.
    """
    before, io = datetime.now(UTC) - _READ_FOR, table.io
    was = table.snapshots()
    table.maintenance.expire_snapshots().older_than(before).commit()
    kept = table.snapshots()
    gone = [each for each in was if table.snapshot_by_id(each.snapshot_id) is None]
    theirs, ours = _manifests(gone, io), _manifests(kept, io)
    unused = [each for path, each in theirs.items() if path not in ours]
    delete_files(io, _data(unused, io) - _data(ours.values(), io), "data")
    delete_files(io, {each.manifest_path for each in unused}, "manifest")
    delete_files(io, {each.manifest_list for each in gone}, "manifest list")


def _manifests(snapshots: Iterable[Snapshot], io: FileIO) -> dict[str, ManifestFile]:
    """Returns the manifests of snapshots by their paths."""
    return {found.manifest_path: found for each in snapshots for found in each.manifests(io)}


def _data(manifests: Iterable[ManifestFile], io: FileIO) -> set[str]:
    """Returns the data files that manifests name, removed ones included."""
    entries = (each.fetch_manifest_entry(io, discard_deleted=False) for each in manifests)
    return {entry.data_file.file_path for some in entries for entry in some}


@contextmanager
def _alone(name: LakeName) -> Iterator[None]:
    """Turns a refused commit into an error of ours."""
    try:
        yield
    except CommitFailedException:
        what = "another process has changed the cuts"
        remedy = "the next batch tries again"
        raise ConflictError(what, where=f"lake={name}", remedy=remedy) from None


# ── for readers ──────────────────────────────────────────────────────────────────────────


class ConsistentTables(Mapping[str, Table]):
    """The tables of one cut, by ``schema.table``, each as it was at the cut.

    Attributes:
        cut: the cut.
    """

    def __init__(self, cut: StoredCut, tables: Mapping[str, Table]) -> None:
        self.cut = cut
        self._tables = dict(tables)

    def __getitem__(self, name: str) -> Table:
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


def consistent(
    catalog: Catalog, source: str, at: datetime | None = None, *, log: str | None = None
) -> ConsistentTables:
    """Returns a source's tables as of one of its commits: every table at the same one.

    They cannot be written to, and stay as they are while newer changes are merged.

    Args:
        catalog: PyIceberg's, of the lake.
        source: the source's name in the configuration.
        at: the newest cut whose commit is not later, aware; None for the newest.
        log: the topic of the source's transactions, where the source has several.

    Raises:
        ConfigError: if there is no such cut, or the source has several logs.
    """
    name = cuts_name(source)
    found = catalog.load_table((name.namespace, name.name)) if _exists(catalog, name) else None
    cuts = sorted(_rows(found) if found else [], key=lambda each: each.number, reverse=True)
    logs = sorted({each.log for each in cuts})
    if log is None and len(logs) > 1:
        what, remedy = "the source has several logs", f"choose one: log= one of {', '.join(logs)}"
        raise ConfigError(what, where=f"source={source}", remedy=remedy)
    wanted = (each for each in cuts if log in {None, each.log})
    loaded = dict[LakeName, Table]()
    for cut in wanted:
        if at is not None and cut.committed_at > at:
            continue
        tables = {each.qualified: _at(catalog, each, loaded) for each in cut.tables}
        there = {key: each for key, each in tables.items() if each is not None}
        if len(there) == len(tables):
            return ConsistentTables(cut, there)
    what = "there is no consistent cut" + (f" up to {at.isoformat()}" if at else "")
    remedy = f"cdc-assets consistent list {source} says what the next one waits for"
    raise ConfigError(what, where=f"lake={name}", remedy=remedy)


def _exists(catalog: Catalog, name: LakeName) -> bool:
    return catalog.table_exists((name.namespace, name.name))


def _at(catalog: Catalog, each: CutSnapshot, loaded: dict[LakeName, Table]) -> Table | None:
    """Returns a table whose present state is the cut's; None if that is gone."""
    name = each.target
    if name not in loaded:
        if not _exists(catalog, name):
            return None
        loaded[name] = catalog.load_table((name.namespace, name.name))
    table = loaded[name]
    metadata, snapshot = table.metadata, table.snapshot_by_id(each.snapshot)
    if snapshot is None or str(metadata.table_uuid) != each.table_uuid:
        return None
    main = SnapshotRef.model_validate({"snapshot-id": each.snapshot, "type": "branch"})
    then: dict[str, Any] = {"current_snapshot_id": each.snapshot, "refs": {"main": main}}
    if snapshot.schema_id is not None:
        then["current_schema_id"] = snapshot.schema_id
    past = metadata.model_copy(update=then)
    fixed = NoopCatalog(catalog.name, **catalog.properties)
    return Table(table.name(), past, table.metadata_location, table.io, fixed)
