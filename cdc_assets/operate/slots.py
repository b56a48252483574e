"""Reads the replication slots of the sources' databases, with the WAL retained for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError

if TYPE_CHECKING:
    from cdc_assets.databases.postgres.slots import Slot

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
    from cdc_assets.databases.postgres.slots import read_slots

    database = config.source(source).database
    if database is None:
        return SourceSlots()
    try:
        return SourceSlots(read_slots(database.dsn.reveal()))
    except CdcError as problem:
        return SourceSlots(problem=problem.what)


def _named(found: SourceSlots, names: Sequence[str]) -> SourceSlots:
    mine = tuple(each for each in found.slots if each.name in names)
    return SourceSlots(mine, found.problem) if names else found
