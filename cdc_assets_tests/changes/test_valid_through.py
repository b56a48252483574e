"""A table never claims to be complete through a time that it is not; the short ways do.

Logs are generated: transactions commit at a source, a connector reads them in order and gives
their changes to a producer, which sends to each partition by itself; Connect commits what is
acknowledged without a gap; the table merges what it sees.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.valid_through import (
    MOMENTS,
    Moment,
    Witness,
    delivered,
    proven,
    with_moment,
)
from cdc_assets_tests.toy.profiles import examples

START = datetime(2026, 3, 4, 12, tzinfo=UTC)
PARTITIONS = 3
TABLE, MARKS = "table", "marks"


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


@dataclass
class Record:
    """``number`` in the order of the connector; ``change`` of the table, or a mark with a time."""

    number: int
    partition: int
    topic: str
    commit: int
    time: datetime
    acked: bool = False


@dataclass
class Pipeline:
    """Time goes on by a second with each step. A commit's position is its number, from 1 on."""

    rng: random.Random
    now: int = 0
    commits: list[tuple[datetime, int]] = field(default_factory=list)
    read: int = 0
    records: list[Record] = field(default_factory=list)
    log: dict[tuple[str, int], list[Record]] = field(default_factory=dict)
    committed: OffsetVector = field(default_factory=OffsetVector)

    def commit(self) -> None:
        """A transaction with one change of the table."""
        self.commits.append((at(self.now), len(self.commits) + 1))

    def connector_reads(self) -> None:
        """The next transaction; then a heartbeat, with the connector's clock."""
        if self.read == len(self.commits):
            return
        time, number = self.commits[self.read]
        self.read += 1
        self._give(TABLE, self.rng.randrange(PARTITIONS), number, time)
        self._give(MARKS, 0, number, at(self.now))
        self._give("ends", 0, number, time)

    def producer_sends(self) -> None:
        """The oldest records of one partition arrive; the others go on waiting."""
        waiting = sorted({(r.topic, r.partition) for r in self.records if not r.acked})
        if waiting:
            place = self.rng.choice(waiting)
            mine = [r for r in self.records if not r.acked and (r.topic, r.partition) == place]
            for record in mine[: self.rng.randint(1, 3)]:
                record.acked = True
                self.log.setdefault(place, []).append(record)

    def merge(self) -> None:
        """All that can be seen of some partitions."""
        ends = self.ends().as_dict()
        some = {p: end for p, end in ends.items() if self.rng.random() < 0.7}
        self.committed = self.committed.merged_max(OffsetVector.of(some))

    def acknowledged(self) -> int:
        """The position up to which all records were acknowledged: Connect's committed offset."""
        gap = next((r.number for r in self.records if not r.acked), len(self.records))
        return self.records[gap - 1].commit if gap else 0

    def ends(self) -> OffsetVector:
        """Of the table's topic."""
        return OffsetVector.of({p: len(self.log.get((TABLE, p), [])) for p in range(PARTITIONS)})

    def moment(self) -> Moment:
        """The source's clock, then its log's end."""
        return Moment(at(self.now), len(self.commits))

    def newest(self, topic: str) -> datetime | None:
        """The time of the newest mark that can be read."""
        found = self.log.get((topic, 0), [])
        return found[-1].time if found else None

    def is_true(self, claim: datetime) -> bool:
        """Whether every transaction that was committed before is merged."""
        merged = {
            record.commit
            for p in range(PARTITIONS)
            for record in self.log.get((TABLE, p), [])[: self.committed.get(p)]
        }
        return all(number in merged for time, number in self.commits if time < claim)

    def _give(self, topic: str, partition: int, commit: int, time: datetime) -> None:
        self.records.append(Record(len(self.records), partition, topic, commit, time))


def claims(pipeline: Pipeline, steps: int) -> Iterator[datetime]:
    """What is claimed after each step, of a pipeline under a random load."""
    actions = ["commit", "connector_reads", "producer_sends", "merge", "look"]
    moments: tuple[Moment, ...] = ()
    witnesses: list[Witness] = []
    claim: datetime | None = None
    for _ in range(steps):
        pipeline.now += 1
        action = pipeline.rng.choice(actions)
        if action == "look":
            seen = pipeline.moment()
            moments = with_moment(moments, seen)
            newest, moments = delivered(moments, pipeline.acknowledged(), seen)
            if newest:
                witnesses.append(Witness(newest.at, pipeline.ends()))
        else:
            getattr(pipeline, action)()
        claim = proven(witnesses, pipeline.committed, claim)
        if claim:
            yield claim


def short_way(pipeline: Pipeline, steps: int, topic: str) -> Iterator[datetime]:
    """The naive variant: the ends after a heartbeat, or a transaction's end, that can be read."""
    witnesses: list[Witness] = []
    for _ in range(steps):
        pipeline.now += 1
        action = pipeline.rng.choice(["commit", "connector_reads", "producer_sends", "merge"])
        getattr(pipeline, action)()
        if (time := pipeline.newest(topic)) is not None:
            witnesses.append(Witness(time, pipeline.ends()))
        if claim := proven(witnesses, pipeline.committed, None):
            yield claim


@pytest.mark.property
@examples(300)
@given(st.integers(0, 2**32))
def test_what_is_claimed_is_true(seed: int) -> None:
    pipeline = Pipeline(random.Random(seed))
    for claim in claims(pipeline, 150):
        assert pipeline.is_true(claim), f"seed {seed}: {claim}"


@pytest.mark.property
def test_claims_are_made_and_go_on() -> None:
    newest = []
    for seed in range(50):
        pipeline = Pipeline(random.Random(seed))
        newest.append(max(claims(pipeline, 600), default=START))
    late = sum(each > at(100) for each in newest)
    assert late > 25, f"{late} of 50 logs have proven anything"


@pytest.mark.property
@pytest.mark.parametrize("topic", [MARKS, "ends"], ids=["heartbeats", "transactions"])
def test_the_short_ways_claim_too_much(topic: str) -> None:
    def is_wrong(seed: int) -> bool:
        pipeline = Pipeline(random.Random(seed))
        return any(not pipeline.is_true(claim) for claim in short_way(pipeline, 150, topic))

    assert any(is_wrong(seed) for seed in range(100))


@pytest.mark.unit
def test_a_witness_counts_once_all_of_its_ends_are_reached() -> None:
    witness = Witness(at(5), OffsetVector.of({0: 10, 1: 0, 2: 7}))
    assert proven([witness], OffsetVector.of({0: 10, 2: 6}), None) is None
    assert proven([witness], OffsetVector.of({0: 11, 2: 7}), None) == at(5)
    assert proven([witness], OffsetVector.of({0: 11, 2: 7}), at(9)) == at(9)


@pytest.mark.unit
def test_a_log_or_a_clock_that_begins_again_leaves_nothing_to_compare_with() -> None:
    known = (Moment(at(1), 100), Moment(at(2), 200))
    assert with_moment(known, Moment(at(3), 50)) == (Moment(at(3), 50),)
    assert with_moment(known, Moment(at(1), 300)) == (Moment(at(1), 300),)
    seen = Moment(at(4), 50)
    assert delivered((seen,), acknowledged=200, seen=seen) == (None, (seen,))


@pytest.mark.unit
def test_moments_of_a_connector_that_is_far_behind_are_thinned_and_kept() -> None:
    known: tuple[Moment, ...] = ()
    for n in range(10_000):
        known = with_moment(known, Moment(at(n), n))
    assert len(known) <= MOMENTS
    assert known[0] == Moment(at(0), 0)
    newest, kept = delivered(known, 5_000, known[-1])
    assert newest is not None
    assert newest.position <= 5_000
    assert kept[0] == newest
