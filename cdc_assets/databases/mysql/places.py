"""Places in a binlog, and whether a connector has delivered everything from before one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cdc_assets.changes.log_places import Gtids

_FILE: Final = re.compile(r"(?P<base>.*)\.(?P<number>[0-9]+)")


@dataclass(frozen=True, slots=True)
class Place:
    """Between two events.

    Attributes:
        file: of the binlog.
        position: in it.
        gtids: of MariaDB, the last of each domain before it, as the server writes them; empty of
            MySQL, whose numbers are there a moment after what they are of can be read.
    """

    file: str
    position: int
    gtids: str = ""

    @classmethod
    def parse(cls, text: str) -> Place:
        """What `str` writes."""
        place, _, gtids = text.partition(" ")
        file, _, position = place.rpartition(":")
        return cls(file, int(position), gtids)

    def __str__(self) -> str:
        """``binlog.000002:943 0-7-3``."""
        return f"{self.file}:{self.position} {self.gtids}".rstrip()

    def reaches(self, other: Place) -> bool:
        """Whether it is not before another one of the same binlog."""
        mine, theirs = self.number, other.number
        return mine is not None and theirs is not None and mine >= theirs

    @property
    def number(self) -> tuple[int, int] | None:
        """By which places of one binlog are in order."""
        found = _FILE.fullmatch(self.file)
        return (int(found["number"]), self.position) if found else None

    @property
    def base(self) -> str:
        """What the names of all files of a binlog begin with."""
        found = _FILE.fullmatch(self.file)
        return found["base"] if found else self.file


def place_of(offset: Mapping[str, Any]) -> Place | None:
    """Where a Debezium connector goes on reading after a restart, by its committed offset.

    Kafka has acknowledged whatever is from before. While a snapshot is taken there is no such
    place.
    """
    file, position = offset.get("file"), offset.get("pos")
    if offset.get("snapshot") or not isinstance(file, str) or not isinstance(position, int):
        return None
    return Place(file, position, str(offset.get("gtids") or ""))


def has_delivered(connector: Place, until: Place, end: Place) -> bool:
    """Whether a connector has delivered everything from before a place.

    By files and positions, if they are of one server; or by MariaDB's GTIDs, which are the same on
    all. A place beyond the end of the log is of another log, and proves nothing.

    Args:
        connector: where it is.
        until: the place.
        end: of the log, looked at after the connector was asked.
    """
    if connector.base == until.base == end.base:
        if not end.reaches(connector):
            return False
        if connector.reaches(until):
            return True
    found, wanted, last = (Gtids.of(each.gtids) for each in (connector, until, end))
    if found is None or wanted is None or last is None:
        return False
    return found.reaches(wanted) and last.reaches(found)
