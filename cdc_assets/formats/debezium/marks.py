"""Reads the source transaction from a change event or an ``END`` record.

Debezium's ``provide.transaction.metadata`` adds ``transaction: {id, total_order,
data_collection_order}`` to change events and writes ``BEGIN`` and ``END`` records to a topic of
their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cdc_assets.changes.json_text import mapping, natural, read_json
from cdc_assets.log.marks import EndMark, LogRecord, Transaction
from cdc_assets.log.values import RawRecord

_POSTGRES: Final = "postgresql"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS: Final = (datetime(9000, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)


def mark_of(event: Mapping[str, Any], raw: RawRecord, *, only_partition: bool) -> LogRecord:
    """Returns the transaction of a change event, and its place there.

    Args:
        event: the envelope; empty for an unreadable record, which is rejected later, with a reason,
            and counts as a row outside of transactions.
        raw: the record.
        only_partition: whether the topic has one partition, so that its offsets are an order.
    """
    source, block = mapping(event.get("source")), mapping(event.get("transaction"))
    offset = raw.coordinate.offset
    known = transaction_order(source)
    order = known or ((offset,) if only_partition else ())
    place, own_id = natural(block.get("data_collection_order")), block.get("id")
    if place is None or not isinstance(own_id, str | int):
        run = Transaction(f"rows read at {known}", order)
        return LogRecord(offset, raw.timestamp, run, None)
    id_ = _transaction_id(str(own_id), source)
    return LogRecord(offset, raw.timestamp, Transaction(id_, order), place)


def ended_of(event: Mapping[str, Any]) -> EndMark | None:
    """Reads an ``END`` record of the transaction topic; None for any other, or a malformed one."""
    if event.get("status") != "END":
        return None
    id_, listed = event.get("id"), event.get("data_collections")
    if not isinstance(id_, str | int):
        return None
    id_ = str(id_)
    numbers = tuple(_counts(listed)) if isinstance(listed, list) else ()
    ids = frozenset({id_, _without_lsn(id_)})
    return EndMark(ids, numbers, _commit_lsn(id_), _committed_at(event.get("ts_ms")))


def _committed_at(millis: object) -> datetime | None:
    known = natural(millis)
    return _EPOCH + timedelta(milliseconds=known) if known and known < _LAST_MS else None


def _counts(listed: list[Any]) -> Iterator[tuple[str, int]]:
    for each in map(mapping, listed):
        name, count = each.get("data_collection"), natural(each.get("event_count"))
        if isinstance(name, str) and count is not None:
            yield name, count


def transaction_order(source: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns numbers whose order is the order of commit; () if the source gives none.

    PostgreSQL: the last commit before the transaction (first of ``source.sequence``); the change's
    own LSN where there is none, which is below the commits that follow. MySQL and MariaDB: number
    of the binlog file, and position in it; a binlog holds whole transactions.
    """
    if "lsn" in source:
        commit = _first_of_sequence(source.get("sequence"))
        lsn = natural(source["lsn"]) if commit is None else commit
        return () if lsn is None else (lsn,)
    name, position = source.get("file"), natural(source.get("pos"))
    file = natural(name.rpartition(".")[2]) if isinstance(name, str) else None
    return () if file is None or not position else (file, position)


def _transaction_id(text: str, source: Mapping[str, Any]) -> str:
    """Cuts the LSN off PostgreSQL's ``<transaction>:<LSN of the change>``: it varies by record."""
    return _without_lsn(text) if source.get("connector") == _POSTGRES else text


def _without_lsn(text: str) -> str:
    return text.partition(":")[0]


def _commit_lsn(id_: str) -> int | None:
    """Reads the LSN of ``<transaction>:<LSN>``, both numbers; a GTID begins with a UUID."""
    transaction, _, lsn = id_.partition(":")
    return natural(lsn) if natural(transaction) is not None else None


def _first_of_sequence(sequence: object) -> int | None:
    parsed = read_json(sequence) if isinstance(sequence, str) else None
    return natural(parsed[0]) if isinstance(parsed, list) and parsed else None
