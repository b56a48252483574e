"""Generated logs with the times of a clock, and with a restore put in.

The toy's own times are of no order at all; here each transaction has the time of its commit by a
clock that now and then is set, and whose readings are a little apart from the order of commits.
A restore takes the log of a second toy: another numbering, which began lower or not much so, and
times that go on.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from cdc_assets.changes.restarts import (
    APART_MS,
    MergedState,
    NumberingPlace,
    Restart,
    Restarts,
    begin,
    newest_after,
    witness,
)
from cdc_assets_tests.model.change import Change, LowWatermarks, by_position
from cdc_assets_tests.toy.connector import Event, Record, changes_of

Events = list[Record]


@dataclass
class Clock:
    """Milliseconds that pass with each reading.

    Attributes:
        steps_ms: how far ahead or behind it is set at most, now and then; 0 for never.
        apart_ms: how far a reading may be from its turn.
    """

    rng: random.Random
    now_ms: int = 1_000_000_000
    steps_ms: int = 0
    apart_ms: int = 20
    ahead_ms: int = 0

    def read(self) -> int:
        self.now_ms += self.rng.randrange(1, 5000)
        if self.steps_ms and self.rng.random() < 0.1:
            self.ahead_ms = self.rng.randint(-self.steps_ms, self.steps_ms)
        return self.now_ms + self.ahead_ms + self.rng.randint(-self.apart_ms, self.apart_ms)


def timed(records: Iterable[Record], clock: Clock) -> Events:
    """The records with times: a transaction's is the same whenever it is sent."""
    of_transaction: dict[str, int] = defaultdict(clock.read)

    def told(event: Event) -> int:
        if event.transaction is None:
            return clock.read()
        return of_transaction[event.transaction.split(":")[0]]

    def one(record: Record) -> Record:
        event = record.event
        return record if event is None else replace(record, event=replace(event, ts_ms=told(event)))

    return [one(each) for each in records]


def followed(first: Events, second: Events, shift: int) -> Events:
    """The second log after the first, its offsets going on, its positions higher by ``shift``."""
    ends: dict[int, int] = defaultdict(int)
    for each in first:
        ends[each.partition] = max(ends[each.partition], each.offset + 1)

    def after(record: Record) -> Record:
        offset = record.offset + ends[record.partition]
        return replace(record, offset=offset, event=_shifted(record.event, shift))

    return [*first, *map(after, second)]


def _shifted(event: Event | None, shift: int) -> Event | None:
    if event is None:
        return None
    commit = None if event.commit is None else event.commit + shift
    return replace(event, lsn=event.lsn + shift, commit=commit)


Changes = list[tuple[Record, Change]]


def changed(records: Iterable[Record]) -> Changes:
    """The records that are changes, by partition and offset."""
    known = list(records)
    of = {each.coordinate: each for each in changes_of(known)}
    ordered = sorted(known, key=lambda record: (record.partition, record.offset))
    return [
        (each, of[each.partition, each.offset])
        for each in ordered
        if each.event is not None and (each.partition, each.offset) in of
    ]


Keys = Mapping[object, tuple[int, ...]]
"""By key the highest position that was merged, without the offset."""


def placed(
    changes: Changes, restarts: Restarts, low_watermarks: LowWatermarks, merged: Keys
) -> tuple[Mapping[int, list[NumberingPlace]], LowWatermarks, Keys]:
    """By partition, in offset order, what each change tells of the numbering.

    Args:
        changes: of a batch.
        restarts: whose epochs they have.
        low_watermarks: of what was read before.
        merged: before.

    Returns:
        It, and both of the latter after the batch.
    """
    here = [(record, _in_epoch(restarts, change)) for record, change in changes]
    raised = low_watermarks.raised(change for _, change in here)
    found: dict[int, list[NumberingPlace]] = defaultdict(list)
    earlier: dict[tuple[int, object], tuple[int, ...]] = {}
    after = dict(merged)
    for record, change in here:
        source_ms = record.event.ts_ms if record.event else None
        position = by_position(change, raised)[:-1]
        is_below = False
        for key in keys_of(record):
            at = (record.partition, key)
            stands = max(earlier.get(at, ()), merged.get(key, ()))
            is_below = is_below or position < stands
            earlier[at] = max(earlier.get(at, ()), position)
            after[key] = max(after.get(key, ()), position)
        is_row, floats = change.op != "t", change.floats and change.op != "t"
        found[record.partition].append(
            NumberingPlace(
                change.offset,
                position[:1],
                source_ms,
                may_witness=is_row and not change.incremental and not change.floats,
                floats=floats,
                is_overtaken=floats and is_below,
                is_truncate=not is_row,
            )
        )
    return found, raised, after


def keys_of(record: Record) -> list[object]:
    """Of which rows a record tells: two if it changes a key."""
    return [] if record.event is None else [each.key for each in record.changes() if each.key]


@dataclass
class Reader:
    """Reads a log batch by batch and remembers what publishes do.

    Attributes:
        partitions: of the topic, at the first publish.
        accepts: restarts that a person accepts when asked.
        low_watermarks, merged: of what was read.
    """

    restarts: Restarts = field(default_factory=Restarts)
    highest: Mapping[int, tuple[int, ...]] | None = None
    truncated: tuple[int, ...] = ()
    partitions: int = 0
    accepts: int = 0
    low_watermarks: LowWatermarks = field(default_factory=LowWatermarks)
    merged: Keys = field(default_factory=dict[object, tuple[int, ...]])

    def read(self, batch: Iterable[Record], partitions: int) -> list[Restart]:
        """One batch; the restarts that were accepted in it.

        Raises:
            WentBackError: at a restart that is not.
        """
        seen, accepted = self._seen(partitions), list[Restart]()
        changes = changed(batch)
        while True:
            found = self._found(changes, seen)
            if found is None:
                break
            if not self.accepts:
                raise WentBackError(found)
            self.accepts -= 1
            accepted.append(found)
            self.restarts = replace(self.restarts, accepted=(*self.restarts.accepted, found))
        self._publish(changes, partitions)
        return accepted

    def _found(self, changes: Changes, seen: MergedState) -> Restart | None:
        found: list[Restart] = []
        for partition in {record.partition for record, _ in changes}:
            while (pending := self.restarts.pending(partition)) is not None:
                begun = begin(partition, self._placed(changes)[partition], pending, seen)
                if begun is None:
                    break
                self.restarts = self.restarts.begun(partition, begun)
            contradiction = witness(partition, self._placed(changes)[partition], seen)
            found += [] if contradiction is None else [contradiction]
        return min(found, key=lambda each: each.after_ms, default=None)

    def _placed(self, changes: Changes) -> Mapping[int, list[NumberingPlace]]:
        return placed(changes, self.restarts, self.low_watermarks, self.merged)[0]

    def _seen(self, partitions: int) -> MergedState:
        apart_ms = APART_MS if partitions > 1 else 0
        if self.highest is None:
            return MergedState(apart_ms=apart_ms)
        keys_stay = partitions == self.partitions
        compared = [] if keys_stay else list(self.highest.values())
        newest = self.restarts.newest_ms
        return MergedState(
            highest=self.highest,
            newest_ms=newest,
            highest_of_all=max([*compared, self.truncated]) or None,
            newest_of_all_ms=max(newest.values(), default=None),
            truncated=self.truncated or None,
            keys_stay=keys_stay,
            apart_ms=apart_ms,
        )

    def _publish(self, changes: Changes, partitions: int) -> None:
        highest = dict(self.highest or {})
        told: list[int] = []
        newest: dict[tuple[int, object], tuple[tuple[int, ...], int]] = {}
        found = placed(changes, self.restarts, self.low_watermarks, self.merged)
        by_partition, self.low_watermarks, self.merged = found
        places = {(p, each.offset): each for p, found in by_partition.items() for each in found}
        for record, change in changes:
            partition, each = record.partition, places[record.partition, record.offset]
            commit = each.commit or ()
            if change.op == "t":
                self.truncated = max(self.truncated, commit)
            elif record.event is not None:
                highest[partition] = max(highest.get(partition, ()), commit)
                at = (commit, each.source_ms or 0)
                of_key = (partition, record.event.key)
                newest[of_key] = max(newest.get(of_key, at), at)
                told += [] if each.source_ms is None else [each.source_ms]
        if told:
            self.restarts = self.restarts.used().read(_newest(newest, max(told)))
            self.highest = highest
            self.partitions = self.partitions or partitions


def _newest(
    newest: Mapping[tuple[int, object], tuple[tuple[int, ...], int]], source_ms: int
) -> Mapping[int, int]:
    """As `cdc_assets.merge.guards.restarts.watch` has it: of the newest change of each key."""
    of_partition: dict[int, list[tuple[tuple[int, ...], int]]] = defaultdict(list)
    for (partition, _), at in newest.items():
        of_partition[partition].append(at)
    latest = {p: max(ms for _, ms in each) for p, each in of_partition.items()}
    is_ordered = all(latest[p] <= max(each)[1] + APART_MS for p, each in of_partition.items())
    hidden = source_ms > max(latest.values(), default=source_ms) + APART_MS
    return newest_after(latest, source_ms, is_ordered=is_ordered and not hidden)


class WentBackError(Exception):
    """A restart that nobody has accepted."""

    def __init__(self, restart: Restart) -> None:
        super().__init__(str(restart))
        self.restart = restart


def _in_epoch(restarts: Restarts, change: Change) -> Change:
    begun = restarts.epochs.get(change.partition, ())
    epoch = max((epoch for at, epoch in begun if at <= change.offset), default=0)
    first, *others = change.position
    return replace(change, position=(epoch << 52 | first, *others))
