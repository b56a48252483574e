"""The result of merging a batch into the rows that it finds: writes, entries and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from cdc_assets_tests.model.change import Change, Coordinate, LowWatermarks, Placed, Position
from cdc_assets_tests.model.protocol.published import Entry, Published

Rows: TypeAlias = Mapping[Any, Any]
"""With a key, the lake's state of each key; without a key, how often each row is there."""


class Way(StrEnum):
    """The way in which a batch is applied."""

    APPEND = "append"
    UPSERT = "upsert"
    CONDITIONAL_UPSERT = "conditional upsert"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Write:
    """One commit, relative to the present head of what it goes to."""

    name: str
    operation: str
    change: Callable[[Rows], Rows]


@dataclass(frozen=True, slots=True)
class Found:
    """The state that a batch is applied to, read from the lake as of one snapshot.

    Attributes:
        rows: of the table.
        entries: the side table's entries that count.
        before: the newest publish's state.
        exists: whether there is a snapshot to write on.
        partitions: of the topic, now.
    """

    rows: Rows
    entries: frozenset[Entry]
    before: Published
    exists: bool
    partitions: int


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of merging a batch.

    Attributes:
        way: how the batch is applied.
        writes: in order; several go to a branch, one to ``main``.
        entries: new entries of the side table. The writer fills in their attempt.
        applied: highest position of each partition, this batch included.
        highest_delete: highest position of all remembered deletes.
        truncated: position of the newest truncate.
        low_watermarks: with the snapshots of this batch.
        settled: coordinates of the changes that need not be merged again: with a key those that
            were newer than their row, without one all.
        incomplete: coordinates of changes that this batch cannot complete.
        is_nothing: whether the table contains all of it already.
    """

    way: Way
    writes: tuple[Write, ...]
    entries: frozenset[Entry]
    applied: Mapping[int, Position]
    highest_delete: Position
    truncated: Position
    low_watermarks: LowWatermarks
    settled: frozenset[Coordinate]
    incomplete: tuple[Coordinate, ...]
    is_nothing: bool


def newest(placed: Iterable[Placed]) -> list[Placed]:
    """Returns the newest change of each key; every change of a table without one."""
    found: dict[object, Placed] = {}
    for position, change in placed:
        name = change.coordinate if change.key is None else change.key
        if name not in found or position > found[name][0]:
            found[name] = (position, change)
    return list(found.values())


def higher(before: Mapping[int, Position], placed: Iterable[Placed]) -> Mapping[int, Position]:
    """Returns the highest positions by partition, including those of some changes."""
    merged = dict(before)
    for position, change in placed:
        merged[change.partition] = max(position, merged.get(change.partition, ()))
    return merged


def highest(positions: Iterable[Position]) -> Position:
    """Returns the highest of some positions; below all if there is none."""
    return max(positions, default=())


def coordinates(changes: Iterable[Change]) -> frozenset[Coordinate]:
    """Returns the coordinates of changes."""
    return frozenset(change.coordinate for change in changes)
