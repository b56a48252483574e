"""Encodes a position's numbers as bytes of the same order."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

LAST: Final = 2**63 - 1
"""Above any number of a change: the end of a commit that a snapshot contains completely."""


def encode(numbers: Sequence[int]) -> bytes:
    """Returns the bytes of a position.

    Raises:
        ValueError: if a number is negative or needs more than 63 bits.
    """
    if any(not 0 <= number < 2**63 for number in numbers):
        msg = "a position holds non-negative signed 64-bit numbers"
        raise ValueError(msg)
    return struct.pack(f">{len(numbers)}q", *numbers)


def decode(position: bytes) -> tuple[int, ...]:
    """Returns the numbers of an encoded position."""
    return struct.unpack(f">{len(position) // 8}q", position)


NUMBER_DIGITS: Final = 16
"""Hexadecimal digits of each number of a position."""


def without_offset(position: str) -> str:
    """Returns the part of a position that all deliveries of an event share; hexadecimal."""
    return position[:-NUMBER_DIGITS]
