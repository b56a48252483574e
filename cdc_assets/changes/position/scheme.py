"""Names the schemes of positions, and says which of them have room for an epoch.

Encodes a position's numbers as bytes of the same order.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import StrEnum
from typing import Final


class Scheme(StrEnum):
    """The scheme of one table's positions. It never changes while the table lives."""

    POSTGRES = "postgres"
    BINLOG = "binlog"
    MARIADB = "mariadb"
    SQLSERVER = "sqlserver"
    ORACLE = "oracle"
    YUGABYTE = "yugabyte"
    TIDB = "tidb"
    TRAIL = "trail"
    OFFSET = "offset"

    @property
    def numbers(self) -> int:
        """The number of numbers in a position, including the Kafka offset."""
        return _NUMBERS[self]


_NUMBERS: Final = {
    Scheme.POSTGRES: 3,
    Scheme.BINLOG: 4,
    Scheme.MARIADB: 3,
    Scheme.SQLSERVER: 6,
    Scheme.ORACLE: 4,
    Scheme.YUGABYTE: 5,
    Scheme.TIDB: 2,
    Scheme.TRAIL: 3,
    Scheme.OFFSET: 1,
}


_EPOCH_BITS: Final = {
    Scheme.POSTGRES: 52,
    Scheme.BINLOG: 32,
    Scheme.MARIADB: 32,
    Scheme.SQLSERVER: 32,
    Scheme.ORACLE: 52,
    Scheme.TRAIL: 34,
}
"""An LSN counts bytes of the write-ahead log: 52 bits are four petabytes. An SCN had 48 bits until
Oracle 12.2, and the rate at which it may rise since fills no more within decades. Of a SQL Server
LSN the first 32 bits are a number of their own. A trail file's number has ten digits."""


def epoch_bits(scheme: Scheme) -> int:
    """Returns the bits of a position's first number below its epoch; larger numbers have none.

    Raises:
        KeyError: if positions of the scheme have no epoch.
    """
    return _EPOCH_BITS[scheme]


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
