"""Reads the quarantine through PyIceberg: records' places and reasons, never their contents."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.expressions import AlwaysTrue, EqualTo, Reference
from pyiceberg.expressions.literals import literal

from cdc_assets.changes.names import LakeName
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.lake.catalog import Lake

if TYPE_CHECKING:
    import pyarrow as pa

NAMESPACE: Final = "cdc_assets_quarantine"
_COORDINATE: Final = ("topic", "partition", "offset")
_ABOUT: Final = ("table", "timestamp", "reason", "run_id", "quarantined_at")


def quarantine_name(source: str) -> LakeName:
    """Returns the quarantine table of a source."""
    return LakeName(NAMESPACE, source)


@dataclass(frozen=True, slots=True)
class QuarantinedRecord:
    """One record in quarantine.

    Attributes:
        source: configured name.
        table: ``schema.name``.
        coordinate: the record's present or former place in Kafka.
        timestamp: of the record, aware.
        reason: the reason why it could not be merged.
        run_id: of the run that quarantined it.
        quarantined_at: when that happened, aware.
    """

    source: str
    table: str
    coordinate: Coordinate
    timestamp: datetime
    reason: str
    run_id: str
    quarantined_at: datetime


class QuarantineLake(Lake):
    """A lake with quarantine tables. Their columns ``key`` and ``value`` are never fetched."""

    def quarantined(
        self, source: str, table: str | None, limit: int
    ) -> tuple[tuple[QuarantinedRecord, ...], int]:
        """Returns the first ``limit`` records by coordinate, and the number of all records.

        Args:
            source: the source of the quarantine.
            table: ``schema.name``; None for all.
            limit: not below 0.

        Raises:
            UnreachableError: if the catalog or the table's files cannot be read.
        """
        rows = self._rows(source, table, (*_COORDINATE, *_ABOUT))
        if rows is None:
            return (), 0
        found = _distinct(rows).sort_by([(name, "ascending") for name in _COORDINATE])
        first = found.slice(0, limit).to_pylist()
        return tuple(_record(source, row) for row in first), found.num_rows

    def coordinates(self, source: str, table: str) -> frozenset[Coordinate]:
        """Returns the coordinates of a table's records in quarantine.

        Args:
            source: the source of the quarantine.
            table: ``schema.name``.

        Raises:
            UnreachableError: if the catalog or the table's files cannot be read.
        """
        rows = self._rows(source, table, _COORDINATE)
        places = rows.to_pylist() if rows is not None else []
        return frozenset(Coordinate(*(each[name] for name in _COORDINATE)) for each in places)

    def tables_in_quarantine(self, source: str) -> frozenset[str]:
        """Returns the tables of a source, as ``schema.name``, that have records in quarantine.

        Raises:
            UnreachableError: if the catalog or the table's files cannot be read.
        """
        rows = self._rows(source, None, ("table",))
        return frozenset(rows["table"].to_pylist()) if rows is not None else frozenset()

    def _rows(self, source: str, table: str | None, columns: tuple[str, ...]) -> pa.Table | None:
        with self._connection.reachable():
            found = self._connection.load(quarantine_name(source))
            if found is None:
                return None
            wanted = AlwaysTrue() if table is None else _of_table(table)
            return found.scan(row_filter=wanted, selected_fields=columns).to_arrow()


def _of_table(table: str) -> EqualTo:
    return EqualTo(term=Reference("table"), value=literal(table))


def _distinct(rows: pa.Table) -> pa.Table:
    """Keeps one row per coordinate: two concurrent writers may both have written it."""
    groups = rows.group_by(list(_COORDINATE), use_threads=False)
    found = groups.aggregate([(name, "first") for name in _ABOUT])
    return found.rename_columns({f"{name}_first": name for name in _ABOUT})


def _record(source: str, row: dict[str, Any]) -> QuarantinedRecord:
    return QuarantinedRecord(
        source=source,
        coordinate=Coordinate(*(row[name] for name in _COORDINATE)),
        **{name: row[name] for name in _ABOUT},
    )
