"""What people want of tables: paused, dropped, built anew, begun again.

Each wish is one small JSON document of its own in a folder beside the registry, named after its
table and the wish. To wish is to put that document, replaced as a whole; to take a wish back is to
remove it. Nothing is read to be written back changed, so two writers at once cannot lose each
other's wish, on an object store either, where there are no locks: of two that concern the same
wish of the same table, the last one holds, as it does for people who speak after each other.

Wishes are not derived from runs, and no run forgets them. Everybody who can read the registry's
storage sees them: sensors, runs and commands need share nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, cast

from cdc_assets.changes.lake_names import stored_parts
from cdc_assets.changes.names import TableName
from cdc_assets.effects import effect
from cdc_assets.errors import TerminalError, UnreachableError
from cdc_assets.files import as_os_errors, files_at, replace_file

_END: Final = ".json"


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Wish(StrEnum):
    """What may be wanted of a table."""

    PAUSED = "paused"
    DROPPED = "dropped"
    REBUILD = "rebuild"
    RESET = "reset"
    YIELDS = "yields"
    """Whoever merges waits for a moment, so that another one can publish; it ends by itself."""


class Removal(StrEnum):
    """How far the lake's part of a drop or a reset has come."""

    NONE = "none"
    """The lake keeps the table."""
    BEGUN = "begun"
    """Some of it may be gone: only the same command again makes it whole."""
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One wish.

    Attributes:
        since: when it was made, aware.
        by: who has made it, as far as that is known: a command, a job.
        why: in that person's words; may be empty.
        removal: of the table from the lake.
        until: aware; from then on it is not wanted any more. None: until it is taken back.
    """

    since: datetime
    by: str = ""
    why: str = ""
    removal: Removal = Removal.NONE
    until: datetime | None = None

    def words(self) -> str:
        """``since 2026-03-04 12:00:00Z by cdc-assets pause: index is rebuilt``."""
        by = f" by {self.by}" if self.by else ""
        why = f": {self.why}" if self.why else ""
        return f"since {self.since.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z{by}{why}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "since": self.since.astimezone(UTC).isoformat(),
            "by": self.by,
            "why": self.why,
            "removal": self.removal.value,
            **({"until": self.until.astimezone(UTC).isoformat()} if self.until else {}),
        }


@dataclass(frozen=True, slots=True)
class Desired:
    """All that is wanted of a table; nothing of most."""

    paused: Wanted | None = None
    dropped: Wanted | None = None
    rebuild: Wanted | None = None
    reset: Wanted | None = None
    yields: Wanted | None = None

    @property
    def held(self) -> Wanted | None:
        """Why nothing is merged into it; None if it goes on."""
        return self.dropped or self.reset or self.paused

    def get(self, wish: Wish) -> Wanted | None:
        """One of them."""
        return cast("Wanted | None", getattr(self, wish.value))

    def with_wish(self, wish: Wish, wanted: Wanted | None) -> Desired:
        """With another of them, or without it."""
        return replace(self, **{wish.value: wanted})

    def to_dict(self) -> dict[str, Any]:
        """For JSON: null for what is not wanted."""
        wanted = {wish.value: self.get(wish) for wish in Wish}
        return {name: each.to_dict() if each else None for name, each in wanted.items()}


NOTHING: Final = Desired()


class DesiredBook:
    """The wishes of all tables, under a folder path or fsspec URL.

    Every method raises:
        UnreachableError: if the place does not answer.

    Args:
        url: of the folder.
        clock: wall clock, by which wishes end.
    """

    def __init__(self, url: str, clock: Callable[[], datetime] = _utc_now) -> None:
        self.url = url
        self._clock = clock
        self._files, self._root = files_at(url)

    @classmethod
    def beside(cls, registry_url: str) -> DesiredBook:
        """The book that belongs to a registry."""
        return cls(registry_url.rpartition("/")[0] + "/desired")

    def load(self) -> dict[TableName, Desired]:
        """The tables of which something is wanted.

        Raises:
            TerminalError: if a document cannot be read as one: nobody knows then what is wanted.
        """
        found: dict[TableName, Desired] = {}
        for file, content in self._documents("").items():
            table, wish, wanted = self._read(file, content)
            if not self._is_over(wanted):
                found[table] = found.get(table, NOTHING).with_wish(wish, wanted)
        return found

    def of(self, table: TableName) -> Desired:
        """What is wanted of one table: a listing, and its own documents.

        Raises:
            TerminalError: if one of them cannot be read as one.
        """
        found = NOTHING
        for file, content in self._documents(_name(table)).items():
            _, wish, wanted = self._read(file, content)
            if not self._is_over(wanted):
                found = found.with_wish(wish, wanted)
        return found

    def put(self, table: TableName, wish: Wish, wanted: Wanted) -> None:
        """Make a wish, in the place of an earlier one of its kind."""
        text = json.dumps(
            {
                "table": [table.source, table.schema, table.name],
                "wish": wish.value,
                **wanted.to_dict(),
            }
        )
        try:
            with effect("desired: write"):
                replace_file(self._files, self._file(table, wish), text.encode())
        except OSError as error:
            raise self._unreachable() from error

    def remove(self, table: TableName, wish: Wish) -> None:
        """Take a wish back; nothing happens if there is none."""
        try:
            with effect("desired: remove"), as_os_errors():
                self._files.rm_file(self._file(table, wish))
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unreachable() from error

    def _documents(self, of: str) -> Mapping[str, bytes]:
        """Those whose names begin so; a document that is being written has another one."""
        try:
            with as_os_errors():
                listed = cast("list[str]", self._files.ls(self._root, detail=False))
                names = ((each, each.rpartition("/")[2]) for each in listed)
                files = [f for f, name in names if name.startswith(of) and name.endswith(_END)]
                if not files:
                    return {}
                found = cast("dict[str, Any]", self._files.cat(files, on_error="return"))
                return dict(_present(found))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unreachable() from error

    def _is_over(self, wanted: Wanted) -> bool:
        return wanted.until is not None and wanted.until <= self._clock()

    def _read(self, file: str, content: bytes) -> tuple[TableName, Wish, Wanted]:
        try:
            return _from_json(content.decode())
        except (ValueError, KeyError, TypeError) as error:
            what = "a document of what is wanted of a table is not readable as one"
            remedy = "say it again (cdc-assets pause, resume, drop, reset), or remove the file"
            raise TerminalError(what, where=file, remedy=remedy) from error

    def _file(self, table: TableName, wish: Wish) -> str:
        return f"{self._root}/{_name(table)}{wish.value}{_END}"

    def _unreachable(self) -> UnreachableError:
        what = "what is wanted of tables cannot be read or written"
        return UnreachableError(what, where=self.url, remedy="check that the place is writable")


def _name(table: TableName) -> str:
    """How the names of a table's documents begin, and no other's."""
    return f"{'.'.join(stored_parts(table))}."


def _present(found: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Those that were not removed since they were listed.

    Raises:
        OSError: if one could not be read for another reason.
    """
    for file, content in found.items():
        if isinstance(content, FileNotFoundError):
            continue
        if isinstance(content, Exception):
            raise content
        yield file, content


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
