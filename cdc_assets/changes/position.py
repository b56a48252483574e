"""Where the source says that a change happened, as numbers whose order is source order.

A position is a tuple of non-negative 64-bit numbers, compared from left to right; as bytes,
each number is 8 bytes big-endian, so that byte order is the same order. The last number is
always the Kafka offset: equal positions fall back to Kafka order (docs/ARCHITECTURE.md).

PostgreSQL: ``(last commit LSN, LSN, offset)``. For one key, LSN order is commit order, since
row locks serialise its writers; across transactions it is not, they interleave. The pair of
``source.sequence`` follows the order of emission, which is commit order.

What the pair does not say by itself:

- A snapshot row (``read``) has no last commit. It was read at its LSN, and every
  transaction that it does not hold commits after that: it counts as committed there.
- The first transaction after a connector's start has no last commit either. Its changes may
  have an LSN *below* that of a snapshot row (it ran while the slot was made), and are newer
  all the same. They count as committed at the *read floor*, the highest LSN of snapshot rows.

Sources without a position are ordered by the Kafka offset alone.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

NUMBERS_POSTGRES = 3
"""Last commit LSN, LSN, Kafka offset."""


def encode(numbers: Sequence[int]) -> bytes:
    """The bytes of a position.

    Raises:
        ValueError: if a number is negative or needs more than 63 bits.
    """
    if any(not 0 <= number < 2**63 for number in numbers):
        msg = "a position holds non-negative signed 64-bit numbers"
        raise ValueError(msg)
    return struct.pack(f">{len(numbers)}q", *numbers)


def decode(position: bytes) -> tuple[int, ...]:
    """The numbers of an encoded position."""
    return struct.unpack(f">{len(position) // 8}q", position)


def postgres(
    *, sequence_commit: int | None, lsn: int, offset: int, is_read: bool, read_floor: int
) -> tuple[int, int, int]:
    """The position of a PostgreSQL change.

    Args:
        sequence_commit: first element of ``source.sequence``; None where it is null or absent.
        lsn: ``source.lsn``.
        offset: in Kafka.
        is_read: whether the change is a row of a snapshot.
        read_floor: highest LSN of the snapshot rows known so far.
    """
    if is_read:
        return (lsn, lsn, offset)
    if sequence_commit is None or sequence_commit == read_floor:
        at = max(lsn, read_floor)
        return (at, at, offset)
    return (sequence_commit, lsn, offset)
