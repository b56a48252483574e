"""Stores the pending cuts of sources: boundaries that tables have yet to reach."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.effects import effect
from cdc_assets.errors import UnreachableError
from cdc_assets.files import as_os_errors, files_at, registry_path, replace_file
from cdc_assets.log.common_cut import CommonCut, EndAt
from cdc_assets.notes import listed


@dataclass(frozen=True, slots=True)
class PendingCut:
    """A cut that tables have yet to reach.

    Attributes:
        number: its number once it is added.
        log: the topic of the source's transactions.
        cut: the commit, and where it ends in each table's topic.
        topic_ids: of these topics: offsets of another one mean nothing.
        begun_at: when it was begun, aware.
    """

    number: int
    log: str
    cut: CommonCut
    topic_ids: Mapping[TableName, str]
    begun_at: datetime

    def without(self, tables: Iterable[TableName]) -> PendingCut:
        """Returns the cut without some of its tables."""
        gone = set(tables)
        ends = {table: end for table, end in self.cut.ends.items() if table not in gone}
        cut = CommonCut(self.cut.transaction, self.cut.end, self.cut.committed_at, ends)
        return replace(self, cut=cut)

    def to_dict(self) -> dict[str, Any]:
        """Returns the document."""
        cut = self.cut
        tables = [
            {
                "schema": table.schema,
                "table": table.name,
                "ends": end.as_dict(),
                "topic_id": self.topic_ids[table],
            }
            for table, end in cut.ends.items()
        ]
        return {
            "number": self.number,
            "log": self.log,
            "transaction": cut.transaction,
            "end_offset": cut.end.offset,
            "end_sent_at": cut.end.sent_at.isoformat(),
            "committed_at": cut.committed_at.isoformat(),
            "begun_at": self.begun_at.isoformat(),
            "tables": tables,
        }

    @classmethod
    def of(cls, source: str, document: Mapping[str, Any]) -> PendingCut:
        """Reads what `to_dict` returns."""
        at = datetime.fromisoformat
        ends, topic_ids = dict[TableName, OffsetVector](), dict[TableName, str]()
        for each in document["tables"]:
            table = TableName(source, each["schema"], each["table"])
            ends[table] = OffsetVector.of({int(p): at for p, at in each["ends"].items()})
            topic_ids[table] = each["topic_id"]
        end = EndAt(document["end_offset"], at(document["end_sent_at"]))
        cut = CommonCut(document["transaction"], end, at(document["committed_at"]), ends)
        return cls(document["number"], document["log"], cut, topic_ids, at(document["begun_at"]))


class PendingCuts:
    """The pending cuts of all sources: a document for each source and log, next to the registry."""

    def __init__(self, registry_url: str) -> None:
        self.url = registry_path(registry_url, "cuts")
        self._files, self._root = files_at(self.url)

    def read(self, source: str, log: str) -> PendingCut | None:
        """Returns the pending cut; None without one, and for an unreadable document.

        Raises:
            UnreachableError: if the place does not answer.
        """
        return self._read(source, self._file(source, log))

    def of_source(self, source: str) -> list[PendingCut]:
        """Returns the pending cuts of all logs of a source. Raises as `read` does."""
        try:
            with as_os_errors():
                files = listed(self._files, self._root, f"{quote(source, safe='')}.")
        except OSError as error:
            raise self._unreachable() from error
        found = (self._read(source, file) for file in files)
        return [each for each in found if each is not None]

    def _read(self, source: str, file: str) -> PendingCut | None:
        try:
            with as_os_errors():
                content = self._files.cat_file(file)
            document = json.loads(content)
            return PendingCut.of(source, document) if document else None
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return None
        except OSError as error:
            raise self._unreachable() from error

    def write(self, source: str, log: str, pending: PendingCut | None) -> None:
        """Stores the pending cut; None to store that there is none. Raises as `read` does."""
        text = json.dumps(pending.to_dict() if pending else {})
        try:
            with effect("cuts: write"):
                replace_file(self._files, self._file(source, log), text.encode())
        except OSError as error:
            raise self._unreachable() from error

    def _file(self, source: str, log: str) -> str:
        return f"{self._root}/{quote(source, safe='')}.{quote(log, safe='')}.json"

    def _unreachable(self) -> UnreachableError:
        what, remedy = "pending cuts cannot be stored", "check that the place is writable"
        return UnreachableError(what, where=self.url, remedy=remedy)
