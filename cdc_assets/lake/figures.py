"""Reads a table's figures: its files, from the manifests of the head, and its snapshots."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import zip_longest
from typing import Final

from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table

from cdc_assets.changes.upkeep import (
    SHARE_OF_TARGET,
    TINY,
    Figures,
    PastSnapshot,
    SnapshotHistory,
    most_in_a_partition,
)
from cdc_assets.lake.branches import dead_branches
from cdc_assets.lake.properties import OFFSETS

_REMOVES: Final = "gc.enabled"
_TARGET: Final = "write.target-file-size-bytes"
_TARGET_BYTES: Final = 512 << 20
"""Iceberg's own default."""


def read_figures(table: Table, own: re.Pattern[str], named: Collection[int]) -> Figures:
    """Reads the figures of a loaded table.

    Args:
        table: with all its snapshots.
        own: the form of our branches' names.
        named: snapshots that are needed elsewhere.

    Raises:
        OSError: if a manifest cannot be read.
    """
    head = table.current_snapshot()
    manifests = head.manifests(table.io) if head else []
    files = [each.data_file for m in manifests for each in m.fetch_manifest_entry(table.io)]
    data = [each for each in files if each.content is DataFileContent.DATA]
    deletes = [each for each in files if each.content is DataFileContent.POSITION_DELETES]
    sizes = [(repr(each.partition), each.file_size_in_bytes) for each in data]
    below = small_below(table)
    undersized = [size for _, size in sizes if size < below]
    return Figures(
        files=len(data),
        file_bytes=sum(size for _, size in sizes),
        tiny=most_in_a_partition(sizes, 0, TINY),
        small=most_in_a_partition(sizes, TINY, below),
        rows=sum(each.record_count for each in data),
        marked=sum(each.record_count for each in deletes),
        manifests=len(manifests),
        metadata_bytes=len(table.io.new_input(table.metadata_location)),
        history=history_of(table, named),
        dead_branches=dead_branches(table, own, head.snapshot_id if head else None),
        undersized=len(undersized),
        undersized_bytes=sum(undersized),
        format_version=table.metadata.format_version,
        is_sorted=bool(table.sort_order().fields),
        shares_files=table.properties.get(_REMOVES, "true").lower() == "false",
    )


def small_below(table: Table) -> int:
    """Returns the bytes below which a file is smaller than a table's files are to be."""
    return round(int(table.properties.get(_TARGET, _TARGET_BYTES)) * SHARE_OF_TARGET)


def history_of(table: Table, named: Collection[int]) -> SnapshotHistory:
    """Returns the snapshots of a loaded table."""
    metadata = table.metadata
    log = metadata.snapshot_log
    ends = [each.timestamp_ms for each in log[1:]]
    return SnapshotHistory(
        head=metadata.current_snapshot_id,
        snapshots={
            each.snapshot_id: PastSnapshot(
                each.parent_snapshot_id,
                each.timestamp_ms,
                each.summary is not None and OFFSETS in each.summary.additional_properties,
            )
            for each in metadata.snapshots
        },
        heads={each.snapshot_id: (each.timestamp_ms, end) for each, end in zip_longest(log, ends)},
        refs=tuple(ref.snapshot_id for name, ref in metadata.refs.items() if name != "main"),
        named=tuple(named),
    )
