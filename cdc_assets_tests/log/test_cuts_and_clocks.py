"""A cut is right, or there is none, when the clock of whoever dates records is set back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import Coordinate, OffsetVector
from cdc_assets.log.common_cut import CommonCut, CutFinder, CutTable, EndAt, NoCut
from cdc_assets.log.marks import EndMark, LogRecord, Transaction
from cdc_assets.log.values import RawRecord

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ENDS = "shop.transaction"
ORDERS, LINES = TABLES = tuple(TableName("shop", "public", name) for name in ("orders", "lines"))


@dataclass
class Topics:
    """Topics of one partition each, what a connector sends to them, and a reader of them.

    ``ahead``: by how much its clock is ahead of the time that has passed.
    """

    sent: dict[str, list[RawRecord]] = field(
        default_factory=lambda: {name: [] for name in (ENDS, "orders", "lines")}
    )
    passed: timedelta = timedelta()
    ahead: timedelta = timedelta()

    def send(self, topic: str, value: str) -> RawRecord:
        self.passed += timedelta(milliseconds=10)
        log = self.sent[topic]
        place = Coordinate(topic, 0, len(log))
        log.append(RawRecord(place, NOW + self.passed + self.ahead, b"", value.encode()))
        return log[-1]

    def transact(self, id_: int, *tables: TableName, ends: bool = True) -> EndAt | None:
        for table in tables:
            self.send(table.name, str(id_))
        if not ends:
            return None
        end = self.send(ENDS, " ".join([str(id_), *(table.qualified for table in tables)]))
        return EndAt(end.coordinate.offset, end.timestamp)

    # ── read ─────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def cursor(self) -> Iterator[Topics]:
        yield self

    def offsets_at(self, topic: str, time: datetime) -> dict[int, int]:
        later = [r.coordinate.offset for r in self.sent[topic] if r.timestamp >= time]
        return {0: min(later)} if later else {}

    def records(self, spans: Mapping[tuple[str, int], tuple[int, int]]) -> Iterator[RawRecord]:
        for (topic, _), (start, end) in spans.items():
            yield from self.sent[topic][start:end]

    def mark(self, raw: RawRecord, *, only_partition: bool) -> LogRecord:
        assert only_partition
        id_ = cast("bytes", raw.value).decode()
        transaction = Transaction(id_, (int(id_),))
        return LogRecord(raw.coordinate.offset, raw.timestamp, transaction, 1)

    def ended(self, raw: RawRecord) -> EndMark:
        id_, *tables = cast("bytes", raw.value).decode().split()
        return EndMark(frozenset({id_}), tuple((name, 1) for name in tables))

    def ends(self, topics: Sequence[str]) -> dict[str, OffsetVector]:
        return {name: OffsetVector.of({0: len(self.sent[name])}) for name in topics}

    def cut(self, after: EndAt | None, committed: Mapping[TableName, int]) -> CommonCut | NoCut:
        finder = CutFinder(cast("Any", self), ENDS, self, self.ends, timedelta(minutes=15))
        tables = [
            CutTable(each, each.name, each.qualified, OffsetVector.of({0: committed[each]}))
            for each in TABLES
        ]
        return finder.find(tables, after, NOW + self.passed)


def require_none_or_right(found: CommonCut | NoCut, right: Mapping[TableName, int]) -> None:
    if isinstance(found, CommonCut):
        assert {table: end.get(0) for table, end in found.ends.items()} == right


@pytest.mark.parametrize("seconds", [0, 3, 60, 600, 86_400])
def test_no_part_of_a_later_transaction_is_in_a_cut_when_a_clock_is_set_back(seconds: int) -> None:
    topics = Topics(ahead=timedelta(seconds=seconds))
    last = topics.transact(1, ORDERS, LINES)
    topics.ahead = timedelta()
    topics.transact(2, ORDERS)
    topics.transact(3, LINES, ORDERS, ends=False)
    found = topics.cut(last, {ORDERS: 2, LINES: 1})
    require_none_or_right(found, {ORDERS: 2, LINES: 1})
    assert isinstance(found, CommonCut) or seconds


@pytest.mark.parametrize("seconds", [0, 3, 60, 600, 86_400])
def test_a_table_without_a_change_of_the_last_seconds_is_cut_where_others_are(seconds: int) -> None:
    topics = Topics(ahead=timedelta(seconds=seconds))
    topics.transact(0, LINES)
    topics.passed += timedelta(seconds=30)
    last = topics.transact(1, ORDERS)
    topics.ahead = timedelta()
    topics.transact(2, ORDERS)
    topics.transact(3, LINES, ORDERS)
    topics.sent["orders"].pop()  # it is yet to arrive
    found = topics.cut(last, {ORDERS: 2, LINES: 1})
    require_none_or_right(found, {ORDERS: 2, LINES: 1})
    assert isinstance(found, CommonCut) or seconds


def test_there_are_cuts_again_once_a_clock_that_was_set_back_has_caught_up() -> None:
    topics = Topics(ahead=timedelta(minutes=1))
    last = topics.transact(1, ORDERS, LINES)
    topics.ahead = timedelta()
    topics.transact(2, ORDERS)
    found = topics.cut(last, {ORDERS: 2, LINES: 1})
    assert isinstance(found, NoCut)
    assert "was set back" in found.reason
    topics.passed += timedelta(minutes=20)
    topics.transact(3, LINES)
    topics.passed += timedelta(seconds=30)
    topics.transact(4, ORDERS)
    found = topics.cut(last, {ORDERS: 3, LINES: 2})
    assert isinstance(found, CommonCut)
    assert found.transaction == "4"
