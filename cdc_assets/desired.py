"""Stores people's wishes for tables: paused, dropped, rebuilt, reset.

Each wish is one small JSON document in the registry's own folder for them, named after its table
and the wish. Making a wish replaces that document as a whole; withdrawing it removes the document.
No document is read, changed and written back, so two concurrent writers cannot lose each other's
wish, not even on an object store, which has no locks: of two writes of the same wish of the same
table, the last one wins, as it does when people speak one after the other.

Wishes are not derived from runs, and no run clears them. Everybody who can read the registry's
storage sees them: sensors, runs and commands need share nothing else.

A wish that is overlooked would let a table be merged that a person holds. So documents in a folder
``desired`` beside the registry, where they may be any registry's, stop every look until a person
has moved them to the folders of the registries that they belong to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, cast

from cdc_assets.changes.names import TableName
from cdc_assets.errors import TerminalError, UnreachableError
from cdc_assets.files import as_os_errors, beside, files_at
from cdc_assets.notes import END, NoteWords, TableNotes, listed, prefix_of

_WORDS: Final = NoteWords(
    "desired: write", "desired: remove", "what is wanted of tables cannot be read or written"
)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Wish(StrEnum):
    """A kind of wish for a table."""

    PAUSED = "paused"
    DROPPED = "dropped"
    REBUILD = "rebuild"
    RESET = "reset"
    YIELDS = "yields"
    """Mergers wait for a moment, so that another writer can publish; it expires by itself."""


class Removal(StrEnum):
    """The progress of the lake's part of a drop or a reset."""

    NONE = "none"
    """The lake keeps the table."""
    BEGUN = "begun"
    """Part of the table may be gone: only running the same command again completes it."""
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One wish.

    Attributes:
        since: when it was made, aware.
        by: its author, as far as known: a command, a job.
        why: the reason in that person's words; may be empty.
        removal: the progress of removing the table from the lake.
        until: when it expires, aware, exclusive; None if only when it is withdrawn.
    """

    since: datetime
    by: str = ""
    why: str = ""
    removal: Removal = Removal.NONE
    until: datetime | None = None

    def words(self) -> str:
        """Formats it as ``since 2026-03-04 12:00:00Z by cdc-assets pause: index is rebuilt``."""
        by = f" by {self.by}" if self.by else ""
        why = f": {self.why}" if self.why else ""
        return f"since {self.since.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z{by}{why}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the wish for JSON."""
        return {
            "since": self.since.astimezone(UTC).isoformat(),
            "by": self.by,
            "why": self.why,
            "removal": self.removal.value,
            **({"until": self.until.astimezone(UTC).isoformat()} if self.until else {}),
        }


@dataclass(frozen=True, slots=True)
class Desired:
    """All wishes for a table; most tables have none."""

    paused: Wanted | None = None
    dropped: Wanted | None = None
    rebuild: Wanted | None = None
    reset: Wanted | None = None
    yields: Wanted | None = None

    @property
    def held(self) -> Wanted | None:
        """The wish because of which nothing is merged into it; None if it is merged."""
        return self.dropped or self.reset or self.paused

    def get(self, wish: Wish) -> Wanted | None:
        """Returns the wish of a kind; None if there is none."""
        return cast("Wanted | None", getattr(self, wish.value))

    def with_wish(self, wish: Wish, wanted: Wanted | None) -> Desired:
        """Returns the wishes with one of a kind replaced, or removed if None."""
        return replace(self, **{wish.value: wanted})

    def to_dict(self) -> dict[str, Any]:
        """Returns the wishes for JSON; null for those that are absent."""
        wanted = {wish.value: self.get(wish) for wish in Wish}
        return {name: each.to_dict() if each else None for name, each in wanted.items()}


NOTHING: Final = Desired()


class DesiredBook:
    """The wishes of all tables, under a folder path or fsspec URL.

    Every method raises:
        UnreachableError: if the place does not answer.

    Args:
        url: the folder's path or URL.
        clock: the wall clock, by which wishes expire.
        ownerless: a folder whose documents belong to nobody in particular, and must be moved.
    """

    def __init__(
        self,
        url: str,
        clock: Callable[[], datetime] = _utc_now,
        *,
        ownerless: str | None = None,
    ) -> None:
        self.url, self._clock, self._ownerless = url, clock, ownerless
        self._notes = TableNotes(url, _WORDS)

    @classmethod
    def beside(cls, registry_url: str) -> DesiredBook:
        """Returns the book that belongs to a registry."""
        folder, slash, _ = registry_url.rpartition("/")
        return cls(beside(registry_url, "desired"), ownerless=f"{folder}{slash}desired")

    def load(self) -> dict[TableName, Desired]:
        """Returns the wishes of all tables that have any.

        Raises:
            TerminalError: if a document is invalid, so that its wish is unknown, or ownerless.
        """
        found, invalid = self.readable()
        for problem in invalid.values():
            raise problem
        return found

    def readable(self) -> tuple[dict[TableName, Desired], dict[str, TerminalError]]:
        """Returns the wishes as `load`, and what is wrong with each invalid document.

        The latter are by `place_of` the document's table, as far as its name tells.

        Raises:
            TerminalError: if a document is ownerless.
        """
        found: dict[TableName, Desired] = {}
        invalid: dict[str, TerminalError] = {}
        for file, content in self._documents(None).items():
            try:
                table, wish, wanted = self._read(file, content)
            except TerminalError as problem:
                invalid[_place(file)] = problem
                continue
            if not self._is_over(wanted):
                found[table] = found.get(table, NOTHING).with_wish(wish, wanted)
        return found, invalid

    def of(self, table: TableName) -> Desired:
        """Returns the wishes of one table; lists the folder, and reads only its documents.

        Raises:
            TerminalError: if one of them is invalid, or any document is ownerless.
        """
        found = NOTHING
        for file, content in self._documents(table).items():
            _, wish, wanted = self._read(file, content)
            if not self._is_over(wanted):
                found = found.with_wish(wish, wanted)
        return found

    def put(self, table: TableName, wish: Wish, wanted: Wanted) -> None:
        """Makes a wish, which replaces an earlier one of its kind."""
        named = {"table": [table.source, table.schema, table.name], "wish": wish.value}
        self._notes.write(table, json.dumps({**named, **wanted.to_dict()}), wish.value)

    def remove(self, table: TableName, wish: Wish) -> None:
        """Withdraws a wish; does nothing if there is none."""
        self._notes.remove(table, wish.value)

    def _documents(self, table: TableName | None) -> Mapping[str, bytes]:
        """Returns the documents of a table; of all tables if None."""
        self._require_owned()
        return self._notes.read_all(table)

    def _require_owned(self) -> None:
        """Refuses ownerless documents; does not look again once there are none."""
        if self._ownerless is None:
            return
        files, root = files_at(self._ownerless)
        try:
            with as_os_errors():
                found = listed(files, root, "")
        except OSError as error:
            remedy = "check that the place is writable"
            raise UnreachableError(_WORDS.unreachable, where=self.url, remedy=remedy) from error
        if found:
            what = f"{len(found)} document(s) of what is wanted of tables are no registry's own"
            remedy = (
                f"move to {self.url} those of this registry's tables, each of which is named at "
                "the beginning of its document's name, and the rest to the other registries'"
            )
            raise TerminalError(what, where=self._ownerless, remedy=remedy)
        self._ownerless = None

    def _is_over(self, wanted: Wanted) -> bool:
        return wanted.until is not None and wanted.until <= self._clock()

    def _read(self, file: str, content: bytes) -> tuple[TableName, Wish, Wanted]:
        try:
            return _from_json(content.decode())
        except (ValueError, KeyError, TypeError) as error:
            what = "a document of what is wanted of a table is not readable as one"
            remedy = "say it again (cdc-assets pause, resume, drop, reset), or remove the file"
            raise TerminalError(what, where=file, remedy=remedy) from error


def place_of(table: TableName) -> str:
    """Returns the part that the names of this table's documents share, and no other table's."""
    return prefix_of(table).removesuffix(".")


def _place(file: str) -> str:
    """Returns `place_of` the table after which a document is named."""
    return file.rpartition("/")[2].removesuffix(END).rpartition(".")[0]


def _from_json(text: str) -> tuple[TableName, Wish, Wanted]:
    fields = cast("dict[str, Any]", json.loads(text))
    wanted = Wanted(
        datetime.fromisoformat(fields["since"]),
        fields["by"],
        fields["why"],
        Removal(fields["removal"]),
        datetime.fromisoformat(fields["until"]) if fields.get("until") else None,
    )
    return TableName(*fields["table"]), Wish(fields["wish"]), wanted
