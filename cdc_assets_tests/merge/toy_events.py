"""A toy MySQL whose transactions may be compressed, and a connector that starts again anywhere."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

KEYS = 6


class Change(NamedTuple):
    """A change as the connector writes it; ``value`` tells it from all others."""

    op: str
    key: int
    value: int
    pos: int
    row: int

    @property
    def place(self) -> tuple[int, int]:
        return self.pos, self.row


class Sent(NamedTuple):
    partition: int
    offset: int
    change: Change


Event = Sequence[Sequence[tuple[str, int]]]
"""Of each of its rows the changes, of which there are two if the key changes: kind and key."""


@dataclass
class Binlog:
    """The changes of one table in their order."""

    compressed: bool
    changes: list[Change] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    """Places in ``changes`` at which a row begins: a connector goes on at one of these."""

    def write(self, *transaction: Event) -> None:
        """Writes a transaction of some events; in a compressed one all have its position."""
        begin = 1000 * (self.changes[-1].pos // 1000 + 1 if self.changes else 1)
        for event, (number, rows) in enumerate(enumerate(transaction)):
            pos = begin if self.compressed else begin + number
            for row, changes in enumerate(rows):
                self.begins.append(len(self.changes))
                for op, key in changes:
                    self.changes.append(Change(op, key, 100 * begin + event, pos, row))


def alone(op: str, *keys: int) -> Event:
    """An event of one statement, a row for each key."""
    return [[(op, key)] for key in keys]


def moved(*keys: tuple[int, int]) -> Event:
    """An update of keys, each from the first to the second."""
    return [[("d", old), ("c", new)] for old, new in keys]


def transaction(rng: random.Random, there: set[int]) -> Iterator[Event]:
    """Some statements that a table with these keys takes."""
    for _ in range(rng.randint(1, 3)):
        some = [key for key in rng.sample(range(KEYS), KEYS) if rng.random() < 0.5]
        present = [key for key in some if key in there]
        match rng.choice(["insert", "update", "delete", "shift"]):
            case "insert" if event := alone("c", *(key for key in some if key not in there)):
                there |= {key for row in event for _, key in row}
            case "update" if event := alone("u", *present):
                pass
            case "delete" if event := alone("d", *present):
                there -= {*present}
            case _ if event := moved(*_shifted(there)):
                pass
            case _:
                continue
        yield event


def _shifted(there: set[int]) -> Iterator[tuple[int, int]]:
    """``UPDATE t SET id = id - 1``, of those rows of which the key is free by then."""
    for key in sorted(there):
        if key - 1 not in there and key > 0:
            there.remove(key)
            there.add(key - 1)
            yield key, key - 1


def sent(rng: random.Random, log: Binlog, partitions: int) -> list[Sent]:
    """What a connector sends that starts again now and then, at a row not after the next one."""
    ends, found, at = [count() for _ in range(partitions)], list[Sent](), 0
    while at < len(log.changes):
        if at in log.begins and rng.random() < 0.1:
            at = rng.choice([each for each in log.begins if at - 12 <= each <= at])
        change = log.changes[at]
        home = change.key % partitions
        found.append(Sent(home, next(ends[home]), change))
        at += 1
    return found


def batches(rng: random.Random, records: Sequence[Sent], partitions: int) -> list[list[Sent]]:
    """The records in some batches, each of which takes a part of each partition."""
    number = rng.randint(1, 4)
    made: list[list[Sent]] = [[] for _ in range(number)]
    for partition in range(partitions):
        mine = [each for each in records if each.partition == partition]
        cuts = sorted(rng.randint(0, len(mine)) for _ in range(number - 1))
        for batch, begin, end in zip(made, [0, *cuts], [*cuts, len(mine)], strict=True):
            batch.extend(mine[begin:end])
    return made


def merged_after(merged: Mapping[int, Sent], batch: Sequence[Sent]) -> dict[int, Sent]:
    """The highest record of each partition."""
    found = dict(merged)
    for each in batch:
        before = found.get(each.partition, each)
        found[each.partition] = max(before, each, key=lambda one: (*one.change.place, one.offset))
    return found


def is_torn(batch: Sequence[Sent], merged: Mapping[int, Sent]) -> bool:
    """The rule of `cdc_assets.merge.guards.ambiguous_positions`, record by record."""
    contents: dict[tuple[str, int, int], tuple[int, int]] = {}
    came: set[tuple[int, Change]] = set()
    newest: dict[tuple[int, int, int], Change] = {}
    for partition, _, change in sorted(batch, key=lambda each: each[:2]):
        content = change.key, change.value
        if contents.setdefault((change.op, *change.place), content) != content:
            return True
        before = merged.get(partition)
        if before is not None and change.place <= before.change.place:
            continue
        if (partition, change) in came:
            continue
        came.add((partition, change))
        last = newest.get((partition, change.key, change.pos))
        newest[partition, change.key, change.pos] = change
        if last is None or last.row < change.row:
            continue
        if last.row > change.row or (last.op, change.op) != ("d", "c"):
            return True
    return False


def is_wrong(log: Binlog, batch: Sequence[Sent], earlier: Sequence[Sent]) -> bool:
    """Whether a change that is not the last of its key wins, of a transaction that came whole."""
    begun = {(each.partition, each.change.pos) for each in earlier}
    of_key: dict[tuple[int, int], list[Sent]] = {}
    for each in batch:
        if (each.partition, each.change.pos) not in begun:
            of_key.setdefault((each.change.key, each.change.pos), []).append(each)
    order = {change: number for number, change in enumerate(log.changes)}
    for changes in of_key.values():
        wins = max(changes, key=lambda each: (each.change.row, each.offset)).change
        last = max((each.change for each in changes), key=order.__getitem__)
        again = (wins.op, last.op) == ("d", "c")  # right as soon as the create is sent again, too
        if wins != last and not (again and wins.row == last.row):
            return True
    return False
