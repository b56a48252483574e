"""Defines the schemes of positions: how a table's is chosen, parsed, and encoded.

The records of a table state their origin, from which its scheme is chosen. A position's numbers are
encoded as bytes of the same order.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple


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


def scheme_of(source: Mapping[str, object]) -> Scheme:
    """Returns the scheme of a table, from the ``source`` of one of its records.

    A source whose position is not filled in, such as an empty binlog file name, is ordered by
    the Kafka offset, like an unknown connector.

    So is MongoDB. Rows of its snapshots have no cluster time
    (``ord`` is -1 and ``ts_ms`` is the connector's clock), and since Debezium 3.4 ``ts_ms`` of
    changes is wall time, whose second may differ from that of ``ord``.
    """
    is_read = source.get("snapshot") not in (None, False, "false")
    match source.get("connector"):
        case "postgresql" if _number(source, "lsn") or (is_read and _text(source, "sequence")):
            return Scheme.POSTGRES
        case "mysql" if _in_binlog(source):
            return Scheme.BINLOG
        case "mariadb" if _in_binlog(source):
            return Scheme.MARIADB
        case "sqlserver" if sqlserver_lsn(_text(source, "commit_lsn")):
            return Scheme.SQLSERVER
        case "oracle" if _number(source, "scn") and (is_read or _number(source, "commit_scn")):
            return Scheme.ORACLE
        case "yugabytedb" if is_read or yugabyte_op(_text(source, "lsn")):
            return Scheme.YUGABYTE if _number(source, "commit_time") else Scheme.OFFSET
        case "ticdc" if _number(source, "commitTs"):
            return Scheme.TIDB
        case "goldengate" if trail_place(_text(source, "pos")):
            return Scheme.TRAIL
        case _:
            return Scheme.OFFSET


def _in_binlog(source: Mapping[str, object]) -> bool:
    return bool(binlog_file(_text(source, "file")) and _number(source, "pos"))


def _text(source: Mapping[str, object], name: str) -> str:
    value = source.get(name)
    return value if isinstance(value, str) else ""


def _number(source: Mapping[str, object], name: str) -> int:
    """Returns a number, also from decimal text; 0 if it is neither."""
    value = source.get(name)
    if isinstance(value, str):
        return int(value) if _DECIMAL.match(value) else 0
    return value if isinstance(value, int) else 0


_DECIMAL: Final = re.compile(r"^[0-9]{1,19}\Z")


class BinlogFile(NamedTuple):
    """A binlog file's name in two parts; files of one base follow each other by number."""

    base: str
    number: int


def binlog_file(name: str) -> BinlogFile | None:
    """Splits a name like ``mysql-bin.000009``; None if it is not one.

    The number has six digits until it needs more (``mysql-bin.1000000`` comes after
    ``mysql-bin.999999``), so names must not be compared as text.
    https://dev.mysql.com/doc/refman/8.4/en/binary-log.html
    """
    found = _BINLOG_FILE.match(name)
    return BinlogFile(found[1], int(found[2])) if found and int(found[2]) < 2**32 else None


_BINLOG_FILE: Final = re.compile(r"^(.+)\.([0-9]{1,10})\Z", re.DOTALL)


SqlServerLsn = tuple[int, int]
"""A log sequence number of 80 bits, as its first 32 and its other 48: compares as the LSN does."""


def sqlserver_lsn(text: str) -> SqlServerLsn | None:
    """Parses an LSN as Debezium writes it, ``00000027:00000758:0005``; None if it is not one.

    The parts are the virtual log file's sequence number, the block and the slot in it.
    https://learn.microsoft.com/sql/relational-databases/sql-server-transaction-log-architecture-and-management-guide
    """
    found = _SQLSERVER_LSN.match(text)
    return (int(found[1], 16), int(found[2] + found[3], 16)) if found else None


_SQLSERVER_LSN: Final = re.compile(r"^([0-9a-fA-F]{8}):([0-9a-fA-F]{8}):([0-9a-fA-F]{4})\Z")


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


YugabyteOp = tuple[int, int, int]
"""A tablet's Raft operation and a write in it: term, index, write id."""


def yugabyte_op(text: str) -> YugabyteOp | None:
    """Parses an operation in ``source.lsn``, ``term:index:key:write_id:time``; None if not one.

    The key and the time only say where a snapshot of the tablet continues.
    https://github.com/yugabyte/debezium-connector-yugabytedb (``OpId``)
    """
    found = _YUGABYTE_OP.match(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


_YUGABYTE_OP: Final = re.compile(
    r"^([0-9]{1,18}):([0-9]{1,18}):[^:]*:([0-9]{1,18})(?::[^:]*)?\Z", re.DOTALL
)


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
