"""Reads the states of tables; those of unchanged tables are not read again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final

from pyiceberg.table import Table

from cdc_assets.changes.names import LakeName
from cdc_assets.effects import effect
from cdc_assets.errors import CdcError, UnreachableError
from cdc_assets.lake.connection import CatalogConnection
from cdc_assets.lake.kept import KeptMetadata
from cdc_assets.lake.pointers import NewestFiles, pointers
from cdc_assets.lake.short import Short, io_of, read_short, table_of
from cdc_assets.lake.state import TableState, ancestry_ends, read_state

_CALLS_AT_ONCE: Final = 16
_KNOWN = NewestFiles[TableState](4_096)
"""For all catalogs. This many states of tables of fifty columns take some 60 MB."""

StateRequest = tuple[LakeName, str]
"""A table, and the shard whose publishes count; empty for a table with one source table."""
Looked = TableState | CdcError | None
"""A table's state, or why it cannot be read; None if the table does not exist."""
Files = Mapping[LakeName, str]
"""The newest metadata file of each table."""
Read = Mapping[LakeName, Short | CdcError]
"""The contents of metadata files, or why they cannot be read."""


class States:
    """A reader of table states.

    Args:
        connection: to the catalog.
        kept: metadata that other processes have read.
    """

    def __init__(self, connection: CatalogConnection, kept: KeptMetadata) -> None:
        self._connection = connection
        self._kept = kept

    def state_of(self, name: LakeName, shard: str) -> TableState | None:
        """Returns a table's present state; None if it does not exist.

        Raises:
            CdcError: if it cannot be read.
        """
        files = self._files([name])
        if files is None:
            return state_in(self._loaded(name, shard))
        return state_in(self._states_in([(name, shard)], files, self._read)[0])

    def published_state(self, name: LakeName, shard: str, table: Table) -> TableState:
        """Returns the state of a table that was just published."""
        what, at = (name, shard), table.metadata_location
        with self._connection.reading(name, at):
            return _KNOWN.of(what, at) or _KNOWN.keep(what, at, read_state(name, table, shard))

    def find_states(self, wanted: Sequence[StateRequest]) -> list[Looked]:
        """Looks at many tables, in their order; keeps what it read for other processes.

        Raises:
            UnreachableError: if the catalog does not answer, or no table's metadata is to be had.
        """
        files = self._files([name for name, _ in wanted])
        if files is None:
            with ThreadPoolExecutor(_CALLS_AT_ONCE) as pool:
                found = list(pool.map(lambda each: self._loaded(*each), wanted))
        else:
            found = self._states_in(wanted, files, self._kept_or_read)
        away = [each for each in found if isinstance(each, UnreachableError)]
        if away and len(away) == len(found):
            raise away[0]
        return found

    def _files(self, names: Iterable[LakeName]) -> Files | None:
        connection = self._connection
        return connection.call("lake: look", lambda: pointers(connection.catalog, names))

    def _loaded(self, name: LakeName, shard: str) -> Looked:
        return self._connection.call("lake: load table", partial(self._load, name, shard))

    def _load(self, name: LakeName, shard: str) -> Looked:
        """Loads a table like `_loaded`, for calls within ``asked``."""
        try:
            table = self._connection.loaded(name)
            self._connection.note(name, table)
            if table is None:
                return None
            at = table.metadata_location
            what = name, shard  # a renamed table keeps its file
            if (known := _KNOWN.of(what, at)) is not None:
                return known
            with self._connection.reading(name, at):
                if ancestry_ends(table):
                    short = read_short(table.io, at)
                    table = table_of(self._connection.catalog, name, at, short)
                return _KNOWN.keep(what, at, read_state(name, table, shard))
        except CdcError as problem:
            return problem

    def _states_in(
        self,
        wanted: Sequence[StateRequest],
        files: Files,
        read: Callable[[Files], Read],
    ) -> list[Looked]:
        """Returns the states by these files, each of which is read at most once."""
        known = {each: _KNOWN.of(each, files.get(each[0])) for each in wanted}
        unknown = {name for (name, _), state in known.items() if state is None and name in files}
        said = read({name: files[name] for name in unknown})
        return [
            known[each] or (self._new(each, files, said) if each[0] in files else None)
            for each in wanted
        ]

    def _new(self, wanted: StateRequest, files: Files, read: Read) -> Looked:
        name, shard = wanted
        if name not in read:  # the table changed while it was looked at, or its file is gone
            return self._loaded(name, shard)
        at, said = files[name], read[name]
        if isinstance(said, CdcError):
            return said
        try:
            with self._connection.reading(name, at):
                table = table_of(self._connection.catalog, name, at, said)
                return _KNOWN.keep(wanted, at, read_state(name, table, shard))
        except CdcError as problem:
            return problem

    def _kept_or_read(self, files: Files) -> Read:
        kept = self._kept.of(files)
        read = self._read({name: at for name, at in files.items() if name not in kept})
        self._kept.keep({
            name: (files[name], said)
            for name, said in read.items() if not isinstance(said, CdcError)
        })  # fmt: skip
        return {**kept, **read}

    def _read(self, files: Files) -> Read:
        """Reads files; those that no longer exist are left out."""
        catalog = self._connection.catalog

        def read(item: tuple[LakeName, str]) -> tuple[LakeName, Short | CdcError | None]:
            name, at = item
            try:
                with self._connection.reading(name, at), suppress(FileNotFoundError):
                    return name, read_short(io_of(catalog, at), at)
            except CdcError as problem:
                return name, problem
            return name, None

        if not files:
            return {}
        with self._connection.reachable(), effect("lake: load table"):
            with ThreadPoolExecutor(_CALLS_AT_ONCE) as pool:
                found = list(pool.map(read, files.items()))
        return {name: said for name, said in found if said is not None}


def state_in(looked: Looked) -> TableState | None:
    """Returns the state.

    Raises:
        CdcError: if the table cannot be read.
    """
    if isinstance(looked, CdcError):
        raise looked
    return looked
