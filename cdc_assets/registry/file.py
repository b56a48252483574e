"""Keeps the registry's document at a path or URL, replaced atomically."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, cast

from cdc_assets.changes.names import TableName
from cdc_assets.changes.renamed import RenamedTable
from cdc_assets.effects import effect
from cdc_assets.errors import TerminalError, UnreachableError
from cdc_assets.files import (
    LockedError,
    ReplacedError,
    as_os_errors,
    files_at,
    one_at_a_time,
    replace_read,
    version_of,
)
from cdc_assets.registry.document import from_document, to_document
from cdc_assets.registry.entries import Beginning, Dropped, OtherTopic, TableEntry
from cdc_assets.registry.tables import Registry

LOCK_SECONDS: Final = 30.0
"""A change of the registry takes milliseconds, and a sensor's tick ends after a minute."""
_TRIES: Final = 50
"""Tries of a change of the file. Each failed try has seen another process succeed."""


class RegistryFile:
    """The registry at a path or fsspec URL.

    Replacing it is atomic if the file system can rename or puts whole objects. It is replaced only
    if it is what was read, so that no change is lost to another process: what it remembers of
    tables that were reset, renamed or dropped is found out by nobody again. See `cdc_assets.files`.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._files, self._path = files_at(url)
        self._last: tuple[bytes, Registry] | None = None

    def load(self) -> Registry:
        """Returns the stored registry; an empty registry if none is stored yet.

        Raises:
            UnreachableError: if the place does not answer.
            TerminalError: if the file is not a registry.
        """
        try:
            with as_os_errors():
                content = cast("bytes", self._files.cat_file(self._path))
        except FileNotFoundError:
            return Registry()
        except OSError as error:
            raise self._unreachable(action="read") from error
        last = self._last
        if last is not None and last[0] == content:  # sensors read it every few seconds
            return last[1]
        try:
            found = from_document(content.decode())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            msg = "the registry is not readable as one"
            remedy = (
                "restore it from a copy. Discovery writes a deleted registry again, without the "
                "notes about renamed, dropped or reset tables: rebuild such tables"
            )
            raise TerminalError(
                msg, where=self.url, remedy=remedy, page="registry-unreadable"
            ) from error
        self._last = (content, found)
        return found

    def add(self, entries: Iterable[TableEntry]) -> Registry:
        """Adds entries of new tables, and returns the registry as stored.

        Raises:
            UnreachableError: if the place does not answer.
            TerminalError: if two tables would share a lake name; nothing is stored.
        """
        new = tuple(entries)
        return self._changed(lambda before: before.with_entries(new))

    def set_aside(self, others: Iterable[OtherTopic], tables: Iterable[TableName] = ()) -> Registry:
        """Records topics that are no tables, and removes the tables registered for them by mistake.

        Returns the registry as stored.

        Raises:
            UnreachableError: if the place does not answer.
        """
        gone, found = tuple(tables), tuple(others)
        return self._changed(lambda before: before.without(gone).with_others(found))

    def share(self, topic: str) -> Registry:
        """Records that a topic holds records of several tables; returns the registry as stored.

        Raises:
            UnreachableError: if the place does not answer.
        """
        return self._changed(lambda before: before.with_shared(topic))

    def mark_dropped(self, dropped: Mapping[TableName, Dropped | None]) -> Registry:
        """Records which tables their sources no longer have, and returns the registry as stored.

        Raises:
            UnreachableError: if the place does not answer.
        """
        return self._changed(lambda before: before.with_dropped(dropped))

    def comment(self, comments: Mapping[TableName, str]) -> Registry:
        """Records the comments of tables, and returns the registry as stored.

        Raises:
            UnreachableError: if the place does not answer.
        """
        return self._changed(lambda before: before.with_comments(comments))

    def begin(self, table: TableName, begins: Beginning) -> Registry:
        """Records where a table begins in its topic, and returns the registry as stored.

        Raises:
            UnreachableError: if the place does not answer.
        """
        return self._changed(lambda before: before.with_beginning(table, begins))

    def rename(self, table: TableName, renamed: RenamedTable) -> Registry:
        """Records a table's present name at its source, and returns the registry as stored.

        Raises:
            UnreachableError: if the place does not answer.
        """
        return self._changed(lambda before: before.with_renamed(table, renamed))

    def remove(self, tables: Iterable[TableName]) -> Registry:
        """Removes tables, and returns the registry as stored.

        Raises:
            UnreachableError: if the place does not answer.
        """
        gone = tuple(tables)
        return self._changed(lambda before: before.without(gone))

    def _changed(self, change: Callable[[Registry], Registry]) -> Registry:
        """Applies a change to the stored registry, unless the change leaves the registry as it is.

        Made again on what another process has put there meanwhile.
        """
        try:
            for _ in range(_TRIES):
                with one_at_a_time(self._files, self._path, LOCK_SECONDS):
                    version = version_of(self._files, self._path)
                    before = self.load()
                    after = change(before)
                    with suppress(ReplacedError):
                        if after != before:
                            self._replace(after, version)
                        return after
        except LockedError as error:
            what = f"the registry's lock was not had within {LOCK_SECONDS:g} s"
            remedy = "end the process that holds it (lsof names it); it may hang on its disk"
            raise UnreachableError(what, where=str(error), remedy=remedy) from error
        except OSError as error:
            raise self._unreachable(action="written") from error
        raise self._unreachable(action="written, as other processes replace it all the time")

    def _replace(self, registry: Registry, version: str) -> None:
        content = to_document(registry).encode()
        with effect("registry: replace"):
            replace_read(self._files, self._path, content, version)

    def _unreachable(self, *, action: str) -> UnreachableError:
        msg = f"the registry cannot be {action}"
        remedy = "check that the place exists and may be accessed"
        return UnreachableError(msg, where=self.url, remedy=remedy)
