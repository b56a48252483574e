"""Keeps the progress of tables that are read again: a small note each, next to the registry.

The note exists from the first wave of a table to its last, or from before a signal is sent until
its snapshot is done. A second run continues from there. Each wave can be repeated without harm, so
that the note only saves work.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Final, TypeVar

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.files import registry_path
from cdc_assets.log.signalling import SignalEnds
from cdc_assets.notes import NoteWords, TableNotes
from cdc_assets.operations.resnapshot.comparing import KeyState
from cdc_assets.operations.resnapshot.wave import WaveResult
from cdc_assets.schema.comparing import Key

PROGRESS_VERSION: Final = 1
SIGNAL_VERSION: Final = 1
MOST: Final = 10_000
"""The greatest number of keys that are kept to be looked at one by one."""

_SIGNAL: Final = "signal"
_WORDS: Final = NoteWords(
    "resnapshot: keep progress", "resnapshot: forget progress",
    "how far re-snapshots have come cannot be read or written",
)  # fmt: skip

Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class ResnapshotProgress:
    """The progress with one table.

    Attributes:
        begun: the time of the first wave, aware.
        key: names of the table's key columns, by which it is read.
        generation: the number of the table's rebuilds at the first wave.
        next: the key that the next wave begins with; None for the first one.
        attempt: the attempt of the newest publish, by which a table is noticed that was rewound, or
            made again.
        waves: the number of finished waves.
        rows: the number of rows that the source had.
        counts: the number of keys by state.
        put: the number of keys that were put in or removed.
        doubtful: keys to be looked at one by one at the end.
        unnamed: the number of further doubtful keys.
        silent: ids of the silent changes that the table remembered at the first wave.
    """

    begun: datetime
    key: tuple[str, ...]
    generation: int
    next: Key | None = None
    attempt: str = ""
    waves: int = 0
    rows: int = 0
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    put: int = 0
    doubtful: tuple[Key, ...] = ()
    unnamed: int = 0
    silent: tuple[str, ...] = ()

    def after(self, wave: WaveResult) -> ResnapshotProgress:
        """Returns the progress after one more wave."""
        named = len(wave.compared.doubtful) + len(wave.overtaken)
        states = self.counts.keys() | wave.compared.counts.keys()
        counts = {
            each: self.counts.get(each, 0) + wave.compared.counts.get(each, 0) for each in states
        }
        return replace(
            self,
            next=wave.end,
            attempt=wave.attempt,
            waves=self.waves + 1,
            rows=self.rows + wave.compared.rows,
            counts=counts,
            put=self.put + wave.put,
            doubtful=(*self.doubtful, *wave.compared.doubtful, *wave.overtaken)[:MOST],
            unnamed=self.unnamed
            + wave.compared.counts.get(KeyState.DOUBTFUL, 0)
            - len(wave.compared.doubtful)
            + max(0, len(self.doubtful) + named - MOST),
        )

    def to_json(self) -> str:
        """Returns the document that is stored."""
        said = asdict(self) | {"begun": self.begun.isoformat(), "version": PROGRESS_VERSION}
        said["in_doubt"] = said.pop("silent")
        return json.dumps(said)

    @classmethod
    def from_json(cls, text: str) -> ResnapshotProgress:
        """Reads a document of `to_json`.

        Raises:
            ValueError: if the text is none, or another version's.
            KeyError, TypeError: likewise.
        """
        said: dict[str, Any] = json.loads(text)
        if said.pop("version") != PROGRESS_VERSION:
            msg = "another version wrote it"
            raise ValueError(msg)
        said["begun"] = datetime.fromisoformat(said["begun"])
        said["key"], said["next"] = tuple(said["key"]), said["next"] and tuple(said["next"])
        said["silent"] = tuple(said.pop("in_doubt", ()))
        said["doubtful"] = tuple(map(tuple, said["doubtful"]))
        return cls(**said)


@dataclass(frozen=True, slots=True)
class SignalNote:
    """The note on the signal of a table's snapshot, from before the signal is sent to the end.

    Attributes:
        id: the id of the signal.
        begun: the time right before it was sent, aware.
        topic: the id of the table's topic.
        since: the topic's end at that time: all records of the snapshot come later.
        ends: the ends of the topics of signals and notifications at that time.
    """

    id: str
    begun: datetime
    topic: str
    since: OffsetVector
    ends: SignalEnds

    def to_json(self) -> str:
        """Returns the document that is stored."""
        return json.dumps({
            "version": SIGNAL_VERSION,
            "id": self.id,
            "begun": self.begun.isoformat(),
            "topic": self.topic,
            "since": self.since.to_json(),
            "signals": self.ends.signals,
            "notices": self.ends.notices.to_json(),
        })  # fmt: skip

    @classmethod
    def from_json(cls, text: str) -> SignalNote:
        """Reads a document of `to_json`.

        Raises:
            ValueError: if the text is none, or another version's.
            KeyError, TypeError: likewise.
        """
        said: dict[str, Any] = json.loads(text)
        if said["version"] != SIGNAL_VERSION:
            msg = "another version wrote it"
            raise ValueError(msg)
        ends = SignalEnds(int(said["signals"]), OffsetVector.from_json(said["notices"]))
        return cls(
            str(said["id"]),
            datetime.fromisoformat(said["begun"]),
            str(said["topic"]),
            OffsetVector.from_json(said["since"]),
            ends,
        )


class ResnapshotBook:
    """The progress of all tables, under a folder path or fsspec URL.

    Every method raises:
        UnreachableError: if the place does not answer.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._notes = TableNotes(url, _WORDS)

    @classmethod
    def of_registry(cls, registry_url: str) -> ResnapshotBook:
        """Returns the book that belongs to a registry."""
        return cls(registry_path(registry_url, "resnapshots"))

    def load(self, table: TableName) -> ResnapshotProgress | None:
        """Returns the progress to continue from; None to begin, as for an unreadable document."""
        return self._load(table, "", ResnapshotProgress.from_json)

    def keep(self, table: TableName, progress: ResnapshotProgress) -> None:
        """Stores the note in place of the one before."""
        self._notes.write(table, progress.to_json())

    def forget(self, table: TableName) -> bool:
        """Removes the note, so that the next run begins; returns whether there was one."""
        return self._notes.remove(table)

    def load_signal(self, table: TableName) -> SignalNote | None:
        """Returns the note on a signal that was sent, or was about to be; None without one."""
        return self._load(table, _SIGNAL, SignalNote.from_json)

    def keep_signal(self, table: TableName, note: SignalNote) -> None:
        """Stores the note in place of the one before."""
        self._notes.write(table, note.to_json(), _SIGNAL)

    def forget_signal(self, table: TableName) -> bool:
        """Removes the note, so that the next run sends a signal; returns whether there was one."""
        return self._notes.remove(table, _SIGNAL)

    def _load(self, table: TableName, kind: str, read: Callable[[str], Kept]) -> Kept | None:
        content = self._notes.read(table, kind)
        try:
            return read(content.decode()) if content is not None else None
        except (ValueError, KeyError, TypeError):
            return None
