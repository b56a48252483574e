"""Stores each table's failure or wait (`cdc_assets.operate.failures`) in the registry's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.files import registry_path
from cdc_assets.notes import NoteWords, TableNotes
from cdc_assets.operate.failures import Failure, FailureKind, Hold

_WORDS: Final = NoteWords(
    "failures: write", "failures: clear", "the tables' failures cannot be read or written"
)


class FailureBook:
    """The failures of all tables, under a folder path or fsspec URL.

    Each document is replaced atomically where the file system can. Only the run that holds a
    table's pool writes its document, so there is no lock.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._notes = TableNotes(url, _WORDS)

    @classmethod
    def of_registry(cls, registry_url: str) -> FailureBook:
        """Returns the book that belongs to a registry."""
        return cls(registry_path(registry_url, "failures"))

    def record(
        self,
        table: TableName,
        kind: FailureKind,
        message: str,
        at: datetime,
        hold: Hold | None = None,
        *,
        give_up_after: timedelta | None = None,
    ) -> Failure:
        """Records a failure; counts up if the table failed, or waits for the same as before.

        Args:
            table: the table that failed.
            kind: the kind of the failure.
            message: the error message, without row values.
            at: the aware time of the attempt.
            hold: the wait, if it waits.
            give_up_after: see `Failure.after`.

        Raises:
            UnreachableError: if the place does not answer.
        """
        now = Failure(at, kind, message, hold=hold)
        failure = now.after(self.load_one(table), give_up_after).probed(table)
        self._notes.write(table, _to_json(table, failure))
        return failure

    def clear(self, table: TableName) -> None:
        """Deletes a table's failure after a success; does nothing if there is none."""
        self._notes.remove(table)

    def load_one(self, table: TableName) -> Failure | None:
        """Returns one table's failure or wait; None if there is none.

        Raises:
            UnreachableError: if the place does not answer.
        """
        content = self._notes.read(table)
        found = _readable(content) if content is not None else None
        return found[1] if found else None

    def load(self) -> dict[TableName, Failure]:
        """Returns the failures and waits of all tables.

        Raises:
            UnreachableError: if the place does not answer.
        """
        documents = self._notes.read_all().values()
        return dict(found for each in documents if (found := _readable(each)))


def _to_json(table: TableName, failure: Failure) -> str:
    return json.dumps(
        {
            "table": [table.source, table.schema, table.name],
            "at": failure.at.astimezone(UTC).isoformat(),
            "kind": failure.kind.value,
            "message": failure.message,
            "attempts": failure.attempts,
            "since": _iso(failure.began),
            "stopped": failure.stopped,
            "probe_at": _iso(failure.probe_at),
            "retried": failure.retried,
            "retried_seconds": failure.retried_for.total_seconds(),
            **({"hold": _hold_to_dict(failure.hold)} if failure.hold else {}),
        }
    )


def _iso(at: datetime | None) -> str | None:
    return at.astimezone(UTC).isoformat() if at else None


def _retried_for(fields: Mapping[str, Any], at: datetime) -> timedelta:
    """Returns the time that counts; an earlier version wrote since when."""
    since = _time(fields, "retried_since")
    if since is not None:
        return max(at - since, timedelta())
    return timedelta(seconds=fields.get("retried_seconds", 0))


def _time(fields: Mapping[str, Any], name: str) -> datetime | None:
    return datetime.fromisoformat(fields[name]) if fields.get(name) else None


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


def _readable(content: bytes) -> tuple[TableName, Failure] | None:
    """Returns a table and its failure; None if the document cannot be read."""
    try:
        return _from_json(content.decode())
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _from_json(text: str) -> tuple[TableName, Failure]:
    fields = cast("dict[str, Any]", json.loads(text))
    at = datetime.fromisoformat(fields["at"])
    failure = Failure(
        at,
        FailureKind(fields["kind"]),
        fields["message"],
        fields["attempts"],
        _hold_from_dict(fields["hold"]) if "hold" in fields else None,
        since=_time(fields, "since"),
        retried=fields.get("retried", 0),
        retried_for=_retried_for(fields, at),
        stopped=fields.get("stopped", False),
        probe_at=_time(fields, "probe_at"),
    )
    table = TableName(*fields["table"])
    return table, failure if "probe_at" in fields else failure.probed(table)
