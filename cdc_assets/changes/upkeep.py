"""Decides from a table's own figures which upkeep is due and which snapshots may expire.

Each batch leaves a small file, a few deletion vectors, manifests and two snapshots. Reading, and
finding the rows to delete, gets slower with each of them.

*Small files* are compacted in two tiers, as in a log-structured tree, so that a row is rewritten
a few times in its life and not with each batch: tiny files often and briefly, the resulting
files seldom.

*Snapshots* on ``main`` expire from the oldest on, so that the rest is one unbroken line. A
snapshot that may still be read, or is needed, stays:

- those that were the head of ``main`` at any time within ``keep``: a reader that began then may
  still be reading;
- a number of publishes, including the newest, which holds the offsets;
- those that a tag or a branch names, with what a branch has that ``main`` has not;
- those named elsewhere: a table's publishes name snapshots of its side table.
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
"""Files below this size, in bytes, belong to the first tier."""

SHARE_OF_TARGET: Final = 0.75
"""A share of the target file size: files below it are of the second tier. Iceberg's own bound."""

AT_ONCE: Final = 256 * MIB
"""Bytes rewritten with one commit, a few seconds' work, as far as files can be combined so."""

_ENOUGH_TO_COMBINE: Final = 4
"""Files of the second tier that Iceberg surely writes into fewer: it may make two of two."""

_WITH_DELETION_VECTORS: Final = 3
"""Before this format version deletes are files; a data file may have many, and they may outlive it.
https://iceberg.apache.org/spec/#position-delete-files"""

LONGEST: Final = timedelta(days=1)
"""The longest that expirable snapshots are kept, however few there are: they hold files back."""


class Task(StrEnum):
    """A kind of upkeep; the members are in the order of execution.

    Compaction is last: it can take longer than a run has, each time.
    """

    EXPIRE = "expire snapshots"
    DROP_BRANCHES = "drop branches"
    MERGE_MANIFESTS = "merge manifests"
    REMOVE_ORPHANS = "remove orphans"
    COMPACT = "compact"


class Tier(Enum):
    """The data files to rewrite."""

    TINY = auto()
    SMALL = auto()
    """The tiny ones too; and those with many deleted rows if `MARKED` would be due."""
    MARKED = auto()
    """Only files with many deleted rows."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The limits beyond which a table needs upkeep.

    Attributes:
        tiny_files, small_files: files of the first and of the second tier in one partition.
        marked: the share of the rows in data files that are deleted.
        keep: the time for which a former head of ``main`` stays readable.
        keep_publishes: publishes that stay in any case, at least one.
        expired_at_once: expirable snapshots that make expiring worthwhile.
        manifests: the most manifests of a snapshot.
    """

    tiny_files: int
    small_files: int
    marked: float
    keep: timedelta
    keep_publishes: int
    expired_at_once: int
    manifests: int


@dataclass(frozen=True, slots=True)
class PastSnapshot:
    """A snapshot.

    Attributes:
        parent: None for the first.
        at_ms: the time of writing, milliseconds of the epoch.
        is_publish: whether it is one of our publishes, with offsets.
    """

    parent: int | None
    at_ms: int
    is_publish: bool = False


@dataclass(frozen=True, slots=True)
class SnapshotHistory:
    """The snapshots that a table still has.

    Attributes:
        head: of ``main``; None without any.
        snapshots: by id.
        heads: for each known former or present head of ``main``, the times at which it last began
            and ceased to be the head, milliseconds of the epoch; None if it has not ceased.
        refs: the snapshots that tags and other branches name.
        named: other snapshots that must stay reachable.
    """

    head: int | None
    snapshots: Mapping[int, PastSnapshot]
    heads: Mapping[int, tuple[int, int | None]] = field(
        default_factory=dict[int, tuple[int, int | None]]
    )
    refs: Collection[int] = ()
    named: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a table's head.

    Attributes:
        files: number of data files, of ``file_bytes`` in all.
        tiny: number of files below `TINY`, in the partition with the most of them.
        small: number of files of the second tier, in the partition with the most of them.
        rows: number of rows in data files, deleted ones included.
        marked: number of deleted rows among them.
        manifests: number of manifests that list the files.
        metadata_bytes: size of the table's metadata file.
        history: its snapshots.
        dead_branches: branches of ours that can never be published.
        undersized: number of files below `SHARE_OF_TARGET` in all partitions, of
            ``undersized_bytes`` in all.
        format_version: of the table, whatever is configured for new ones.
        is_sorted: whether the table has a sort order.
        shares_files: whether other tables may have its files, so that Iceberg removes none, nor
            expires snapshots (``gc.enabled``).
    """

    files: int
    file_bytes: int
    tiny: int
    small: int
    rows: int
    marked: int
    manifests: int
    metadata_bytes: int
    history: SnapshotHistory
    dead_branches: tuple[str, ...] = ()
    undersized: int = 0
    undersized_bytes: int = 0
    format_version: int = _WITH_DELETION_VECTORS
    is_sorted: bool = False
    shares_files: bool = False

    @property
    def marked_share(self) -> float:
        """The share of deleted rows; in format version 2 some may be counted twice."""
        return min(1.0, self.marked / self.rows) if self.rows else 0.0

    @property
    def has_delete_files(self) -> bool:
        """Whether deleted rows are in files of their own, which may outlive the data files."""
        return self.marked > 0 and self.format_version < _WITH_DELETION_VECTORS

    def is_marked(self, limits: Thresholds) -> bool:
        """Whether files with many deleted rows are to be rewritten."""
        return self.marked > 0 and self.marked_share >= limits.marked


def tier_of(figures: Figures, limits: Thresholds) -> Tier | None:
    """Returns the tier of files to rewrite; None if there are none."""
    if figures.small >= limits.small_files:
        return Tier.SMALL
    if figures.tiny >= limits.tiny_files:
        return Tier.TINY
    return Tier.MARKED if figures.is_marked(limits) else None


def files_at_once(figures: Figures, tier: Tier, *, with_marked: bool) -> int:
    """Returns the most files to rewrite with one commit: `AT_ONCE` bytes of them on the average.

    They are enough for each commit to make progress: small files become fewer, whereas a marked
    one is rewritten for its own sake.

    Args:
        figures: of the files that there are now.
        tier: of the files.
        with_marked: whether files with many deleted rows are among them, of any size.
    """
    small = _average(figures.undersized_bytes, figures.undersized)
    others = _average(
        figures.file_bytes - figures.undersized_bytes, figures.files - figures.undersized
    )
    largest = max(small, others) if with_marked else small
    least = {Tier.TINY: AT_ONCE // TINY, Tier.SMALL: _ENOUGH_TO_COMBINE, Tier.MARKED: 1}
    return max(least[tier], AT_ONCE // largest)


def _average(of_bytes: int, files: int) -> int:
    return max(1, of_bytes // max(1, files))


def tasks(figures: Figures, limits: Thresholds, now_ms: int) -> tuple[Task, ...]:
    """Returns the upkeep that a table needs now, in order; orphans depend on time alone."""
    found = [
        (
            Task.EXPIRE,
            not figures.shares_files and _is_worth_expiring(figures.history, limits, now_ms),
        ),
        (Task.DROP_BRANCHES, bool(figures.dead_branches)),
        (Task.MERGE_MANIFESTS, figures.manifests > limits.manifests),
        (Task.COMPACT, tier_of(figures, limits) is not None),
    ]
    return tuple(task for task, is_needed in found if is_needed)


def expirable(history: SnapshotHistory, limits: Thresholds, now_ms: int) -> tuple[int, ...]:
    """Returns the snapshots that may expire, oldest first."""
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


def _of_main(history: SnapshotHistory, limits: Thresholds, since_ms: int) -> Iterator[int]:
    """Yields snapshots from the head back, without a gap, as far as any is needed."""
    line = list(_line(history, history.head))
    named, publishes = set(history.named) & set(line), 0
    wanted = limits.keep_publishes if any(p.is_publish for p in history.snapshots.values()) else 0
    known_from = min((begin for begin, _ in history.heads.values()), default=0)
    for each in line:
        yield each
        past = history.snapshots[each]
        publishes += past.is_publish
        named.discard(each)
        # A snapshot that was only a step of a batch was never a head: it had no readers.
        was_head = each in history.heads or past.at_ms < known_from or not history.heads
        begin, _ = history.heads.get(each, (past.at_ms, None))
        if was_head and begin <= since_ms and publishes >= wanted and not named:
            return


def _of_others(history: SnapshotHistory, line: Collection[int]) -> Iterator[int]:
    """Yields the named snapshots, with those of their ancestors that ``main`` does not have."""
    for ref in (*history.refs, *history.named):
        for each in _line(history, ref):
            yield each
            if each in line:
                break


def _line(history: SnapshotHistory, at: int | None) -> Iterator[int]:
    while at is not None and (past := history.snapshots.get(at)) is not None:
        yield at
        at = past.parent


def _is_worth_expiring(history: SnapshotHistory, limits: Thresholds, now_ms: int) -> bool:
    gone = expirable(history, limits, now_ms)
    if not gone:
        return False
    oldest = min(history.snapshots[each].at_ms for each in gone)
    return len(gone) >= limits.expired_at_once or oldest < now_ms - _ms(LONGEST)


def _ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)


def most_in_a_partition(files: Iterable[tuple[object, int]], above: int, below: int) -> int:
    """Returns the largest number of files of a size in one partition.

    Args:
        files: partition and bytes of each file.
        above: bytes, inclusive.
        below: bytes, exclusive.
    """
    return max(Counter(where for where, size in files if above <= size < below).values(), default=0)
