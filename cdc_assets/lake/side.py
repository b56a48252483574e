"""Reads side tables, which store a lake table's further state, and finds the entries that count.

A keyed table stores the positions of deleted keys in its side table, a table without a key the
events that it has counted. An attempt writes its entries before it publishes; then the attempt may
fail, or another may publish first. So each publish names the snapshot of the side table that
belongs to it (`SideMark`), and readers read that snapshot, never the head: the entries of an
unpublished attempt never count. A table that is rolled back finds the entries of that time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from cdc_assets.changes.names import LakeName
from cdc_assets.errors import TerminalError
from cdc_assets.lake.carried import SideMark
from cdc_assets.lake.properties import ATTEMPT, PREFIX
from cdc_assets.lake.short import expired
from cdc_assets.lake.state import ancestry

NAMESPACE: Final = "cdc_assets_tombstones"
FORGOTTEN: Final = PREFIX + "forgotten-below"
"""Property of a side table's snapshot: see `Forgettable`."""
_MOST_BYTES: Final = 240
"""Bytes of a name before the hash: a folder's name may have 255."""


def side_name(target: LakeName) -> LakeName:
    """Returns the side table's name; the hash keeps ``a.b_c`` and ``a_b.c`` apart."""
    digest = hashlib.sha256(str(target).encode()).hexdigest()[:8]
    readable = f"{target.namespace}_{target.name}".encode()[:_MOST_BYTES].decode(errors="ignore")
    return LakeName(NAMESPACE, f"{readable}_{digest}")


def side_of(target: LakeName, mark: SideMark | None) -> LakeName:
    """Returns the side table named by a publish; without one, the default for the lake table."""
    if mark is None or not mark.table:
        return side_name(target)
    namespace, _, name = mark.table.partition(".")
    return LakeName(namespace, name)


def side_lost(name: LakeName, where: str) -> TerminalError:
    """Returns the error for a needed side table that no longer exists."""
    what = f"the side table {name} is gone, and with it the state that this table needs"
    remedy = (
        "rebuild the table: cdc-assets rebuild TABLE; if the rebuild fails with this error, remove "
        "its shadow table: cdc-assets rebuild TABLE --abandon"
    )
    return TerminalError(what, where=where, remedy=remedy, page="side-table-gone")


@dataclass(frozen=True, slots=True)
class Forgettable:
    """Remembered deletes that no later change can undo.

    All changes of a key are in one partition, and those older than a delete come before it. A
    redelivery continues up to the delete, which is then remembered again. So once the log has lost
    a delete's record, it has lost everything that the delete protects against.

    Attributes:
        below: the last number of positions in the first record that any partition still has; no
            partition has a record below it.
        rows: the number of rows from which on forgetting is worthwhile.
    """

    below: int
    rows: int


@dataclass(frozen=True, slots=True)
class SideSnapshot:
    """One snapshot of a side table.

    Attributes:
        parent: None for the first.
        attempt: the attempt that wrote it.
        is_compaction: whether it has the rows of its parent.
        rows: number of rows; None if unknown.
        forgotten: the offset below which entries were removed, see `Forgettable`.
    """

    parent: int | None
    attempt: str | None
    is_compaction: bool
    rows: int | None
    forgotten: int = 0


@dataclass(frozen=True, slots=True)
class SideState:
    """One look at a side table.

    Attributes:
        name: its name.
        head: its newest snapshot.
        snapshots: the known ones.
        kept: those that are not expired.
        types: of its columns, by name, in Iceberg's spelling.
    """

    name: LakeName
    head: int | None
    snapshots: Mapping[int, SideSnapshot]
    kept: frozenset[int]
    types: Mapping[str, str] = field(default_factory=dict[str, str])

    def stands_at(self, mark: SideMark) -> bool:
        """Whether the head has exactly the entries that count."""
        at = self.head
        if mark.snapshot is None:
            return at is None or self.snapshots[at].rows == 0
        while at is not None and at != mark.snapshot:
            snapshot = self.snapshots.get(at)
            at = snapshot.parent if snapshot and snapshot.is_compaction else None
        return at is not None

    def readable(self, mark: SideMark) -> int | None:
        """Returns the snapshot with the entries that count; None if no entries count.

        Raises:
            TerminalError: if that snapshot was expired, and the head has other entries.
        """
        if mark.snapshot is None or mark.snapshot in self.kept:
            return mark.snapshot
        if self.stands_at(mark):
            return self.head
        what = f"snapshot {mark.snapshot} of the side table, which this table needs, is gone"
        remedy = "keep the snapshots of side tables; rebuild the table: cdc-assets rebuild TABLE"
        raise TerminalError(
            what, where=f"side table={self.name}", remedy=remedy, page="side-table-gone"
        )

    @property
    def forgotten(self) -> int:
        """The offset below which entries were removed; 0 if unknown."""
        at = self.head
        while at is not None and (snapshot := self.snapshots.get(at)) is not None:
            if not snapshot.is_compaction:
                return snapshot.forgotten
            at = snapshot.parent
        return 0

    def is_worth_forgetting(self, what: Forgettable) -> bool:
        """Whether the side table has enough rows, and more of them may go than the last time."""
        rows = self.snapshots[self.head].rows if self.head is not None else 0
        return (rows is None or rows >= what.rows) and what.below > self.forgotten

    def written_by(self, attempt: str) -> tuple[int, SideSnapshot] | None:
        """Returns the snapshot of an attempt."""
        found = (each for each in self.snapshots.items() if each[1].attempt == attempt)
        return next(found, None)


def read_side(name: LakeName, table: Table) -> SideState:
    """Returns the state of a loaded side table.

    Of expired snapshots it includes the compactions that the head descends from, and the snapshot
    before them: the head stands for that one.

    Raises:
        OSError: if an earlier metadata file cannot be read.
    """
    head = table.current_snapshot()
    snapshots = {each.snapshot_id: _snapshot(each) for each in table.metadata.snapshots}
    line = [each.snapshot_id for each in ancestry(table)]
    if line and all(snapshots[each].is_compaction for each in line):
        at = line[-1]
        for said in expired(table):
            older = _snapshot(Snapshot.model_validate(said))
            snapshots[at] = replace(snapshots[at], parent=said["snapshot-id"])
            at = said["snapshot-id"]
            snapshots[at] = older
            if not older.is_compaction:
                break
    kept = frozenset(each.snapshot_id for each in table.metadata.snapshots)
    types = {each.name: str(each.field_type) for each in table.schema().fields}
    return SideState(name, head.snapshot_id if head else None, snapshots, kept, types)


def _snapshot(snapshot: Snapshot) -> SideSnapshot:
    summary = snapshot.summary
    said = summary.additional_properties if summary else {}
    rows = said.get("total-records")
    return SideSnapshot(
        parent=snapshot.parent_snapshot_id,
        attempt=said.get(ATTEMPT),
        is_compaction=summary is not None and summary.operation is Operation.REPLACE,
        rows=None if rows is None else int(rows),
        forgotten=int(said.get(FORGOTTEN, "0")),
    )
