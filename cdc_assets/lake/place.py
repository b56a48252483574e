"""Looks whether other tables have files below a table's location.

A table that was taken out of the catalog keeps its files, and can be registered again, under any
name and in any catalog. Another one that was given its name meanwhile is at the same location, if
the catalog chooses locations by names. The files of both look alike, but for the uuid in each
table's metadata.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from pyiceberg.io import FileIO
from pyiceberg.table import Table

from cdc_assets.errors import TerminalError

_METADATA: Final = "metadata"
_DATA: Final = "data"
_SUFFIX: Final = ".metadata.json"
_PACKED: Final = ".gz.metadata.json"
_UUID: Final = re.compile(rb'"table-uuid"\s*:\s*"([0-9A-Fa-f-]{36})"')
_BY_HOST: Final = frozenset({"abfs", "abfss", "wasb", "wasbs"})
"""Schemes whose account is a part of the URL's host."""
_BEGINNING_BYTES: Final = 1 << 14
"""Writers put the uuid first, or right after the location."""


@dataclass(frozen=True, slots=True)
class TablePlace:
    """A table's location.

    Attributes:
        location: URL of the table's folder.
        foreign: metadata files of other tables that name snapshots, in the location's own
            ``metadata`` or in a folder next to the location's ``data``.
    """

    location: str
    foreign: tuple[str, ...]

    @property
    def is_listed_by_prefix(self) -> bool:
        """Whether only Iceberg may list the location's files: Spark may not support the scheme."""
        scheme, separator, _ = self.location.partition(":")
        return bool(separator) and scheme not in {"file", "hdfs", "viewfs"}


def place_of(table: Table) -> TablePlace:
    """Returns the place of a loaded table.

    The table's own metadata files are recognised by its log; only others are read. Those without
    a snapshot do not count: writers leave some that were beaten when they created the table.

    Raises:
        OSError: if a folder or a file cannot be read.
        TerminalError: if this kind of files cannot be listed.
    """
    location = table.location().rstrip("/")
    logged = (each.metadata_file for each in table.metadata.metadata_log)
    own = {_name(each) for each in (table.metadata_location, *logged)}
    nested = (
        f"{location}/{name}/{_METADATA}"
        for name, is_folder in _listed(table.io, location)
        if is_folder and name not in {_DATA, _METADATA}
    )
    foreign = [
        f"{folder}/{name}"
        for folder in (f"{location}/{_METADATA}", *nested)
        for name, _ in _listed(table.io, folder)
        if name.endswith(_SUFFIX) and name not in own and _is_foreign(table, f"{folder}/{name}")
    ]
    return TablePlace(table.location(), tuple(sorted(foreign)))


def _name(location: str) -> str:
    return location.rpartition("/")[2]


def _is_foreign(table: Table, location: str) -> bool:
    """Whether a metadata file is of another table that has had rows."""
    own = str(table.metadata.table_uuid)
    with table.io.new_input(location).open() as file:
        beginning = file.read(_BEGINNING_BYTES)
        found = _UUID.search(beginning)
        if found is not None and found[1].decode().lower() == own:
            return False
        whole = beginning + file.read()
    try:
        said = json.loads(gzip.decompress(whole) if location.endswith(_PACKED) else whole)
    except (ValueError, EOFError):  # half a file: no table's newest metadata
        return False
    return said.get("table-uuid") != own and bool(said.get("snapshots"))


def _listed(io: FileIO, folder: str) -> Iterator[tuple[str, bool]]:
    """Yields names in a folder, each with whether it is a folder; nothing if there is none."""
    from pyiceberg.io.fsspec import FsspecFileIO

    if isinstance(io, FsspecFileIO):
        url = urlsplit(folder)
        files = io.get_fs(url.scheme or "file", url.hostname if url.scheme in _BY_HOST else None)
        files.invalidate_cache()
        found = files.ls(folder, detail=True) if files.exists(folder) else []
        yield from (
            (_name(each["name"].rstrip("/")), each["type"] == "directory") for each in found
        )
        return
    from pyarrow.fs import FileSelector, FileType
    from pyiceberg.io.pyarrow import PyArrowFileIO

    if not isinstance(io, PyArrowFileIO):
        what = f"the files of the table cannot be listed through {type(io).__name__}"
        remedy = "set py-io-impl in lake.catalog.properties to one of PyIceberg's own"
        raise TerminalError(what, where=folder, remedy=remedy)
    scheme, host, path = io.parse_location(folder, io.properties)
    chosen = FileSelector(path, allow_not_found=True)
    for each in io.fs_by_scheme(scheme, host).get_file_info(chosen):
        yield each.base_name, each.type is FileType.Directory
