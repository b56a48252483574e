"""What upkeep a table needs, told from its own figures, and which of its snapshots may go.

Each batch leaves a small file, a few deletion vectors, manifests and two snapshots. Reading, and
finding the rows to delete, gets slower with each of them.

*Small files* are put together in two tiers, as in a log-structured tree, so that a row is written
anew a few times in its life, and not with each batch: tiny ones often, for a moment each time, and
what comes of those seldom.

*Snapshots* on ``main`` go from the oldest on, so that what is left is one unbroken line. What may
be read, or is needed, stays:

- what was the head of ``main`` at any time within ``keep``: whoever began to read then may go on;
- so many publishes, the newest one among them, which holds the offsets;
- whatever a tag or a branch names, with what a branch has that ``main`` has not;
- what somebody else names, as the publishes of a table do with the snapshots of its side table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, StrEnum, auto
from typing import Final

MIB: Final = 1 << 20

TINY: Final = 8 * MIB
"""Files below are of the first tier."""

SHARE_OF_TARGET: Final = 0.75
"""Of the size that files are to have: those below are of the second tier. Iceberg's own bound."""

LONGEST: Final = timedelta(days=1)
"""Snapshots that may go are not kept for longer, however few they are: they hold files back."""


class Task(StrEnum):
    """One kind of upkeep, in the order in which they are done."""

    DROP_BRANCHES = "drop branches"
    COMPACT = "compact"
    MERGE_MANIFESTS = "merge manifests"
    EXPIRE = "expire snapshots"
    REMOVE_ORPHANS = "remove orphans"


class Tier(Enum):
    """Which data files are written anew."""

    TINY = auto()
    SMALL = auto()
    """The tiny ones with them."""
    MARKED = auto()
    """Those alone of whose rows many are deleted, as they are in the other tiers."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From when on a table needs upkeep.

    Attributes:
        small_files: of one tier, in one partition.
        marked: share of rows that are deleted, of those in data files.
        keep: how long a reader may go on with what was the head of ``main``.
        keep_publishes: how many of them stay in any case, at least one.
        expired_at_once: how many snapshots there have to be that may go.
        manifests: how many a snapshot may have.
    """

    small_files: int
    marked: float
    keep: timedelta
    keep_publishes: int
    expired_at_once: int
    manifests: int


@dataclass(frozen=True, slots=True)
class Past:
    """A snapshot.

    Attributes:
        parent: None for the first.
        at_ms: when it was written, milliseconds of the epoch.
        is_publish: whether it is one of ours, with offsets.
    """

    parent: int | None
    at_ms: int
    is_publish: bool = False


@dataclass(frozen=True, slots=True)
class History:
    """The snapshots of a table that are kept.

    Attributes:
        head: of ``main``; None without any.
        snapshots: by id.
        heads: of those that were the head of ``main``, as far as is known, when that began and
            ended the last time, milliseconds of the epoch; None if it has not ended.
        refs: what tags and other branches name.
        named: what else must stay reachable.
    """

    head: int | None
    snapshots: Mapping[int, Past]
    heads: Mapping[int, tuple[int, int | None]] = field(
        default_factory=dict[int, tuple[int, int | None]]
    )
    refs: Collection[int] = ()
    named: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class Figures:
    """What the head of a table is made of.

    Attributes:
        files: data files, of ``file_bytes`` in all.
        tiny: in the partition that has most of them, files below `TINY`.
        small: likewise, of the second tier.
        rows: in data files, deleted ones included.
        marked: deleted ones among them.
        manifests: that list the files.
        metadata_bytes: of the table's metadata file.
        history: its snapshots.
        dead_branches: of ours, which can never be published.
    """

    files: int
    file_bytes: int
    tiny: int
    small: int
    rows: int
    marked: int
    manifests: int
    metadata_bytes: int
    history: History
    dead_branches: tuple[str, ...] = ()

    @property
    def marked_share(self) -> float:
        """Of rows that are deleted; of format version 2 some may be counted twice."""
        return min(1.0, self.marked / self.rows) if self.rows else 0.0


def tier_of(figures: Figures, limits: Thresholds) -> Tier | None:
    """Which files need it; None if none do."""
    if figures.small >= limits.small_files:
        return Tier.SMALL
    if figures.tiny >= limits.small_files:
        return Tier.TINY
    return Tier.MARKED if figures.marked and figures.marked_share >= limits.marked else None


def tasks(figures: Figures, limits: Thresholds, now_ms: int) -> tuple[Task, ...]:
    """What a table needs now, in the order to do it; orphans are a matter of time alone."""
    found = [
        (Task.DROP_BRANCHES, bool(figures.dead_branches)),
        (Task.COMPACT, tier_of(figures, limits) is not None),
        (Task.MERGE_MANIFESTS, figures.manifests > limits.manifests),
        (Task.EXPIRE, _is_worth_expiring(figures.history, limits, now_ms)),
    ]
    return tuple(task for task, is_needed in found if is_needed)


def expirable(history: History, limits: Thresholds, now_ms: int) -> tuple[int, ...]:
    """The snapshots that may go, oldest first."""
    since = now_ms - _ms(limits.keep)
    line = dict.fromkeys(_line(history, history.head))
    kept = {*_of_main(history, limits, since), *_of_others(history, line)}
    kept.update(each for each, (_, end) in history.heads.items() if end is None or end > since)
    gone = [
        (past.at_ms, each)
        for each, past in history.snapshots.items()
        if each not in kept and (each in line or past.at_ms < since)
    ]
    return tuple(each for _, each in sorted(gone))


def _of_main(history: History, limits: Thresholds, since_ms: int) -> Iterator[int]:
    """From the head back, without a gap, as far as anything is needed."""
    line = list(_line(history, history.head))
    named, publishes = set(history.named) & set(line), 0
    wanted = limits.keep_publishes if any(p.is_publish for p in history.snapshots.values()) else 0
    known_from = min((begin for begin, _ in history.heads.values()), default=0)
    for each in line:
        yield each
        past = history.snapshots[each]
        publishes += past.is_publish
        named.discard(each)
        # What was only a step of a batch was never a head, and tells of no reader.
        was_head = each in history.heads or past.at_ms < known_from or not history.heads
        begin, _ = history.heads.get(each, (past.at_ms, None))
        if was_head and begin <= since_ms and publishes >= wanted and not named:
            return


def _of_others(history: History, line: Collection[int]) -> Iterator[int]:
    """What is named, with what it has that ``main`` has not."""
    for ref in (*history.refs, *history.named):
        for each in _line(history, ref):
            yield each
            if each in line:
                break


def _line(history: History, at: int | None) -> Iterator[int]:
    while at is not None and (past := history.snapshots.get(at)) is not None:
        yield at
        at = past.parent


def _is_worth_expiring(history: History, limits: Thresholds, now_ms: int) -> bool:
    gone = expirable(history, limits, now_ms)
    if not gone:
        return False
    oldest = min(history.snapshots[each].at_ms for each in gone)
    return len(gone) >= limits.expired_at_once or oldest < now_ms - _ms(LONGEST)


def _ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)


def most_in_a_partition(files: Iterable[tuple[object, int]], above: int, below: int) -> int:
    """How many files of a size one partition has at most.

    Args:
        files: as partition and bytes.
        above: bytes, inclusive.
        below: bytes, exclusive.
    """
    return max(Counter(where for where, size in files if above <= size < below).values(), default=0)
