"""What records say about the transactions of their source: formats read it, boundaries need it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from cdc_assets.log.values import RawRecord


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


class Marks(Protocol):
    """Reads marks: a format."""

    def mark(self, raw: RawRecord, *, only_partition: bool) -> LogRecord | None:
        """What a record of a table's topic says; None for one without a value."""
        ...

    def ended(self, raw: RawRecord) -> Ended | None:
        """The end of a transaction, by a record of the transaction topic; None for any other."""
        ...
