"""A small lake whose tables need upkeep, and a stand-in for Spark that only takes statements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession

from cdc_assets.changes.names import LakeName
from cdc_assets.changes.upkeep import Task
from cdc_assets.lake import Lake
from cdc_assets.lake.side import side_name
from cdc_assets.merge.upkeep import Upkeep
from cdc_assets.registry import TableEntry
from cdc_assets_tests.configuration import NOWHERE
from cdc_assets_tests.world import World, entry_of, write_config

PROCEDURES = {
    "expire_snapshots": Task.EXPIRE,
    "rewrite_manifests": Task.MERGE_MANIFESTS,
    "rewrite_data_files": Task.COMPACT,
    "remove_orphan_files": Task.REMOVE_ORPHANS,
}
IN_NEED = {"small_files": 2, "tiny_files": 2, "manifests": 2, "expired_at_once": 1,
           "keep_minutes": 1, "keep_snapshots": 1}  # fmt: skip


@dataclass
class Spark:
    """Answers each procedure with its number of files; refuses those in ``fails``, or raises."""

    fails: set[Task] = field(default_factory=set[Task])
    raises: Exception | None = None
    begun: list[tuple[str, Task]] = field(default_factory=list[tuple[str, Task]])
    statements: list[str] = field(default_factory=list[str])

    @property
    def conf(self) -> Spark:
        return self

    def set(self, name: str, value: str) -> None:
        """Takes any setting."""

    def sql(self, statement: str) -> Spark:
        self.statements.append(statement)
        task = next(task for name, task in PROCEDURES.items() if f".system.{name}(" in statement)
        self.begun.append((statement.split("`")[-2], task))
        if self.raises is not None:
            raise self.raises
        if task in self.fails:
            raise AnalysisException("refused")
        return self

    def collect(self) -> list[Row]:
        return [Row(rewritten_data_files_count=3, added_data_files_count=1)]


@dataclass
class UpkeepDesk:
    """One lake table with its side table, of some small files and old snapshots each."""

    folder: Path
    files: int = 4
    maintenance: dict[str, object] = field(default_factory=lambda: dict[str, object](IN_NEED))
    consistent: dict[str, str] | None = None
    spark: Spark = field(default_factory=Spark)

    def __post_init__(self) -> None:
        self.world = World(self.folder, NOWHERE)
        self.world.config = write_config(
            self.folder,
            prefix=self.world.prefix,
            maintenance=self.maintenance,
            consistent=self.consistent,
        )
        for name in (self.target, self.side):
            for n in range(self.files):
                self.world.publish(name, {0: n}, {0: n + 1})

    @property
    def entry(self) -> TableEntry:
        return entry_of("orders", self.world.config)

    @property
    def target(self) -> LakeName:
        return self.entry.target

    @property
    def side(self) -> LakeName:
        return side_name(self.entry.stem)

    @property
    def upkeep(self) -> Upkeep:
        """As it is some hours later."""
        session = cast("Callable[[], SparkSession]", lambda: self.spark)
        lake: Any = Lake(self.world.config)
        return Upkeep(
            self.world.config, [self.entry], lake, session,
            lambda: datetime.now(UTC) + timedelta(hours=2),
        )  # fmt: skip
