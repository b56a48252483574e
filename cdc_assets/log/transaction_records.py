"""What a change event, or an ``END`` record, says about its source transaction.

Debezium's ``provide.transaction.metadata`` adds ``transaction: {id, total_order,
data_collection_order}`` to change events and writes ``BEGIN`` and ``END`` records to a topic
of their own. Values may be wrapped in an inline schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cdc_assets.log.values import RawRecord

_POSTGRES: Final = "postgresql"


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction of the source.

    ``order`` may be that of any of its changes, and may differ between them: no other
    transaction's changes lie in between. () if the source says nothing that can be compared.
    """

    id: str
    order: tuple[int, ...]

    def precedes(self, other: Transaction) -> bool:
        """Whether it is another one and was committed before."""
        return self.id != other.id and self.order < other.order


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record with a value.

    Rows outside of transactions (of snapshots, or written before the metadata was switched on)
    have no ``place``. Rows that were read at the same position share an id, so that a run of
    them, which may be long, is passed over without reading it.

    Attributes:
        offset: in its partition.
        timestamp: when it was sent; aware.
        transaction: its transaction, or the run of rows.
        place: ``data_collection_order``: 1 for the transaction's first change of the table.
    """

    offset: int
    timestamp: datetime
    transaction: Transaction
    place: int | None


@dataclass(frozen=True, slots=True)
class Ended:
    """An ``END`` record.

    Attributes:
        ids: that it may be asked for.
        counts: changes of each table.
        commit_lsn: where the transaction was committed; None if it is not PostgreSQL's.
    """

    ids: frozenset[str]
    counts: tuple[tuple[str, int], ...]
    commit_lsn: int | None = None

    def count(self, collection: str) -> int | None:
        """Changes of ``schema.table``, also if it is named ``database.schema.table``."""
        for name, count in self.counts:
            if name == collection or name.endswith(f".{collection}"):
                return count
        return None


def log_record(raw: RawRecord, *, only_partition: bool) -> LogRecord | None:
    """What a record says about its transaction; None for a tombstone.

    Args:
        raw: of a table's topic. What cannot be read counts as a row outside of transactions.
        only_partition: the topic has one, so that its offsets are an order.
    """
    if raw.value is None:
        return None
    event = _payload(raw.value)
    source, block = _mapping(event.get("source")), _mapping(event.get("transaction"))
    offset = raw.coordinate.offset
    known = transaction_order(source)
    order = known or ((offset,) if only_partition else ())
    place = _number(block.get("data_collection_order"))
    if place is None or "id" not in block:
        run = Transaction(f"rows read at {known}", order)
        return LogRecord(offset, raw.timestamp, run, None)
    id_ = _transaction_id(str(block["id"]), source)
    return LogRecord(offset, raw.timestamp, Transaction(id_, order), place)


def ended(raw: RawRecord) -> Ended | None:
    """An ``END`` record of the transaction topic; None for any other."""
    event = _payload(raw.value or b"")
    if event.get("status") != "END":
        return None
    listed = [_mapping(each) for each in event.get("data_collections") or ()]
    counts = [(str(each.get("data_collection")), each.get("event_count")) for each in listed]
    id_ = str(event.get("id"))
    numbers = tuple((name, int(count)) for name, count in counts if count is not None)
    return Ended(frozenset({id_, _without_lsn(id_)}), numbers, _commit_lsn(id_))


def transaction_order(source: Mapping[str, Any]) -> tuple[int, ...]:
    """Numbers whose order is the order of commit; () if the source gives none.

    PostgreSQL: the last commit before the transaction (first of ``source.sequence``); the
    change's own LSN where there is none, which lies below the commits that follow. MySQL and
    MariaDB: number of the binlog file, and position in it; a binlog holds whole transactions.
    """
    if "lsn" in source:
        commit = _first_of_sequence(source.get("sequence"))
        lsn = _number(source["lsn"]) if commit is None else commit
        return () if lsn is None else (lsn,)
    file, position = _number(str(source.get("file")).rpartition(".")[2]), source.get("pos")
    return () if file is None or not position else (file, int(position))


def _transaction_id(text: str, source: Mapping[str, Any]) -> str:
    """PostgreSQL's is ``<transaction>:<LSN of the change>``: it differs from record to record."""
    return _without_lsn(text) if source.get("connector") == _POSTGRES else text


def _without_lsn(text: str) -> str:
    return text.partition(":")[0]


def _commit_lsn(id_: str) -> int | None:
    """Of ``<transaction>:<LSN>``, both numbers; a GTID begins with a UUID."""
    transaction, _, lsn = id_.partition(":")
    return int(lsn) if transaction.isdecimal() and lsn.isdecimal() else None


def _first_of_sequence(sequence: object) -> int | None:
    if not isinstance(sequence, str):
        return None
    parsed = _parsed(sequence)
    return _number(parsed[0]) if isinstance(parsed, list) and parsed else None


def _payload(value: bytes) -> Mapping[str, Any]:
    document = _mapping(_parsed(value))
    return _mapping(document["payload"]) if {"schema", "payload"} <= set(document) else document


def _parsed(text: str | bytes) -> Any:
    """None for what is no JSON: such records are refused later, with a reason."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> int | None:
    return int(value) if isinstance(value, int) or str(value).isdecimal() else None
