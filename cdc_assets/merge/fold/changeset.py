"""Turns a batch's records into changes that can be folded, in one shape for every table.

Soft deletes: updates that set only the key.

The fold then carries the last values of a row over its delete, and the row's own position
remembers the delete: no tombstone is needed.

Passes over changes without their row, if rows were read from the live source after them.

Changes merged over such rows begin before these were read. An update that leaves large values alone
may find its row gone: it was deleted, or given another key, after the update and before it was
read. The log shows this before the place at which all that was read had been delivered. So the
update has no effect in the end, and is passed over. A row that the log itself has begun exists in
any case, possibly without the values that a change of its key has left out
(`cdc_assets.operations.rebuild.shadow_rows`).

Beyond that place of the log no row is gone unless the log shows it, and a change that lacks its
row is refused as elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.offsets import Coordinate, OffsetVector
from cdc_assets.changes.position import LowWatermarks, with_snapshot, with_snapshots
from cdc_assets.errors import TerminalError
from cdc_assets.formats.order import position_bytes
from cdc_assets.formats.spec import ROW_OPS
from cdc_assets.lake.shadow_progress import ShadowProgress
from cdc_assets.merge.fold.split_key_change import with_old_keys_deleted
from cdc_assets.merge.intake.decoding import BatchDecoder
from cdc_assets.merge.intake.observe import BatchFigures, BatchObserver
from cdc_assets.merge.plan.barriers import Truncate
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.schema.types import TableSchema

Amendment = Callable[[DataFrame], DataFrame]
"""Returns the changes that a batch's fold takes in place of these decoded ones."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Facts about a batch that its fold needs.

    Attributes:
        low_watermarks: see `cdc_assets.changes.position.low_watermark_at`.
        amendments: what guards have learned that adds changes or completes them, in their order.
        refused: ``partition offset reason`` of records that guards refuse, each frame by itself.
        rekeyed: whether an update of the batch changes the key.
    """

    low_watermarks: LowWatermarks
    amendments: tuple[Amendment, ...] = ()
    refused: tuple[DataFrame, ...] = ()
    rekeyed: bool = False

    def amended(self, amendment: Amendment) -> Knowledge:
        """Adds an amendment, which comes after those that are there."""
        return replace(self, amendments=(*self.amendments, amendment))

    def refusing(self, refused: DataFrame) -> Knowledge:
        """Adds records that cannot be merged (``partition offset reason``)."""
        return replace(self, refused=(*self.refused, refused))


class ChangeSet:
    """The changes of one batch."""

    def __init__(self, decoder: BatchDecoder, plan: BatchPlan) -> None:
        self._decoder = decoder
        self._plan = plan

    @property
    def omittable(self) -> tuple[str, ...]:
        """Columns that ``unset`` has."""
        plan = self._plan
        return unset_by_deletes(plan.schema) if plan.soft else self._decoder.omittable

    def mergeable(self, knowledge: Knowledge, observer: BatchObserver) -> DataFrame:
        """Returns the changes of rows.

        The observer also keeps Spark from pushing the condition below the decoding, which
        would then be done twice; each read needs an observer of its own.
        """
        plan, marked = self._plan, self._decoder.omittable
        decoded = self._decoder.decode(
            knowledge.low_watermarks, parse_here=False, tells_key_schema=observer.also.key_schemas
        )
        changes = self._merged_ones(observer.attach(decoded))
        for amend in knowledge.amendments:
            changes = amend(changes)
        changes = self._with_old_keys(changes, knowledge)
        return keeping_rows(changes, plan.schema, marked) if plan.soft else changes

    def _merged_ones(self, decoded: DataFrame) -> DataFrame:
        """Returns those that can be merged; truncates only where they are a row."""
        decoded = self.from_its_beginning(decoded)
        if self._plan.mode is Mode.MIRROR:
            return _of_rows(decoded)
        return decoded.where(F.col("reject").isNull() & F.col("op").isin(*ROW_OPS, "d", "t"))

    def decoded(self, knowledge: Knowledge) -> DataFrame:
        """Returns the changes of rows as they are written, with deletes of their old keys."""
        return self._with_old_keys(
            _of_rows(self._decoder.decode(knowledge.low_watermarks)), knowledge
        )

    def from_its_beginning(self, decoded: DataFrame) -> DataFrame:
        """Leaves out changes from before the offsets at which the table begins, or was read."""
        begin = self._plan.read_from
        return decoded if begin is None else decoded.where(~is_below(begin))

    def _with_old_keys(self, changes: DataFrame, knowledge: Knowledge) -> DataFrame:
        if not (self._plan.layout.split_keys or knowledge.rekeyed):
            return changes
        return with_old_keys_deleted(changes, self._decoder.omittable)

    def low_watermarks(self, known: LowWatermarks, figures: BatchFigures) -> LowWatermarks:
        """Adds the complete snapshots that this batch has rows of; may read the batch."""
        starts = {each.partition: each.start for each in self._plan.ranges}

        def begins() -> Mapping[tuple[int, int], int]:
            lsn = figures.begun_at_start
            return self._begins if lsn is None else {(p, lsn): at for p, at in starts.items()}

        return with_snapshots(known, starts, figures.max_read, begins)

    def renumbered_watermarks(self, known: LowWatermarks, figures: BatchFigures) -> LowWatermarks:
        """Does the same if the figures are those of other epochs; reads the batch."""
        return known if figures.max_read is None else with_snapshot(known, self._begins)

    @cached_property
    def _begins(self) -> dict[tuple[int, int], int]:
        """First offset of each snapshot's rows in each partition."""
        decoded = self._decoder.decode({}).where("read_lsn IS NOT NULL")
        rows = decoded.groupBy("partition", "read_lsn").agg(F.min("offset").alias("first"))
        return {(row["partition"], row["read_lsn"]): row["first"] for row in rows.collect()}

    def rejected(self, knowledge: Knowledge) -> DataFrame:
        """Returns ``partition offset reason`` of the records that cannot be merged."""
        decoded = self._decoder.decode(knowledge.low_watermarks)
        reason = F.col("reject").alias("reason")
        rejected = decoded.where("reject IS NOT NULL").select("partition", "offset", reason)
        if not self._decoder.format.has_many_rows:
            return rejected
        return rejected.groupBy("partition", "offset").agg(F.min("reason").alias("reason"))

    def truncates(self, knowledge: Knowledge) -> tuple[Truncate, ...]:
        """Returns the truncates of the batch.

        Raises:
            TerminalError: if it is unknown which changes of other partitions they precede.
        """
        decoded = self.from_its_beginning(self._decoder.decode(knowledge.low_watermarks))
        found = decoded.where((F.col("op") == "t") & F.col("reject").isNull()).select(
            "partition",
            "offset",
            F.hex(position_bytes(self._plan.numbers)).alias("position"),
            F.unix_micros("ts").alias("at"),
        )
        truncates = tuple(
            Truncate(row["position"], row["at"], self._coordinate(row["partition"], row["offset"]))
            for row in found.collect()
        )
        if len(self._plan.numbers) == 1 and self._plan.partitions > 1:
            what = "a truncate in a topic of several partitions whose changes have no position"
            remedy = "nothing tells what it precedes: cdc-assets rebuild TABLE --from-snapshot"
            raise TerminalError(
                what, where=f"table={self._plan.entry.table} {truncates[0].coordinate}",
                remedy=remedy, page="truncate-in-partitions",
            )  # fmt: skip
        return truncates

    def _coordinate(self, partition: int, offset: int) -> Coordinate:
        return Coordinate(self._plan.entry.topic, partition, offset)


def _of_rows(decoded: DataFrame) -> DataFrame:
    return decoded.where(F.col("reject").isNull() & F.col("op").isin(*ROW_OPS, "d"))


def unset_by_deletes(schema: TableSchema) -> tuple[str, ...]:
    """Returns the columns that a delete leaves alone."""
    return tuple(name for name in schema.names if name not in schema.key)


def keeping_rows(changes: DataFrame, schema: TableSchema, marked: tuple[str, ...]) -> DataFrame:
    """Adds a row image to each delete.

    Args:
        changes: decoded ones.
        schema: the table's.
        marked: columns that ``unset`` has so far; afterwards `unset_by_deletes`.
    """
    is_delete = F.col("op") == "d"

    def value(name: str) -> Expression:
        column = schema.column(name)
        if name in schema.key:
            return F.col("key").getField(name).alias(name)
        return F.lit(None).cast(str(column.type)).alias(name)

    def unset(name: str) -> Expression:
        before = F.col("unset").getField(name) if name in marked else F.lit(False)
        return (is_delete | before).alias(name)

    image = F.struct(*(value(name) for name in schema.names))
    flags = [unset(name) for name in unset_by_deletes(schema)]
    return changes.withColumns(
        {
            "row": F.when(is_delete, image).otherwise(F.col("row")),
            "unset": F.struct(*flags) if flags else F.struct(F.lit(False).alias("__none")),
        }
    )


def is_below(ends: OffsetVector | None) -> Expression:
    """Returns whether a change comes before these ends of its topic."""
    pairs = [F.lit(number) for pair in ends or () for number in pair]
    if not pairs:
        return F.lit(False)
    end = F.create_map(*pairs)[F.col("partition")]
    return F.coalesce(F.col("offset") < end, F.lit(False))


def of_rows_that_stay(incomplete: DataFrame, shadow: ShadowProgress) -> DataFrame:
    """Returns those of the changes without their rows that are still refused."""
    return incomplete.where(~is_below(shadow.until))
