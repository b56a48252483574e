"""A cut divides the topics of several tables at one commit, however records have arrived."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import find, given
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.log.common_cut import (
    CommonCut,
    CutTable,
    EndAt,
    KnownEnd,
    NoCut,
    SentRecords,
    base_of,
    complete_until,
    counted,
    divided,
)
from cdc_assets.log.marks import EndMark, LogRecord, Transaction

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PATIENCE = timedelta(minutes=15)
PARTITIONS = 2
TABLES = tuple(TableName("bank", "public", name) for name in ("accounts", "ledger"))

Change = tuple[str, int]
"""A transaction's id, and the place of a change in it, of one table."""


@dataclass
class World:
    """What a connector has sent, and how much of it has arrived.

    Attributes:
        sent: by table and partition, records in order.
        ends: by transaction in order of commit.
        arrived: by table and partition, how many records can be read.
        ended: how many ENDs can be read.
        sizes: of each transaction, how many changes of each table it has.
    """

    sent: dict[tuple[TableName, int], list[LogRecord]] = field(
        default_factory=lambda: defaultdict(list)
    )
    ends: list[KnownEnd] = field(default_factory=list)
    arrived: dict[tuple[TableName, int], int] = field(default_factory=dict)
    ended: int = 0
    sizes: dict[str, dict[TableName, int]] = field(default_factory=dict)
    clock: int = 0

    def send(self, table: TableName, partition: int, transaction: Transaction, place: int | None):
        self.clock += 1
        log = self.sent[table, partition]
        at = NOW + timedelta(milliseconds=self.clock)
        log.append(LogRecord(len(log), at, transaction, place))

    def end(self, number: int) -> None:
        self.clock += 1
        id_ = str(number)
        counts = tuple((table.qualified, n) for table, n in self.sizes[id_].items())
        if id_ not in {min(each.ended.ids) for each in self.ends}:
            at = EndAt(len(self.ends), NOW + timedelta(milliseconds=self.clock))
            self.ends.append(KnownEnd(at, EndMark(frozenset({id_}), counts)))

    def seen(self, committed=None) -> list[SentRecords]:
        found = []
        for table in TABLES:
            sizes = {p: self.arrived.get((table, p), 0) for p in range(PARTITIONS)}
            begun = OffsetVector.of(committed or {})
            of = CutTable(table, table.name, table.qualified, begun)
            loaded = SentRecords(of, OffsetVector.of(sizes))
            for partition, size in sizes.items():
                for record in self.sent[table, partition][:size]:
                    loaded.add(partition, record)
            found.append(loaded)
        return found

    def below(self, cut: CommonCut, table: TableName) -> set[Change]:
        return {
            (each.transaction.id, each.place)
            for partition, end in cut.ends[table]
            for each in self.sent[table, partition][:end]
            if each.place is not None
        }

    def expected(self, newest: int, table: TableName) -> set[Change]:
        return {
            (str(number), place)
            for number in range(newest + 1)
            for place in range(1, self.sizes[str(number)].get(table, 0) + 1)
        }


@st.composite
def worlds(draw) -> World:
    """Transactions one after another, with restarts that send some of them again."""
    world, count = World(), draw(st.integers(2, 6))
    changes = {}
    for number in range(count):
        rows = draw(st.lists(st.tuples(st.sampled_from(TABLES), st.integers(0, PARTITIONS - 1)),
                             min_size=1, max_size=4))  # fmt: skip
        sizes, placed = defaultdict(int), []
        for table, partition in rows:
            sizes[table] += 1
            placed.append((table, partition, sizes[table]))
        changes[number], world.sizes[str(number)] = placed, dict(sizes)
    number, restarts = 0, draw(st.integers(0, 2))
    while number < count:
        transaction, sent = Transaction(str(number), (number,)), changes[number]
        stop = draw(st.integers(0, len(sent))) if restarts and draw(st.booleans()) else None
        if draw(st.booleans()) and stop is None:
            row = Transaction(f"rows read at {number}", (number,))
            world.send(draw(st.sampled_from(TABLES)), draw(st.integers(0, 1)), row, None)
        for table, partition, place in sent[:stop]:
            world.send(table, partition, transaction, place)
        if stop is not None:  # the connector stops here, and begins again earlier
            restarts -= 1
            number = draw(st.integers(0, number))
            continue
        world.end(number)
        number += 1
    for key, log in world.sent.items():
        world.arrived[key] = draw(st.integers(0, len(log))) if draw(st.booleans()) else len(log)
    world.ended = draw(st.integers(1, len(world.ends)))
    return world


def require_exact(world: World, cut: CommonCut, newest: int) -> None:
    assert cut.transaction == str(newest)
    for table in TABLES:
        assert world.below(cut, table) == world.expected(newest, table)


@pytest.mark.property
@given(worlds())
def test_a_cut_has_all_changes_of_the_transactions_up_to_it_and_no_others(world: World) -> None:
    known, seen = world.ends[: world.ended], world.seen()
    if any(each.lacks(known[0].ended) for each in seen):
        return  # it begins with one that is complete
    newest, _ = complete_until(seen, known, 0, PATIENCE)
    cut = divided(seen, known, newest)
    if isinstance(cut, CommonCut):
        require_exact(world, cut, newest)


@pytest.mark.property
def test_without_counting_there_are_cuts_that_lack_changes() -> None:
    def is_wrong(world: World) -> bool:
        known = world.ends[: world.ended]
        cut = divided(world.seen(), known, len(known) - 1)
        if isinstance(cut, NoCut):
            return False
        last = len(known) - 1
        return any(world.below(cut, table) != world.expected(last, table) for table in TABLES)

    try:
        find(worlds(), is_wrong)
    except NoSuchExample:
        pytest.fail("the property holds without counting, so it proves nothing")


def whole_world(*rows: tuple[int, TableName, int]) -> World:
    """Each row is a change: of which transaction, table and partition."""
    world = World()
    for number in sorted({each[0] for each in rows}):
        sizes = defaultdict(int)
        for _, table, partition in (each for each in rows if each[0] == number):
            sizes[table] += 1
            world.send(table, partition, Transaction(str(number), (number,)), sizes[table])
        world.sizes[str(number)] = dict(sizes)
        world.end(number)
    world.ended = len(world.ends)
    world.arrived = {key: len(log) for key, log in world.sent.items()}
    return world


ACCOUNTS, LEDGER = TABLES


@pytest.mark.unit
def test_a_steady_log_is_cut_at_its_newest_transaction() -> None:
    world = whole_world((0, ACCOUNTS, 0), (0, LEDGER, 1), (1, LEDGER, 0), (2, ACCOUNTS, 0))
    newest, lacking = complete_until(world.seen(), world.ends, 0, PATIENCE)
    assert (newest, lacking) == (2, "")
    cut = divided(world.seen(), world.ends, newest)
    assert isinstance(cut, CommonCut)
    assert cut.ends[ACCOUNTS].as_dict() == {0: 2, 1: 0}
    assert cut.ends[LEDGER].as_dict() == {0: 1, 1: 1}


@pytest.mark.unit
def test_a_partition_that_lags_holds_the_cut_back() -> None:
    world = whole_world((0, ACCOUNTS, 0), (1, LEDGER, 1), (2, ACCOUNTS, 0))
    world.arrived[LEDGER, 1] = 0
    newest, lacking = complete_until(world.seen(), world.ends, 0, PATIENCE)
    assert newest == 0
    assert lacking == "transaction 1 lacks 1 changes in topic ledger"


@pytest.mark.unit
def test_a_transaction_that_lacks_changes_for_too_long_counts_as_complete() -> None:
    world = whole_world((0, ACCOUNTS, 0), (1, LEDGER, 1), (2, ACCOUNTS, 0))
    world.arrived[LEDGER, 1] = 0
    late = KnownEnd(
        EndAt(3, world.ends[-1].at.sent_at + 2 * PATIENCE), EndMark(frozenset({"3"}), ())
    )
    newest, _ = complete_until(world.seen(), [*world.ends, late], 0, PATIENCE)
    assert newest == 3


@pytest.mark.unit
def test_a_table_that_is_merged_beyond_the_commit_allows_no_cut() -> None:
    world = whole_world((0, ACCOUNTS, 0), (1, ACCOUNTS, 0))
    cut = divided(world.seen(committed={0: 2}), world.ends, 0)
    assert isinstance(cut, NoCut)
    assert "merged beyond" in cut.reason


@pytest.mark.unit
def test_rows_of_a_snapshot_are_where_they_were_sent() -> None:
    world = whole_world((0, ACCOUNTS, 0))
    world.send(ACCOUNTS, 0, Transaction("rows read at 1", (1,)), None)
    world.sizes["1"] = {LEDGER: 1}
    world.send(LEDGER, 0, Transaction("1", (1,)), 1)
    world.end(1)
    world.arrived = {key: len(log) for key, log in world.sent.items()}
    before, after = (divided(world.seen(), world.ends, newest) for newest in (0, 1))
    assert isinstance(before, CommonCut)
    assert isinstance(after, CommonCut)
    assert before.ends[ACCOUNTS].get(0) == 1
    assert after.ends[ACCOUNTS].get(0) == 2


@pytest.mark.unit
def test_rows_whose_place_and_time_disagree_allow_no_cut() -> None:
    world = whole_world((0, ACCOUNTS, 0))
    world.send(ACCOUNTS, 0, Transaction("rows read at 9", (9,)), None)
    world.sizes["1"] = {LEDGER: 1}
    world.send(LEDGER, 0, Transaction("1", (1,)), 1)
    world.end(1)
    world.arrived = {key: len(log) for key, log in world.sent.items()}
    cut = divided(world.seen(), world.ends, 1)
    assert isinstance(cut, NoCut)


@pytest.mark.unit
def test_counting_begins_after_the_last_cut_or_at_a_settled_transaction_of_a_new_topic() -> None:
    def ends(*offsets: int, begin: datetime = NOW) -> list[KnownEnd]:
        of = (EndAt(n, begin + timedelta(seconds=n)) for n in offsets)
        return [KnownEnd(each, EndMark(frozenset({str(each.offset)}), ())) for each in of]

    known = ends(*range(70, 90, 2))
    assert base_of(known, EndAt(74, NOW + timedelta(seconds=74)), NOW) == 2
    assert base_of(known, EndAt(75, NOW + timedelta(seconds=75)), NOW) == 2, "the record is gone"
    assert base_of(known, EndAt(74, NOW + timedelta(seconds=74)), known[4].at.sent_at) == 4
    again = ends(*range(30), begin=NOW + timedelta(minutes=5))
    assert base_of(again, EndAt(74, NOW + timedelta(seconds=74)), NOW) == 0, "the first of all"
    late = ends(*range(2, 30), begin=NOW + timedelta(minutes=5))
    assert base_of(late, EndAt(1, NOW - timedelta(minutes=5)), NOW) == 10, "10 s after the first"
    assert base_of(late, None, NOW + timedelta(days=1)) == 10


def piecewise(world: World, most: int):
    """Reads what was sent between two transactions, if it is at most so many records."""

    def read(base: int, upto: int | None) -> list[SentRecords] | None:
        since = world.ends[base].at.sent_at
        until = world.ends[upto].at.sent_at if upto is not None else NOW + timedelta(days=1)
        found = world.seen()
        for each in found:
            for partition, records in each.records.items():
                each.records[partition] = [r for r in records if since < r.timestamp <= until]
            each.places = defaultdict(set)
            for records in each.records.values():
                for record in records:
                    if record.place is not None:
                        each.places[record.transaction.id].add(record.place)
        return found if sum(len(r) for e in found for r in e.records.values()) <= most else None

    return read


@pytest.mark.property
@given(worlds(), st.integers(1, 6))
def test_of_more_records_than_can_be_read_at_once_all_are_counted(world: World, most: int) -> None:
    known, read = world.ends[: world.ended], piecewise(world, most)
    if any(each.lacks(known[0].ended) for each in world.seen()):
        return
    found = counted(known, 0, PATIENCE, read, is_newest=True)
    if isinstance(found, NoCut):
        return
    base, sent = found
    newest, _ = complete_until(sent, known, base, PATIENCE)
    cut = divided(sent, known, newest)
    if isinstance(cut, CommonCut):
        require_exact(world, cut, newest)


@pytest.mark.unit
def test_a_lost_change_of_a_piece_allows_no_later_cut_and_counting_goes_on_after_a_piece() -> None:
    rows = [(n, ACCOUNTS, 0) for n in range(6)]
    world = whole_world(*rows[:2], (1, LEDGER, 1), *rows[2:])
    found = counted(world.ends, 0, PATIENCE, piecewise(world, 2), is_newest=True)
    assert not isinstance(found, NoCut)
    assert (found[0], complete_until(found[1], world.ends, found[0], PATIENCE)[0]) == (3, 5)
    part = counted(world.ends[:4], 0, PATIENCE, piecewise(world, 2), is_newest=False)
    assert part == NoCut("the transactions since the last cut are being counted", world.ends[3].at)
    world.arrived[LEDGER, 1] = 0
    lost = counted(world.ends, 0, PATIENCE, piecewise(world, 2), is_newest=True)
    assert lost == NoCut("transaction 1 lacks 1 changes in topic ledger", world.ends[0].at)
    newest_alone = divided(piecewise(world, 9)(3, None) or [], world.ends, 5)
    assert isinstance(newest_alone, CommonCut)
    assert world.below(newest_alone, LEDGER) != world.expected(5, LEDGER), "that would be wrong"
    crowded = counted(world.ends, 0, PATIENCE, piecewise(world, 0), is_newest=True)
    assert isinstance(crowded, NoCut)
    assert "more than 50,000 records" in crowded.reason
