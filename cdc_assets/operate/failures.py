"""What holds each table up, remembered until it goes right again.

One small JSON document per table that fails or waits, beside the registry. It decides two
things: the table's state in `cdc-assets status`, and when a sensor tries the table again.

A transient failure (something did not answer) is tried again soon. A terminal one needs a
person, but its remedy usually lies outside of this program (a grant, a topic, a source
setting), and trying is harmless because a failed batch publishes nothing: so it is tried
again too, at growing intervals of up to an hour. A person who has acted need not wait:
materializing the asset, or ``cdc-assets replicate --table``, ignores the interval.

A table that waits for the end of a transaction has not failed. It is looked at again when one of
the topics that the end can come in has moved, or when its interval is over. Once the wait is
over too, it has stalled: that needs a person, and it still goes on by itself when a topic moves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, cast

from cdc_assets.changes.lake_names import stored_parts
from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.effects import effect
from cdc_assets.errors import (
    CdcError,
    OutcomeUnknownError,
    StalledError,
    TerminalError,
    UnreachableError,
)
from cdc_assets.files import as_os_errors, files_at, replace_file


class FailureKind(StrEnum):
    """What to do next."""

    TRANSIENT = "transient"
    TERMINAL = "terminal"
    OUTCOME_UNKNOWN = "outcome_unknown"
    UNEXPECTED = "unexpected"
    WAITING = "waiting"
    """Not a failure: unread records cannot be merged yet."""
    STALLED = "stalled"
    """It has waited for too long."""


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
    FailureKind.WAITING: Backoff(timedelta(seconds=10), timedelta(minutes=5)),
    FailureKind.STALLED: Backoff(timedelta(minutes=1), timedelta(hours=1)),
}


@dataclass(frozen=True, slots=True)
class Hold:
    """What a table waits for.

    Attributes:
        transaction: that is not finished.
        since: when the connector sent the last that is there of it.
        stops_at: when the wait is over.
        log_end: by topic, where the log ended when it was looked at.
    """

    transaction: str
    since: datetime
    stops_at: datetime
    log_end: Mapping[str, OffsetVector]

    def has_moved(self, ends: Mapping[str, OffsetVector]) -> bool:
        """Whether a topic ends elsewhere by now; one that is not in ``ends`` is not asked."""
        return any(ends[topic] != end for topic, end in self.log_end.items() if topic in ends)


@dataclass(frozen=True, slots=True)
class Failure:
    """What held a table up at its last attempt.

    ``attempts`` counts those since it last went right; of a table that waits, those that found
    the log where it was. ``hold`` is what it waits for, if it does.
    """

    at: datetime
    kind: FailureKind
    message: str
    attempts: int = 1
    hold: Hold | None = None

    @property
    def retry_at(self) -> datetime:
        """When a sensor may try again; for a table that waits, no later than the wait is over."""
        after = self.at + BACKOFF[self.kind].after(self.attempts)
        if self.hold is not None and self.at < self.hold.stops_at:
            return min(after, self.hold.stops_at)
        return after

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is wrong so far."""
        return self.kind is FailureKind.WAITING

    @property
    def needs_person(self) -> bool:
        """Whether trying again as it is cannot be expected to help."""
        return self.kind in {FailureKind.TERMINAL, FailureKind.UNEXPECTED, FailureKind.STALLED}


def kind_of(error: Exception) -> FailureKind:
    """Which of the roots of `cdc_assets.errors` an error belongs to."""
    if isinstance(error, StalledError):
        return FailureKind.STALLED
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
        self._files, self._root = files_at(url)

    @classmethod
    def beside(cls, registry_url: str) -> FailureBook:
        """The book that belongs to a registry."""
        return cls(registry_url.rpartition("/")[0] + "/failures")

    def record(
        self,
        table: TableName,
        kind: FailureKind,
        message: str,
        at: datetime,
        hold: Hold | None = None,
    ) -> Failure:
        """Remember a failure; counts up if the table was failing, or waiting, for the same.

        Raises:
            UnreachableError: if the place does not answer.
        """
        before = self._read(self._file(table))
        attempts = before[1].attempts + 1 if before and _is_same(before[1], kind, hold) else 1
        failure = Failure(at, kind, message, attempts, hold)
        self._write(self._file(table), _to_json(table, failure))
        return failure

    def clear(self, table: TableName) -> None:
        """The table went right; nothing happens if it was not failing."""
        try:
            with effect("failures: clear"), as_os_errors():
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
            with as_os_errors():
                files = cast("list[str]", self._files.ls(self._root, detail=False))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unreachable() from error
        return dict(
            found for file in files if file.endswith(".json") and (found := self._read(file))
        )

    def _file(self, table: TableName) -> str:
        return f"{self._root}/{'.'.join(stored_parts(table))}.json"

    def _read(self, file: str) -> tuple[TableName, Failure] | None:
        try:
            with as_os_errors():
                content = cast("bytes", self._files.cat_file(file))
            return _from_json(content.decode())
        except (FileNotFoundError, ValueError, KeyError):
            return None
        except OSError as error:
            raise self._unreachable() from error

    def _write(self, file: str, text: str) -> None:
        try:
            with effect("failures: write"):
                replace_file(self._files, file, text.encode())
        except OSError as error:
            raise self._unreachable() from error

    def _unreachable(self) -> UnreachableError:
        msg = "the tables' failures cannot be read or written"
        return UnreachableError(msg, where=self.url, remedy="check that the place is writable")


def _is_same(before: Failure, kind: FailureKind, hold: Hold | None) -> bool:
    """Whether an attempt met what the one before did."""
    if hold is None or before.hold is None:
        return hold is before.hold
    return before.kind is kind and before.hold.log_end == hold.log_end


def _to_json(table: TableName, failure: Failure) -> str:
    return json.dumps(
        {
            "table": [table.source, table.schema, table.name],
            "at": failure.at.astimezone(UTC).isoformat(),
            "kind": failure.kind.value,
            "message": failure.message,
            "attempts": failure.attempts,
            **({"hold": _hold_to_dict(failure.hold)} if failure.hold else {}),
        }
    )


def _hold_to_dict(hold: Hold) -> dict[str, Any]:
    return {
        "transaction": hold.transaction,
        "since": hold.since.astimezone(UTC).isoformat(),
        "stops_at": hold.stops_at.astimezone(UTC).isoformat(),
        "log_end": {topic: end.to_json() for topic, end in hold.log_end.items()},
    }


def _hold_from_dict(fields: Mapping[str, Any]) -> Hold:
    return Hold(
        fields["transaction"],
        datetime.fromisoformat(fields["since"]),
        datetime.fromisoformat(fields["stops_at"]),
        {topic: OffsetVector.from_json(end) for topic, end in fields["log_end"].items()},
    )


def _from_json(text: str) -> tuple[TableName, Failure]:
    fields = cast("dict[str, Any]", json.loads(text))
    failure = Failure(
        datetime.fromisoformat(fields["at"]),
        FailureKind(fields["kind"]),
        fields["message"],
        fields["attempts"],
        _hold_from_dict(fields["hold"]) if "hold" in fields else None,
    )
    return TableName(*fields["table"]), failure
