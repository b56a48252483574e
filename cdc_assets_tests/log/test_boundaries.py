"""Batches end between transactions: the decision on generated logs."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.offsets import OffsetRange, OffsetVector
from cdc_assets.log.boundaries import Aligned, align
from cdc_assets.log.marks import Transaction
from cdc_assets.log.resent import TransactionState, newest_of
from cdc_assets.log.unfinished import MAX_READ, Unfinished
from cdc_assets_tests.hostile import within
from cdc_assets_tests.log.model_log import GAP, NOW, ModelLog, logs, visible
from cdc_assets_tests.toy.profiles import examples


def limited(log, positions, draw, least=0):
    """Candidate ranges, cut anywhere."""
    return tuple(
        OffsetRange(p, positions[p], draw(st.integers(positions[p] + least, end)))
        for p, end in log.ends.items()
        if end > positions[p]
    )


def newest(log, ranges):
    """Offsets of the changes with the highest positions, as whoever folds the ranges knows them."""
    found = {}
    for each in ranges:
        changes = [r for r in log.between(each.partition, each.start, each.end) if r.place]
        if changes:
            by_position = max(changes, key=lambda r: (int(r.transaction.id), r.place, r.offset))
            found[each.partition] = by_position.offset
    return found


def batch(log, ranges, forward):
    """What is published, and why nothing is."""
    found = align(log, ranges, log.counts, forward=forward).ranges
    return found, newest_of(log, found, newest(log, found), log.counts)[0]


def check(log, ranges, found, positions):
    moved = positions | {each.partition: each.end for each in found}
    starts = {each.partition: each.start for each in ranges}
    for each in found:
        assert each.start == starts[each.partition]
        assert each.start < each.end <= log.ends[each.partition]
        assert not log.is_cut_from_delete(each.partition, each.end)
    assert log.halves(moved) == set()
    return moved


@pytest.mark.property
@examples(200)
@given(st.data())
def test_batches_never_split_a_transaction_and_come_to_the_end(data):
    log, moments = data.draw(logs())
    positions = dict.fromkeys(moments[0][0], 0)
    seen, done = dict(positions), frozenset()
    for _ in range(4):
        ends, more = data.draw(visible(moments))
        seen = {p: max(end, seen[p]) for p, end in ends.items()}
        done |= more
        log.see(seen, done)
        ranges = limited(log, positions, data.draw)
        found, holds = batch(log, ranges, data.draw(st.booleans()))
        if holds is TransactionState.WHOLE:
            positions = check(log, ranges, found, positions)
    log.see_all()
    for _ in range(200):
        if positions == log.ends:
            break
        ranges = limited(log, positions, data.draw, least=1)
        found, holds = batch(log, ranges, forward=False)
        assert found, "everything is there and finished, so a batch must move on"
        assert holds is not TransactionState.UNFINISHED
        if holds is TransactionState.CUT:
            ranges = OffsetVector.of(positions).ranges_to(OffsetVector.of(log.ends))
            found, holds = batch(log, ranges, forward=False)
        assert holds is TransactionState.WHOLE, "the longest batch has all there is"
        positions = check(log, ranges, found, positions)
    assert positions == log.ends


@pytest.mark.property
@examples(200)
@given(st.data())
def test_a_batch_moves_on_whenever_a_whole_transaction_is_unread(data):
    log, moments = data.draw(logs(restarts=False))
    log.see(*data.draw(visible(moments)))
    positions = dict.fromkeys(log.ends, 0)
    ranges = limited(log, positions, data.draw, least=1)
    found = align(log, ranges, log.counts, forward=False).ranges
    check(log, ranges, found, positions)
    first = log.merged(log.ends).get("0", set())
    if "0" in log.ended and first == set(range(1, log.sizes["0"] + 1)):
        assert found


@pytest.mark.property
@examples(200)
@given(st.data())
def test_forward_takes_in_everything_that_is_whole(data):
    """An hour's end moves to the end of the newest transaction, if that is finished."""
    log, _ = data.draw(logs(restarts=False))
    log.see_all()
    positions = dict.fromkeys(log.ends, 0)
    ranges = limited(log, positions, data.draw)
    found = align(log, ranges, log.counts, forward=True).ranges
    moved = check(log, ranges, found, positions)
    cut = {each.partition: each.end for each in ranges}
    assert all(moved[p] >= end for p, end in cut.items())
    assert set(log.merged(moved)) == {
        id_ for id_ in log.sizes if int(id_) <= max(map(int, log.merged(cut)), default=-1)
    }


def two_partitions(sizes, ended=()):
    """Transactions whose changes lie in two partitions in turn, all visible."""
    log = ModelLog(sizes={f"{n}": size for n, size in enumerate(sizes)})
    for number, size in enumerate(sizes):
        for place in range(1, size + 1):
            log.add(place % 2, Transaction(f"{number}", (number,)), place)
    log.see({p: len(log.partitions[p]) for p in (0, 1)}, ended)
    return log


def whole(log):
    return tuple(OffsetRange(p, 0, end) for p, end in log.ends.items())


@pytest.mark.unit
def test_the_limit_alone_splits_transactions():
    """The inverse: why ranges are aligned."""
    log = two_partitions([4, 4, 4], ended=["0", "1", "2"])
    candidates = (OffsetRange(0, 0, 3), OffsetRange(1, 0, 4))
    assert log.halves({0: 3, 1: 4}) == {"1"}
    found = align(log, candidates, log.counts, forward=False).ranges
    assert found == (OffsetRange(0, 0, 2), OffsetRange(1, 0, 2))
    found = align(log, candidates, log.counts, forward=True).ranges
    assert found == (OffsetRange(0, 0, 4), OffsetRange(1, 0, 4))


def trust(wanted):
    return dict.fromkeys(t.id for t in wanted)


@pytest.mark.unit
def test_an_end_record_does_not_prove_that_all_changes_are_below_the_end():
    """The inverse: trusting the end record would publish half of the last transaction."""
    log = two_partitions([4, 4], ended=["0", "1"])
    log.ends = {0: 4, 1: 3}
    found = align(log, whole(log), log.counts, forward=False).ranges
    assert found == (OffsetRange(0, 0, 2), OffsetRange(1, 0, 2))
    trusting = align(log, whole(log), trust, forward=False).ranges
    assert log.halves({each.partition: each.end for each in trusting}) == {"1"}


@pytest.mark.unit
def test_a_transaction_before_the_last_may_lack_changes_too():
    log = two_partitions([4, 4, 1], ended=["0", "1", "2"])
    log.ends = {0: 3, 1: 5}
    found = align(log, whole(log), log.counts, forward=False).ranges
    assert found == (OffsetRange(0, 0, 2), OffsetRange(1, 0, 2))


@pytest.mark.unit
def test_an_old_transaction_is_taken_as_whole():
    log = ModelLog(sizes={"0": 2, "1": 1})
    log.add(0, Transaction("0", (0,)), 1)
    log.add(1, Transaction("0", (0,)), 2)
    log.add(0, Transaction("1", (1,)), 1, NOW + timedelta(seconds=3))
    log.see({0: 2, 1: 1}, ["1"])
    assert align(log, whole(log), log.counts, forward=False).ranges == whole(log)


@pytest.mark.unit
@pytest.mark.parametrize("forward", [False, True], ids=["limit", "hour"])
def test_a_transaction_that_is_not_finished_stays_outside_however_large(forward):
    log = two_partitions([500])
    candidates = (OffsetRange(0, 0, 10), OffsetRange(1, 0, 10))
    assert align(log, candidates, log.counts, forward=forward).ranges == ()
    log.see(log.ends, ["0"])
    assert align(log, candidates, log.counts, forward=forward).ranges == whole(log)


@pytest.mark.unit
def test_records_without_transactions_leave_ranges_as_they_are():
    log = ModelLog()
    for _ in range(10):
        log.add(0, Transaction("rows read at (1,)", (1,)), None)
    log.see({0: 10}, [])
    candidates = (OffsetRange(0, 2, 7),)
    assert align(log, candidates, log.counts, forward=False) == Aligned(candidates)
    assert align(log, (OffsetRange(0, 2, 2),), log.counts, forward=True).ranges == ()


@pytest.mark.unit
def test_transactions_without_an_order_leave_ranges_as_they_are():
    log = ModelLog(sizes={"a": 2})
    log.add(0, Transaction("a", ()), 1)
    log.add(1, Transaction("a", ()), 2)
    log.see({0: 1, 1: 1}, [])
    assert align(log, whole(log), log.counts, forward=False) == Aligned(whole(log))


@pytest.mark.unit
def test_transactions_decide_alone_unless_a_part_of_one_is_accepted():
    log = two_partitions([4, 4], ended=["0"])
    found = align(log, whole(log), log.counts, forward=False)
    assert found.by_transactions
    found = align(log, whole(log), log.counts, forward=False, accepted={"1"})
    assert found == Aligned(whole(log))
    log = two_partitions([4], ended=["0"])
    log.add(0, Transaction("nameless", (9,)), None)
    log.see({0: 3, 1: 2}, ["0"])
    rest = (OffsetRange(0, 2, 3),)
    assert align(log, rest, log.counts, forward=False) == Aligned(rest)


@pytest.mark.slow
def test_a_large_skewed_transaction_is_read_back_only_so_far():
    log = ModelLog(sizes={"t": 3 * MAX_READ})
    for place in range(1, 3 * MAX_READ + 1):
        log.add(0, Transaction("t", (1,)), place)
    for number in range(100):
        log.add(1, Transaction(f"rows read at {number}", (5,)), None)
    log.see({p: len(log.partitions[p]) for p in (0, 1)}, ["t"])
    assert align(log, whole(log), log.counts, forward=False).ranges == whole(log)
    log.ends[0] -= 1
    found = align(log, whole(log), log.counts, forward=False)
    assert OffsetRange(0, 0, log.ends[0]) not in found.ranges


def aborted(sent, size, gap):
    """A transaction of which a part is there, and a Kafka transaction behind it that was aborted.

    Offsets of aborted records remain, without a record that a reader may see.
    """
    log = ModelLog(sizes={"0": 4, "1": size})
    for place in range(1, 5):
        log.add(0, Transaction("0", (0,)), place)
    for place in range(1, sent + 1):
        log.add(0, Transaction("1", (100,)), place)
    log.partitions[0] += [GAP] * gap
    log.see({0: len(log.partitions[0])}, ["0"])
    return log


@pytest.mark.unit
@pytest.mark.parametrize("gap", [0, 31, 32, 500, 2 * MAX_READ])
@pytest.mark.parametrize("forward", [False, True], ids=["limit", "hour"])
def test_an_aborted_kafka_transaction_does_not_hide_an_unfinished_one_before_it(gap, forward):
    log = aborted(sent=6, size=10, gap=gap)
    found = align(log, whole(log), log.counts, forward=forward)
    assert found.ranges == (OffsetRange(0, 0, 4),)
    assert found.unfinished.transaction.id == "1"
    assert align(log, whole_from(log, {0: 4}), log.counts, forward=forward).ranges == ()


@pytest.mark.unit
@pytest.mark.parametrize("end", [50, 104, 120], ids=["inside", "at the gap", "in the gap"])
def test_a_limit_does_not_split_a_transaction_before_an_aborted_one(end):
    log = aborted(sent=100, size=200, gap=40)
    found = align(log, (OffsetRange(0, 4, end),), log.counts, forward=False)
    assert found.ranges == ()
    assert found.unfinished.transaction.id == "1"


@pytest.mark.unit
def test_a_gap_before_a_row_does_not_hide_an_unfinished_transaction():
    log = aborted(sent=6, size=10, gap=31)
    log.add(0, Transaction("rows read at 101", (101,)), None)
    log.partitions[1] = []
    log.see({0: len(log.partitions[0]), 1: 0}, ["0"])
    found = align(log, whole(log), log.counts, forward=False)
    assert found.ranges == (OffsetRange(0, 0, 4),)


@pytest.mark.unit
def test_a_limit_in_the_gap_inside_a_transaction_does_not_split_it():
    """Behind the transaction there are rows only, so that the log's end shows no transaction."""
    log = aborted(sent=100, size=200, gap=80)
    for place in range(101, 201):
        log.add(0, Transaction("1", (100,)), place)
    for _ in range(100):
        log.add(0, Transaction("rows read at 200", (200,)), None)
    log.see({0: len(log.partitions[0])}, ["0", "1"])
    found = align(log, (OffsetRange(0, 0, 144),), log.counts, forward=False)
    assert found.ranges == (OffsetRange(0, 0, 4),)


def among_rows(before, after):
    """A transaction in two partitions, between rows that an incremental snapshot has read."""
    log = ModelLog(sizes={"1": 4})
    for partition, places in ((0, (1, 2)), (1, (3, 4))):
        for _ in range(before):
            log.add(partition, Transaction("rows read at 50", (50,)), None)
        for place in places:
            log.add(partition, Transaction("1", (50,)), place, NOW + timedelta(seconds=1))
        for _ in range(after):
            time = NOW + timedelta(seconds=2)
            log.add(partition, Transaction("rows read at 100", (100,)), None, time)
    log.see_all()
    return log


@pytest.mark.unit
@pytest.mark.parametrize("ends", [(150, 50), (50, 150), (202, 50), (50, 202), (150, 0)], ids=str)
def test_a_limit_among_rows_does_not_split_a_transaction_between_the_ends(ends):
    """Near all ends there are rows only, and yet one end is before and one behind it."""
    log = among_rows(before=100, after=100)
    candidates = tuple(OffsetRange(p, 0, end) for p, end in enumerate(ends))
    assert log.halves(dict(enumerate(ends))) == {"1"}
    found = align(log, candidates, log.counts, forward=False)
    moved = dict.fromkeys((0, 1), 0) | {each.partition: each.end for each in found.ranges}
    assert log.halves(moved) == set()
    assert found.ranges


@pytest.mark.unit
@pytest.mark.parametrize("ends", [(150, 150), (50, 90), (102, 202)], ids=str)
def test_a_limit_among_rows_stays_where_no_transaction_is_between_the_ends(ends):
    log = among_rows(before=100, after=100)
    candidates = tuple(OffsetRange(p, 0, end) for p, end in enumerate(ends))
    assert align(log, candidates, log.counts, forward=False).ranges == candidates


@pytest.mark.unit
@pytest.mark.parametrize("end", [6, 40, 60, 66, 67])
def test_an_hours_end_among_rows_does_not_split_the_transaction_that_they_were_read_amid(end):
    log = ModelLog(sizes={"0": 3})
    rows, change = Transaction("rows read at 0", (0,)), Transaction("0", (0,))
    for place in (*[None] * 5, 1, *[None] * 60, 2, 3):
        log.add(0, change if place else rows, place)
    log.see_all()
    found = align(log, (OffsetRange(0, 0, end),), log.counts, forward=True)
    assert found.ranges == whole(log)


@pytest.mark.unit
def test_a_connector_that_died_amid_sending_again_waits_from_the_newest_record_before_a_gap():
    log = ModelLog(sizes={"0": 1, "1": 2})
    for id_, seconds in (("0", 0), ("1", 1), ("0", 50)):
        log.add(0, Transaction(id_, (int(id_),)), 1, NOW + timedelta(seconds=seconds))
    log.partitions[0] += [GAP] * 40
    log.see({0: 43}, ["0"])
    _, unfinished = newest_of(log, whole(log), {0: 1}, log.counts)
    assert unfinished.last_sent == NOW + timedelta(seconds=50)


@pytest.mark.property
@examples(200)
@given(st.data())
def test_a_connector_that_died_leaves_out_the_last_transaction_alone_and_names_it(data):
    """Everything before it is published; what is left says which transaction it waits for."""
    log, _ = data.draw(logs(restarts=False))
    log.see_all()
    last = max(log.sizes, key=int)
    del log.ended[last]
    positions = dict.fromkeys(log.ends, 0)
    for _ in range(200):
        ranges = limited(log, positions, data.draw, least=1)
        found = align(log, ranges, log.counts, forward=False)
        if not found.ranges:
            break
        positions = check(log, ranges, found.ranges, positions)
    assert set(log.merged(positions)) - {"0"} <= set(log.sizes) - {last}
    if ranges:
        assert found.unfinished is not None
        assert found.unfinished.transaction.id == last
        assert not found.unfinished.has_ended
        accepted = align(log, whole_from(log, positions), log.counts, forward=False,
                         accepted={last})  # fmt: skip
        moved = positions | {each.partition: each.end for each in accepted.ranges}
        assert moved == log.ends, "what waited too long is taken in with all there is"


def whole_from(log, positions):
    return OffsetVector.of(positions).ranges_to(OffsetVector.of(log.ends))


@pytest.mark.unit
def test_a_transaction_without_an_end_says_since_when_it_waits():
    log = two_partitions([4])
    log.add(1, Transaction("0", (0,)), 5, NOW + timedelta(seconds=7))
    log.see({p: len(log.partitions[p]) for p in (0, 1)}, [])
    found = align(log, whole(log), log.counts, forward=False)
    waits = Unfinished(Transaction("0", (0,)), NOW + timedelta(seconds=7), has_ended=False)
    assert (found.ranges, found.unfinished) == ((), waits)


@pytest.mark.unit
def test_a_transaction_that_ended_without_all_of_its_changes_says_so():
    """As in a topic that was compacted: its end counts more changes than there are."""
    log = two_partitions([4], ended=["0"])
    log.ended["0"] = 6
    found = align(log, whole(log), log.counts, forward=False)
    assert found.ranges == ()
    assert found.unfinished.has_ended


@pytest.mark.unit
def test_a_connector_that_died_amid_sending_again_says_since_when_it_stands_still():
    log = ModelLog(sizes={"0": 1, "1": 2})
    for id_, place, seconds in (("0", 1, 0), ("1", 1, 1), ("0", 1, 50)):
        at = NOW + timedelta(seconds=seconds)
        log.add(0, Transaction(id_, (int(id_),)), place, at)
    log.see({0: 3}, ["0"])
    holds, unfinished = newest_of(log, whole(log), {0: 1}, log.counts)
    assert holds is TransactionState.UNFINISHED
    assert unfinished == Unfinished(
        Transaction("1", (1,)), NOW + timedelta(seconds=50), has_ended=False
    )


@pytest.mark.unit
def test_thousands_of_transactions_in_doubt_take_time_in_proportion():
    """All of the last two seconds are, if one partition has had no change since."""
    log, count = ModelLog(), 25_600
    for number in range(count):
        id_, partition = str(number), 1 + number % 7 if number else 0
        log.sizes[id_] = 1
        log.add(
            partition,
            Transaction(id_, (10 * number,)),
            1,
            NOW + number * timedelta(seconds=1) / 8_000,
        )
    log.see_all()
    ranges = OffsetVector().ranges_to(OffsetVector.of(log.ends))
    with within(5):
        assert align(log, ranges, log.counts, forward=False).ranges == ranges
