"""Sorts quarantined records by the possible outcome of a replay."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum, auto

from cdc_assets.changes.missing import Missing
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.merge.plan.plan import BatchPlan


@dataclass(frozen=True, slots=True, order=True)
class QuarantineKey:
    """One record in quarantine.

    Attributes:
        at: its place.
        topic_id: of the topic that it was read from; empty if an earlier version set it aside,
            and then it counts as of the table's present topic.
    """

    at: Coordinate
    topic_id: str = ""


class QuarantinePlace(Enum):
    """The place of a record in quarantine, as seen from a table's publish."""

    MISSING = auto()
    """A published batch has refused the record."""
    MERGED = auto()
    """A publish has merged the record; only its removal from the quarantine is outstanding."""
    UNREAD = auto()
    """At or after the table's offsets: a later batch reads the record in the log's order."""
    BEFORE = auto()
    """Before the table's own beginning: the rows that it began with have it, or it is another
    table's of that name. It is not even decoded: it could show columns of that one."""
    FOREIGN = auto()
    """Of another topic than the present one, possibly with the same name."""


def place_of(kept: QuarantineKey, plan: BatchPlan, missing: Missing | None) -> QuarantinePlace:
    """Returns the place of a record.

    Args:
        kept: in quarantine.
        plan: of a batch: its topic, its committed offsets at the end, and the table's beginning.
        missing: what the table lacks then, as `Carried.missing` says.
    """
    if kept.at.topic != plan.entry.topic or kept.topic_id not in {"", plan.identity.topic_id}:
        return QuarantinePlace.FOREIGN
    if kept.at.offset >= plan.end.get(kept.at.partition):
        return QuarantinePlace.UNREAD
    if kept.at.offset < plan.beginning.get(kept.at.partition):
        return QuarantinePlace.BEFORE
    return (
        QuarantinePlace.MISSING if missing is None or kept.at in missing else QuarantinePlace.MERGED
    )


def count_kept(kept: Iterable[QuarantineKey], plan: BatchPlan, missing: Missing | None) -> int:
    """Returns how many records stay in quarantine; arguments as of `place_of`."""
    held = {QuarantinePlace.MISSING, QuarantinePlace.FOREIGN}
    return len({each for each in kept if place_of(each, plan, missing) in held})


@dataclass(frozen=True, slots=True)
class Requeue:
    """A table's records in quarantine.

    Attributes:
        taken: to be merged again.
        merged: to be removed without being merged, as the table has them.
        before: to be removed without being merged, as they are from before its beginning.
        unread, foreign: left alone.
        missing: all that the table lacks, wanted or not.
        foreigners: number of all that are foreign, wanted or not.
    """

    taken: tuple[Coordinate, ...]
    merged: tuple[Coordinate, ...]
    before: tuple[Coordinate, ...]
    unread: tuple[Coordinate, ...]
    foreign: tuple[Coordinate, ...]
    missing: Missing
    foreigners: int

    @property
    def is_any(self) -> bool:
        """Whether any of the wanted records is in quarantine."""
        return bool(self.taken or self.merged or self.before or self.unread or self.foreign)

    @property
    def kept_count(self) -> int:
        """Number of records in quarantine as long as none is merged."""
        return len(self.missing) + self.foreigners

    @classmethod
    def of(
        cls,
        kept: Iterable[QuarantineKey],
        wanted: Collection[Coordinate] | None,
        plan: BatchPlan,
    ) -> Requeue:
        """Sorts the records.

        Args:
            kept: all records of the table, read after the plan was made. Records are set aside
                before the publish that says so: then whatever the plan says is missing is there,
                or was deleted since.
            wanted: those to be merged, as far as they are there; None for all.
            plan: of the replay.
        """
        places = {each: place_of(each, plan, plan.missing) for each in kept}

        def coordinates(place: QuarantinePlace) -> tuple[Coordinate, ...]:
            mine = {each.at for each, found in places.items() if found is place}
            return tuple(sorted(at for at in mine if wanted is None or at in wanted))

        return cls(
            taken=coordinates(QuarantinePlace.MISSING),
            merged=coordinates(QuarantinePlace.MERGED),
            before=coordinates(QuarantinePlace.BEFORE),
            unread=coordinates(QuarantinePlace.UNREAD),
            foreign=coordinates(QuarantinePlace.FOREIGN),
            missing=Missing.of(
                each.at for each, at in places.items() if at is QuarantinePlace.MISSING
            ),
            foreigners=sum(at is QuarantinePlace.FOREIGN for at in places.values()),
        )
