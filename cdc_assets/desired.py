"""Stores people's directives for tables: paused, dropped, rebuilt, reset.

Each directive is one small JSON document in the registry's own folder for directives, named after
the table and the directive. Storing a directive replaces the document as a whole; withdrawing the
directive removes the document. No document is read, changed and written back, so two concurrent
writers cannot lose each other's directive, not even on an object store, which has no locks: of two
writes of the same directive of the same table, the last one wins, as it does when people speak one
after the other.

Directives are not derived from runs, and no run clears them. Everybody who can read the registry's
storage sees them: sensors, runs and commands need share nothing else.

A directive that is overlooked would let a table be merged that a person holds. So documents in a
folder ``desired`` next to the registry, where they may be any registry's, stop every look until a
person has moved them to the folders of the registries that they belong to.
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
from cdc_assets.files import as_os_errors, files_at, registry_path
from cdc_assets.notes import END, NoteWords, TableNotes, listed, prefix_of

_WORDS: Final = NoteWords(
    "desired: write", "desired: remove", "the tables' directives cannot be read or written"
)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Directive(StrEnum):
    """A kind of directive for a table."""

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
class DirectiveNote:
    """One directive.

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
        """Returns the directive for JSON."""
        return {
            "since": self.since.astimezone(UTC).isoformat(),
            "by": self.by,
            "why": self.why,
            "removal": self.removal.value,
            **({"until": self.until.astimezone(UTC).isoformat()} if self.until else {}),
        }


@dataclass(frozen=True, slots=True)
class TableDirectives:
    """All directives for a table; most tables have none."""

    paused: DirectiveNote | None = None
    dropped: DirectiveNote | None = None
    rebuild: DirectiveNote | None = None
    reset: DirectiveNote | None = None
    yields: DirectiveNote | None = None

    @property
    def held(self) -> DirectiveNote | None:
        """The directive because of which nothing is merged into it; None if it is merged."""
        return self.dropped or self.reset or self.paused

    def get(self, directive: Directive) -> DirectiveNote | None:
        """Returns the directive of a kind; None if there is none."""
        return cast("DirectiveNote | None", getattr(self, directive.value))

    def with_directive(self, directive: Directive, note: DirectiveNote | None) -> TableDirectives:
        """Returns the directives with one of a kind replaced, or removed if None."""
        return replace(self, **{directive.value: note})

    def to_dict(self) -> dict[str, Any]:
        """Returns the directives for JSON; null for those that are absent."""
        notes = {directive.value: self.get(directive) for directive in Directive}
        return {name: each.to_dict() if each else None for name, each in notes.items()}


NOTHING: Final = TableDirectives()


class DesiredBook:
    """The directives of all tables, under a folder path or fsspec URL.

    Every method raises:
        UnreachableError: if the place does not answer.

    Args:
        url: the folder's path or URL.
        clock: the wall clock, by which directives expire.
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
    def of_registry(cls, registry_url: str) -> DesiredBook:
        """Returns the book that belongs to a registry."""
        folder, slash, _ = registry_url.rpartition("/")
        return cls(registry_path(registry_url, "desired"), ownerless=f"{folder}{slash}desired")

    def load(self) -> dict[TableName, TableDirectives]:
        """Returns the directives of all tables that have any.

        Raises:
            TerminalError: if a document is invalid, so that its directive is unknown, or ownerless.
        """
        found, invalid = self.readable()
        for problem in invalid.values():
            raise problem
        return found

    def readable(self) -> tuple[dict[TableName, TableDirectives], dict[str, TerminalError]]:
        """Returns the directives as `load`, and what is wrong with each invalid document.

        The latter are by `place_of` the document's table, as far as its name tells.

        Raises:
            TerminalError: if a document is ownerless.
        """
        found: dict[TableName, TableDirectives] = {}
        invalid: dict[str, TerminalError] = {}
        for file, content in self._documents(None).items():
            try:
                table, directive, note = self._read(file, content)
            except TerminalError as problem:
                invalid[_place(file)] = problem
                continue
            if not self._is_over(note):
                found[table] = found.get(table, NOTHING).with_directive(directive, note)
        return found, invalid

    def of(self, table: TableName) -> TableDirectives:
        """Returns the directives of one table; lists the folder, and reads only its documents.

        Raises:
            TerminalError: if one of them is invalid, or any document is ownerless.
        """
        found = NOTHING
        for file, content in self._documents(table).items():
            _, directive, note = self._read(file, content)
            if not self._is_over(note):
                found = found.with_directive(directive, note)
        return found

    def put(self, table: TableName, directive: Directive, note: DirectiveNote) -> None:
        """Stores a directive, which replaces an earlier one of its kind."""
        named = {"table": [table.source, table.schema, table.name], "wish": directive.value}
        self._notes.write(table, json.dumps({**named, **note.to_dict()}), directive.value)

    def remove(self, table: TableName, directive: Directive) -> None:
        """Withdraws a directive; does nothing if there is none."""
        self._notes.remove(table, directive.value)

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
            what = f"{len(found)} document(s) of tables' directives are no registry's own"
            remedy = (
                f"move to {self.url} those of this registry's tables, each of which is named at "
                "the beginning of its document's name, and the rest to the other registries'"
            )
            raise TerminalError(
                what, where=self._ownerless, remedy=remedy, page="directives-elsewhere"
            )
        self._ownerless = None

    def _is_over(self, note: DirectiveNote) -> bool:
        return note.until is not None and note.until <= self._clock()

    def _read(self, file: str, content: bytes) -> tuple[TableName, Directive, DirectiveNote]:
        try:
            return _from_json(content.decode())
        except (ValueError, KeyError, TypeError) as error:
            what = "a document of a table's directive is not readable as one"
            remedy = "say it again (cdc-assets pause, resume, drop, reset), or remove the file"
            raise TerminalError(what, where=file, remedy=remedy) from error


def place_of(table: TableName) -> str:
    """Returns the part that the names of this table's documents share, and no other table's."""
    return prefix_of(table).removesuffix(".")


def _place(file: str) -> str:
    """Returns `place_of` the table after which a document is named."""
    return file.rpartition("/")[2].removesuffix(END).rpartition(".")[0]


def _from_json(text: str) -> tuple[TableName, Directive, DirectiveNote]:
    fields = cast("dict[str, Any]", json.loads(text))
    note = DirectiveNote(
        datetime.fromisoformat(fields["since"]),
        fields["by"],
        fields["why"],
        Removal(fields["removal"]),
        datetime.fromisoformat(fields["until"]) if fields.get("until") else None,
    )
    return TableName(*fields["table"]), Directive(fields["wish"]), note
