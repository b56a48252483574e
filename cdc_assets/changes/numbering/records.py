"""What a change shows of the binlog that it was read from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

Place = tuple[int, int]
"""File number, position in it."""

Serial = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BinlogRecord:
    """A change's place in the binlog that it was read from.

    Attributes:
        partition, offset: in Kafka.
        sent_ms: the record's timestamp in Kafka.
        base: base of the binlog file's name, see `cdc_assets.changes.position.scheme`.
        place: file number and position.
        gtid: of the transaction; None if the server writes none.
        server_id: the server that first committed it.
        ts_ms: the source's time.
        is_snapshot: whether it is a row of a snapshot; rows of incremental ones say nothing here.
    """

    partition: int
    offset: int
    sent_ms: int
    base: str
    place: Place
    gtid: str | None
    server_id: int
    ts_ms: int
    is_snapshot: bool


def lineage_of(record: BinlogRecord) -> tuple[str, Serial]:
    """Returns a change's lineage and its serial in it."""
    if found := _MYSQL_GTID.match(record.gtid or ""):
        return found[1], (int(found[2]),)
    if found := _MARIADB_GTID.match(record.gtid or ""):
        return found[1], (int(found[2]),)
    return f"{record.server_id}/{record.base}", record.place


_MYSQL_GTID: Final = re.compile(r"^([0-9a-fA-F-]{36}(?::\w+)?):([0-9]+)\Z")
_MARIADB_GTID: Final = re.compile(r"^([0-9]+)-[0-9]+-([0-9]+)\Z")
