"""Names the schemes of positions, and says which of them have room for an epoch."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Scheme(StrEnum):
    """The scheme of one table's positions. It never changes while the table lives."""

    POSTGRES = "postgres"
    BINLOG = "binlog"
    MARIADB = "mariadb"
    SQLSERVER = "sqlserver"
    ORACLE = "oracle"
    MONGODB = "mongodb"
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
    Scheme.MONGODB: 3,
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


def in_epoch(scheme: Scheme, epoch: int, number: int) -> int:
    """Returns a first number with its epoch.

    Raises:
        ValueError: if the number reaches into the bits of the epoch.
    """
    bits = epoch_bits(scheme)
    if number >> bits:
        msg = f"a {scheme} position above {bits} bits cannot be told from one of a later epoch"
        raise ValueError(msg)
    return epoch << bits | number
