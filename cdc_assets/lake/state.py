"""Reads the replication state of an Iceberg table without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.types import NestedField

from cdc_assets.changes.names import LakeName
from cdc_assets.lake.properties import OFFSETS, PREFIX, OtherShards, Published
from cdc_assets.lake.shadow_progress import ShadowProgress
from cdc_assets.schema.file_layout import SortTerm, Term, Transform

_DELETES_GO_WITH_THEIR_FILES: Final = 3
"""From this format version on, a data file that is removed takes its deletion vector with it, so
deletes never count rows that do not exist. https://iceberg.apache.org/spec/#deletion-vectors"""


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column of the lake, with Iceberg's spelling of its type."""

    name: str
    type: str
    required: bool
    comment: str


_NUMBERED: Final = re.compile(r"(bucket|truncate)\[(\d+)\]")
_KNOWN: Final = frozenset(each.value for each in Transform)


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A field of a table's present partition; ``term`` is None if it is none that we write."""

    name: str
    term: Term | None


@dataclass(frozen=True, slots=True)
class TableState:
    """One look at a table.

    Attributes:
        name: of the table.
        snapshot_id: the head of ``main``; a publish succeeds only while it still is.
        published: the record of the newest of our publishes in ``main``'s ancestry; None if
            there is none, which means that somebody else made the table. If several tables are
            merged into it, of the requested shard.
        others: the records of the other shards; empty if there are none.
        columns: in order, ours (``_cdc_…``) included.
        key: names of the identifier fields, in column order.
        properties: of the table.
        location: of its files.
        is_empty: whether the head has no data files at all. Counting rows would not prove it:
            deletes of format version 2 may outlive the files that they belong to.
        total_records: rows by the head's own count, without deleted ones; None if unknown.
        head_columns: column names in the head, by present names. Reading a snapshot uses its own
            columns: some may have been added or renamed since.
        is_lost: whether it is ours, but no publish of any shard is known any more.
        files: data files by the head's own count; None if unknown.
        head_types: types in the head, by present names, in Iceberg's spelling: a column may have
            been widened since.
        format_version: of Iceberg; None if unknown.
        delete_files: files of the head that mark rows as deleted, by its own count; None if
            unknown.
        partition: the fields by which new files are partitioned.
        sort_order: the order of rows in new files; empty without one, or one that we do not write.
        bound: columns that a partition, past or present, or the sort order uses.
        partition_names: names of the fields of all partitions, past or present.
        published_columns: present names of the columns that the newest publish had, by their names
            then; None for those that are gone.
    """

    name: LakeName
    snapshot_id: int | None
    published: Published | None
    others: OtherShards
    columns: tuple[LakeColumn, ...]
    key: tuple[str, ...]
    properties: Mapping[str, str]
    location: str
    is_empty: bool
    total_records: int | None
    head_columns: Mapping[str, str]
    is_lost: bool = False
    files: int | None = None
    head_types: Mapping[str, str] = field(default_factory=dict[str, str])
    format_version: int | None = None
    delete_files: int | None = None
    partition: tuple[PartitionField, ...] = ()
    sort_order: tuple[SortTerm, ...] = ()
    bound: frozenset[str] = frozenset()
    partition_names: frozenset[str] = frozenset()
    published_columns: Mapping[str, str | None] = field(default_factory=dict[str, str | None])

    @property
    def reading(self) -> ShadowProgress | None:
        """How far a shadow table is read from its source; None if it is none.

        Until its log is merged, the head counts the rows that were read.
        """
        said = self.published.carried.shadow if self.published else None
        if said is None or said.until is not None or self.total_records is None:
            return said
        return replace(said, rows=self.total_records)

    @property
    def parted_by(self) -> tuple[Term, ...]:
        """The terms of the partition."""
        return tuple(each.term for each in self.partition if each.term)

    @classmethod
    def absent(cls, name: LakeName) -> TableState:
        """Returns the state of a table that does not exist: without columns, rows and publishes."""
        return cls(
            name=name, snapshot_id=None, published=None, others={}, columns=(), key=(),
            properties={}, location="", is_empty=True, total_records=0, head_columns={}, files=0,
        )  # fmt: skip


def read_state(name: LakeName, table: Table, shard: str) -> TableState:
    """Returns the state of a loaded table, for one of its shards.

    Raises:
        OSError: if it seems to be empty, and its list of manifests cannot be read.
    """
    head = table.current_snapshot()
    last = next((each for each in ancestry(table) if OFFSETS in _summary(each)), None)
    newest = published_by(last) if last else None
    schema = table.schema()
    keys = set(schema.identifier_field_names())
    at_head = _columns_at(table, head)
    return TableState(
        name=name,
        snapshot_id=head.snapshot_id if head else None,
        published=newest.of_shard(shard) if newest else None,
        others=newest.others_than(shard) if newest else {},
        columns=tuple(
            LakeColumn(f.name, str(f.field_type), f.required, f.doc or "") for f in schema.fields
        ),
        key=tuple(f.name for f in schema.fields if f.name in keys),
        properties=dict(table.properties),
        location=table.location(),
        is_empty=_is_empty(table, head),
        total_records=_total_records(head, table.metadata.format_version),
        head_columns={now: each.name for now, each in at_head.items()},
        is_lost=bool(head) and not newest and any(n.startswith(PREFIX) for n in table.properties),
        files=_count(head, "total-data-files"),
        head_types={now: str(each.field_type) for now, each in at_head.items()},
        format_version=table.metadata.format_version,
        delete_files=_count(head, "total-delete-files"),
        partition=tuple(
            PartitionField(each.name, _term(table, each.source_id, each.transform))
            for each in table.spec().fields
            if str(each.transform) != "void"
        ),
        sort_order=_sort_order(table),
        bound=_bound(table),
        partition_names=frozenset(f.name for spec in table.specs().values() for f in spec.fields),
        published_columns=_columns_of(table, last),
    )


def _term(table: Table, source: int, transform: object) -> Term | None:
    """Returns a transform of a column; None for others than we write."""
    column = next((each.name for each in table.schema().fields if each.field_id == source), None)
    numbered = _NUMBERED.fullmatch(str(transform))
    kind, number = (numbered[1], int(numbered[2])) if numbered else (str(transform), 0)
    known = kind in _KNOWN and column is not None
    return Term(Transform(kind), column or "", number) if known else None


def _sort_order(table: Table) -> tuple[SortTerm, ...]:
    found = list[SortTerm]()
    for each in table.sort_order().fields:
        term = _term(table, each.source_id, each.transform)
        if term is None:
            return ()
        descending = each.direction is SortDirection.DESC
        found.append(SortTerm(term, descending, each.null_order is NullOrder.NULLS_FIRST))
    return tuple(found)


def _bound(table: Table) -> frozenset[str]:
    used = {each.source_id for spec in table.specs().values() for each in spec.fields}
    used |= {each.source_id for each in table.sort_order().fields}
    return frozenset(each.name for each in table.schema().fields if each.field_id in used)


def publishes(table: Table, head: int | None = None) -> Iterator[Published]:
    """Yields our publishes in the `ancestry` of a snapshot, newest first."""
    for snapshot in ancestry(table, head):
        published = published_by(snapshot)
        if published is not None:
            yield published


def published_by(snapshot: Snapshot) -> Published | None:
    """Returns the record in a snapshot of ours; None for those of others."""
    summary = _summary(snapshot)
    return Published.from_properties(summary) if OFFSETS in summary else None


def ancestry(table: Table, head: int | None = None) -> Iterator[Snapshot]:
    """Yields snapshots from a head back to the oldest that is kept.

    Args:
        table: as loaded.
        head: the snapshot to begin with; None for the head of ``main``.
    """
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    snapshot = table.current_snapshot() if head is None else by_id.get(head)
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = by_id.get(parent) if parent else None


def ancestry_ends(table: Table) -> bool:
    """Returns whether our relevant snapshots may be among the expired ones.

    The parent of one that is expired may be left out: see `cdc_assets.lake.short`.
    """
    oldest = None
    for oldest in ancestry(table):
        if published_by(oldest) is not None:
            return False
    return oldest is not None and oldest.sequence_number != 1


def _summary(snapshot: Snapshot) -> Mapping[str, str]:
    return snapshot.summary.additional_properties if snapshot.summary else {}


def _count(head: Snapshot | None, name: str) -> int | None:
    said = _summary(head).get(name) if head else "0"
    return None if said is None else int(said)


def _is_empty(table: Table, head: Snapshot | None) -> bool:
    """Whether a table has no data files.

    A snapshot's own count is not enough: some writers count wrongly, and others add to that. See
    https://github.com/apache/iceberg-python/issues/1845

    Raises:
        OSError: if the list of manifests cannot be read.
    """
    if head is None or _count(head, "total-data-files") != 0:
        return head is None
    data = (each for each in head.manifests(table.io) if each.content is ManifestContent.DATA)
    return not any(each.has_added_files() or each.has_existing_files() for each in data)


def _columns_at(table: Table, head: Snapshot | None) -> dict[str, NestedField]:
    """Returns the head's columns by present names, matched by field ids."""
    written = table.schemas().get(head.schema_id) if head and head.schema_id is not None else None
    there = {each.field_id: each for each in (written or table.schema()).fields}
    now = table.schema().fields
    return {each.name: there[each.field_id] for each in now if each.field_id in there}


def _columns_of(table: Table, past: Snapshot | None) -> dict[str, str | None]:
    """Returns the present names of a snapshot's columns, by their names then."""
    then = table.schemas().get(past.schema_id) if past and past.schema_id is not None else None
    now = {each.field_id: each.name for each in table.schema().fields}
    return {each.name: now.get(each.field_id) for each in then.fields} if then else {}


def _total_records(head: Snapshot | None, format_version: int) -> int | None:
    if head is None:
        return 0
    summary = _summary(head)
    if "total-records" not in summary or int(summary.get("total-equality-deletes", "0")):
        return None
    deleted = int(summary.get("total-position-deletes", "0"))
    if deleted and format_version < _DELETES_GO_WITH_THEIR_FILES:
        return None
    return int(summary["total-records"]) - deleted
