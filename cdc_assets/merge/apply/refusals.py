"""Handles records that cannot be merged: stops the table, or puts them into quarantine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.config.source import QuarantineConfig
from cdc_assets.errors import RejectedRecordError
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements.pinning import pinned
from cdc_assets.merge.statements.steps import Steps
from cdc_assets.merge.tables.quarantine import Origin, Quarantine


class Refusals(Protocol):
    """A handler of the records that a batch cannot merge."""

    quarantined: int | None
    """Number of the table's records in quarantine now; None if that has not changed."""

    def take(self, refused: DataFrame, steps: Steps) -> int:
        """Handles records (``partition offset reason``), at least one; returns their number.

        Raises:
            RejectedRecordError: if the table must stop.
        """
        ...


class Stopping:
    """``bad_records: fail``, which also applies to all records of withheld columns.

    Args:
        plan: of the batch.
        may_set_aside: whether the configuration could send the records to quarantine.
    """

    quarantined: int | None = None

    def __init__(self, plan: BatchPlan, *, may_set_aside: bool) -> None:
        self._plan = plan
        self._may_set_aside = may_set_aside

    def take(self, refused: DataFrame, steps: Steps) -> int:
        """Stops the table; names the first record and the reason."""
        first = F.min(F.struct("partition", "offset", "reason")).alias("first")
        with steps.step("look at rejections"):
            found = refused.agg(F.count(F.lit(1)).alias("n"), first).collect()[0]
        at = Coordinate(self._plan.entry.topic, found["first"][0], found["first"][1])
        what = f"{found['n']} record(s) cannot be merged; the first: {found['first'][2]}"
        where = f"table={self._plan.entry.table} {at}"
        remedy = f"correct the source or the configuration{self._beside}"
        raise RejectedRecordError(what, where=where, remedy=remedy)

    @property
    def _beside(self) -> str:
        if self._may_set_aside:
            return ", or set bad_records: quarantine"
        return "; quarantine would keep the whole record, and columns are excluded or masked"


class KeptApart:
    """``bad_records: quarantine``, up to a bound.

    Args:
        quarantine: of the source.
        plan: of the batch.
        raw: its records.
        limits: for the table's records in quarantine.
        clock: wall clock.
    """

    quarantined: int | None = None

    def __init__(
        self,
        quarantine: Quarantine,
        plan: BatchPlan,
        raw: DataFrame,
        limits: QuarantineConfig,
        clock: Callable[[], datetime],
    ) -> None:
        self._quarantine = quarantine
        self._plan = plan
        self._raw = raw
        self._limits = limits
        self._clock = clock

    def take(self, refused: DataFrame, steps: Steps) -> int:
        """Writes the records to the quarantine.

        Raises:
            RejectedRecordError: if there are then more than the bound; or if they are too large
                for the quarantine, and then none is written.
        """
        plan = self._plan
        origin = Origin(plan.entry, plan.ranges, plan.run_id, self._clock())
        with steps.step("quarantine"):
            known = pinned(refused)
            self._quarantine.add(self._raw, known, origin, self._limits.max_bytes)
            self.quarantined = self._quarantine.count(plan.entry.table)
            count = known.count()
        most = self._limits.max_records
        if self.quarantined <= most:
            return count
        what = f"{self.quarantined} record(s) lie in quarantine, more than {most}"
        remedy = "look at them (cdc-assets quarantine list), or raise quarantine.max_records"
        raise RejectedRecordError(what, where=plan.where, remedy=remedy)


class Reported:
    """A handler for records merged again out of quarantine, which keeps those refused again there.

    Attributes:
        found: coordinates and reasons of the refused ones.
        merged: records that are in the table now.
        overtaken: records whose rows had newer changes.

    Args:
        taken: the records.
        total: number of the table's records in quarantine, these included.
        keep_overtaken: reason why overtaken ones stay there too; None if they may leave.
    """

    quarantined: int | None = None

    def __init__(self, taken: Sequence[Coordinate], total: int, keep_overtaken: str | None) -> None:
        self._taken = {(each.partition, each.offset): each for each in taken}
        self._total = total
        self._keep_overtaken = keep_overtaken
        self.found: dict[Coordinate, str] = {}
        self.merged: tuple[Coordinate, ...] = ()
        self.overtaken: tuple[Coordinate, ...] = ()

    def take(self, refused: DataFrame, steps: Steps) -> int:
        """Notes the records with their reasons."""
        with steps.step("look at rejections"):
            rows = refused.collect()
        for row in rows:
            self.found[self._taken[row["partition"], row["offset"]]] = row["reason"]
        return len(rows)

    def settle(self, applied: DataFrame, steps: Steps) -> None:
        """Sorts the records by their outcome.

        Args:
            applied: ``partition offset`` of the changes that are in the table now.
            steps: measures.
        """
        with steps.step("look at rejections"):
            rows = applied.select("partition", "offset").distinct().collect()
        merged = {self._taken[row["partition"], row["offset"]] for row in rows}
        rest = [each for each in self._taken.values() if each not in merged | self.found.keys()]
        if self._keep_overtaken is None:
            self.overtaken = tuple(sorted(rest))
        else:
            self.found.update(dict.fromkeys(rest, self._keep_overtaken))
        self.merged = tuple(sorted(merged - self.found.keys()))
        self.quarantined = self._total - len(self.merged) - len(self.overtaken)
