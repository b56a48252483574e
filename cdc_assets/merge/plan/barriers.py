"""Barriers of a batch: its truncates, at positions of the source.

A truncate has a position of the source, not an offset: older changes come before it and newer ones
after it, whichever partition holds them.

Where deleted rows go, nothing before the last truncate can leave a trace. Where they stay, a
truncate only marks them, and each row by itself tells which truncate does: the first one that is
newer, unless the row is deleted already. So a batch is folded and applied as a whole, however many
truncates are among its changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cdc_assets.changes.offsets import Coordinate


@dataclass(frozen=True, slots=True)
class Truncate:
    """A truncate, which removes all rows older than ``position`` (hexadecimal).

    ``at_micros`` is its commit time, microseconds since 1970; None if the source gives none.
    """

    position: str
    at_micros: int | None
    coordinate: Coordinate | None = None


@dataclass(frozen=True, slots=True)
class Barriers:
    """The truncates that a batch carries out, lowest position first.

    Only changes with positions above ``after`` are applied: hexadecimal; empty for all.
    """

    after: str = ""
    truncates: tuple[Truncate, ...] = ()

    def describe(self) -> str:
        """Returns one line for plans, of at least one truncate."""
        first, last = self.truncates[0].position, self.truncates[-1].position
        if first == last:
            return f"truncate at {last}"
        return f"{len(self.truncates)} truncates, from {first} to {last}"


def marks_of(truncates: Sequence[Truncate]) -> list[tuple[str, int | None]]:
    """Returns positions and times of truncates, as statements take them."""
    return [(each.position, each.at_micros) for each in truncates]


def barriers_of(truncates: Sequence[Truncate], after: str, *, keep_deleted: bool) -> Barriers:
    """Returns the barriers of a batch.

    Args:
        truncates: of the batch, in any order; repeats and those not above ``after`` are left out.
        after: position at or below which no change is applied.
        keep_deleted: whether deleted rows stay. If not, only what follows the last truncate is
            applied.
    """
    by_position = {each.position: each for each in truncates if each.position > after}
    ordered = tuple(by_position[position] for position in sorted(by_position))
    if keep_deleted or not ordered:
        return Barriers(after, ordered)
    return Barriers(ordered[-1].position, ordered[-1:])
