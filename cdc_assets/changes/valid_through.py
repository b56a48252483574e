"""Up to when a table is complete: everything committed at its source before has been merged.

It is *proven*, from what each part guarantees by itself:

1. At a *moment* the source's clock is read, and then where the source's log ends. Whatever had
   been committed before lies before that place.
2. Kafka Connect commits a source offset only once Kafka has acknowledged every record that the
   connector gave it before, in the order of the source's log. So once the committed offset has
   reached a moment's place, everything from before it is in Kafka: the moment is *delivered*.
3. The ends of a table's partitions, asked for after that, thus lie beyond all of it: a *witness*.
4. Once the table's committed offsets have reached those ends, it is valid through that moment.

What looks like a shorter way is none. A heartbeat's time is the connector's clock, however far
behind the connector reads. And a record of the heartbeat or transaction topic that can be read
says nothing about other topics: a producer sends to each partition by itself, so what it was given
earlier may arrive later.

A log may begin again (a server restored, ``RESET MASTER``), and count up to where a connector of
the log before still stands: what that says is not believed until it says something else.

*Committed* means that the commit was complete: PostgreSQL reads the clock before it writes the
commit, so that the commit timestamp of a transaction may be a moment before its commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final, Generic, TypeVar

from cdc_assets.changes.log_places import LogPlace
from cdc_assets.changes.offsets import OffsetVector

P = TypeVar("P", bound=LogPlace)

MOMENTS: Final = 64
"""So many are remembered: of older ones every second goes."""


@dataclass(frozen=True, slots=True)
class Moment(Generic[P]):
    """Whatever was committed before ``at`` (the source's clock, aware) lies before ``place``."""

    at: datetime
    place: P


@dataclass(frozen=True, slots=True)
class Seen(Generic[P]):
    """What is remembered of a source.

    Attributes:
        moments: in order.
        stale: what a connector had acknowledged when the log was found to have begun again. As
            long as it says that, it speaks of the log before.
    """

    moments: tuple[Moment[P], ...] = ()
    stale: P | None = None


@dataclass(frozen=True, slots=True)
class Witness:
    """Whatever was committed before ``through`` lies below ``ends`` in a table's topic."""

    through: datetime
    ends: OffsetVector

    def is_met_by(self, committed: OffsetVector) -> bool:
        """Whether all of it was merged."""
        return all(committed.get(partition) >= end for partition, end in self.ends)


def delivered(
    known: Seen[P], acknowledged: P | None, now: Moment[P]
) -> tuple[Moment[P] | None, Seen[P]]:
    """The newest moment that is delivered, and what is to be remembered.

    Args:
        known: from before.
        acknowledged: every record from before this place was; None if that is not known.
        now: the newest moment, seen after that was asked for. If the source's log ends before
            what was acknowledged, or before an older moment, it has begun again, and places in
            it cannot be compared with those from before.
    """
    believed = None if acknowledged == known.stale else acknowledged
    others = (each for each in known.moments if each != now)
    kept = sorted((*others, now), key=lambda each: each.at)
    pairs = [(each.place, later.place) for each, later in pairwise(kept)]
    pairs += [(believed, now.place)] if believed is not None else []
    if not all(later.reaches(earlier) for earlier, later in pairs):
        return None, Seen((now,), acknowledged or known.stale)
    if len(kept) > MOMENTS:
        kept = [*kept[: MOMENTS // 2 : 2], *kept[MOMENTS // 2 :]]
    if believed is None:
        return None, Seen(tuple(kept), known.stale)
    done = [each for each in kept if believed.reaches(each.place)]
    newest = max(done, key=lambda each: each.at, default=None)
    return newest, Seen(tuple(e for e in kept if newest is None or e.at >= newest.at))


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
