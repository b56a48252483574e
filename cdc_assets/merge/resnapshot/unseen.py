"""Puts right the rows of the lake that a connector's snapshot has not wholly shown.

That the connector has said that it is done proves nothing of the single row: its last rows may be
on their way to Kafka still, and it is trusted with nothing that removes rows. So the source is
asked for each of them, as `verify --repair` does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import functions as F

from cdc_assets.changes.offsets import OffsetRange, OffsetVector
from cdc_assets.config import ReplicationConfig
from cdc_assets.merge.attempt import Attempts
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.resnapshot.one_by_one import Settled, put_right
from cdc_assets.merge.resnapshot.signal_note import SignalNote
from cdc_assets.merge.resnapshot.unshown import Unshown, unshown
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.tables.lookups import lake_table
from cdc_assets.merge.verifying.verification import Verification
from cdc_assets.registry import TableEntry


@dataclass(frozen=True, slots=True)
class Unseen:
    """The rows of one table that a snapshot has not shown.

    Attributes:
        config: the configuration.
        attempts: plan, and decode what the log tells.
        verification: asks the source.
        entry: the table.
        run_id: recorded with each publish.
        say: told of progress.
    """

    config: ReplicationConfig
    attempts: Attempts
    verification: Verification
    entry: TableEntry
    run_id: str
    say: Callable[[str], None]

    def found(self, note: SignalNote) -> Unshown:
        """Returns the rows that the records since a signal have not shown, or not wholly.

        Raises:
            CdcError: if a part does not answer.
        """
        attempts = self.attempts
        plan = attempts.planner.again(self.entry, (), self.run_id).plan
        ranges = self._since(note, plan)
        changes, unset = attempts.told(self.entry, ranges, self.run_id) if ranges else (None, ())
        catalog, spark = self.config.lake.catalog.name, attempts.session()
        rows = lake_table(spark, catalog, plan, None)
        if plan.soft:
            rows = rows.where(~F.coalesce(F.col(sql.DELETED), F.lit(False)))
        with translated("look for rows that the snapshot has not shown", self._where):
            return unshown(rows, changes, plan.schema.key, unset)

    def _since(self, note: SignalNote, plan: BatchPlan) -> tuple[OffsetRange, ...]:
        """Returns offsets from before the signal to the head; what the log has lost shows less."""
        committed = plan.published.offsets if plan.published else OffsetVector()
        begin = self.attempts.planner.marks(self.entry).begin
        return begin.merged_max(note.since).ranges_to(committed)

    def settled(self, found: Unshown) -> Settled:
        """Has the source say of each row whether it has it, and removes or puts right the others.

        Raises:
            CdcError: if a part does not answer; what was put right before stays so.
        """
        total = found.unshown + found.partial
        said = self.config.source(self.entry.table.source)
        if not total:
            return Settled()
        if said.database is None:
            why = (
                "only the source can say whether it has them, and no database: is configured; "
                "build the table anew, or configure it and run cdc-assets verify --repair"
            )
            return Settled(left=total, why=why)
        self.say(f"{total:,} rows were not wholly shown: asking the source for them")
        source = self.verification.source(self.entry, self.verification.plan(self.entry).schema)
        try:
            if not source.comparison.key:
                why = "a column of their key cannot be compared with the source"
                return Settled(left=total, why=why)
            most = said.verify.most_keys
            keys = found.keys(source.comparison, most)
            of = (self.verification, self.entry, source)
            settled = put_right(*of, keys, said.verify.looks, self.say)
        finally:
            source.close()
        beyond = total - most if len(keys) == most else 0
        why = settled.why if settled.left else f"more than verify.most_keys={most}"
        return Settled(
            settled.put,
            settled.removed,
            settled.left + beyond,
            f"{why}: cdc-assets verify --repair" if settled.left or beyond else "",
        )

    @property
    def _where(self) -> str:
        return f"table={self.entry.table} lake={self.entry.target}"
