"""Lists records in quarantine, and selects those to merge again. Does not need Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.errors import ConfigError
from cdc_assets.operate.discovery import find_table, replicated
from cdc_assets.registry import Registry, TableEntry

if TYPE_CHECKING:
    from cdc_assets.lake import Looked
    from cdc_assets.lake.quarantined import QuarantinedRecord
    from cdc_assets.merge.plan.result import QuarantineReplay
    from cdc_assets.operate.services import Services

_PLACE: Final = re.compile(r"([0-9]{1,9}):([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The scope of a listing: all sources, one source, or one table."""

    source: str | None = None
    table: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a record within a known topic."""

    partition: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> Place:
        """Parses ``PARTITION:OFFSET``.

        Raises:
            ConfigError: if the text has another form.
        """
        found = _PLACE.fullmatch(text)
        if found is None:
            msg = f"{text!r} is not a partition and an offset"
            raise ConfigError(msg, remedy="write 0:1234, for example")
        return cls(int(found[1]), int(found[2]))


@dataclass(frozen=True, slots=True)
class Listing:
    """The first records in quarantine by coordinate, and the number of all."""

    records: tuple[QuarantinedRecord, ...]
    total: int

    @property
    def more(self) -> int:
        """The number of those that are not among ``records``."""
        return self.total - len(self.records)

    def to_json(self) -> str:
        """Returns the document that ``--json`` prints."""
        document = {"records": [_dict(each) for each in self.records], "more": self.more}
        return json.dumps(document, indent=2)


@dataclass(frozen=True, slots=True)
class Replayed:
    """The results for a table's records.

    Attributes:
        table: the table.
        merged, overtaken: the numbers of records that left the quarantine.
        rejected: those that did not leave it, with the reason.
        absent: the requested ones that are not in quarantine.
        unread: those that the table's offsets have not passed.
        foreign: those of another topic than the table's present one.
        before: those from before the table's beginning, which left the quarantine, too.
    """

    table: TableName
    merged: int = 0
    overtaken: int = 0
    rejected: tuple[tuple[Coordinate, str], ...] = ()
    absent: tuple[Coordinate, ...] = ()
    unread: tuple[Coordinate, ...] = ()
    foreign: tuple[Coordinate, ...] = ()
    before: tuple[Coordinate, ...] = ()

    @classmethod
    def of(
        cls, table: TableName, chosen: Sequence[Coordinate] | None, done: QuarantineReplay | None
    ) -> Replayed:
        """Builds the results from the requested records and the replay's outcome."""
        if done is None:
            return cls(table, absent=tuple(chosen or ()))
        rejected = tuple(coordinate for coordinate, _ in done.rejected)
        left = done.unread, done.foreign, done.before
        found = {*done.merged, *done.overtaken, *rejected, *(at for some in left for at in some)}
        absent = tuple(each for each in chosen or () if each not in found)
        numbers = len(done.merged), len(done.overtaken)
        return cls(table, *numbers, done.rejected, absent, *left)


def list_quarantined(services: Services, wanted: Wanted, limit: int) -> Listing:
    """Returns up to ``limit`` records, ordered by coordinate.

    Raises:
        TerminalError: if the source or the table is not replicated.
        UnreachableError: if the registry or the lake does not answer.
    """
    from cdc_assets.lake.quarantined import QuarantineLake

    lake = QuarantineLake(services.config)
    found = [lake.quarantined(*each, limit) for each in _scopes(services, wanted)]
    records = sorted((each for some, _ in found for each in some), key=lambda each: each.coordinate)
    return Listing(tuple(records[:limit]), sum(total for _, total in found))


def entries_in_quarantine(services: Services, wanted: Wanted) -> tuple[TableEntry, ...]:
    """Returns the wanted tables that have records in quarantine, or whose publish says so.

    The latter may have none any more: they are to be counted again.

    Raises:
        TerminalError: if the source or the table is not replicated.
        UnreachableError: if the registry or the lake does not answer.
    """
    from cdc_assets.lake.quarantined import QuarantineLake

    lake, entries = QuarantineLake(services.config), _entries(services, wanted)
    sources = sorted({entry.table.source for entry in entries})
    there = {source: lake.tables_in_quarantine(source) for source in sources}
    looked = lake.looked([(entry.target, entry.shard_value) for entry in entries])
    return tuple(
        entry
        for entry, found in zip(entries, looked, strict=True)
        if entry.table.qualified in there[entry.table.source] or _says_so(found)
    )


def _says_so(found: Looked) -> bool:
    """Returns whether a table's newest publish counts records; one that is unreadable does not."""
    from cdc_assets.lake import TableState

    published = found.published if isinstance(found, TableState) else None
    return published is not None and published.counts.get("quarantined", 0) > 0


def _scopes(services: Services, wanted: Wanted) -> Sequence[tuple[str, str | None]]:
    """Returns the sources and tables to list; without a table, also tables no longer replicated."""
    if wanted.table is not None:
        (entry,) = _entries(services, wanted)
        return [(entry.table.source, entry.table.qualified)]
    if wanted.source is not None:
        services.config.source(wanted.source)
        return [(wanted.source, None)]
    return [(source, None) for source in services.config.sources]


def _entries(services: Services, wanted: Wanted) -> tuple[TableEntry, ...]:
    config = services.config
    entries = replicated(config, services.registry.load())
    if wanted.source is not None:
        config.source(wanted.source)
        entries = tuple(each for each in entries if each.table.source == wanted.source)
    if wanted.table is None:
        return entries
    return (find_table(config, Registry.of(entries), wanted.table),)


def _dict(record: QuarantinedRecord) -> dict[str, Any]:
    at = record.coordinate
    return {
        "source": record.source,
        "table": record.table,
        "topic": at.topic,
        "topic_id": record.topic_id or None,
        "partition": at.partition,
        "offset": at.offset,
        "timestamp": record.timestamp.isoformat(),
        "reason": record.reason,
        "run_id": record.run_id,
        "quarantined_at": record.quarantined_at.isoformat(),
    }
