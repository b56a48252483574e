"""Places in databases' logs, as far as they can be compared with certainty.

PostgreSQL's places are numbers. A binlog's files and offsets belong to one server, and nothing in a
connector's offset says which. So only GTIDs count: they name a transaction on every server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

_OF_MARIADB: Final = re.compile(r"(?P<domain>[0-9]+)-[0-9]+-(?P<number>[0-9]+)")
_INTERVAL: Final = re.compile(r"(?P<first>[0-9]+)(?:-(?P<last>[0-9]+))?")
_TAG: Final = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Intervals = tuple[tuple[int, int], ...]
"""Disjoint and ascending; both ends are inclusive."""


class LogPlace(Protocol):
    """A place between two transactions of a log."""

    def reaches(self, other: Self) -> bool:
        """Returns whether every transaction before the other place is before this one."""
        ...

    def __str__(self) -> str:
        """Returns text that the class's ``parse`` reads."""
        ...


@dataclass(frozen=True, slots=True)
class Lsn:
    """A place in PostgreSQL's WAL."""

    number: int

    def reaches(self, other: Lsn) -> bool:
        """See `LogPlace`."""
        return self.number >= other.number

    @classmethod
    def parse(cls, text: str) -> Lsn:
        """Parses a decimal number.

        Raises:
            ValueError: if the text is not one.
        """
        return cls(int(text))

    def __str__(self) -> str:
        return str(self.number)


@dataclass(frozen=True, slots=True)
class Gtids:
    """The transactions before a place in a binlog.

    Attributes:
        text: as the server writes it.
        sets: numbers by server, or by MariaDB's domain, whose numbers only rise.
    """

    text: str = field(compare=False)
    sets: Mapping[str, Intervals]

    def reaches(self, other: Gtids) -> bool:
        """See `LogPlace`."""
        return all(
            any(first <= low and high <= last for first, last in self.sets.get(key, ()))
            for key, intervals in other.sets.items()
            for low, high in intervals
        )

    @classmethod
    def parse(cls, text: str) -> Gtids:
        """Parses ``0-1-27,1-1-5`` (MariaDB) or ``3e11fa47-…:1-5:7,…`` (MySQL; 8.3 on with tags).

        https://mariadb.com/docs/server/ha-and-performance/standard-replication/gtid and
        https://dev.mysql.com/doc/refman/8.4/en/replication-gtids-concepts.html#replication-gtids-concepts-gtid-sets

        Raises:
            ValueError: if the text is neither, or empty: an empty set cannot be compared.
        """
        found: dict[str, list[tuple[int, int]]] = {}
        for part in "".join(text.split()).lower().split(","):
            for key, interval in _of_part(part):
                found.setdefault(key, []).append(interval)
        return cls(text, {key: _joined(each) for key, each in found.items()})

    @classmethod
    def of(cls, text: str) -> Gtids | None:
        """Parses like `parse`; returns None if the text is not a set of GTIDs."""
        try:
            return cls.parse(text)
        except ValueError:
            return None

    def __str__(self) -> str:
        return self.text


def _of_part(part: str) -> list[tuple[str, tuple[int, int]]]:
    if (one := _OF_MARIADB.fullmatch(part)) is not None:
        return [(one["domain"], (1, int(one["number"])))]
    server, *rest = part.split(":")
    if not (_UUID.fullmatch(server) and rest):
        msg = "no set of GTIDs"
        raise ValueError(msg)
    key, found = server, list[tuple[str, tuple[int, int]]]()
    for each in rest:
        interval = _INTERVAL.fullmatch(each)
        if interval is not None:
            first = int(interval["first"])
            found.append((key, (first, int(interval["last"] or first))))
        elif _TAG.fullmatch(each):
            key = f"{server}:{each}"
        else:
            msg = "no set of GTIDs"
            raise ValueError(msg)
    return found


def _joined(intervals: list[tuple[int, int]]) -> Intervals:
    """Joins intervals that overlap or are adjacent."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)
