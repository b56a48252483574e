"""Stores notes about tables in a folder next to the registry: one small document for each note.

A document's name is that of its table, and the kind of the note where a table may have several:
``shop.public.orders.paused.json``. Writing a note replaces its document as a whole, and removing
the note removes the document. No document is read, changed and written back, so two writers cannot
lose each other's notes, not even on an object store, which has no locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from fsspec import AbstractFileSystem

from cdc_assets.changes.names import TableName, stored_parts
from cdc_assets.effects import effect
from cdc_assets.errors import UnreachableError
from cdc_assets.files import as_os_errors, files_at, replace_file

END: Final = ".json"


@dataclass(frozen=True, slots=True)
class NoteWords:
    """The names of a folder's effects and errors.

    Attributes:
        write: the effect of writing a note.
        remove: the effect of removing a note.
        unreachable: the error if the folder does not answer.
    """

    write: str
    remove: str
    unreachable: str


class TableNotes:
    """The notes of all tables, under a folder path or fsspec URL.

    Every method raises:
        UnreachableError: if the place does not answer.
    """

    def __init__(self, url: str, words: NoteWords) -> None:
        self.url, self._words = url, words
        self._files, self._root = files_at(url)

    def read(self, table: TableName, kind: str = "") -> bytes | None:
        """Returns a note; None without one."""
        try:
            with as_os_errors():
                return cast("bytes", self._files.cat_file(self._file(table, kind)))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreachable() from error

    def read_all(self, table: TableName | None = None) -> Mapping[str, bytes]:
        """Returns a table's notes by file; all tables' notes if None."""
        try:
            with as_os_errors():
                files = listed(self._files, self._root, prefix_of(table) if table else "")
                # `cat` would take the brackets of a folder `[a]` for a pattern.
                found = cast("list[Any]", self._files.cat_ranges(files, None, None))
                return dict(_present(zip(files, found, strict=True)))
        except OSError as error:
            raise self._unreachable() from error

    def write(self, table: TableName, text: str, kind: str = "") -> None:
        """Writes a note, which replaces an earlier one of its kind."""
        try:
            with effect(self._words.write):
                replace_file(self._files, self._file(table, kind), text.encode())
        except OSError as error:
            raise self._unreachable() from error

    def remove(self, table: TableName, kind: str = "") -> bool:
        """Removes a note; returns whether the note existed."""
        try:
            with effect(self._words.remove), as_os_errors():
                self._files.rm_file(self._file(table, kind))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._unreachable() from error
        return True

    def _file(self, table: TableName, kind: str) -> str:
        return f"{self._root}/{prefix_of(table)}{kind}".removesuffix(".") + END

    def _unreachable(self) -> UnreachableError:
        remedy = "check that the place is writable"
        return UnreachableError(self._words.unreachable, where=self.url, remedy=remedy)


def prefix_of(table: TableName) -> str:
    """Returns the prefix that only the names of this table's documents have."""
    return f"{'.'.join(stored_parts(table))}."


def listed(files: AbstractFileSystem, folder: str, begin: str) -> list[str]:
    """Returns the documents with this prefix; documents still being written have other names."""
    try:
        found = cast("list[str]", files.ls(folder, detail=False))
    except FileNotFoundError:
        return []
    names = ((each, each.rpartition("/")[2]) for each in found)
    return [each for each, name in names if name.startswith(begin) and name.endswith(END)]


def _present(found: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, bytes]]:
    """Yields the documents that were not removed since the listing.

    Raises:
        OSError: if one could not be read for another reason.
    """
    for file, content in found:
        if isinstance(content, FileNotFoundError):
            continue
        if isinstance(content, Exception):
            raise content
        yield file, content
