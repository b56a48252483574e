"""Gives the positions of changes in GoldenGate's trails."""

from __future__ import annotations

import re
from typing import Final

from cdc_assets.changes.position.scheme import Scheme, in_epoch

TrailPlace = tuple[int, int]
"""A record of a trail: the file's sequence number, and the byte at which it ends or begins."""


def trail_place(text: str) -> TrailPlace | None:
    """Parses a place as GoldenGate writes it, twenty digits; None if it is not one.

    Ten digits of the file's sequence number, ten of the relative byte address in the file.
    https://docs.oracle.com/en/middleware/goldengate/big-data/21.1/gadbd/ (metacolumn
    ``${position}``, "concatenated sequence number and RBA")
    """
    return (int(text[:10]), int(text[10:])) if _TRAIL_PLACE.match(text) else None


_TRAIL_PLACE: Final = re.compile(r"^[0-9]{20}\Z")


def trail_position(*, place: TrailPlace, offset: int, epoch: int = 0) -> tuple[int, int, int]:
    """Returns the position of a change in a trail: ``(epoch and file, byte, offset)``.

    A trail contains whole transactions in commit order. A change of the key that comes as a delete
    and an insert has one place and two keys.

    Args:
        place: ``pos``, see `trail_place`.
        offset: in Kafka.
        epoch: of the change's place in the log.
    """
    return (in_epoch(Scheme.TRAIL, epoch, place[0]), place[1], offset)
