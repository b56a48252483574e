"""Stores each table's failure or wait, see `cdc_assets.operate.failures`, beside the registry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from cdc_assets.changes.names import TableName, stored_parts
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.effects import effect
from cdc_assets.errors import UnreachableError
from cdc_assets.files import as_os_errors, beside, files_at, replace_file
from cdc_assets.operate.failures import Failure, FailureKind, Hold


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
        """Returns the book that belongs to a registry."""
        return cls(beside(registry_url, "failures"))

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
        before = self._read(self._file(table))
        now = Failure(at, kind, message, hold=hold)
        failure = now.after(before[1] if before else None, give_up_after).probed(table)
        self._write(self._file(table), _to_json(table, failure))
        return failure

    def clear(self, table: TableName) -> None:
        """Deletes a table's failure after a success; does nothing if there is none."""
        try:
            with effect("failures: clear"), as_os_errors():
                self._files.rm_file(self._file(table))
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unreachable() from error

    def load_one(self, table: TableName) -> Failure | None:
        """Returns one table's failure or wait; None if there is none.

        Raises:
            UnreachableError: if the place does not answer.
        """
        found = self._read(self._file(table))
        return found[1] if found else None

    def load(self) -> dict[TableName, Failure]:
        """Returns the failures and waits of all tables.

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
