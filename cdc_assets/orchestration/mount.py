"""How a replication is mounted in a Dagster project that is not ours.

It rides on the configuration, since all that names an asset has one: sensors, checks, runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.registry import TableEntry


class SpecOf(Protocol):
    """Says what Dagster shows of a table: the same whenever it is asked."""

    def __call__(self, config: ReplicationConfig, entry: TableEntry) -> dg.AssetSpec:
        """Of one table."""
        ...


@dataclass(frozen=True, slots=True)
class Mount:
    """What a project says of a replication's assets.

    Attributes:
        spec_of: what is shown of a table, its key included.
    """

    spec_of: SpecOf
    _keys: dict[TableEntry, dg.AssetKey] = field(
        default_factory=dict[TableEntry, dg.AssetKey], compare=False, repr=False
    )

    def key(self, config: ReplicationConfig, entry: TableEntry) -> dg.AssetKey:
        """The asset of a table. Asked for often: sensors look at all tables every few seconds."""
        if entry not in self._keys:
            self._keys[entry] = self.spec_of(config, entry).key
        return self._keys[entry]


def mount_of(config: ReplicationConfig) -> Mount | None:
    """How it is mounted; None where the whole code location is ours."""
    return config.mount if isinstance(config.mount, Mount) else None
