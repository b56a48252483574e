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
_ID: Final = "topic_id"
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
        topic_id: of the topic that it was read from; empty if an earlier version set it aside.
    """

    source: str
    table: str
    coordinate: Coordinate
    timestamp: datetime
    reason: str
    run_id: str
    quarantined_at: datetime
    topic_id: str = ""


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
        rows = self._rows(source, table, (*_COORDINATE, _ID, *_ABOUT))
        if rows is None:
            return (), 0
        found = _distinct(rows).sort_by([(name, "ascending") for name in (*_COORDINATE, _ID)])
        first = found.slice(0, limit).to_pylist()
        return tuple(_record(source, row) for row in first), found.num_rows

    def coordinates(self, source: str, table: str) -> tuple[Coordinate, ...]:
        """Returns the coordinate of each of a table's records in quarantine.

        Records of topics of one name may have the same.

        Args:
            source: the source of the quarantine.
            table: ``schema.name``.

        Raises:
            UnreachableError: if the catalog or the table's files cannot be read.
        """
        rows = self._rows(source, table, (*_COORDINATE, _ID))
        places = rows.to_pylist() if rows is not None else []
        each_once = {tuple(each[name] for name in (*_COORDINATE, _ID)) for each in places}
        return tuple(Coordinate(*place[:3]) for place in each_once)

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
            there = tuple(name for name in columns if name in found.schema().column_names)
            rows = found.scan(row_filter=wanted, selected_fields=there).to_arrow()
        return _with_ids(rows) if _ID in columns else rows


def _of_table(table: str) -> EqualTo:
    return EqualTo(term=Reference("table"), value=literal(table))


def _with_ids(rows: pa.Table) -> pa.Table:
    """Puts an empty id of the topic where an earlier version has written none."""
    import pyarrow as pa

    if _ID not in rows.column_names:
        return rows.append_column(_ID, pa.array([""] * rows.num_rows, pa.string()))
    ids = rows[_ID].cast(pa.string()).fill_null("")
    return rows.set_column(rows.column_names.index(_ID), _ID, ids)


def _distinct(rows: pa.Table) -> pa.Table:
    """Keeps one row per record: two concurrent writers may both have written it."""
    groups = rows.group_by([*_COORDINATE, _ID], use_threads=False)
    found = groups.aggregate([(name, "first") for name in _ABOUT])
    return found.rename_columns({f"{name}_first": name for name in _ABOUT})


def _record(source: str, row: dict[str, Any]) -> QuarantinedRecord:
    return QuarantinedRecord(
        source=source,
        coordinate=Coordinate(*(row[name] for name in _COORDINATE)),
        topic_id=row[_ID],
        **{name: row[name] for name in _ABOUT},
    )
