"""Keeps tables' metadata, once read, for later processes.

Commands, and each start of Dagster's daemon, look at all tables, most of which have not changed
since. The file is next to the registry if that is local. A user may remove the file at any
time: nothing fails without it.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar

from fsspec.implementations.local import LocalFileSystem

from cdc_assets.changes.names import LakeName
from cdc_assets.files import files_at
from cdc_assets.lake.short import Short

T = TypeVar("T")

log = logging.getLogger(__name__)

_BUSY_SECONDS: Final = 0.5
_TABLE: Final = """create table if not exists metadata (
    namespace text, name text, at text not null, said text not null, primary key (namespace, name)
)"""
_PUT: Final = "insert or replace into metadata values (?, ?, ?, ?)"


class KeptMetadata:
    """A store of shortened metadata by table, from the table's newest metadata file read so far.

    Args:
        registry: the registry's path or URL.
    """

    def __init__(self, registry: str) -> None:
        files, path = files_at(registry)
        is_local = isinstance(files, LocalFileSystem)
        self._file = Path(f"{path}.metadata.sqlite") if is_local else None

    def of(self, pointers: Mapping[LakeName, str]) -> dict[LakeName, Short]:
        """Returns the contents of these files; those not read yet are left out."""

        def look(database: sqlite3.Connection) -> dict[LakeName, Short]:
            found = dict[LakeName, Short]()
            for namespace, name, at, said in database.execute("select * from metadata"):
                each = LakeName(namespace, name)
                if pointers.get(each) == at:
                    found[each] = json.loads(said)
            return found

        return (self._tried(look) or {}) if pointers else {}

    def keep(self, read: Mapping[LakeName, tuple[str, Short]]) -> None:
        """Replaces the stored metadata of these tables by the contents of these files."""
        rows = [(n.namespace, n.name, at, json.dumps(said)) for n, (at, said) in read.items()]

        def put(database: sqlite3.Connection) -> None:
            with database:
                database.executemany(_PUT, rows)

        if rows:
            self._tried(put)

    def _tried(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Returns the result of work on the file; None on failure, which only costs time."""
        if self._file is None:
            return None
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._file, timeout=_BUSY_SECONDS)) as database:
                database.execute("pragma synchronous = off")
                database.execute(_TABLE)
                return work(database)
        except (sqlite3.Error, OSError) as error:
            log.warning("%s is not used (%s) → if this happens again, remove it", self._file, error)
            return None
