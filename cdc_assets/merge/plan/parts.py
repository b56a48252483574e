"""Cuts a batch at barriers, across which its changes must not be folded.

A truncate is a barrier. It has a position of the source, not an offset: older changes come
before it and newer ones after it, whichever partition holds them. The parts are applied one
after the other to one branch, so that readers see them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

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
class Part:
    """The changes with positions in ``(after, before)``, hexadecimal; empty for no bound.

    ``truncate`` comes first; then ``after`` is its position.
    """

    after: str = ""
    before: str = ""
    truncate: Truncate | None = None

    def describe(self) -> str:
        """Returns one line for plans."""
        cut = f"truncate at {self.truncate.position}" if self.truncate else "begin"
        return f"part: {cut}, then changes up to {self.before or 'the end'}"


def split(truncates: Sequence[Truncate], after: str, *, keep_deleted: bool) -> tuple[Part, ...]:
    """Returns the parts of a batch in their order; at least one.

    Args:
        truncates: of the batch, in any order; repeats and those not above ``after`` are left out.
        after: position of the newest truncate that was merged before.
        keep_deleted: whether deleted rows stay, marked. If not, nothing before the last truncate
            can leave a trace, and only what follows it is a part.
    """
    by_position = {each.position: each for each in truncates if each.position > after}
    ordered = [by_position[position] for position in sorted(by_position)]
    if not ordered:
        return (Part(after),)
    behind = [
        Part(each.position, then.position if then else "", each)
        for each, then in pairwise([*ordered, None])
        if each is not None
    ]
    if not keep_deleted:
        return (behind[-1],)
    return (Part(after, ordered[0].position), *behind)
