"""Detects that nothing changed without reading a table.

Each commit to an Iceberg table writes a metadata file with a name of its own, and makes the catalog
point to it. So the contents of such a file stay valid, and the pointer is enough to know that it is
still the newest. A catalog in a database returns pointers for the price of a row; others return
them with the whole table, whose state then need not be computed again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from threading import Lock
from typing import Final, Generic, TypeVar

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from cdc_assets.changes.names import LakeName

T = TypeVar("T")

_NAMES_AT_ONCE: Final = 400
"""Databases limit the parameters of a statement, SQLite to 999 before its version 3.32."""


def pointers(catalog: Catalog, names: Iterable[LakeName]) -> Mapping[LakeName, str] | None:
    """Returns the newest metadata files of those tables that exist.

    Returns:
        None if the tables would have to be loaded to know.

    Raises:
        SQLAlchemyError: if the catalog does not answer.
    """
    if not isinstance(catalog, SqlCatalog):
        return None
    wanted, found = sorted(set(names)), dict[LakeName, str]()
    with Session(catalog.engine) as session:
        for begin in range(0, len(wanted), _NAMES_AT_ONCE):
            some = frozenset(wanted[begin : begin + _NAMES_AT_ONCE])
            for namespace, name, at in session.execute(_around(catalog.name, some)):
                if at is not None and (each := LakeName(namespace, name)) in some:
                    found[each] = at
    return found


def _around(catalog: str, names: Iterable[LakeName]) -> Select[str, str, str | None]:
    """Selects tables by namespace and by name separately: not every database compares pairs."""
    row = IcebergTables
    chosen = select(row.table_namespace, row.table_name, row.metadata_location)
    return chosen.where(
        row.catalog_name == catalog,
        row.table_namespace.in_({each.namespace for each in names}),
        row.table_name.in_({each.name for each in names}),
    )


class Recent(Generic[T]):
    """A bounded cache of what was last read, by metadata files. Threads may share it.

    Args:
        most: the most entries.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._entries: OrderedDict[Hashable, T] = OrderedDict()

    def of(self, key: Hashable) -> T | None:
        """Returns an entry; None if it was not used lately."""
        with self._lock:
            if (found := self._entries.get(key)) is not None:
                self._entries.move_to_end(key)
            return found

    def keep(self, key: Hashable, found: T) -> T:
        """Stores an entry and returns it."""
        with self._lock:
            self._entries[key] = found
            if len(self._entries) > self._most:
                self._entries.popitem(last=False)
        return found


class NewestFiles(Generic[T]):
    """What was read of tables, each from one metadata file: the file that was read last.

    A busy table writes a file every few seconds, and what was read from its former ones is never
    asked for again. Threads may share it, and catalogs, as no two have files in one folder.

    Args:
        most: the most tables.
    """

    def __init__(self, most: int) -> None:
        self._recent: Recent[tuple[str, T]] = Recent(most)

    def of(self, what: Hashable, file: str | None) -> T | None:
        """Returns what was read of a table from this file; None if it was another, or none."""
        found = self._recent.of(_key(what, file)) if file is not None else None
        return found[1] if found is not None and found[0] == file else None

    def keep(self, what: Hashable, file: str, found: T) -> T:
        """Stores what was read of a table, instead of what there was of it, and returns it."""
        self._recent.keep(_key(what, file), (file, found))
        return found


def _key(what: Hashable, file: str) -> Hashable:
    return file.rpartition("/")[0], what
