"""Collects the numbers of `cdc-assets metrics` in one look, shared by all who ask.

Reads the replication slots of the sources' databases, with the WAL retained for them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError
from cdc_assets.log.connect import RunningConnector
from cdc_assets.operate.services import Services
from cdc_assets.operate.status import Status, TableStatus, read_status

if TYPE_CHECKING:
    from cdc_assets.databases.postgres.server import Slot


_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class SourceSlots:
    """The slots of one source; ``problem`` is the reason if they are unknown."""

    slots: tuple[Slot, ...] = ()
    problem: str = ""


def slots_of(
    config: ReplicationConfig, connectors: Mapping[str, Sequence[str]]
) -> dict[str, SourceSlots]:
    """Returns the slots of the sources with a PostgreSQL database; asks all at the same time.

    Args:
        config: the configuration, which names the databases.
        connectors: by source, the slots that its connectors name, according to Kafka Connect; if
            they name none, all logical slots of its database count as the source's.
    """
    asked = [
        name
        for name in connectors
        if (database := config.source(name).database) and database.kind == "postgres"
    ]
    if not asked:
        return {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(partial(_slots, config), asked)
        return {
            source: _named(all_of_them, connectors[source])
            for source, all_of_them in zip(asked, found, strict=True)
        }


def _slots(config: ReplicationConfig, source: str) -> SourceSlots:
    from cdc_assets.databases.postgres.server import read_slots

    database = config.source(source).database
    if database is None:
        return SourceSlots()
    try:
        return SourceSlots(read_slots(database.login()))
    except CdcError as problem:
        return SourceSlots(problem=problem.what)


def _named(found: SourceSlots, names: Sequence[str]) -> SourceSlots:
    mine = tuple(each for each in found.slots if each.name in names)
    return SourceSlots(mine, found.problem) if names else found


@dataclass(frozen=True, slots=True)
class SourceNumbers:
    """The numbers of a source that belong to none of its tables.

    Attributes:
        source: its name.
        connectors: its tables' connectors.
        slots: its database's slots; None if it has no database with slots.
    """

    source: str
    connectors: tuple[RunningConnector, ...]
    slots: SourceSlots | None


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of one look.

    Attributes:
        status: the status of all tables.
        sources: the sources that have tables.
        seconds: how long the look took.
    """

    status: Status
    sources: tuple[SourceNumbers, ...]
    seconds: float


def read_numbers(services: Services) -> Numbers:
    """Reads all numbers, with one survey and one request to each Connect and each database.

    Raises:
        CdcError: as `read_status` raises.
    """
    started = time.monotonic()
    status = read_status(services)
    sources = source_numbers(services, status.tables)
    return Numbers(status, sources, time.monotonic() - started)


def source_numbers(services: Services, tables: Sequence[TableStatus]) -> tuple[SourceNumbers, ...]:
    """Returns the numbers of the sources that have tables, ordered by name."""
    connectors: dict[str, dict[str, RunningConnector]] = {}
    for each in tables:
        mine = connectors.setdefault(each.table.source, {})
        mine.update({connector.name: connector for connector in each.connector.connectors})
    slots = slots_of(services.config, _slot_names(connectors))
    return tuple(
        SourceNumbers(source, tuple(mine.values()), slots.get(source))
        for source, mine in sorted(connectors.items())
    )


def _slot_names(
    connectors: Mapping[str, Mapping[str, RunningConnector]],
) -> dict[str, list[str]]:
    return {
        source: [each.slot for each in mine.values() if each.slot]
        for source, mine in connectors.items()
    }


@dataclass
class NumbersCache:
    """A cache of the newest look, renewed once it is too old; many callers get the same one.

    Attributes:
        read: takes a look.
        good_for_seconds: how long a look is valid.
        monotonic: the clock, in seconds.
    """

    read: Callable[[], Numbers]
    good_for_seconds: float
    monotonic: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _newest: tuple[float, Numbers] | None = None

    def get(self) -> Numbers:
        """Returns the newest look; callers wait for one that is being taken.

        Raises:
            CdcError: as `read` raises.
        """
        with self._lock:
            if self._newest and self.monotonic() - self._newest[0] < self.good_for_seconds:
                return self._newest[1]
            found = self.read()
            self._newest = (self.monotonic(), found)
            return found
