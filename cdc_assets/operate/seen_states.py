"""Since when tables are in their states, as far as nothing else tells.

The sensor `replication_slo` looks at all tables once a minute, and notes what it sees: one small
document beside the registry, written when a state has changed. A state that a table was found in
has no beginning. Losing the document forgets when states began, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from cdc_assets.changes.names import TableName
from cdc_assets.errors import UnreachableError
from cdc_assets.files import as_os_errors, files_at, replace_file
from cdc_assets.operate.survey import Condition


@dataclass(frozen=True, slots=True)
class Seen:
    """A state that a table was seen in, and since when; None where it was found in it."""

    condition: Condition
    since: datetime | None


class StateBook:
    """What was seen last of all tables.

    Args:
        url: of the document, a path or fsspec URL.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._files, self._path = files_at(url)

    @classmethod
    def beside(cls, registry_url: str) -> StateBook:
        """The one that belongs to a registry."""
        return cls(registry_url.rpartition("/")[0] + "/states.json")

    def load(self) -> dict[TableName, Seen]:
        """What is noted; nothing if it is not there, or not readable as such.

        Raises:
            UnreachableError: if the place does not answer.
        """
        try:
            with as_os_errors():
                content = cast("bytes", self._files.cat_file(self._path))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unreachable() from error
        try:
            return dict(map(_read, cast("list[Any]", json.loads(content))))
        except (ValueError, TypeError, KeyError):
            return {}

    def note(self, seen: Mapping[TableName, Condition], now: datetime) -> None:
        """Note the states that tables are in now; those that are not looked at are forgotten.

        Raises:
            UnreachableError: if the place does not answer.
        """
        before = self.load()
        after = {table: _after(before.get(table), each, now) for table, each in seen.items()}
        if after == before:
            return
        rows = [_row(table, each) for table, each in sorted(after.items())]
        try:
            replace_file(self._files, self._path, json.dumps(rows).encode())
        except OSError as error:
            raise self._unreachable() from error

    def _unreachable(self) -> UnreachableError:
        what = "since when tables are in their states cannot be read or written"
        return UnreachableError(what, where=self.url, remedy="check that the place is writable")


def _after(before: Seen | None, condition: Condition, now: datetime) -> Seen:
    if before is None:
        return Seen(condition, None)
    return before if before.condition is condition else Seen(condition, now)


def _row(table: TableName, seen: Seen) -> list[Any]:
    since = seen.since.isoformat() if seen.since else None
    return [[table.source, table.schema, table.name], seen.condition.value, since]


def _read(row: list[Any]) -> tuple[TableName, Seen]:
    table, condition, since = row
    at = datetime.fromisoformat(since) if since else None
    return TableName(*table), Seen(Condition(condition), at)
