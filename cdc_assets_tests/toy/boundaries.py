"""The topic with the transaction metadata of a toy log: ``BEGIN`` and ``END`` of each delivery."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from cdc_assets_tests.pipeline import Message
from cdc_assets_tests.toy.connector import Record

COLLECTION = "public.t"


@dataclass(frozen=True, slots=True)
class Boundary:
    """One record of the topic.

    Attributes:
        transaction: its number, with the LSN that PostgreSQL's has.
        after: how many records of the table were produced before it.
        count: of an ``END``: how many changes the transaction has.
    """

    status: Literal["BEGIN", "END"]
    transaction: str
    after: int
    count: int = 0


def boundaries(
    records: Sequence[Record], sizes: Mapping[str, int], *, without_end: Container[str] = ()
) -> Iterator[Boundary]:
    """``BEGIN`` and ``END`` around the changes of each transaction, each time that it is sent.

    A transaction whose last change is not in the log has no ``END``: the connector has stopped
    inside it.

    Args:
        records: in the order in which they were produced.
        sizes: of the transactions, as of the whole log.
        without_end: numbers of transactions whose ``END`` was lost, or is gone by retention.
    """
    named = [(n, each) for n, each in enumerate(records, start=1) if number_of(each) is not None]
    for number, run in groupby(named, key=lambda each: number_of(each[1])):
        mine = list(run)
        (first, opening), (last, closing) = mine[0], mine[-1]
        if number is None or opening.event is None or closing.event is None:
            continue
        yield Boundary("BEGIN", f"{number}:{opening.event.lsn}", first - 1)
        if number not in without_end and closing.event.total_order == sizes[number]:
            yield Boundary("END", f"{number}:{closing.event.lsn}", last, sizes[number])


def stopped_inside(records: Sequence[Record], number: str) -> Sequence[Record]:
    """The log of a connector that died inside a transaction, after its first change, for good.

    A transaction of one change is left out.
    """
    mine = [at for at, record in enumerate(records) if number_of(record) == number]
    return records[: mine[0]] if sizes_of(records)[number] == 1 else records[: mine[1]]


def number_of(record: Record) -> str | None:
    """The number of a record's transaction."""
    if record.event is None or record.event.transaction is None:
        return None
    return record.event.transaction.partition(":")[0]


def message(boundary: Boundary) -> Message:
    """As Debezium writes it."""
    value: dict[str, object] = {"status": boundary.status, "id": boundary.transaction}
    if boundary.status == "END":
        counted = {"data_collection": COLLECTION, "event_count": boundary.count}
        value |= {"event_count": boundary.count, "data_collections": [counted]}
    key = {"id": boundary.transaction}
    return Message(json.dumps(key).encode(), json.dumps(value).encode())


def sizes_of(records: Iterable[Record]) -> Counter[str]:
    """How many changes each transaction has."""
    sizes: Counter[str] = Counter()
    for record in records:
        number = number_of(record)
        if number is not None and record.event is not None:
            sizes[number] = max(sizes[number], record.event.total_order)
    return sizes
