"""Keeps the progress of tables that are read again: a small document each, beside the registry.

It is there from the first wave of a table to its end, or from before a signal is sent until what it
asks for is done, and whoever is run again goes on with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from cdc_assets.changes.names import TableName
from cdc_assets.files import beside
from cdc_assets.notes import NoteWords, TableNotes

if TYPE_CHECKING:
    from cdc_assets.merge.resnapshot.progress import Progress
    from cdc_assets.merge.resnapshot.signal_note import SignalNote

_SIGNAL: Final = "signal"
_WORDS: Final = NoteWords(
    "resnapshot: keep progress", "resnapshot: forget progress",
    "how far re-snapshots have come cannot be read or written",
)  # fmt: skip

Kept = TypeVar("Kept")


class ResnapshotBook:
    """The progress of all tables, under a folder path or fsspec URL.

    Every method raises:
        UnreachableError: if the place does not answer.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._notes = TableNotes(url, _WORDS)

    @classmethod
    def beside(cls, registry_url: str) -> ResnapshotBook:
        """Returns the book that belongs to a registry."""
        return cls(beside(registry_url, "resnapshots"))

    def load(self, table: TableName) -> Progress | None:
        """Returns the progress to continue from; None to begin, as for an unreadable document."""
        from cdc_assets.merge.resnapshot.progress import Progress

        return self._load(table, "", Progress.from_json)

    def keep(self, table: TableName, progress: Progress) -> None:
        """Replaces what was kept before."""
        self._notes.write(table, progress.to_json())

    def forget(self, table: TableName) -> bool:
        """Begins anew the next time; returns whether anything was kept."""
        return self._notes.remove(table)

    def load_signal(self, table: TableName) -> SignalNote | None:
        """Returns the signal that was sent for a table, or was about to be; None without one."""
        from cdc_assets.merge.resnapshot.signal_note import SignalNote

        return self._load(table, _SIGNAL, SignalNote.from_json)

    def keep_signal(self, table: TableName, note: SignalNote) -> None:
        """Replaces what was kept before."""
        self._notes.write(table, note.to_json(), _SIGNAL)

    def forget_signal(self, table: TableName) -> bool:
        """Sends another one the next time; returns whether anything was kept."""
        return self._notes.remove(table, _SIGNAL)

    def _load(self, table: TableName, kind: str, read: Callable[[str], Kept]) -> Kept | None:
        content = self._notes.read(table, kind)
        try:
            return read(content.decode()) if content is not None else None
        except (ValueError, KeyError, TypeError):
            return None
