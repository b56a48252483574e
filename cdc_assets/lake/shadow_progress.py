"""Carries the progress of a shadow table that is read from its live source.

The progress is part of the state that each publish of the shadow table carries, so that rows and
progress are one commit: a restart after a crash neither reads a wave twice nor leaves one out. The
progress ends with the swap. See `cdc_assets.operations.rebuild.shadow_rows`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from cdc_assets.changes.offsets import OffsetVector


@dataclass(frozen=True, slots=True)
class ShadowProgress:
    """The progress of one table.

    Attributes:
        next: the key that the next wave begins with, as text; None for the first one.
        waves: number of waves read so far.
        rows: number of rows read so far; a bound while they are read, see `TableState.reading`.
        is_read: whether all waves are read.
        until: the topic's end offsets once everything that was read had been delivered; None until
            they are looked at. Values that changes below it left out may be empty.
        doubts: number of changes of keys that left values out, which the log alone does not prove:
            those of batches that begin below ``until``.
        about: number of rows by the database's statistics when reading began; 0 if unknown.
        seconds: time that the waves took, without pauses between processes; without the newest
            one's, which is written with it, until ``until`` is known.
    """

    next: tuple[str, ...] | None = None
    waves: int = 0
    rows: int = 0
    is_read: bool = False
    until: OffsetVector | None = None
    doubts: int = 0
    about: int = 0
    seconds: float = 0.0

    @property
    def rows_per_second(self) -> float | None:
        """The rate of reading so far; None before the second wave."""
        timed = self.waves - (self.until is None)
        return self.rows * timed / self.waves / self.seconds if self.seconds > 0 else None

    @property
    def percent(self) -> float | None:
        """The part of the rows that is read, below 100 before the last wave; None if unknown."""
        if self.is_read:
            return 100.0
        return min(99.0, 100 * self.rows / self.about) if self.about else None

    @property
    def seconds_left(self) -> float | None:
        """How long the other waves will take at this rate; None if unknown."""
        rate = self.rows_per_second
        if self.is_read or not rate or not self.about:
            return 0.0 if self.is_read else None
        return max(0, self.about - self.rows) / rate

    def after(self, rows: int, end: tuple[str, ...] | None, seconds: float = 0.0) -> ShadowProgress:
        """Returns the progress after one more wave; the one before took so many seconds."""
        return replace(
            self, next=end, is_read=end is None, waves=self.waves + 1, rows=self.rows + rows,
            seconds=self.seconds + seconds,
        )  # fmt: skip

    def with_doubts(self, more: int, start: OffsetVector) -> ShadowProgress:
        """Returns the progress with the doubts of a batch.

        Args:
            more: changes of keys in it that left values out.
            start: its first offsets. From `until` on the table has each row with all its values,
                so that such a change proves itself.
        """
        is_known = self.until is not None and not start.ranges_to(self.until)
        return self if is_known else replace(self, doubts=self.doubts + more)

    def to_dict(self) -> dict[str, Any]:
        """Returns the content as a dict, for JSON."""
        return {
            "next": self.next and list(self.next),
            "waves": self.waves,
            "rows": self.rows,
            "is_read": self.is_read,
            "until": None if self.until is None else {str(p): at for p, at in self.until},
            "doubts": self.doubts,
            "about": self.about,
            "seconds": round(self.seconds, 3),
        }

    @classmethod
    def from_dict(cls, said: dict[str, Any]) -> ShadowProgress:
        """Reads what `to_dict` wrote."""
        key, until = said["next"], said["until"]
        return cls(
            next=None if key is None else tuple(key),
            waves=said["waves"],
            rows=said["rows"],
            is_read=said["is_read"],
            until=None
            if until is None
            else OffsetVector.of({int(p): at for p, at in until.items()}),
            doubts=said["doubts"],
            about=said.get("about", 0),
            seconds=said.get("seconds", 0.0),
        )
