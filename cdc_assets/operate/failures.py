"""What went wrong with each table, remembered until it goes right again.

One small JSON document per failing table, beside the registry. It decides two things: the
table's state in `cdc-assets status`, and when a sensor tries the table again.

A transient failure (something did not answer) is tried again soon. A terminal one needs a
person, but its remedy usually lies outside of this program (a grant, a topic, a source
setting), and trying is harmless because a failed batch publishes nothing: so it is tried
again too, at growing intervals of up to an hour. A person who has acted need not wait:
materializing the asset, or ``cdc-assets replicate --table``, ignores the interval.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

import fsspec
from fsspec.implementations.local import LocalFileSystem

from cdc_assets.changes.names import TableName
from cdc_assets.errors import CdcError, OutcomeUnknownError, TerminalError, UnreachableError


class FailureKind(StrEnum):
    """What to do next."""

    TRANSIENT = "transient"
    TERMINAL = "terminal"
    OUTCOME_UNKNOWN = "outcome_unknown"
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True)
class Backoff:
    """Doubling intervals between attempts."""

    first: timedelta
    longest: timedelta

    def after(self, attempts: int) -> timedelta:
        """How long to wait after this many failed attempts (at least one)."""
        doublings = min(max(attempts, 1) - 1, 30)
        return min(self.first * 2**doublings, self.longest)


BACKOFF: Final[Mapping[FailureKind, Backoff]] = {
    FailureKind.TRANSIENT: Backoff(timedelta(seconds=10), timedelta(minutes=5)),
    FailureKind.OUTCOME_UNKNOWN: Backoff(timedelta(seconds=10), timedelta(minutes=5)),
    FailureKind.UNEXPECTED: Backoff(timedelta(minutes=1), timedelta(hours=1)),
    FailureKind.TERMINAL: Backoff(timedelta(minutes=1), timedelta(hours=1)),
}


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure of a table; ``attempts`` counts failures since it last went right."""

    at: datetime
    kind: FailureKind
    message: str
    attempts: int = 1

    @property
    def retry_at(self) -> datetime:
        """When a sensor may try again."""
        return self.at + BACKOFF[self.kind].after(self.attempts)

    @property
    def needs_person(self) -> bool:
        """Whether trying again as it is cannot be expected to help."""
        return self.kind in {FailureKind.TERMINAL, FailureKind.UNEXPECTED}


def kind_of(error: Exception) -> FailureKind:
    """Which of the roots of `cdc_assets.errors` an error belongs to."""
    if isinstance(error, TerminalError):
        return FailureKind.TERMINAL
    if isinstance(error, OutcomeUnknownError):
        return FailureKind.OUTCOME_UNKNOWN
    return FailureKind.TRANSIENT if isinstance(error, CdcError) else FailureKind.UNEXPECTED


class FailureBook:
    """The failures of all tables, under a folder path or fsspec URL.

    Each document is replaced atomically where the file system can. Only the run that holds a
    table's pool writes its document, so there is no lock.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._files, self._root = fsspec.core.url_to_fs(url)

    @classmethod
    def beside(cls, registry_url: str) -> FailureBook:
        """The book that belongs to a registry."""
        return cls(registry_url.rpartition("/")[0] + "/failures")

    def record(self, table: TableName, kind: FailureKind, message: str, at: datetime) -> Failure:
        """Remember a failure; counts up if the table was failing already.

        Raises:
            UnreachableError: if the place does not answer.
        """
        before = self._read(self._file(table))
        attempts = before[1].attempts + 1 if before else 1
        failure = Failure(at, kind, message, attempts)
        self._write(self._file(table), _to_json(table, failure))
        return failure

    def clear(self, table: TableName) -> None:
        """The table went right; nothing happens if it was not failing."""
        try:
            self._files.rm_file(self._file(table))
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unreachable() from error

    def load(self) -> dict[TableName, Failure]:
        """All failing tables.

        Raises:
            UnreachableError: if the place does not answer.
        """
        try:
            files = cast("list[str]", self._files.ls(self._root, detail=False))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unreachable() from error
        return dict(
            found for file in files if file.endswith(".json") and (found := self._read(file))
        )

    def _file(self, table: TableName) -> str:
        parts = (table.source, table.schema, table.name)
        name = ".".join(quote(part, safe="").replace(".", "%2E") for part in parts)
        return f"{self._root}/{name}.json"

    def _read(self, file: str) -> tuple[TableName, Failure] | None:
        try:
            return _from_json(cast("bytes", self._files.cat_file(file)).decode())
        except (FileNotFoundError, ValueError, KeyError):
            return None
        except OSError as error:
            raise self._unreachable() from error

    def _write(self, file: str, text: str) -> None:
        try:
            if isinstance(self._files, LocalFileSystem):
                _replace_local(Path(file), text.encode())
            else:
                self._files.pipe_file(file, text.encode())
        except OSError as error:
            raise self._unreachable() from error

    def _unreachable(self) -> UnreachableError:
        msg = "the tables' failures cannot be read or written"
        return UnreachableError(msg, where=self.url, remedy="check that the place is writable")


def _replace_local(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex}")
    temporary.write_bytes(content)
    temporary.replace(path)


def _to_json(table: TableName, failure: Failure) -> str:
    return json.dumps(
        {
            "table": [table.source, table.schema, table.name],
            "at": failure.at.astimezone(UTC).isoformat(),
            "kind": failure.kind.value,
            "message": failure.message,
            "attempts": failure.attempts,
        }
    )


def _from_json(text: str) -> tuple[TableName, Failure]:
    fields = cast("dict[str, Any]", json.loads(text))
    failure = Failure(
        datetime.fromisoformat(fields["at"]),
        FailureKind(fields["kind"]),
        fields["message"],
        fields["attempts"],
    )
    return TableName(*fields["table"]), failure
