"""`cdc-assets rebuild`: builds a table anew while readers go on with the old one."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.console import Console

from cdc_assets import desired
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import ConflictError
from cdc_assets.operate.discovery import find_table
from cdc_assets.operate.services import Services
from cdc_assets.orchestration.rebuilt import matches_after_rebuild
from cdc_assets.orchestration.resources import ReplicationSpark, spark_resource
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge.rebuild import Rebuild, Standing

TRIES: Final = 20
"""So often the old table may get ahead while the new one is filled."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person asks of a rebuild.

    Attributes:
        from_snapshot: the log no longer begins with the table's beginning: wait for a snapshot.
        snapshot_done: the snapshot is complete, whether its last record says so or not.
        dry_run: only say what would be done.
        abandon: drop what was built so far.
        forget: let go of what earlier rebuilds have replaced.
        verify: compare the table with its source, once it is built.
    """

    from_snapshot: bool = False
    snapshot_done: bool = False
    dry_run: bool = False
    abandon: bool = False
    forget: bool = False
    verify: bool = True


def run_rebuild(config: ReplicationConfig, table: str, wish: Wish) -> bool:
    """Does it, or goes on with what was begun, and says what it does.

    Returns:
        Whether the table is as was asked for; False if it waits for a snapshot, or differs from its
        source.

    Raises:
        CdcError: if the table is not there, or cannot be built; the old one stays as it is.
    """
    from cdc_assets.merge.rebuild import Rebuild

    services = Services(config)
    entry = find_table(config, services.registry.load(), table)
    spark = spark_resource(config)
    try:
        rebuild = Rebuild(config, spark.session, entry, f"rebuild-{uuid.uuid4()}", services.clock)
        done = _Rebuilding(entry, rebuild, wish, Console(), services).run()
        if done and not (wish.dry_run or wish.abandon or wish.forget):
            services.failures.clear(entry.table)
            done = not wish.verify or _matches(services, entry, spark)
    finally:
        spark.forget()
    return done


def _matches(services: Services, entry: TableEntry, spark: ReplicationSpark) -> bool:
    out = Console()

    def say(words: str) -> None:
        out.print(f"{entry.table}: {words}", highlight=False, markup=False, soft_wrap=True)

    return matches_after_rebuild(services, entry, spark, say)


@dataclass(frozen=True, slots=True)
class _Rebuilding:
    entry: TableEntry
    rebuild: Rebuild
    wish: Wish
    out: Console
    services: Services

    def run(self) -> bool:
        wish, table = self.wish, self.entry.table
        if wish.forget:
            names = ", ".join(self.rebuild.forget()) or "nothing: no rebuild has kept anything"
            self.out.print(f"{table}: let go of {names}")
            return True
        if wish.abandon:
            dropped = self.rebuild.abandon()
            self._ended()
            said = "what was built so far is dropped" if dropped else "no rebuild was begun"
            self.out.print(f"{table}: {said}; the table is as it was")
            return True
        standing = self.rebuild.standing()
        if standing.swapped:
            self._ended()
            self.rebuild.tidy()
            self.out.print(f"{table}: a rebuild had been swapped in and was tidied up")
            return True
        self.rebuild.require_possible(standing)
        if wish.dry_run:
            self.out.print(self._intention(standing))
            return True
        return self._build(standing)

    def _build(self, standing: Standing) -> bool:
        self._begins()
        begin = self.rebuild.begin(standing, from_now=self.wish.from_snapshot)
        for _ in range(TRIES):
            self._fill(standing)
            if begin is not None and not self._is_whole(standing, begin):
                return False
            try:
                swapped = self.rebuild.swap(standing)
            except ConflictError as error:
                self.out.print(f"{self.entry.table}: {error.what}: once more")
                continue
            if swapped:
                self._ended()
                self.rebuild.tidy()
                self.out.print(
                    f"{self.entry.table}: swapped in. The old rows are kept as the tag "
                    f"before_rebuild_{standing.generation}, until: cdc-assets rebuild "
                    f"{self.entry.table} --forget"
                )
                return True
        what = "other runs kept publishing while the new table was swapped in"
        raise ConflictError(what, where=f"table={self.entry.table}", remedy="run it again")

    def _begins(self) -> None:
        """The table is known to be built anew, also while nobody works at it."""
        book, table = self.services.desired, self.entry.table
        if book.of(table).rebuild is None:
            wanted = desired.Wanted(self.services.clock(), "cdc-assets rebuild")
            book.put(table, desired.Wish.REBUILD, wanted)

    def _ended(self) -> None:
        """Before the table beside goes: what is left to do shows by that one alone."""
        self.services.desired.remove(self.entry.table, desired.Wish.REBUILD)

    def _fill(self, standing: Standing) -> None:
        for batch in self.rebuild.fill(standing):
            ranges = " ".join(map(str, batch.ranges))
            rows = "" if batch.row_count is None else f", {batch.row_count} rows"
            self.out.print(
                f"{self.entry.table}: merged {batch.records} records {ranges}{rows}",
                highlight=False,
            )

    def _is_whole(self, standing: Standing, begin: OffsetVector) -> bool:
        if self.wish.snapshot_done or self.rebuild.has_snapshot(standing, begin):
            return True
        self.out.print(
            f"{self.entry.table}: waits for a snapshot of the whole table, from offsets "
            f"{begin.to_json()} on. Start one now, for example by a blocking snapshot: insert "
            "into the connector's signal table a row with the type execute-snapshot and the data "
            f'{{"type": "blocking", "data-collections": ["{self.entry.at_source.qualified}"]}}. '
            "Then run this command again. After an incremental snapshot, whose last record does "
            "not say so, add --snapshot-done once it is complete.",
            highlight=False,
        )
        return False

    def _intention(self, standing: Standing) -> str:
        begun = "goes on with the table that was begun" if standing.beside else "builds"
        where = self.rebuild.beside(standing.generation)
        start = "the log's present end" if self.wish.from_snapshot else "the log's beginning"
        return (
            f"{self.entry.table}: {begun} beside the old one, as {where}, from {start}; puts its "
            f"rows and offsets in the place of those of {self.entry.target} in one commit; keeps "
            f"the old ones as the tag {self.rebuild.kept}{standing.generation}"
        )
