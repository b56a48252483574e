"""Judges what the lake's readers, and the maintenance of its catalog's own, make of its tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cdc_assets.config.platform import LakeConfig
from cdc_assets.operate.assess.finding import Finding, Obstacle, Rule, Subject, Verdict, judged
from cdc_assets.schema.file_layout import DeleteMode
from cdc_assets.schema.readers import READERS

if TYPE_CHECKING:
    from cdc_assets.lake import TableState

_S3_TABLES: Final = re.compile(r"^arn:aws[\w-]*:s3tables:|//s3tables\.|\bs3tablescatalog\b")


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table that is there, and who reads it.

    Attributes:
        at: the place.
        version: its format version.
        is_marked: whether its head has files that mark rows as deleted.
        readers: names of its readers.
    """

    at: Subject
    version: int
    is_marked: bool
    readers: tuple[str, ...]


def judge_readers(
    at: Subject, readers: tuple[str, ...], state: TableState | None
) -> Iterator[Finding]:
    """Yields a finding for each reader that would not read a table's rows."""
    if state is None or state.format_version is None or not readers:
        return
    table = ReadTable(at, state.format_version, bool(state.delete_files), readers)
    yield from judged(READ, at, table)


def judge_catalog(at: Subject, lake: LakeConfig) -> Iterator[Finding]:
    """Yields a finding on a catalog that maintains tables by itself."""
    return judged(MAINTAINED, at, lake)


def _unread(table: ReadTable) -> Iterable[Obstacle]:
    for each in table.readers:
        if fault := READERS[each].fault(table.version, DeleteMode.COPY_ON_WRITE):
            yield Obstacle(fault, words={"table": str(table.at)})


def _unapplied(table: ReadTable) -> Iterable[Obstacle]:
    for each in table.readers if table.is_marked else ():
        reader = READERS[each]
        fault = reader.fault(table.version, DeleteMode.MERGE_ON_READ)
        if fault and table.version <= reader.newest:
            yield Obstacle(f"{fault}; the table has some", words={"table": str(table.at)})


def _s3_tables(lake: LakeConfig) -> str:
    catalog = lake.catalog
    said = (lake.warehouse, catalog.uri, *catalog.properties.values())
    found = any(_S3_TABLES.search(each) for each in said if isinstance(each, str))
    return "the tables are in S3 Tables, which maintains them by itself" if found else ""


READ: Final[tuple[Rule[ReadTable], ...]] = (
    Rule(
        "reader_version", Verdict.NO, "a table's format version, and `lake.readers`", _unread,
        "the table cannot be read there, and no table goes back to an earlier version",
        "recreate it in a version that all readers read: "
        "cdc-assets reset --table {table}; or remove the reader from lake.readers",
    ),
    Rule(
        "reader_deletes", Verdict.NO, "delete files, and `lake.readers`", _unapplied,
        "rows that are deleted may be seen there",
        "merge the table once, then write its files again: cdc-assets compact {table} --rewrite",
    ),
)  # fmt: skip
MAINTAINED: Final[tuple[Rule[LakeConfig], ...]] = (
    Rule(
        "s3_tables", Verdict.PARTIAL, "a catalog of S3 Tables", _s3_tables,
        "snapshots expire after 120 hours, but for one, whatever cuts, tags and delete markers "
        "need; files are compacted at any time, and batches in progress are planned again",
        "disable icebergSnapshotManagement and icebergCompaction for these tables and those in "
        "cdc_assets_tombstones (aws s3tables put-table-maintenance-configuration), or see "
        "docs/engines.md; then accept this",
    ),
)  # fmt: skip
