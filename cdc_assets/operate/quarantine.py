"""Lists records in quarantine. Does not need Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdc_assets.operate.known_tables import selected
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.lake.quarantined import QuarantinedRecord
    from cdc_assets.operate.services import Services


@dataclass(frozen=True, slots=True)
class QuarantineScope:
    """The scope of a listing: all sources, one source, or one table."""

    source: str | None = None
    table: str | None = None


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


def list_quarantined(services: Services, scope: QuarantineScope, limit: int) -> Listing:
    """Returns up to ``limit`` records, ordered by coordinate.

    Raises:
        TerminalError: if the source or the table is not replicated.
        UnreachableError: if the registry or the lake does not answer.
    """
    from cdc_assets.lake.quarantined import QuarantineLake

    lake = QuarantineLake(services.config)
    found = [lake.quarantined(*each, limit) for each in _scopes(services, scope)]
    records = sorted((each for some, _ in found for each in some), key=lambda each: each.coordinate)
    return Listing(tuple(records[:limit]), sum(total for _, total in found))


def _scopes(services: Services, scope: QuarantineScope) -> Sequence[tuple[str, str | None]]:
    """Returns the sources and tables to list; without a table, also tables no longer replicated."""
    if scope.table is not None:
        (entry,) = entries_in(services, scope)
        return [(entry.table.source, entry.table.qualified)]
    if scope.source is not None:
        services.config.source(scope.source)
        return [(scope.source, None)]
    return [(source, None) for source in services.config.sources]


def entries_in(services: Services, scope: QuarantineScope) -> tuple[TableEntry, ...]:
    """Returns the replicated tables in a scope.

    Raises:
        TerminalError: if the source or the table is not replicated.
    """
    return selected(services.config, services.registry.load(), scope.source, scope.table)


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
