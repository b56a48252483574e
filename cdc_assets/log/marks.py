"""The transaction marks of records: formats read them, boundaries need them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from cdc_assets.log.values import RawRecord


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction of the source.

    ``order`` may be that of any of its changes, and may differ between them: no other transaction's
    changes come in between. () if the source gives nothing comparable.
    """

    id: str
    order: tuple[int, ...]

    def precedes(self, other: Transaction) -> bool:
        """Returns whether it is another one and was committed before."""
        return self.id != other.id and self.order < other.order


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record with a value.

    Rows outside of transactions (of snapshots, or written before the metadata was switched on) have
    no ``place``. Rows that were read at the same position share an id, so that a run of them, which
    may be long, is skipped without reading it.

    Attributes:
        offset: in its partition.
        timestamp: the time it was sent; aware.
        transaction: its transaction, or the run of rows.
        place: ``data_collection_order``: 1 for the transaction's first change of the table.
    """

    offset: int
    timestamp: datetime
    transaction: Transaction
    place: int | None


@dataclass(frozen=True, slots=True)
class EndMark:
    """An ``END`` record.

    Attributes:
        ids: all ids that identify the transaction.
        counts: number of changes of each table.
        commit_lsn: the transaction's commit LSN; None if it is not PostgreSQL's.
        committed_at: when the source committed it, aware; None if the record does not say.
    """

    ids: frozenset[str]
    counts: tuple[tuple[str, int], ...]
    commit_lsn: int | None = None
    committed_at: datetime | None = None

    def count(self, collection: str) -> int | None:
        """Returns the changes of ``schema.table``, also if named ``database.schema.table``."""
        for name, count in self.counts:
            if name == collection or name.endswith(f".{collection}"):
                return count
        return None


class Marks(Protocol):
    """A reader of marks: a format."""

    def mark(self, raw: RawRecord, *, only_partition: bool) -> LogRecord | None:
        """Returns the mark of a record of a table's topic; None for one without a value."""
        ...

    def ended(self, raw: RawRecord) -> EndMark | None:
        """Reads a transaction's end from a record of the transaction topic; None for any other."""
        ...
