"""Busy logs as topics of the protocol's model, and lives of their tables, from a seed.

`Lived` is the one line that reproduces a failure.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from cdc_assets_tests.model.change import Change, Coordinate
from cdc_assets_tests.model.protocol.checks import BrokenPromiseError, Definition
from cdc_assets_tests.model.protocol.effects import Fault
from cdc_assets_tests.model.protocol.rules import RIGHT, Protocol
from cdc_assets_tests.model.protocol.simulation import Case, Simulation, plan_of
from cdc_assets_tests.model.protocol.topic import Record, Topic
from cdc_assets_tests.toy.actions import Log
from cdc_assets_tests.toy.busy import busy_log

Kind = Literal["hard", "soft", "keyless"]
KINDS: tuple[Kind, ...] = ("hard", "soft", "keyless")


@dataclass(frozen=True, slots=True)
class Lived:
    """A life: everything that it depends on.

    Attributes:
        seed: of the log, where it stands still, what is bad in it, and all choices.
        kind: of the table.
        actions: how many the log is made of.
        faults: what fails, and what comes next.
    """

    seed: int
    kind: Kind
    actions: int = 45
    faults: tuple[Fault, ...] = ()

    def live(self, protocol: Protocol = RIGHT) -> Simulation:
        """Live it.

        Raises:
            BrokenPromiseError: if something does not hold.
        """
        case = case_of(self.seed, self.kind, self.actions)
        life = Simulation(case, self.seed, self.faults, protocol)
        life.live()
        return life

    def fault(self, protocol: Protocol = RIGHT) -> str | None:
        """What is wrong with it, and the line that lives it again; None if nothing is."""
        try:
            self.live(protocol)
        except BrokenPromiseError as broken:
            return f"{self}.live()  # {broken}"
        return None


def some_life(seed: int, *, most: int = 4, actions: int | None = None) -> Lived:
    """A life with up to so many faults."""
    chance = random.Random(f"faults {seed}")
    kind = KINDS[seed % 3]
    length = actions or chance.choice([10, 20, 45])
    return Lived(seed, kind, length, plan_of(chance, effects=25 + 2 * length, most=most))


@lru_cache(maxsize=8)
def case_of(seed: int, kind: Kind, actions: int = 45) -> Case:
    """The log of a seed as a topic; the same for the same arguments."""
    keyless = kind == "keyless"
    chance = random.Random(f"case {seed}")
    columns = 300 if seed % 97 == 0 and not keyless else None
    moves = not keyless and chance.random() < 0.7
    log = busy_log(seed, actions=actions, keyless=keyless, moves=moves, columns=columns)
    topic = topic_of(log, chance)
    soft = None if keyless else kind == "soft"
    source = (
        Counter(tuple(sorted(row.items())) for row in log.rows)
        if keyless
        else {log.shape.key_of(row): dict(row) for row in log.rows}
    )
    may_split = chance.random() < 0.1
    points = _points(topic, chance, may_split=may_split)
    return Case(Definition(topic, log.shape, soft), source, points)


def topic_of(log: Log, chance: random.Random) -> Topic:
    """The log with a column more from somewhere on, and some records that cannot be decoded."""
    keyless = not log.shape.key
    changes = [tuple(record.changes()) for record in log.records]
    bad = set(_bad([change for each in changes for change in each], chance, keyless=keyless))
    widened = chance.randrange(2 * len(log.records) + 1)
    records = tuple(
        Record(
            partition=record.partition,
            offset=record.offset,
            changes=mine,
            width=2 if number >= widened else 1,
            is_bad=(record.partition, record.offset) in bad,
        )
        for number, (record, mine) in enumerate(zip(log.records, changes, strict=True))
    )
    return Topic(
        records=records,
        partitions=log.settings.partitions,
        raised=log.rules.raised,
        barriers=log.rules.barriers if keyless else (),
        pairs=log.rules.pairs,
    )


def _bad(changes: list[Change], chance: random.Random, *, keyless: bool) -> Iterator[Coordinate]:
    """Up to two records without which the rest can be merged."""
    if chance.random() < 0.5:
        return
    can = [*(_spare_events(changes) if keyless else _spare_changes(changes))]
    chosen = chance.sample(can, min(len(can), chance.randint(1, 2)))
    events = {change.identity for change in chosen}  # what is sent again is no better
    yield from (change.coordinate for change in changes if change.identity in events)


def _spare_events(changes: list[Change]) -> Iterator[Change]:
    """Those whose row nobody takes away later."""
    taken = Counter(_content(change.before) for change in changes if change.before)
    for change in changes:
        if change.op in "cud" and (change.row is None or not taken[_content(change.row)]):
            yield change


def _spare_changes(changes: list[Change]) -> Iterator[Change]:
    """Images of rows that no placeholder asks for."""
    doubts = {change.position[1] for change in changes if change.op == "c" and change.unset}
    deletes = [change for change in changes if change.op == "d"]
    asked = {change.key for change in changes if change.unset}
    asked |= {change.key for change in deletes if change.position[1] in doubts}
    halves = {change.position[1] for change in deletes}
    for change in changes:
        is_half = change.op == "c" and change.position[1] in halves
        if change.op in "cu" and not is_half and change.key not in asked:
            yield change


def _content(row: object) -> object:
    return tuple(sorted(row.items())) if isinstance(row, dict) else None


def _points(topic: Topic, chance: random.Random, *, may_split: bool) -> tuple[int, ...]:
    """Where the log stands still for a while; inside a changed key only if that is wanted."""
    count = len(topic.records)
    some = chance.sample(range(count), min(count, chance.randint(0, 3)))
    points = [at for at in sorted(some) if may_split or not topic.splits(topic.marks(at).ends)]
    return (*points, count)
