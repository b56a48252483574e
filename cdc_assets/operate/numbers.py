"""What `cdc-assets metrics` tells, as values: one look at everything, whatever asks for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cdc_assets.log.connect import Connector
from cdc_assets.operate.services import Services
from cdc_assets.operate.slots import SourceSlots, slots_of
from cdc_assets.operate.status import Status, TableStatus, read_status


@dataclass(frozen=True, slots=True)
class SourceNumbers:
    """What belongs to a source and to none of its tables.

    Attributes:
        source: its name.
        connectors: of its tables.
        slots: of its database; None if it has none that has slots.
    """

    source: str
    connectors: tuple[Connector, ...]
    slots: SourceSlots | None


@dataclass(frozen=True, slots=True)
class Numbers:
    """One look.

    Attributes:
        status: of all tables.
        sources: those that have tables.
        seconds: that the look took.
    """

    status: Status
    sources: tuple[SourceNumbers, ...]
    seconds: float


def read_numbers(services: Services) -> Numbers:
    """Look at everything: one survey, one question to each Connect and each database.

    Raises:
        CdcError: as `read_status`.
    """
    started = time.monotonic()
    status = read_status(services)
    sources = source_numbers(services, status.tables)
    return Numbers(status, sources, time.monotonic() - started)


def source_numbers(services: Services, tables: Sequence[TableStatus]) -> tuple[SourceNumbers, ...]:
    """Of the sources that have tables, by name."""
    connectors: dict[str, dict[str, Connector]] = {}
    for each in tables:
        mine = connectors.setdefault(each.table.source, {})
        mine.update({connector.name: connector for connector in each.connector.connectors})
    slots = slots_of(services.config, _slot_names(connectors))
    return tuple(
        SourceNumbers(source, tuple(mine.values()), slots.get(source))
        for source, mine in sorted(connectors.items())
    )


def _slot_names(
    connectors: Mapping[str, Mapping[str, Connector]],
) -> dict[str, list[str]]:
    return {
        source: [each.slot for each in mine.values() if each.slot]
        for source, mine in connectors.items()
    }


@dataclass
class Remembered:
    """The newest look, taken again once it is too old: many who ask get the same one.

    Attributes:
        read: takes a look.
        good_for_seconds: how long it is good.
        monotonic: seconds.
    """

    read: Callable[[], Numbers]
    good_for_seconds: float
    monotonic: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _newest: tuple[float, Numbers] | None = None

    def get(self) -> Numbers:
        """The newest look; whoever asks while one is being taken waits for that.

        Raises:
            CdcError: as `read`.
        """
        with self._lock:
            if self._newest and self.monotonic() - self._newest[0] < self.good_for_seconds:
                return self._newest[1]
            found = self.read()
            self._newest = (self.monotonic(), found)
            return found
