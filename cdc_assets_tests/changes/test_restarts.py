"""Positions that went back: generated logs with a restore are told from those without."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from cdc_assets.changes.position import Scheme
from cdc_assets.changes.restarts import (
    MergedState,
    NumberingPlace,
    Permit,
    Restart,
    Restarts,
    permitted,
    witness,
)
from cdc_assets_tests.model.change import LowWatermarks
from cdc_assets_tests.toy import cuts
from cdc_assets_tests.toy.actions import Commit, Log, Toy
from cdc_assets_tests.toy.busy import SESSIONS, busy_log
from cdc_assets_tests.toy.connector import Record
from cdc_assets_tests.toy.cuts import Merge
from cdc_assets_tests.toy.profiles import is_soak
from cdc_assets_tests.toy.restored import (
    Clock,
    Reader,
    WentBackError,
    changed,
    followed,
    placed,
    timed,
)

SEEDS = range(500 if is_soak() else 200)


def batches(log: Log, records: list[Record]) -> Iterator[tuple[list[Record], int]]:
    """What each batch reads, and how many partitions the topic has by then."""
    vector, there = dict[int, int](), partitions_at(log)
    for step in log.steps:
        if isinstance(step, Merge):
            read = cuts.between(records, vector, step.to)
            vector = dict(step.to)
            yield read, max((there[p, at] for p, at in coordinates(read)), default=1)


def coordinates(records: list[Record]) -> list[tuple[int, int]]:
    return [(each.partition, each.offset) for each in records]


def partitions_at(log: Log) -> dict[tuple[int, int], int]:
    """How many partitions the topic had when a record was produced."""
    toy, found = Toy(log.schema, log.settings), dict[tuple[int, int], int]()
    actions = [*log.actions, *(Commit(session, 0) for session in range(SESSIONS))]
    for action in actions:
        toy.do(action)
        for at in coordinates(toy.log.records[len(found) :]):
            found[at] = len(toy.log.ends)
    return found


def read(log: Log, clock: Clock) -> None:
    reader = Reader()
    records = timed(log.records, clock)
    for batch, partitions in batches(log, records):
        reader.read(batch, partitions)


@pytest.mark.property
def test_no_log_of_one_numbering_is_taken_for_a_restart() -> None:
    """Connector restarts, snapshots of both kinds, transactions in flight, added partitions."""
    for seed in SEEDS:
        no_alarm(busy_log(seed), Clock(random.Random(seed)))


@pytest.mark.property
def test_nor_is_it_where_the_clock_is_set_and_keys_move_later() -> None:
    """Not before the first batch: then nothing tells that they have moved."""
    for seed in SEEDS:
        log = busy_log(seed)
        first = next(each for each in log.steps if isinstance(each, Merge)).to
        there, read = partitions_at(log), cuts.between(log.records, {}, first)
        if all(there[at] == log.settings.partitions for at in coordinates(read)):
            no_alarm(log, Clock(random.Random(seed), steps_ms=29_000))


@pytest.mark.property
def test_nor_where_a_connector_is_made_anew_on_the_slot_of_the_old_one() -> None:
    """Without a snapshot: the transaction that it sends first may have been open for long."""
    for seed in SEEDS:
        rng = random.Random(seed)
        log = unmoved(seed)
        no_alarm(replace(log, records=made_anew(log.records, rng)), Clock(rng))


def made_anew(records: tuple[Record, ...], rng: random.Random) -> tuple[Record, ...]:
    """A part of the transactions has no last commit.

    None that was open while an incremental snapshot read rows: one that changes them stops the
    table, since it stands below what was read.
    """
    read = 0
    first = dict[int, bool]()

    def one(record: Record) -> Record:
        nonlocal read
        event = record.event
        if event is None or event.transaction is None:
            read = max(read, event.lsn) if event else read
            return record
        begun = int(event.transaction.split(":")[0])
        if not first.setdefault(begun, begun > read and rng.random() < 0.2):
            return record
        return replace(record, event=replace(event, commit=None))

    return tuple(map(one, records))


@pytest.mark.property
def test_while_keys_stay_no_clock_has_to_be_right() -> None:
    for seed in SEEDS:
        clock = Clock(random.Random(seed), steps_ms=86_400_000, apart_ms=100_000)
        no_alarm(unmoved(seed, partitions=1), clock)


def unmoved(seed: int, *, partitions: int | None = None, like: Log | None = None) -> Log:
    """A log to which no partition was added."""
    for each in itertools.count(seed, 10_000_000):
        log = busy_log(each, like=like)
        if len(log.ends) == log.settings.partitions and partitions in {None, len(log.ends)}:
            return log
    raise AssertionError


def no_alarm(log: Log, clock: Clock) -> None:
    try:
        read(log, clock)
    except WentBackError as alarm:
        pytest.fail(f"{alarm}\n{log.describe()}")


# ── with a restore put in ─────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Restored:
    """Two numberings in one log, and where the second begins in each partition.

    Attributes:
        down_ms: the newest time of the first.
        ends: next offset of each partition after the first.
        shift: how much higher the positions of the second are than those of a new toy.
    """

    records: list[Record]
    down_ms: int
    ends: dict[int, int]
    shift: int

    @classmethod
    def of(cls, seed: int, back: int) -> Restored:
        """The second begins this many percent of the first's positions back."""
        rng = random.Random(seed)
        clock = Clock(rng)
        first = unmoved(seed)
        second = unmoved(seed + 1_000_000, like=first)
        old = timed(first.records, clock)
        clock.now_ms += 120_000
        down_ms = max((e.event.ts_ms for e in old if e.event), default=0)
        lsns = [each.event.lsn for each in old if each.event]
        shift = max(lsns) * (100 - back) // 100 - 100 if lsns else 0
        ends = dict.fromkeys(range(4), 0) | dict(first.ends)
        return cls(followed(old, timed(second.records, clock), shift), down_ms, ends, shift)


def lost(log: Restored, accepted: dict[int, int]) -> str | None:
    """A change of the second numbering that stands below one of the first that it follows."""
    restarts = Restarts(epochs={p: ((at, 1),) for p, at in accepted.items()})
    for partition, end in log.ends.items():
        mine = changed(each for each in log.records if each.partition == partition)
        old = [each for each in mine if each[1].offset < end]
        before, low_watermarks, merged = placed(old, restarts, LowWatermarks(), {})
        highest = max((told.commit or () for told in before[partition]), default=())
        # One by one: those of the new numbering may stand below each other.
        for each in mine[len(old) :]:
            by_partition, low_watermarks, _ = placed([each], restarts, low_watermarks, merged)
            [told] = by_partition[partition]
            if told.is_overtaken or (told.may_witness and (told.commit or ()) < highest):
                return f"p{partition}@{told.offset}: {told} below {highest}"
    return None


def halves(log: Restored, seed: int) -> Iterator[list[Record]]:
    """Batches that end anywhere, so that some partitions run ahead of others."""
    rng = random.Random(seed)
    ends = dict[int, int]()
    for each in log.records:
        ends[each.partition] = max(ends.get(each.partition, 0), each.offset + 1)
    start = dict.fromkeys(ends, 0)
    for _ in range(rng.randrange(4)):
        stop = {p: rng.randint(start[p], end) for p, end in ends.items()}
        yield cuts.between(log.records, start, stop)
        start = stop
    yield cuts.between(log.records, start, ends)


@pytest.mark.property
@pytest.mark.parametrize("back", [100, 60, 20])
def test_no_change_after_a_restore_is_merged_below_what_it_follows(back: int) -> None:
    """Either nothing of the new numbering lies below the old one, or the table stops."""
    stopped = 0
    for seed in SEEDS:
        log, reader = Restored.of(seed, back), Reader(accepts=0)
        read = list[Record]()
        try:
            for batch in halves(log, seed):
                reader.read(batch, 4)
                read += batch
        except WentBackError:
            stopped += 1
        published = Restored(read, log.down_ms, log.ends, log.shift)
        assert (problem := lost(published, {})) is None, f"seed {seed}: {problem}"
    assert stopped > len(SEEDS) // 2


@pytest.mark.property
@pytest.mark.parametrize("back", [100, 60, 20])
def test_an_accepted_restart_begins_in_each_partition_where_the_new_numbering_does(
    back: int,
) -> None:
    """Old records may be unread in other partitions; whatever is of the new one is newer."""
    raised = 0
    for seed in SEEDS:
        log, reader = Restored.of(seed, back), Reader(accepts=1)
        for batch in halves(log, seed):
            reader.read(batch, 4)
            reader.restarts = Restarts.from_json(reader.restarts.to_json())
        begun = {p: each[0][0] for p, each in reader.restarts.epochs.items()}
        raised += bool(begun)
        assert all(at >= log.ends[p] for p, at in begun.items()), f"seed {seed}: old in new epoch"
        assert (problem := lost(log, begun)) is None, f"seed {seed}: {problem}"
    assert raised > len(SEEDS) // 2


# ── by example ────────────────────────────────────────────────────────────────────────────

OLD = [NumberingPlace(0, (890,), 1_000, True), NumberingPlace(1, (900,), 2_000, True)]
NEW = NumberingPlace(2, (10,), 9_000, True)


def alarm(*records: NumberingPlace) -> Restart | None:
    return witness(0, [*OLD, *records], MergedState())


@pytest.mark.unit
def test_lower_and_newer_is_a_witness() -> None:
    assert alarm(NEW) == Restart(0, 2, (900,), 2_000, (10,), 9_000)
    assert witness(0, [NEW], MergedState({0: (900,)}, {0: 2_000})) == alarm(NEW)


@pytest.mark.unit
@pytest.mark.parametrize(
    "record",
    [
        pytest.param(NEW._replace(source_ms=2_000), id="sent again"),
        pytest.param(NEW._replace(commit=(900,)), id="the same commit"),
        pytest.param(NEW._replace(may_witness=False), id="in flight"),
        pytest.param(NEW._replace(source_ms=None), id="without a time"),
        pytest.param(NEW._replace(commit=None), id="without a position"),
    ],
)
def test_what_is_not_both_is_none(record: NumberingPlace) -> None:
    assert alarm(record) is None


FLOATING = NEW._replace(may_witness=False, floats=True)


@pytest.mark.unit
def test_what_floats_is_one_below_a_change_of_its_own_key_or_a_truncate() -> None:
    assert alarm(FLOATING) is None, "open for long"
    overtaken = FLOATING._replace(is_overtaken=True)
    assert alarm(overtaken) == alarm(NEW)
    assert alarm(overtaken._replace(source_ms=2_000)) is None, "sent again"
    assert alarm(overtaken._replace(commit=(900,))) is not None, "lifted as high"
    truncate = NumberingPlace(2, (905,), 2_500, may_witness=False, is_truncate=True)
    assert alarm(truncate, FLOATING._replace(offset=3)) is not None, "in the same batch"
    seen = MergedState(highest_of_all=(50,), newest_of_all_ms=2_000, truncated=(50,))
    assert witness(0, [FLOATING._replace(source_ms=62_001)], seen) is not None
    assert witness(0, [FLOATING._replace(source_ms=62_000)], seen) is None, "clocks"
    assert witness(0, [FLOATING._replace(source_ms=62_001)], replace(seen, truncated=None)) is None


@pytest.mark.unit
def test_between_partitions_a_clock_may_have_been_set_back() -> None:
    seen = MergedState({1: (900,)}, {1: 2_000}, (900,), 2_000, keys_stay=False)
    assert witness(0, [NEW._replace(source_ms=62_000)], seen) is None
    assert witness(0, [NEW._replace(source_ms=62_001)], seen) is not None


@pytest.mark.unit
def test_a_rule_by_position_alone_would_take_a_connector_restart_for_one() -> None:
    again = OLD[0]._replace(offset=2)
    assert again.commit is not None
    assert OLD[1].commit is not None
    assert again.commit < OLD[1].commit
    assert alarm(again) is None


@pytest.mark.unit
def test_a_permission_serves_one_restart_and_may_be_given_twice() -> None:
    found = alarm(NEW)
    assert found is not None
    permits = Permit.all_from_json(Permit(1, found).to_json())
    granted = permitted(Restarts(), permits, 0)
    assert granted.accepted == (found,)
    assert granted.used().accepted == (), "not before it has begun somewhere"
    begun = granted.begun(0, 2).used()
    assert permitted(begun, permits, 0) == begun, "spent"
    assert begun.pending(0) is None
    assert begun.pending(1) == found, "it may begin in other partitions yet"
    assert Restarts.from_json(begun.to_json()) == begun
    assert Restarts.from_json("") == Restarts()


@pytest.mark.unit
def test_a_permission_is_none_for_the_table_that_is_built_in_its_place() -> None:
    """That one may begin behind the restart, and the next one would look like it."""
    found = alarm(NEW)
    assert found is not None
    for said in (Permit(1, found).to_json(), '{"epoch":1,"restart":[0,2,[9],1,[3],5]}'):
        assert permitted(Restarts(), Permit.all_from_json(said), 1) == Restarts()
    again = Permit.all_from_json(Permit(1, found, 1).to_json())
    assert permitted(Restarts(), again, 1).accepted == (found,)


@pytest.mark.unit
def test_restarts_that_come_once_more_are_permitted_in_their_order() -> None:
    found = alarm(NEW)
    assert found is not None
    second = replace(found, offset=9)
    said = Permit.all_to_json([Permit(1, found), Permit(2, second)])
    assert permitted(Restarts(), Permit.all_from_json(said), 0).accepted == (found, second)
    one = Restarts(accepted=(found,))
    assert permitted(one, Permit.all_from_json(said), 0).accepted == (found, second)
    assert (Permit.all_to_json([]), Permit.all_from_json("")) == ("", ())


@pytest.mark.unit
def test_only_restarts_that_a_reading_from_a_place_meets_are_before_it() -> None:
    first = Restart(0, 3, (9,), 1, (3,), 5)
    second = Restart(0, 8, (1 << 52 | 9,), 11, (1 << 52 | 3,), 15)
    alone = replace(second, before=(9,), after=(3,))
    epochs = {0: ((3, 1), (8, 2)), 1: ((4, 2),)}
    known = Restarts({0: 20}, epochs, (first, second))
    assert known.met_from({0: 0, 1: 0}, Scheme.POSTGRES) == (first, second)
    assert known.met_from({0: 3, 1: 9}, Scheme.POSTGRES) == (alone,)
    assert known.met_from({0: 8, 1: 3}, Scheme.POSTGRES) == (alone,)
    assert known.met_from({0: 8, 1: 4}, Scheme.POSTGRES) == ()
    unread = replace(known, accepted=(first, second, second))
    assert len(unread.met_from({0: 8, 1: 4}, Scheme.POSTGRES)) == 1, "it has begun nowhere yet"


@pytest.mark.unit
def test_a_restart_is_told_without_its_epoch_and_in_utc() -> None:
    again = Restart(0, 7, (1 << 52 | 900,), 1_760_000_000_000, (1 << 52 | 10,), 1_760_000_060_000)
    assert again.describe(Scheme.POSTGRES) == (
        "commit 10 at 2025-10-09T08:54:20.000+00:00 follows commit 900 and the time "
        "2025-10-09T08:53:20.000+00:00"
    )
