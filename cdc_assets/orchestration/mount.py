"""Mounts a replication in another Dagster project.

The mount is part of the configuration, because whatever names an asset has one: sensors, checks,
runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.registry import TableEntry


class SpecOf(Protocol):
    """A function that returns a table's asset spec: the same one at each call."""

    def __call__(self, config: ReplicationConfig, entry: TableEntry) -> dg.AssetSpec:
        """Returns the asset spec of one table."""
        ...


class Execute(Protocol):
    """A function that runs around the merge of a table."""

    def __call__(self, context: dg.AssetExecutionContext, events: Iterator[Any]) -> Iterator[Any]:
        """Yields the events of a table's step, which does its work while they are taken."""
        ...


def _as_it_is(context: dg.AssetExecutionContext, events: Iterator[Any]) -> Iterator[Any]:
    return events


@dataclass(frozen=True, slots=True)
class Mount:
    """A project's settings for a replication's assets.

    Attributes:
        spec_of: returns a table's asset spec, including its key.
        execute: runs around the merge of a table.
        runs: whether sensors and schedules run unless somebody stops them; otherwise they are
            stopped until somebody starts them.
    """

    spec_of: SpecOf
    execute: Execute = _as_it_is
    runs: bool = False
    _keys: dict[TableEntry, dg.AssetKey] = field(
        default_factory=dict[TableEntry, dg.AssetKey], compare=False, repr=False
    )

    def key(self, config: ReplicationConfig, entry: TableEntry) -> dg.AssetKey:
        """Returns a table's asset key; cached, as sensors need all tables' every few seconds."""
        if entry not in self._keys:
            self._keys[entry] = self.spec_of(config, entry).key
        return self._keys[entry]


def mount_of(config: ReplicationConfig) -> Mount | None:
    """Returns the mount; None if the whole code location is ours."""
    return config.mount if isinstance(config.mount, Mount) else None


def sensor_status(config: ReplicationConfig) -> dg.DefaultSensorStatus:
    """Returns the status of the replication's sensors as long as nobody has changed it."""
    runs = dg.DefaultSensorStatus.RUNNING
    return runs if _runs(config) else dg.DefaultSensorStatus.STOPPED


def schedule_status(config: ReplicationConfig) -> dg.DefaultScheduleStatus:
    """Returns the status of the replication's schedules as long as nobody has changed it."""
    runs = dg.DefaultScheduleStatus.RUNNING
    return runs if _runs(config) else dg.DefaultScheduleStatus.STOPPED


def _runs(config: ReplicationConfig) -> bool:
    mount = mount_of(config)
    return mount is None or mount.runs
