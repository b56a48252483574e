"""The state of the numbering after a topic's records so far, and its text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

from cdc_assets.changes.numbering.records import Place, Serial

Begin = tuple[int, int]
"""The Kafka offset where an epoch begins, and the epoch."""

STAGES: Final = 8
"""The most epochs back over which partitions are compared, so that the state does not grow with
failovers. No partition lags behind by more, since a batch takes from all partitions."""


class NumberingBegin(NamedTuple):
    """The begin of a numbering.

    Attributes:
        sent_ms: when the first record that shows it was sent.
        is_reset: whether the server has forgotten its serials: shown by a row of a snapshot.
    """

    sent_ms: int
    is_reset: bool


class SnapshotRead(NamedTuple):
    """A snapshot: when its first row was sent, and its place."""

    sent_ms: int
    place: Place


class LineageTransaction(NamedTuple):
    """The newest transaction: its lineage, with the lowest and the highest place seen of it."""

    lineage: str
    first: Place
    last: Place


class Stage(NamedTuple):
    """The part of an epoch that a partition has seen.

    Attributes:
        sent_ms: when the first record at the highest place was sent; -1 without any.
        base: base name of the files.
        highest: highest place; None before the first record.
        read: the newest snapshot; None without one.
        last_ms: when the last record was sent; -1 without any.
    """

    sent_ms: int = -1
    base: str = ""
    highest: Place | None = None
    read: SnapshotRead | None = None
    last_ms: int = -1

    def is_above(self, base: str, place: Place) -> bool:
        """Returns whether that place is lower, or in files of another base name."""
        return self.highest is not None and (base != self.base or self.highest > place)


@dataclass(frozen=True, slots=True)
class NumberingState:
    """The state of the numbering after a partition's records up to an offset.

    Attributes:
        next_offset: offset of the first record not counted yet.
        sent_ms: the highest timestamp in Kafka so far.
        newest_ts_ms: the highest time of a change.
        read_ts_ms: the highest time of a snapshot's row.
        serials: the highest of each lineage.
        transaction: the newest; None if there was only a snapshot.
        begins: the begin of each epoch after the first, in offset order.
        stages: the newest `STAGES` epochs; the last is the next record's, unless that starts a new
            one.
    """

    next_offset: int = 0
    sent_ms: int = -1
    newest_ts_ms: int = -1
    read_ts_ms: int = -1
    serials: Mapping[str, Serial] = field(default_factory=dict[str, Serial])
    transaction: LineageTransaction | None = None
    begins: tuple[Begin, ...] = ()
    stages: tuple[Stage, ...] = (Stage(),)

    @property
    def epoch(self) -> int:
        """The epoch of the next record, unless that starts a new one."""
        return self.begins[-1][1] if self.begins else 0


@dataclass(frozen=True, slots=True)
class Numbering:
    """The state of the numbering after a topic's records so far.

    Attributes:
        restarts: the known restarts; the n-th begins epoch n.
        partitions: the counted state of each.
    """

    restarts: tuple[NumberingBegin, ...] = ()
    partitions: Mapping[int, NumberingState] = field(default_factory=dict[int, NumberingState])

    @property
    def begins(self) -> dict[int, tuple[Begin, ...]]:
        """The begins of epochs by partition; partitions without any are left out."""
        return {p: each.begins for p, each in self.partitions.items() if each.begins}

    def to_json(self) -> str:
        """Returns text; it grows with partitions, servers and failovers, not with changes."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Numbering:
        """Reads what `to_json` wrote; the empty text gives an empty state."""
        if not text:
            return cls()
        said = json.loads(text)
        return cls(
            tuple(NumberingBegin(*each) for each in said["restarts"]),
            {int(partition): _counted(each) for partition, each in said["partitions"].items()},
        )


def _counted(said: Mapping[str, Any]) -> NumberingState:
    newest = said["transaction"]
    return NumberingState(
        next_offset=said["next_offset"],
        sent_ms=said["sent_ms"],
        newest_ts_ms=said["newest_ts_ms"],
        read_ts_ms=said["read_ts_ms"],
        serials={name: tuple(serial) for name, serial in said["serials"].items()},
        transaction=LineageTransaction(newest[0], _place(newest[1]), _place(newest[2]))
        if newest
        else None,
        begins=tuple((offset, epoch) for offset, epoch in said["begins"]),
        stages=tuple(_stage(*each) for each in said["stages"]),
    )


def _stage(
    sent_ms: int, base: str, highest: Sequence[int] | None, read: Any, last_ms: int
) -> Stage:
    place = None if highest is None else _place(highest)
    found = None if read is None else SnapshotRead(read[0], _place(read[1]))
    return Stage(sent_ms, base, place, found, last_ms)


def _place(numbers: Sequence[int]) -> Place:
    file, pos = numbers
    return (file, pos)
