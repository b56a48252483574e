"""The table that is built anew, and the parts that all steps of its rebuild ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from pyspark.sql import SparkSession

from cdc_assets.changes.names import LakeName
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import ConflictError, TerminalError
from cdc_assets.lake import Lake, TableState
from cdc_assets.lake.quarantined import QuarantineLake
from cdc_assets.merge.intake.planning import Planner
from cdc_assets.registry import TableEntry

KEPT: Final = "before_rebuild_"
"""Start of the names of tags on what a rebuild has replaced."""


@dataclass(frozen=True, slots=True)
class Site:
    """One table's rebuild, in the lake of one configuration.

    Attributes:
        config: the configuration.
        entry: the table, as readers see it.
        run_id: recorded with each publish.
        clock: wall clock.
        spark: returns the session.
        lake: the catalog.
        quarantine: the same, with records in quarantine.
        planner: makes plans on the head.
    """

    config: ReplicationConfig
    entry: TableEntry
    run_id: str
    clock: Callable[[], datetime]
    spark: Callable[[], SparkSession]
    lake: Lake
    quarantine: QuarantineLake
    planner: Planner

    @property
    def catalog(self) -> str:
        """Name of the lake's catalog."""
        return self.config.lake.catalog.name

    @property
    def where(self) -> str:
        """The place of its errors."""
        return f"table={self.entry.table} lake={self.entry.target}"

    @property
    def kept(self) -> str:
        """Start of the names of tags on what rebuilds of the table have replaced."""
        shard = self.entry.shard
        return f"{KEPT}{shard.digest}_" if shard else KEPT

    def entry_beside(self, generation: int) -> TableEntry:
        """Returns the table beside as an entry that batches are merged into."""
        stem = self.entry.stem
        name = LakeName(stem.namespace, f"{stem.name}__rebuild{generation}")
        return replace(self.entry, target=name)

    def state(self) -> TableState | None:
        """Looks at the table; None if it is not there."""
        return self.lake.state(self.entry.target, self.entry.shard_value)

    def state_beside(self, generation: int) -> TableState | None:
        """Looks at the table beside; None if it is not there."""
        entry = self.entry_beside(generation)
        return self.lake.state(entry.target, entry.shard_value)

    # ── errors of several steps ──────────────────────────────────────────────────────────

    def moved(self) -> ConflictError:
        """Returns the error for a table that another process has changed."""
        what = "another process changed the table while it was built anew"
        return ConflictError(what, where=self.where, remedy="run the same command again")

    def begun_from_log(self, option: str) -> TerminalError:
        """Returns the error for an option that asks for another way than was begun."""
        what = "building it anew has begun from its log"
        again = f"cdc-assets rebuild {self.entry.table} --abandon"
        remedy = f"go on without {option}, or: {again}"
        return TerminalError(what, where=self.where, remedy=remedy)
