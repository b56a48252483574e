"""Records when tables' states began, as far as nothing else shows it.

The sensor `replication_slo` looks at all tables once a minute, and records their states in one
small document in the registry's folder, written when a state has changed. The state in which a
table is first seen has no beginning. Losing the document loses only the beginnings of states.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, cast

from cdc_assets.changes.names import TableName
from cdc_assets.errors import UnreachableError
from cdc_assets.files import as_os_errors, files_at, registry_path, replace_file


class Condition(StrEnum):
    """A table's state in a word; `cdc_assets.operate.states` adds its beginning and the reason."""

    NEW = "NEW"
    SNAPSHOTTING = "SNAPSHOTTING"
    REPLICATING = "REPLICATING"
    LAGGING = "LAGGING"
    WAITING = "WAITING"
    PAUSED = "PAUSED"
    FAILING = "FAILING"
    REBUILDING = "REBUILDING"
    UNKNOWN = "UNKNOWN"
    DROPPED = "DROPPED"


@dataclass(frozen=True, slots=True)
class SeenState:
    """A state in which a table was seen; ``since`` is None if it was first seen in this state."""

    condition: Condition
    since: datetime | None


class StateBook:
    """The last seen states of all tables.

    Args:
        url: the document's path or fsspec URL.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._files, self._path = files_at(url)

    @classmethod
    def of_registry(cls, registry_url: str) -> StateBook:
        """Returns the book that belongs to a registry."""
        return cls(registry_path(registry_url, "states.json"))

    def load(self) -> dict[TableName, SeenState]:
        """Returns the recorded states; none if the document is absent or invalid.

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

    def known(self) -> dict[TableName, SeenState]:
        """Returns what `load` does; none if the place does not answer, as only people ask."""
        try:
            return self.load()
        except UnreachableError:
            return {}

    def note(self, seen: Mapping[TableName, Condition], now: datetime) -> None:
        """Records the tables' present states; forgets tables that are absent from ``seen``.

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


def _after(before: SeenState | None, condition: Condition, now: datetime) -> SeenState:
    if before is None:
        return SeenState(condition, None)
    return before if before.condition is condition else SeenState(condition, now)


def _row(table: TableName, seen: SeenState) -> list[Any]:
    since = seen.since.isoformat() if seen.since else None
    return [[table.source, table.schema, table.name], seen.condition.value, since]


def _read(row: list[Any]) -> tuple[TableName, SeenState]:
    table, condition, since = row
    at = datetime.fromisoformat(since) if since else None
    return TableName(*table), SeenState(Condition(condition), at)
