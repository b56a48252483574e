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
        gtids: of a connector of MariaDB, the last of each domain before it; empty if not known.
    """

    file: str
    position: int
    gtids: str = ""

    @classmethod
    def parse(cls, text: str) -> Place:
        """Parses the text that `str` returns."""
        place, _, gtids = text.partition(" ")
        file, _, position = place.rpartition(":")
        return cls(file, int(position), gtids)

    def __str__(self) -> str:
        """Returns it like ``binlog.000002:943 0-7-3``."""
        return f"{self.file}:{self.position} {self.gtids}".rstrip()

    def reaches(self, other: Place) -> bool:
        """Returns whether it is not before another one of the same binlog."""
        mine, theirs = self.number, other.number
        return mine is not None and theirs is not None and mine >= theirs

    @property
    def number(self) -> tuple[int, int] | None:
        """The number by which places of one binlog are ordered."""
        found = _FILE.fullmatch(self.file)
        return (int(found["number"]), self.position) if found else None

    @property
    def base(self) -> str:
        """The common beginning of the names of a binlog's files."""
        found = _FILE.fullmatch(self.file)
        return found["base"] if found else self.file


def place_of(offset: Mapping[str, Any]) -> Place | None:
    """Returns where a Debezium connector continues after a restart, from its committed offset.

    Kafka has acknowledged whatever is from before. While a snapshot is taken there is no such
    place.
    """
    file, position = offset.get("file"), offset.get("pos")
    if offset.get("snapshot") or not isinstance(file, str) or not isinstance(position, int):
        return None
    return Place(file, position, str(offset.get("gtids") or ""))


def has_delivered(connector: Place, until: Place, end: Place) -> bool:
    """Returns whether a connector has delivered all before a place of the log that it reads.

    A place beyond the end of the log is of another log, and proves nothing.

    Args:
        connector: where it is.
        until: the place.
        end: of the log, looked at after the connector was asked.
    """
    is_of_one = connector.base == until.base == end.base
    return is_of_one and end.reaches(connector) and connector.reaches(until)


def is_same_log(connector: Place, gtids: str) -> bool:
    """Returns whether a connector of MariaDB reads this log: both count alike up to a place.

    Files of two servers may have the same names. A replica has the same transactions, at other
    places; and it may lack what the lake has merged, so that it does for no comparison.

    Args:
        connector: where it is; it may leave domains out.
        gtids: what the log has before that place.
    """
    mine, theirs = Gtids.of(connector.gtids), Gtids.of(gtids)
    if mine is None:
        return True  # nothing tells
    return theirs is not None and all(
        theirs.sets.get(domain) == each for domain, each in mine.sets.items()
    )
