"""Batches end between transactions: the decision on generated logs."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_assets.changes.offsets import Coordinate, OffsetRange
from cdc_assets.log.boundaries import align
from cdc_assets.log.transaction_records import LogRecord, Transaction, ended, transaction_order
from cdc_assets.log.transactions import transaction_topic
from cdc_assets.log.unfinished import MAX_READ, Tail, Verdict, verdict
from cdc_assets.log.values import RawRecord

NOW = datetime(2026, 3, 1, tzinfo=UTC)
GAP = "gap"
TOMBSTONE = "tombstone"


@dataclass
class ModelLog:
    """A topic as lists: of records, tombstones and gaps; and how much of it can be seen."""

    partitions: dict[int, list] = field(default_factory=lambda: defaultdict(list))
    sizes: dict[str, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    ended: dict[str, int | None] = field(default_factory=dict)

    def at(self, partition, offset):
        found = self.partitions[partition][offset : self.ends[partition]]
        return next((record for record in found if isinstance(record, LogRecord)), None)

    def between(self, partition, start, end):
        found = self.partitions[partition][max(0, start) : min(end, self.ends[partition])]
        return tuple(record for record in found if isinstance(record, LogRecord))

    def load(self, spans):
        assert set(spans) <= set(self.ends)

    def counts(self, wanted):
        return {id_: self.ended[id_] for id_ in wanted if id_ in self.ended}

    def add(self, partition, transaction, place, time=NOW):
        log = self.partitions[partition]
        log.append(LogRecord(len(log), time, transaction, place))

    def merged(self, positions):
        """Places of each transaction below positions."""
        places = defaultdict(set)
        for partition, position in positions.items():
            for record in self.partitions[partition][:position]:
                if isinstance(record, LogRecord) and record.place is not None:
                    places[record.transaction.id].add(record.place)
        return places

    def halves(self, positions):
        """Transactions of which a reader would see a part."""
        return {
            id_
            for id_, places in self.merged(positions).items()
            if places != set(range(1, self.sizes[id_] + 1))
        }

    def is_cut_from_delete(self, partition, position):
        log = self.partitions[partition]
        return position < self.ends[partition] and log[position] == TOMBSTONE

    def see(self, ends, ended_ids):
        self.ends = dict(ends)
        self.ended = {id_: self.sizes[id_] for id_ in ended_ids}

    def see_all(self):
        self.see({p: len(log) for p, log in self.partitions.items()}, self.sizes)


@st.composite
def transactions(draw, count):
    """What a connector emits once: changes, rows between transactions, ends."""
    emitted, sizes = [], {}
    for number in range(draw(st.integers(1, 5))):
        last_commit, commit = 100 * number, 100 * number + 100
        for partition in draw(st.lists(st.integers(0, count - 1), max_size=4)):
            ahead = last_commit + draw(st.sampled_from([1, 1, 1, 250]))
            emitted.append(("row", partition, Transaction(f"rows read at {ahead}", (ahead,)), None))
        size = draw(st.sampled_from([1, 2, 3, 5, 40]))
        sizes[f"{number}"] = size
        partitions = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=6))
        for place in range(1, size + 1):
            order = (commit - size + place - 1,) if number == 0 else (last_commit,)
            kind = draw(st.sampled_from(["change", "change", "delete"]))
            where = partitions[place % len(partitions)]
            emitted.append((kind, where, Transaction(f"{number}", order), place))
        emitted.append(("end", None, Transaction(f"{number}", ()), None))
    return emitted, sizes


@st.composite
def logs(draw, restarts=True):
    """A log, and the ends of each partition and of the metadata after each thing sent."""
    count = draw(st.integers(1, 4))
    emitted, sizes = draw(transactions(count))
    log = ModelLog(sizes=sizes)
    again = draw(st.lists(st.integers(0, len(emitted)), max_size=2)) if restarts else []
    sent = list(emitted)
    for upto in again:
        begin = draw(st.integers(0, upto))
        sent = [*sent[:upto], *sent[begin:]]
    gaps = draw(st.sets(st.integers(0, len(sent)), max_size=6))
    for partition in range(count):
        log.partitions[partition] = []
    moments = [(dict.fromkeys(range(count), 0), frozenset())]
    for number, (kind, partition, transaction, place) in enumerate(sent):
        ends, done = moments[-1]
        if kind == "end":
            moments.append((ends, done | {transaction.id}))
            continue
        if number in gaps:
            log.partitions[partition].append(GAP)
        log.add(partition, transaction, place)
        log.partitions[partition] += [TOMBSTONE] if kind == "delete" else []
        moments.append((ends | {partition: len(log.partitions[partition])}, done))
    return log, moments


@st.composite
def visible(draw, moments):
    """Each partition, and the metadata, as of some moment of its own."""
    at = st.integers(0, len(moments) - 1)
    last = {p: moments[draw(at)][0][p] for p in moments[0][0]}
    return last, moments[draw(at)][1]


def limited(log, positions, draw, least=0):
    """Candidate ranges, cut anywhere."""
    return tuple(
        OffsetRange(p, positions[p], draw(st.integers(positions[p] + least, end)))
        for p, end in log.ends.items()
        if end > positions[p]
    )


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
@settings(deadline=None, max_examples=300)
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
        found = align(log, ranges, log.counts, forward=data.draw(st.booleans()))
        positions = check(log, ranges, found, positions)
    log.see_all()
    for _ in range(200):
        if positions == log.ends:
            break
        ranges = limited(log, positions, data.draw, least=1)
        found = align(log, ranges, log.counts, forward=False)
        assert found, "everything is there and finished, so a batch must move on"
        positions = check(log, ranges, found, positions)
    assert positions == log.ends


@pytest.mark.property
@settings(deadline=None, max_examples=200)
@given(st.data())
def test_a_batch_moves_on_whenever_a_whole_transaction_is_unread(data):
    log, moments = data.draw(logs(restarts=False))
    log.see(*data.draw(visible(moments)))
    positions = dict.fromkeys(log.ends, 0)
    ranges = limited(log, positions, data.draw, least=1)
    found = align(log, ranges, log.counts, forward=False)
    check(log, ranges, found, positions)
    first = log.merged(log.ends).get("0", set())
    if "0" in log.ended and first == set(range(1, log.sizes["0"] + 1)):
        assert found


@pytest.mark.property
@settings(deadline=None, max_examples=200)
@given(st.data())
def test_forward_takes_in_everything_that_is_whole(data):
    """An hour's end moves to the end of the newest transaction, if that is finished."""
    log, _ = data.draw(logs(restarts=False))
    log.see_all()
    positions = dict.fromkeys(log.ends, 0)
    ranges = limited(log, positions, data.draw)
    found = align(log, ranges, log.counts, forward=True)
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
    found = align(log, candidates, log.counts, forward=False)
    assert found == (OffsetRange(0, 0, 2), OffsetRange(1, 0, 2))
    found = align(log, candidates, log.counts, forward=True)
    assert found == (OffsetRange(0, 0, 4), OffsetRange(1, 0, 4))


@pytest.mark.unit
def test_an_end_record_does_not_prove_that_all_changes_are_below_the_end():
    """The inverse: trusting the end record would publish half of the last transaction."""
    log = two_partitions([4, 4], ended=["0", "1"])
    log.ends = {0: 4, 1: 3}
    found = align(log, whole(log), log.counts, forward=False)
    assert found == (OffsetRange(0, 0, 2), OffsetRange(1, 0, 2))
    trusting = align(log, whole(log), dict.fromkeys, forward=False)
    assert log.halves({each.partition: each.end for each in trusting}) == {"1"}


@pytest.mark.unit
def test_a_transaction_before_the_last_may_lack_changes_too():
    log = two_partitions([4, 4, 1], ended=["0", "1", "2"])
    log.ends = {0: 3, 1: 5}
    found = align(log, whole(log), log.counts, forward=False)
    assert found == (OffsetRange(0, 0, 2), OffsetRange(1, 0, 2))


@pytest.mark.unit
def test_an_old_transaction_is_taken_as_whole():
    log = ModelLog(sizes={"0": 2, "1": 1})
    log.add(0, Transaction("0", (0,)), 1)
    log.add(1, Transaction("0", (0,)), 2)
    log.add(0, Transaction("1", (1,)), 1, NOW + timedelta(seconds=3))
    log.see({0: 2, 1: 1}, ["1"])
    assert align(log, whole(log), log.counts, forward=False) == whole(log)


@pytest.mark.unit
@pytest.mark.parametrize("forward", [False, True], ids=["limit", "hour"])
def test_a_transaction_that_is_not_finished_stays_outside_however_large(forward):
    log = two_partitions([500])
    candidates = (OffsetRange(0, 0, 10), OffsetRange(1, 0, 10))
    assert align(log, candidates, log.counts, forward=forward) == ()
    log.see(log.ends, ["0"])
    assert align(log, candidates, log.counts, forward=forward) == whole(log)


@pytest.mark.unit
def test_records_without_transactions_leave_ranges_as_they_are():
    log = ModelLog()
    for _ in range(10):
        log.add(0, Transaction("rows read at (1,)", (1,)), None)
    log.see({0: 10}, [])
    candidates = (OffsetRange(0, 2, 7),)
    assert align(log, candidates, log.counts, forward=False) == candidates
    assert align(log, (OffsetRange(0, 2, 2),), log.counts, forward=True) == ()


@pytest.mark.unit
def test_transactions_without_an_order_leave_ranges_as_they_are():
    log = ModelLog(sizes={"a": 2})
    log.add(0, Transaction("a", ()), 1)
    log.add(1, Transaction("a", ()), 2)
    log.see({0: 1, 1: 1}, [])
    assert align(log, whole(log), log.counts, forward=False) == whole(log)


def tail(*places, id_="t", is_whole=False):
    records = [LogRecord(n, NOW, Transaction(id_, (5,)), place) for n, place in enumerate(places)]
    return Tail(tuple(records), is_whole)


LATER = Tail((LogRecord(9, NOW, Transaction("u", (6,)), 1),), False)
EARLIER = Tail((LogRecord(9, NOW, Transaction("s", (4,)), 1),), False)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("tails", "count", "expected"),
    [
        ([tail(1, 3, is_whole=True), tail(2, 4, is_whole=True)], 4, Verdict.WHOLE),
        ([tail(1, 3, is_whole=True), tail(2, is_whole=True)], 4, Verdict.OPEN),
        ([tail(97, 99), tail(98, 100)], 100, Verdict.WHOLE),
        ([tail(97, 99), tail(96, 98)], 100, Verdict.OPEN),
        ([tail(97, 98, 99, 100), tail(1, 2, 3)], 100, Verdict.UNKNOWN),
        ([tail(99, 100), EARLIER], 100, Verdict.UNKNOWN),
        ([tail(1, 2, is_whole=True), EARLIER], 2, Verdict.WHOLE),
        ([tail(1, 2, is_whole=True), LATER], 2, Verdict.UNKNOWN),
        ([tail(1, 2, is_whole=True), Tail((), False)], 2, Verdict.UNKNOWN),
        ([tail(1, 2, 3, is_whole=True)], 2, Verdict.WHOLE),
        ([tail(1, is_whole=True)], None, Verdict.WHOLE),
    ],
    ids=[
        "all places",
        "a place is missing",
        "all that was sent after a place that each partition has reached",
        "the last place is missing",
        "a partition may lack what was sent before the tails",
        "a partition without changes so far may lack any",
        "a partition that has only older ones and lacks nothing",
        "changes may lie before a tail",
        "a tail without records tells nothing",
        "counters that began anew",
        "an end that does not count this table",
    ],
)
def test_verdicts(tails, count, expected):
    assert verdict(Transaction("t", (5,)), dict(enumerate(tails)), count) is expected


@pytest.mark.unit
def test_a_large_skewed_transaction_is_read_back_only_so_far():
    log = ModelLog(sizes={"t": 3 * MAX_READ})
    for place in range(1, 3 * MAX_READ + 1):
        log.add(0, Transaction("t", (1,)), place)
    for number in range(100):
        log.add(1, Transaction(f"rows read at {number}", (5,)), None)
    log.see({p: len(log.partitions[p]) for p in (0, 1)}, ["t"])
    assert align(log, whole(log), log.counts, forward=False) == whole(log)
    log.ends[0] -= 1
    assert OffsetRange(0, 0, log.ends[0]) not in align(log, whole(log), log.counts, forward=False)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("source", "order"),
    [
        ({"lsn": 30, "sequence": '["20","30"]'}, (20,)),
        ({"lsn": 30, "sequence": '[null,"30"]'}, (30,)),
        ({"lsn": 30}, (30,)),
        ({"lsn": None, "sequence": None}, ()),
        ({"file": "mysql-bin.000010", "pos": 4}, (10, 4)),
        ({"file": "", "pos": 0}, ()),
        ({"commit_lsn": "00000027:00000758:0005"}, ()),
        ({}, ()),
    ],
)
def test_the_order_of_transactions_is_that_of_commits(source, order):
    assert transaction_order(source) == order


@pytest.mark.unit
def test_an_end_record_names_its_tables():
    value = (
        b'{"schema":{},"payload":{"status":"END","id":"571:53","event_count":3,"data_collections":'
        b'[{"data_collection":"db.public.a","event_count":2},'
        b'{"data_collection":"public.b","event_count":1}]}}'
    )
    found = ended(RawRecord(Coordinate("x.transaction", 0, 0), NOW, None, value))
    assert found is not None
    assert found.ids == {"571:53", "571"}
    counts = [found.count(name) for name in ("public.a", "public.b", "lic.b", "public.c")]
    assert counts == [2, 1, None, None]
    begin = value.replace(b"END", b"BEGIN")
    assert ended(RawRecord(Coordinate("x.transaction", 0, 0), NOW, None, begin)) is None


@pytest.mark.unit
@pytest.mark.parametrize(
    ("topic", "found"),
    [
        ("eu.west.public.orders", "eu.west.transaction"),
        ("eu.east.public.orders", "eu.transaction"),
        ("us.public.orders", None),
        ("euro.public.orders", None),
    ],
)
def test_the_metadata_topic_is_that_of_the_longest_prefix(topic, found):
    topics = ["eu.transaction", "eu.west.transaction", "public.transaction"]
    assert transaction_topic(topic, topics) == found
