"""Proves the time through which a table is complete: all earlier commits at its source are merged.

The proof rests on what each part guarantees by itself:

1. At a *moment*, the source's clock is read first, and then the end of the source's log. Everything
   committed before that time is before that place.
2. Kafka Connect commits a source offset only once Kafka has acknowledged every record that the
   connector gave it before, in the order of the source's log. So once the committed offset has
   reached a moment's place, everything before it is in Kafka: the moment is *delivered*.
3. The ends of a table's partitions, asked for after that, are therefore beyond all of it: a
   *witness*.
4. Once the table's committed offsets have reached those ends, it is valid through that moment.

Apparent shortcuts do not work. A heartbeat's time is the connector's clock, however far behind
the connector reads. And a readable record of the heartbeat or transaction topic says nothing about
other topics: a producer sends to each partition separately, so a record that it was given earlier
may arrive later.

A log may begin again (a restored server, ``RESET MASTER``) and count up to where a connector of the
previous log still stands. That connector's offset is not believed until it changes.

*Committed* means that the commit was complete: PostgreSQL reads the clock before it writes the
commit, so a transaction's commit timestamp may be slightly earlier than its commit.
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
"""The most moments remembered; beyond that, every second one of the older half is dropped."""


@dataclass(frozen=True, slots=True)
class SourceMoment(Generic[P]):
    """Everything committed before ``at`` (the source's clock, aware) is before ``place``."""

    at: datetime
    place: P


@dataclass(frozen=True, slots=True)
class SourceMemory(Generic[P]):
    """The remembered state of a source.

    Attributes:
        moments: ascending.
        stale: the place that a connector had acknowledged when the log was found to have begun
            again. While it still reports this place, the place belongs to the previous log.
    """

    moments: tuple[SourceMoment[P], ...] = ()
    stale: P | None = None


@dataclass(frozen=True, slots=True)
class Witness:
    """Everything committed before ``through`` is below ``ends`` in a table's topic."""

    through: datetime
    ends: OffsetVector

    def is_met_by(self, committed: OffsetVector) -> bool:
        """Returns whether all of it was merged."""
        return all(committed.get(partition) >= end for partition, end in self.ends)


def delivered(
    known: SourceMemory[P], acknowledged: P | None, now: SourceMoment[P]
) -> tuple[SourceMoment[P] | None, SourceMemory[P]]:
    """Returns the newest delivered moment, and the state to remember.

    Args:
        known: the state remembered before.
        acknowledged: the place before which every record is acknowledged; None if unknown.
        now: the newest moment, taken after ``acknowledged`` was asked for. If the source's log ends
            before that place, or before an older moment, it has begun again, and its places cannot
            be compared with the earlier ones.
    """
    believed = None if acknowledged == known.stale else acknowledged
    others = (each for each in known.moments if each != now)
    kept = sorted((*others, now), key=lambda each: each.at)
    pairs = [(each.place, later.place) for each, later in pairwise(kept)]
    pairs += [(believed, now.place)] if believed is not None else []
    if not all(later.reaches(earlier) for earlier, later in pairs):
        return None, SourceMemory((now,), acknowledged or known.stale)
    if len(kept) > MOMENTS:
        kept = [*kept[: MOMENTS // 2 : 2], *kept[MOMENTS // 2 :]]
    if believed is None:
        return None, SourceMemory(tuple(kept), known.stale)
    done = [each for each in kept if believed.reaches(each.place)]
    newest = max(done, key=lambda each: each.at, default=None)
    return newest, SourceMemory(tuple(e for e in kept if newest is None or e.at >= newest.at))


def proven(
    witnesses: Iterable[Witness], committed: OffsetVector, before: datetime | None
) -> datetime | None:
    """Returns the latest time that a table with these committed offsets is valid through.

    Args:
        witnesses: of its topic.
        committed: next-to-read offsets.
        before: the time proven for committed offsets not beyond these; None if there is none.
    """
    times = [each.through for each in witnesses if each.is_met_by(committed)]
    return max([*times, *([before] if before else [])], default=None)
