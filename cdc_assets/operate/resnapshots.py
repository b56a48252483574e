"""Keeps the progress of tables that are read again: a small document each, beside the registry.

It is there from the first wave of a table to its end, or from before a signal is sent until what it
asks for is done, and whoever is run again goes on with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar, cast

from cdc_assets.changes.names import TableName, stored_parts
from cdc_assets.effects import effect
from cdc_assets.errors import UnreachableError
from cdc_assets.files import as_os_errors, beside, files_at, replace_file

if TYPE_CHECKING:
    from cdc_assets.merge.resnapshot.progress import Progress
    from cdc_assets.merge.resnapshot.signal_note import SignalNote

_END: Final = ".json"
_SIGNAL: Final = ".signal.json"


Kept = TypeVar("Kept")


class ResnapshotBook:
    """The progress of all tables, under a folder path or fsspec URL.

    Every method raises:
        UnreachableError: if the place does not answer.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._files, self._root = files_at(url)

    @classmethod
    def beside(cls, registry_url: str) -> ResnapshotBook:
        """Returns the book that belongs to a registry."""
        return cls(beside(registry_url, "resnapshots"))

    def load(self, table: TableName) -> Progress | None:
        """Returns the progress to continue from; None to begin, as for an unreadable document."""
        from cdc_assets.merge.resnapshot.progress import Progress

        return self._load(self._file(table, _END), Progress.from_json)

    def keep(self, table: TableName, progress: Progress) -> None:
        """Replaces what was kept before."""
        self._keep(self._file(table, _END), progress.to_json())

    def forget(self, table: TableName) -> bool:
        """Begins anew the next time; returns whether anything was kept."""
        return self._forget(self._file(table, _END))

    def load_signal(self, table: TableName) -> SignalNote | None:
        """Returns the signal that was sent for a table, or was about to be; None without one."""
        from cdc_assets.merge.resnapshot.signal_note import SignalNote

        return self._load(self._file(table, _SIGNAL), SignalNote.from_json)

    def keep_signal(self, table: TableName, note: SignalNote) -> None:
        """Replaces what was kept before."""
        self._keep(self._file(table, _SIGNAL), note.to_json())

    def forget_signal(self, table: TableName) -> bool:
        """Sends another one the next time; returns whether anything was kept."""
        return self._forget(self._file(table, _SIGNAL))

    def _load(self, file: str, read: Callable[[str], Kept]) -> Kept | None:
        try:
            with as_os_errors():
                content = cast("bytes", self._files.cat_file(file))
            return read(content.decode())
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None
        except OSError as error:
            raise self._unreachable() from error

    def _keep(self, file: str, document: str) -> None:
        try:
            with effect("resnapshot: keep progress"):
                replace_file(self._files, file, document.encode())
        except OSError as error:
            raise self._unreachable() from error

    def _forget(self, file: str) -> bool:
        try:
            with effect("resnapshot: forget progress"), as_os_errors():
                self._files.rm_file(file)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._unreachable() from error
        return True

    def _file(self, table: TableName, end: str) -> str:
        return f"{self._root}/{'.'.join(stored_parts(table))}{end}"

    def _unreachable(self) -> UnreachableError:
        what = "how far re-snapshots have come cannot be read or written"
        return UnreachableError(what, where=self.url, remedy="check that the place is writable")
