"""Recognizes the fields that Debezium's flattening adds to a row by their names.

``add.fields=lsn`` adds ``__lsn``, ``add.fields=source.lsn`` adds ``__source_lsn``; a field that is
given a name of its own (``lsn:POSITION``) is not recognized. A name without a struct is one of the
envelope (``op``, ``ts_ms``), else of ``transaction``, else of ``source``.
https://debezium.io/documentation/reference/stable/transformations/event-flattening.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from cdc_assets.changes.position import Scheme

DELETED: Final = "__deleted"
"""The field of rewritten deletes; the prefix of added fields does not apply to it."""

NEEDED: Final[Mapping[Scheme, Sequence[str]]] = {
    Scheme.POSTGRES: ("lsn", "sequence"),
    Scheme.BINLOG: ("file", "pos", "row", "server_id"),
    Scheme.MARIADB: ("file", "pos", "server_id"),
    Scheme.SQLSERVER: ("commit_lsn", "change_lsn"),
    Scheme.ORACLE: ("scn", "commit_scn"),
    Scheme.YUGABYTE: ("commit_time", "lsn"),
}
"""Fields that must be added for the order of a source: with fewer of them there would seem to be an
order, but a wrong one. ``source.ts_ms`` is needed too (a restarted source is detected by its
times), and ``op`` or ``snapshot``, since a row of a snapshot has another position than a change."""

_OF_THE_EVENT: Final = frozenset({"op", "ts_ms", "ts_us", "ts_ns", "updateDescription"})
_OF_TRANSACTIONS: Final = ("id", "total_order", "data_collection_order")
_OF_UPDATES: Final = ("updatedFields", "removedFields", "truncatedArrays")
_OF_SOURCES: Final = (
    *("version", "connector", "name", "ts_ms", "ts_us", "ts_ns", "snapshot", "db", "sequence"),
    *("schema", "table", "txId", "lsn", "xmin", "origin", "origin_lsn"),
    *("server_id", "gtid", "file", "pos", "row", "thread", "query"),
    *("change_lsn", "commit_lsn", "event_serial_no", "begin_lsn"),
    *("scn", "commit_scn", "lcr_position", "rs_id", "ssn", "redo_thread", "user_name", "redo_sql"),
    *("row_id", "commit_ts_ms", "start_scn", "start_ts_ms", "txSeq"),
    *("rs", "collection", "ord", "h", "tord", "stxnid", "lsid", "txnNumber", "wallTime"),
    *("keyspace", "shard", "vgtid", "commit_time", "record_time", "tablet_id"),
    *("project_id", "instance_id", "database_id", "change_stream_name", "server_transaction_id"),
    *("low_watermark", "read_at_timestamp", "number_records_in_transaction", "transaction_tag"),
    *("system_transaction", "value_capture_type", "partition_token", "mod_number"),
    "is_last_record_in_transaction_in_partition",
    *("number_of_partitions_in_transaction", "cluster", "resolved_ts", "ts_hlc"),
)
"""Fields of Debezium's own connectors and YugabyteDB's, as of 3.6."""

_SCHEMES: Final = {
    "postgresql": Scheme.POSTGRES,
    "mysql": Scheme.BINLOG,
    "mariadb": Scheme.MARIADB,
    "sqlserver": Scheme.SQLSERVER,
    "oracle": Scheme.ORACLE,
    "yugabytedb": Scheme.YUGABYTE,
}


@dataclass(frozen=True)
class AddedFields:
    """The names of added fields under one prefix (``add.fields.prefix``)."""

    prefix: str = "__"

    @property
    def op(self) -> str:
        """The name of the operation's field."""
        return f"{self.prefix}op"

    def of_source(self, field: str) -> tuple[str, ...]:
        """Returns the possible names of a field of ``source``, the unambiguous one first."""
        qualified = f"{self.prefix}source_{field}"
        if field in _OF_THE_EVENT or field in _OF_TRANSACTIONS:
            return (qualified,)
        return (qualified, f"{self.prefix}{field}")

    @cached_property
    def names(self) -> frozenset[str]:
        """All names of added fields."""
        simple = {*_OF_THE_EVENT, *_OF_TRANSACTIONS, *_OF_SOURCES}
        qualified = (
            *(f"source_{each}" for each in _OF_SOURCES),
            *(f"transaction_{each}" for each in _OF_TRANSACTIONS),
            *(f"updateDescription_{each}" for each in _OF_UPDATES),
        )
        return frozenset({DELETED, *(f"{self.prefix}{each}" for each in (*simple, *qualified))})

    def source_in(self, row: Mapping[str, object]) -> dict[str, object]:
        """Returns a flattened row's ``source``; without ``connector`` if fields are missing."""
        found = {
            field: row[name]
            for field in _OF_SOURCES
            for name in reversed(self.of_source(field))
            if name in row
        }
        scheme = _SCHEMES.get(str(found.get("connector")))
        is_read_known = self.op in row or "snapshot" in found
        if scheme is None or not is_read_known or not {"ts_ms", *NEEDED[scheme]} <= found.keys():
            found.pop("connector", None)
        return found
