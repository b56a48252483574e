"""Up to when a table is complete: everything committed at its source before has been merged.

It is *proven*, from what each part guarantees by itself:

1. At a *moment* the source's clock is read, and then where the source's log ends. Whatever had
   been committed before lies before that position.
2. Kafka Connect commits a source offset only once Kafka has acknowledged every record that the
   connector gave it before, in the order of the source's log. So once the committed offset has
   passed a moment's position, everything from before it is in Kafka: the moment is *delivered*.
3. The ends of a table's partitions, asked for after that, thus lie beyond all of it: a *witness*.
4. Once the table's committed offsets have reached those ends, it is valid through that moment.

What looks like a shorter way is none. A heartbeat's time is the connector's clock, however far
behind the connector reads. And a record of the heartbeat or transaction topic that can be read
says nothing about other topics: a producer sends to each partition by itself, so what it was given
earlier may arrive later.

*Committed* means that the commit was complete: PostgreSQL reads the clock before it writes the
commit, so that the commit timestamp of a transaction may be a moment before its commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final

from cdc_assets.changes.offsets import OffsetVector

MOMENTS: Final = 64
"""So many are remembered: of older ones every second goes."""


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """Whatever was committed before ``at`` (the source's clock, aware) lies before ``position``."""

    at: datetime
    position: int


@dataclass(frozen=True, slots=True)
class Witness:
    """Whatever was committed before ``through`` lies below ``ends`` in a table's topic."""

    through: datetime
    ends: OffsetVector

    def is_met_by(self, committed: OffsetVector) -> bool:
        """Whether all of it was merged."""
        return all(committed.get(partition) >= end for partition, end in self.ends)


def with_moment(known: Sequence[Moment], seen: Moment) -> tuple[Moment, ...]:
    """With a new one; nothing of before if the source's log, or its clock, has begun again."""
    kept = sorted({*known, seen})
    if any(later.position < earlier.position for earlier, later in pairwise(kept)):
        return (seen,)
    if len(kept) > MOMENTS:
        kept = [*kept[: MOMENTS // 2 : 2], *kept[MOMENTS // 2 :]]
    return tuple(kept)


def delivered(
    known: Sequence[Moment], acknowledged: int, seen: Moment
) -> tuple[Moment | None, tuple[Moment, ...]]:
    """The newest moment that is delivered, and those that need to be remembered.

    Args:
        known: moments, in order.
        acknowledged: every record from before this position was acknowledged.
        seen: the newest moment, taken after that was asked for. If the source's log ends before
            what was acknowledged, its positions have begun again, and none can be compared.
    """
    if acknowledged > seen.position:
        return None, (seen,)
    done = [each for each in known if each.position <= acknowledged]
    newest = max(done, default=None)
    return newest, tuple(each for each in known if newest is None or each.at >= newest.at)


def proven(
    witnesses: Iterable[Witness], committed: OffsetVector, before: datetime | None
) -> datetime | None:
    """The latest time that a table with these committed offsets is valid through.

    Args:
        witnesses: of its topic.
        committed: next-to-read offsets.
        before: what was proven for committed offsets that were not beyond these; None if nothing.
    """
    times = [each.through for each in witnesses if each.is_met_by(committed)]
    return max([*times, *([before] if before else [])], default=None)
