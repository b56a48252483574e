"""Reads only the part of a table's metadata that its state needs.

A metadata file lists every snapshot that is kept, and a busy table keeps thousands. Its state is
in the newest one that we have published, most often the head itself.

If somebody has compacted the table and expired the snapshots before, the head's ancestry ends too
early. Earlier metadata files have the rest, as long as they are kept
(``write.metadata.previous-versions-max``): expiring removes snapshots, and the files of rows.
PyIceberg, which expires snapshots too, takes from the others the parents that are gone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, pairwise
from typing import Any, Final

from pyiceberg.catalog import Catalog
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.serializers import Compressor
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataUtil

from cdc_assets.changes.names import LakeName
from cdc_assets.lake.properties import OFFSETS
from cdc_assets.lake.state import ancestry

Short = Mapping[str, Any]
"""Iceberg's table metadata, in the form of its file, with the snapshots that `shortened` leaves."""

_NONE: Final = -1
"""Format version 1's value for "no snapshot"."""

_LISTS: Final = ("snapshot-log", "metadata-log", "statistics", "partition-statistics")


def read_short(io: FileIO, at: str) -> Short:
    """Reads a metadata file, shortened, with what earlier files say of its snapshots.

    Raises:
        OSError: if it cannot be read; FileNotFoundError if it no longer exists.
    """
    return shortened(_read(io, at), partial(_read, io))


def shortened(said: Short, earlier: Callable[[str], Short]) -> Short:
    """Removes the logs, and snapshots beyond our newest publish in ``main``'s ancestry.

    Args:
        said: content of a metadata file.
        earlier: reads the content of another one.

    Raises:
        OSError: if an existing file cannot be read.
    """
    line = list(_newest(said, earlier))
    snapshots = [
        *({**each, "parent-snapshot-id": parent["snapshot-id"]} for each, parent in pairwise(line)),
        *line[-1:],
    ]
    used = {said.get("current-schema-id"), *(each.get("schema-id") for each in snapshots)}
    kept = {name: value for name, value in said.items() if name not in _LISTS}
    kept["snapshots"] = snapshots
    kept["refs"] = {name: ref for name, ref in said.get("refs", {}).items() if name == "main"}
    if "schemas" in said:  # which a table of format version 1 may lack
        kept["schemas"] = [each for each in said["schemas"] if each["schema-id"] in used]
    return kept


def table_of(catalog: Catalog, name: LakeName, at: str, short: Short) -> Table:
    """Returns the table as PyIceberg represents it."""
    metadata = TableMetadataUtil.parse_obj(dict(short))
    return Table((name.namespace, name.name), metadata, at, io_of(catalog, at), catalog)


def io_of(catalog: Catalog, at: str) -> FileIO:
    """Returns access to files with the catalog's settings."""
    return load_file_io(catalog.properties, at)


def _read(io: FileIO, at: str) -> Short:
    file = io.new_input(at)
    with file.open() as raw, Compressor.get_compressor(at).stream_decompressor(raw) as plain:
        return json.loads(plain.read())


def expired(table: Table) -> Iterator[Mapping[str, Any]]:
    """Yields the known snapshots in ``main``'s ancestry before the oldest one kept.

    Raises:
        OSError: if an existing file cannot be read.
    """
    line = list(ancestry(table))
    if not line:
        return
    oldest = line[-1]
    known = _by_id({"snapshots": [oldest.model_dump(by_alias=True)]})
    files = [each.metadata_file for each in table.metadata.metadata_log]
    yield from islice(
        _ancestry(oldest.snapshot_id, known, files, partial(_read, table.io)), 1, None
    )


def _newest(said: Short, earlier: Callable[[str], Short]) -> Iterator[Mapping[str, Any]]:
    """Yields snapshots from the head of ``main`` back to our newest publish."""
    files = [each["metadata-file"] for each in said.get("metadata-log", ())]
    for found in _ancestry(said.get("current-snapshot-id"), _by_id(said), files, earlier):
        yield found
        if OFFSETS in found.get("summary", {}):
            return


def _ancestry(
    wanted: int | None,
    known: Mapping[int, Mapping[str, Any]],
    files: Sequence[str],
    earlier: Callable[[str], Short],
) -> Iterator[Mapping[str, Any]]:
    """Yields snapshots from one back, as far as this file and earlier ones know them.

    A snapshot's parent never changes, so any file may supply it. Where one is left out, but for the
    table's first snapshot, the files before tell whether it was taken away.
    """
    left = reversed(files)
    while wanted is not None and wanted != _NONE:
        while wanted not in known:
            try:
                known = _by_id(earlier(next(left)))
            except (StopIteration, FileNotFoundError):  # the oldest are removed first
                return
        yield (at := known[wanted])
        while _has_no_parent(at) and at.get("sequence-number") != 1:
            try:
                known = _by_id(earlier(next(left)))
            except (StopIteration, FileNotFoundError):
                return
            if wanted not in known:  # files before this snapshot
                return
            at = known[wanted]
        wanted = at.get("parent-snapshot-id")


def _has_no_parent(snapshot: Mapping[str, Any]) -> bool:
    return snapshot.get("parent-snapshot-id") in {None, _NONE}


def _by_id(said: Short) -> dict[int, Mapping[str, Any]]:
    return {each["snapshot-id"]: each for each in said.get("snapshots", ())}
