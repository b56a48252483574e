"""A table that is merged hour by hour comes to its log's end, whatever a connector sends again.

The cuts, the hours, and the checks at transactions are the real ones, over a topic that is a list.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.offsets import OffsetRange, OffsetVector
from cdc_assets.config.batch import TransactionsConfig
from cdc_assets.errors import TransientError
from cdc_assets.log import boundaries
from cdc_assets.log.boundaries import Aligned, align
from cdc_assets.log.hours import HourWindow
from cdc_assets.log.marks import Transaction
from cdc_assets.log.resent import TransactionState, newest_of
from cdc_assets.log.unfinished import Unfinished
from cdc_assets.log.values import Watermarks
from cdc_assets.merge.intake.planning.cuts import Cut, Cuts, Extent, TransactionTopics
from cdc_assets.merge.plan.result import Waiting
from cdc_assets.merge.plan.waiting import UnfinishedError
from cdc_assets.operate.hours import hours_to_read
from cdc_assets.registry import TableEntry
from cdc_assets_tests.log.model_log import GAP, NOW, TOMBSTONE, ModelLog, logs
from cdc_assets_tests.toy.profiles import examples, is_soak

ENTRY = TableEntry(TableName("s", "public", "t"), "t", LakeName("n", "t"), NOW)
MINUTES = (0, 0, 0, 1, 5, 20, 70)
LIMITS = (2, 5, 1000)


@dataclass
class Kafka:
    """The topic of a `ModelLog`, with the answers that cuts and hours ask of Kafka."""

    model: ModelLog
    topics: tuple[str, str] = ("t", "transaction")

    def offsets_at(
        self, topics: Sequence[str], times: Sequence[datetime]
    ) -> dict[tuple[str, datetime], OffsetVector]:
        found = {t: {p: self._first(p, 0, t) for p in self.model.ends} for t in times}
        return {(topic, t): OffsetVector.of(found[t]) for topic in topics for t in times}

    def first_unread(self, positions: Mapping[str, OffsetVector]) -> dict[str, datetime | None]:
        return {topic: self._time(at) for topic, at in positions.items()}

    def watermarks(self, topics: Sequence[str]) -> dict[str, Watermarks]:
        marks = Watermarks(OffsetVector(), OffsetVector.of(self.model.ends))
        return dict.fromkeys(topics, marks)

    def aligned(
        self, within: tuple[OffsetRange, ...], _: OffsetVector, *, forward: bool, accepted: Any
    ) -> Aligned:
        return align(self.model, within, self.model.counts, forward=forward, accepted=accepted)

    def newest_of(
        self, ranges: Sequence[OffsetRange], _: OffsetVector, newest: Mapping[int, int]
    ) -> tuple[TransactionState, Unfinished | None]:
        return newest_of(self.model, ranges, newest, self.model.counts)

    def _first(self, partition: int, start: int, time: datetime | None) -> int:
        for record in self.model.between(partition, start, self.model.ends[partition]):
            if time is None or record.timestamp >= time:
                return record.offset
        return self.model.ends[partition]

    def _time(self, at: OffsetVector) -> datetime | None:
        found = (self.model.at(p, at.get(p)) for p in self.model.ends)
        return min((each.timestamp for each in found if each), default=None)


class Reader:
    """A table that is merged batch by batch, each in the hour that is to be read next."""

    def __init__(self, model: ModelLog, limit: int) -> None:
        self.model, self.kafka, self.now = model, Kafka(model), NOW
        self.positions = dict.fromkeys(model.partitions, 0)
        source = SimpleNamespace(
            batch=SimpleNamespace(max_records=limit), transactions=TransactionsConfig()
        )
        configured = SimpleNamespace(source=lambda _: source)
        self._cuts = Cuts(cast("Any", configured), cast("Any", self.kafka), lambda: self.now)

    def read(self) -> bool:
        """Reads one batch; returns whether there was one that did not have to wait."""
        at, end = OffsetVector.of(self.positions), OffsetVector.of(self.model.ends)
        if not at.ranges_to(end):
            return False
        window = hours_to_read(cast("Any", self.kafka), {"t": at}, self.now)["t"]
        limits = 1
        while True:
            cut = self._cut(window, limits)
            if isinstance(cut, Waiting):
                return False
            assert cut is not None, "the hour has unread records"
            try:
                cut.require_whole(newest(self.model, cut.ranges))
            except UnfinishedError as unfinished:
                if not (unfinished.is_cut and cut.may_grow):
                    return False
                limits *= 8
                assert limits < 8**7, "a longer batch is asked for without end"
            else:
                self._take(cut)
                return True

    def _cut(self, window: HourWindow, limits: int) -> Cut | Waiting | None:
        at, end = OffsetVector.of(self.positions), OffsetVector.of(self.model.ends)
        marks = Watermarks(OffsetVector(), end)
        extent = Extent(window, limits)
        return self._cuts.of(ENTRY, None, at.ranges_to(end), marks, extent)

    def _take(self, cut: Cut) -> None:
        """Checks that nothing is read twice, left out or split."""
        assert cut.ranges
        for each in cut.ranges:
            assert self.positions[each.partition] == each.start < each.end
            self.positions[each.partition] = each.end
            assert not self.model.is_cut_from_delete(each.partition, each.end)
        assert self.model.halves(self.positions) == set()

    def read_all(self) -> None:
        """Reads to the end of a log that is whole."""
        while self.positions != self.model.ends:
            assert self.read(), "everything is there and finished, so a batch must move on"


def newest(model: ModelLog, ranges: Sequence[OffsetRange]) -> dict[int, int]:
    """Offsets of the changes with the highest positions, as whoever folds the ranges knows them."""
    found: dict[int, int] = {}
    for each in ranges:
        changes = [r for r in model.between(each.partition, each.start, each.end) if r.place]
        if changes:
            by_position = max(changes, key=lambda r: (int(r.transaction.id), r.place, r.offset))
            found[each.partition] = by_position.offset
    return found


@pytest.fixture(autouse=True)
def transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransactionTopics, "of", lambda cuts, _: cuts._log)  # noqa: SLF001


@pytest.mark.property
@examples(60, in_soak=4000)
@given(st.data())
def test_hours_with_resends_and_aborted_records_are_read_to_the_end(data: st.DataObject) -> None:
    """While the log grows a reader may have to wait; once all of it is there it reads on.

    What partitions show at different moments is drawn where no time passes: `test_boundaries`.
    """
    model, moments = data.draw(logs(minutes=MINUTES))
    reader = Reader(model, data.draw(st.sampled_from(LIMITS)))
    for at in sorted(data.draw(st.lists(st.integers(0, len(moments) - 1), max_size=4))):
        model.see(*moments[at])
        reader.now = last_sent(model) + timedelta(minutes=data.draw(st.sampled_from(MINUTES)))
        while reader.read():
            pass
    model.see_all()
    reader.now = last_sent(model) + timedelta(hours=data.draw(st.integers(0, 3)))
    reader.read_all()


def last_sent(model: ModelLog) -> datetime:
    every = (r for p, end in model.ends.items() for r in model.between(p, 0, end))
    return max((record.timestamp for record in every), default=NOW)


def busy(seed: int) -> ModelLog:
    """A log in which a connector begins again inside of a transaction, across hours."""
    rng = random.Random(seed)
    count = rng.choice([1, 1, 2, 3])
    sizes = {str(n): rng.choice([1, 2, 3, 5]) for n in range(rng.randint(2, 6))}
    once = [
        (rng.randrange(count), Transaction(id_, (100 * int(id_),)), place)
        for id_, size in sizes.items()
        for place in range(1, size + 1)
    ]
    upto = rng.randint(1, len(once))
    model, time = ModelLog(sizes=sizes), NOW
    model.partitions |= {partition: [] for partition in range(count)}
    for partition, transaction, place in [*once[:upto], *once[rng.randint(0, upto) :]]:
        time += timedelta(minutes=rng.choice(MINUTES))
        model.add(partition, transaction, place, time)
        model.partitions[partition] += [TOMBSTONE] * (rng.random() < 0.25)
        if rng.random() < 0.08:
            model.partitions[rng.randrange(count)] += [GAP] * rng.choice([1, 2, 31, 32, 70, 200])
    model.see_all()
    return model


def stalls(seeds: int, of: Callable[[int], ModelLog] = busy) -> list[int]:
    """The seeds of logs whose reader finds no batch."""
    found: list[int] = []
    for seed in range(seeds):
        reader = Reader(of(seed), LIMITS[seed % len(LIMITS)])
        reader.now = last_sent(reader.model) + timedelta(hours=3)
        try:
            reader.read_all()
        except TransientError:
            found.append(seed)
    return found


@pytest.mark.property
def test_no_busy_log_stalls() -> None:
    assert stalls(4000 if is_soak() else 200) == []


@pytest.mark.property
def test_logs_stall_whose_first_transaction_is_not_taken_at_an_hours_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The inverse: an hour's last change may be one that was sent again."""
    first = boundaries._first_transaction  # noqa: SLF001

    def old(model: Any, within: Any, _: Any, *, forward: bool, accepted: Any) -> Aligned:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(boundaries, "_first_transaction", lambda *_: () if forward else first(*_))
            return align(model.model, within, model.model.counts, forward=forward)

    monkeypatch.setattr(Kafka, "aligned", old)
    found = stalls(200)
    assert found
    with pytest.raises(TransientError, match="no batch was found among unread records"):
        late(found[0]).read_all()


def late(seed: int) -> Reader:
    reader = Reader(busy(seed), LIMITS[seed % len(LIMITS)])
    reader.now = last_sent(reader.model) + timedelta(hours=3)
    return reader


def resent(rows: int) -> ModelLog:
    """A connector dies inside its second transaction and sends the first one again, of many rows,
    as an hour ends."""
    model = ModelLog(sizes={"1": rows, "2": 4, "3": 2})
    hour = NOW + timedelta(hours=1)

    def send(id_: int, places: int, seconds: int) -> None:
        for place in range(1, places + 1):
            time = hour + timedelta(seconds=seconds)
            model.add(0, Transaction(f"{id_}", (id_,)), place, time)

    send(1, rows, -20)
    send(2, 2, -10)
    send(1, rows, -2)
    send(2, 4, 3)
    send(3, 2, 300)
    model.see_all()
    return model


@pytest.mark.unit
@pytest.mark.parametrize("rows", [2, 1500], ids=["near the hour's end", "beyond what is looked at"])
def test_a_resend_across_an_hours_boundary_is_read_through(rows: int) -> None:
    reader = Reader(resent(rows), limit=1_000_000)
    reader.now = NOW + timedelta(hours=3)
    reader.read_all()
    assert reader.positions == {0: 2 * rows + 8}


@pytest.mark.unit
def test_a_longer_batch_leaves_an_hour_that_is_over() -> None:
    """What a batch lacks may be in the next hour; what the log does not have, in none."""
    reader = Reader(resent(1500), limit=1_000_000)
    reader.now = NOW + timedelta(hours=3)
    hour = HourWindow.starting(NOW)
    short, long = (reader._cut(hour, limits) for limits in (1, 8))  # noqa: SLF001
    assert isinstance(short, Cut)
    assert isinstance(long, Cut)
    assert (short.ranges, short.may_grow) == ((OffsetRange(0, 0, 3002),), True)
    assert (long.ranges, long.may_grow) == ((OffsetRange(0, 0, 3008),), False)


@pytest.mark.unit
def test_an_unfinished_transaction_at_the_logs_end_does_not_let_a_batch_grow() -> None:
    """The log holds more, but no longer batch would take it."""
    model = ModelLog(sizes={"1": 2, "2": 4})
    for id_, place in ((1, 1), (1, 2), (2, 1), (2, 2)):
        model.add(0, Transaction(f"{id_}", (id_,)), place)
    model.see({0: 4}, ["1"])
    cut = Reader(model, limit=1000)._cut(HourWindow.starting(NOW), 1)  # noqa: SLF001
    assert isinstance(cut, Cut)
    assert (cut.ranges, cut.may_grow) == ((OffsetRange(0, 0, 2),), False)


@pytest.mark.unit
def test_two_tries_of_the_same_ranges_may_be_followed_by_a_longer_one() -> None:
    """So equal ranges do not show that no longer batch is possible: the next limit may."""
    model = ModelLog(sizes={"1": 1, "2": 900})
    for id_, place in [(1, 1), *((2, place) for place in range(1, 901))]:
        model.add(0, Transaction(f"{id_}", (id_,)), place)
    model.see_all()
    reader = Reader(model, limit=1)
    tries = [reader._cut(HourWindow.starting(NOW), 8**n) for n in range(5)]  # noqa: SLF001
    found = [(each.ranges[0].end, each.may_grow) for each in tries if isinstance(each, Cut)]
    assert found == [(1, True), (1, True), (1, True), (1, True), (901, False)]
