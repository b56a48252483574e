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

from cdc_assets.changes.log_places import Lsn
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.valid_through import (
    MOMENTS,
    SourceMemory,
    SourceMoment,
    Witness,
    delivered,
    proven,
)
from cdc_assets_tests.toy.profiles import examples

START = datetime(2026, 3, 4, 12, tzinfo=UTC)
PARTITIONS = 3
TABLE, MARKS = "table", "marks"


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def place(commits: int, logs: int) -> Lsn:
    """After so many commits; no place of one log is exactly one of another."""
    return Lsn(100 * commits + logs)


@dataclass
class Record:
    """``number`` in the order of the connector; a change of the table, or a mark with a time.

    ``offset``: what Connect commits once everything up to here is acknowledged.
    """

    number: int
    partition: int
    topic: str
    commit: int
    time: datetime
    offset: Lsn | None
    acked: bool = False


@dataclass
class Pipeline:
    """Time goes on by a second with each step. A commit's position is its number, from 1 on.

    When the log begins again, positions do too, and the connector is dead for a while. Until it
    reads again, what was acknowledged is a position of the log before.
    """

    rng: random.Random
    now: int = 0
    bases: list[int] = field(default_factory=lambda: [0])
    is_dead: bool = False
    snapshot: range = range(0)
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
        if self.is_dead or self.read == len(self.commits):
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

    def begins_again(self) -> None:
        """The log; the connector dies, with all that it has read delivered."""
        self.bases.append(len(self.commits))
        self.is_dead = True
        while not all(record.acked for record in self.records):
            self.producer_sends()

    def revives(self) -> None:
        """The connector: what it has not read of the log before, it reads as a snapshot."""
        if self.is_dead:
            self.is_dead, self.snapshot = False, range(self.read + 1, self.bases[-1] + 1)
            for _ in self.snapshot:
                self.connector_reads()

    def offset(self, commit: int) -> Lsn | None:
        """The position of a commit in the log that it is in; nothing amid a snapshot."""
        if commit not in self.snapshot:
            older = [base for base in self.bases if base < commit]
            return place(commit - older[-1], len(older))
        return place(0, len(self.bases)) if commit + 1 not in self.snapshot else None

    def acknowledged(self) -> Lsn | None:
        """The offset before which all records were acknowledged, as Connect has committed it."""
        gap = next((r.number for r in self.records if not r.acked), len(self.records))
        return self.records[gap - 1].offset if gap else None

    def ends(self) -> OffsetVector:
        """Of the table's topic."""
        return OffsetVector.of({p: len(self.log.get((TABLE, p), [])) for p in range(PARTITIONS)})

    def moment(self) -> SourceMoment[Lsn]:
        """The source's clock, then its log's end."""
        return SourceMoment(
            at(self.now), place(len(self.commits) - self.bases[-1], len(self.bases))
        )

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
        offset = self.offset(commit)
        self.records.append(Record(len(self.records), partition, topic, commit, time, offset))


ACTIONS = ("commit", "connector_reads", "producer_sends", "merge", "look")
RESTORED = (*ACTIONS * 8, "begins_again", *["revives"] * 3)


def claims(
    pipeline: Pipeline, steps: int, actions: tuple[str, ...] = ACTIONS
) -> Iterator[datetime]:
    """What is claimed after each step, of a pipeline under a random load."""
    known: SourceMemory[Lsn] = SourceMemory()
    witnesses: list[Witness] = []
    claim: datetime | None = None
    for _ in range(steps):
        pipeline.now += 1
        action = pipeline.rng.choice(actions)
        if action == "look":
            newest, known = delivered(known, pipeline.acknowledged(), pipeline.moment())
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
@examples(400)
@given(st.integers(0, 2**32))
def test_it_is_true_of_logs_that_begin_again(seed: int) -> None:
    pipeline = Pipeline(random.Random(seed))
    for claim in claims(pipeline, 250, RESTORED):
        assert pipeline.is_true(claim), f"seed {seed}: {claim}"


@pytest.mark.property
def test_claims_are_made_and_go_on() -> None:
    newest = []
    for seed in range(50):
        pipeline = Pipeline(random.Random(seed))
        newest.append(max(claims(pipeline, 600), default=START))
    late = sum(each > at(100) for each in newest)
    assert late > 25, f"{late} of 50 logs have proven anything"
    after = 0
    for seed in range(50):
        pipeline = Pipeline(random.Random(seed))
        for claim in claims(pipeline, 600, RESTORED):
            base = pipeline.bases[-1]
            after += (
                bool(base) and base < len(pipeline.commits) and claim > pipeline.commits[base][0]
            )
    assert after, "nothing was proven after a log had begun again"


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


def seen(*moments: tuple[float, int], stale: int | None = None) -> SourceMemory[Lsn]:
    """Of seconds and positions."""
    marks = tuple(SourceMoment(at(second), Lsn(number)) for second, number in moments)
    return SourceMemory(marks, None if stale is None else Lsn(stale))


@pytest.mark.unit
def test_a_log_or_a_clock_that_begins_again_leaves_nothing_to_compare_with() -> None:
    known = seen((1, 100), (2, 200))
    assert delivered(known, Lsn(40), SourceMoment(at(3), Lsn(50))) == (
        None,
        seen((3, 50), stale=40),
    )
    assert delivered(known, Lsn(40), SourceMoment(at(1), Lsn(300))) == (
        None,
        seen((1, 300), stale=40),
    )
    assert delivered(seen(), Lsn(200), SourceMoment(at(4), Lsn(50))) == (
        None,
        seen((4, 50), stale=200),
    )


@pytest.mark.unit
def test_a_connector_of_the_log_before_is_not_believed_until_it_moves() -> None:
    _, known = delivered(seen((1, 100)), Lsn(90), SourceMoment(at(2), Lsn(10)))
    newest, known = delivered(known, Lsn(90), SourceMoment(at(3), Lsn(80)))
    assert newest is None
    newest, known = delivered(known, Lsn(90), SourceMoment(at(4), Lsn(95)))
    assert newest is None, "the new log has reached where the connector was in the old one"
    assert known == seen((2, 10), (3, 80), (4, 95), stale=90)
    newest, known = delivered(known, Lsn(81), SourceMoment(at(5), Lsn(96)))
    assert newest == SourceMoment(at(3), Lsn(80))
    assert known == seen((3, 80), (4, 95), (5, 96))


@pytest.mark.unit
def test_what_is_not_known_to_be_acknowledged_delivers_nothing_and_moments_stay() -> None:
    assert delivered(seen((1, 5)), None, SourceMoment(at(2), Lsn(7))) == (
        None,
        seen((1, 5), (2, 7)),
    )


@pytest.mark.slow
def test_moments_of_a_connector_that_is_far_behind_are_thinned_and_kept() -> None:
    known: SourceMemory[Lsn] = SourceMemory()
    for n in range(1, 10_000):
        _, known = delivered(known, Lsn(0), SourceMoment(at(n), Lsn(n)))
    assert len(known.moments) <= MOMENTS
    assert known.moments[0] == SourceMoment(at(1), Lsn(1))
    newest, known = delivered(known, Lsn(5_000), SourceMoment(at(10_000), Lsn(10_000)))
    assert newest is not None
    assert newest.place.number <= 5_000
    assert known.moments[0] == newest
