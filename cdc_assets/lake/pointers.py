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
        self._found: OrderedDict[Hashable, T] = OrderedDict()

    def of(self, key: Hashable) -> T | None:
        """Returns an entry; None if it was not used lately."""
        with self._lock:
            if (found := self._found.get(key)) is not None:
                self._found.move_to_end(key)
            return found

    def keep(self, key: Hashable, found: T) -> T:
        """Stores an entry and returns it."""
        with self._lock:
            self._found[key] = found
            if len(self._found) > self._most:
                self._found.popitem(last=False)
        return found
