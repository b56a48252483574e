"""Applies a batch to a table with a key: looks up, completes, remembers, writes.

Chooses how to apply a batch: by looking rows up only where it may hold anything old.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.position import without_offset
from cdc_assets.formats.order import position_bytes
from cdc_assets.lake.carried import SideMark
from cdc_assets.merge.apply.branch import Branch
from cdc_assets.merge.fold.changeset import is_below
from cdc_assets.merge.fold.newest import (
    completed,
    left_alone,
    matching_alone,
    not_newer,
    set_values,
)
from cdc_assets.merge.fold.split_key_change import everywhere
from cdc_assets.merge.fold.summary import Folded, summarized
from cdc_assets.merge.plan.barriers import Barriers, marks_of
from cdc_assets.merge.plan.plan import Apply, BatchPlan
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.deadline import Steps
from cdc_assets.merge.statements.failures import released_after
from cdc_assets.merge.statements.joins import hinted
from cdc_assets.merge.statements.pinning import pinned
from cdc_assets.merge.tables.lookups import KeyLookups
from cdc_assets.merge.tables.tombstones import Tombstones

Changes = Callable[[], DataFrame]
"""Returns the batch's decoded changes: planning that takes time, and few batches need it."""


@dataclass(frozen=True, slots=True)
class WholeChanges:
    """The changes to be applied, each whole.

    Attributes:
        final: the changes.
        kept: their number.
        incomplete: those that cannot be completed; None for none.
        deletes: number of deletes among them if rows were completed, which may have become such.
        highest_delete: highest position of these, hexadecimal; empty without any.
    """

    final: DataFrame
    kept: int
    incomplete: DataFrame | None = None
    deletes: int = 0
    highest_delete: str = ""

    def counted(self, folded: Folded) -> Folded:
        """Returns the figures of a fold, with the deletes that completing rows has shown."""
        highest = max(folded.highest_delete, self.highest_delete)
        return replace(folded, deletes=max(folded.deletes, self.deletes), highest_delete=highest)


class KeyedTable:
    """The lake table while a batch is applied to it.

    Args:
        plan: of the batch.
        known: look-ups.
        tombstones: remembered deletes.
        steps: measures.
        omittable: columns that a change may leave alone.
        rekeyed: whether an update of the batch changes the key, and not a configured one.
    """

    def __init__(
        self,
        plan: BatchPlan,
        known: KeyLookups,
        tombstones: Tombstones,
        steps: Steps,
        omittable: tuple[str, ...],
        *,
        rekeyed: bool = False,
    ) -> None:
        self._plan = plan
        self._known = known
        self._tombstones = tombstones
        self._steps = steps
        self._omittable = omittable
        self._rekeyed = rekeyed

    @contextmanager
    def newer(self, folded: Folded, after: str) -> Iterator[Folded]:
        """Yields the fold of the changes above a position, cached.

        Args:
            folded: of the whole batch.
            after: the position, hexadecimal; empty for all changes.
        """
        with self._newer(folded, after) as mine:
            if not self._rekeyed:
                yield mine
                return
            yield replace(mine, highest=everywhere(mine.highest, self._plan.partitions))

    @contextmanager
    def _newer(self, folded: Folded, after: str) -> Iterator[Folded]:
        lowest = min(folded.lowest.values(), default="")
        if not lowest or lowest > after:
            yield folded
            return
        frame = folded.frame.where(F.col("position") > F.lit(bytes.fromhex(after)))
        with self._steps.step("leave out older changes"):
            cached = frame.persist()
        with released_after(cached.unpersist):
            with self._steps.step("leave out older changes"):
                mine = summarized(cached, self._plan.where)
            yield mine

    def choose(self, folded: Folded, branch: Branch) -> Apply:
        """Chooses how to apply the batch; once something was written, the branch is looked up."""
        if branch.identifier is not None or (self._rekeyed and self._plan.published):
            return Apply.GUARDED
        return choose(self._plan, folded.lowest, all_read=not folded.newest)

    @contextmanager
    def resolved(
        self, folded: Folded, changes: Changes, apply: Apply, branch: Branch
    ) -> Iterator[WholeChanges]:
        """Leaves out changes older than the lake's rows, and completes partial images.

        Args:
            folded: of the changes that are applied.
            changes: these.
            apply: the choice of `choose`.
            branch: of the batch, with all that was written before.
        """
        guarded, newest = apply is Apply.GUARDED, folded.frame
        if not guarded and not folded.partial:
            yield WholeChanges(newest, folded.keys)
            return
        wanted = newest.where(self._may_be_old(branch) if guarded else F.col("partial"))
        count = folded.keys if guarded else folded.partial
        with self._steps.step("look up"):
            rows = self._known.rows(wanted, branch.identifier, count=count).persist()
        with released_after(rows.unpersist), self._steps.step("look up"):
            positions, old = rows.select("known_key", "known_position"), 0
            if guarded:
                positions = self._known.positions(wanted, rows)
                stale = pinned(not_newer(wanted, positions, count))
                if old := stale.count():
                    same = newest["key"] == stale["stale"]
                    newest = newest.join(hinted(stale, old), same, "left_anti")
            if not folded.partial:
                resolved = WholeChanges(newest, folded.keys - old)
            else:
                resolved = _counted(pinned(self._whole(changes(), newest, positions, rows, count)))
        yield resolved

    def _may_be_old(self, branch: Branch) -> Expression:
        """Returns whether the table may have a change as new as this one, or must complete it."""
        if branch.identifier is not None or self._rekeyed:
            return F.lit(True)
        highest = max(self._plan.applied_before(range(self._plan.partitions)).values(), default="")
        return (F.col("position") <= F.lit(bytes.fromhex(highest))) | F.col("partial")

    def remember(self, resolved: WholeChanges, folded: Folded) -> SideMark | None:
        """Remembers the deletes; returns None if there are none to remember."""
        if not folded.deletes or self._plan.soft:
            return None
        with self._steps.step("remember deletes"):
            deletes, plan = resolved.final.where("op = 'd'"), self._plan
            return self._tombstones.remember(deletes, plan.attempt, plan.forgettable)

    def write(
        self,
        resolved: WholeChanges,
        barriers: Barriers,
        apply: Apply,
        branch: Branch,
        properties: Mapping[str, str],
    ) -> None:
        """Puts the keys' rows in their new state in the place of those that are there."""
        with self._steps.step("write rows", publishes=branch.publishes(properties)):
            gone = None
            if apply is not Apply.APPEND:
                gone = branch.places(resolved.final, resolved.kept)
            branch.write(self._rows(resolved.final, barriers), properties, gone)

    def _rows(self, final: DataFrame, barriers: Barriers) -> DataFrame:
        soft, is_delete = self._plan.soft, F.col("op") == "d"
        position, gone, gone_at = F.col("position"), is_delete, F.when(is_delete, F.col("ts"))
        if soft and barriers.truncates:
            newer = F.expr(sql.first_newer(marks_of(barriers.truncates), "position"))
            final = final.withColumn("mark", F.when(~is_delete, newer))
            position = F.coalesce(F.col("mark.position"), position)
            gone, gone_at = gone | F.col("mark").isNotNull(), F.coalesce(gone_at, F.col("mark.at"))
        own = [position.alias(sql.POSITION), F.col("ts").alias(sql.COMMIT_TIME)]
        if soft:
            own.extend((gone.alias(sql.DELETED), gone_at.alias(sql.DELETED_AT)))
        rows = final if soft else final.where(~is_delete)
        names = self._plan.schema.names
        return rows.select(*(F.col("row").getField(name).alias(name) for name in names), *own)

    def _whole(
        self, changes: DataFrame, final: DataFrame, known: DataFrame, rows: DataFrame, count: int
    ) -> DataFrame:
        partial = final.where("partial")
        names = left_alone(partial, self._omittable)
        placed = changes.withColumn("position", position_bytes(self._plan.numbers))
        soft = self._plan.soft
        values = set_values(placed, partial, known, names, count=count, keep_deleted=soft)
        existing = rows.select("known_key", "known_row")
        shadow = self._plan.shadow
        may_lack = None if shadow is None else is_below(shadow.until)
        made = completed(partial, values, existing, names, self._plan.schema.names, may_lack)
        made = matching_alone(made, self._plan, self._omittable, F.col("incomplete"))
        untouched = final.where("NOT partial").withColumn("incomplete", F.lit(False))
        return untouched.unionByName(made)


def _counted(final: DataFrame) -> WholeChanges:
    """Returns changes of `KeyedTable._whole` with their numbers."""
    is_delete = F.col("op") == "d"
    highest = F.hex(F.max(F.when(is_delete, F.col("position")))).alias("highest")
    figures = F.count(F.lit(1)).alias("n"), F.count_if(is_delete).alias("deletes"), highest
    found = {row["incomplete"]: row for row in final.groupBy("incomplete").agg(*figures).collect()}
    lost = final.where("incomplete") if True in found else None
    whole, kept = final.where("NOT incomplete"), found.get(False)
    if kept is None:
        return WholeChanges(whole, 0, lost)
    return WholeChanges(whole, kept["n"], lost, kept["deletes"], kept["highest"] or "")


def newer_than(changes: DataFrame, after: str, numbers: tuple[str, ...]) -> DataFrame:
    """Returns the changes above a position (hexadecimal), all if it is empty."""
    if not after:
        return changes
    return changes.where(position_bytes(numbers) > F.lit(bytes.fromhex(after)))


def choose(plan: BatchPlan, lowest: Mapping[int, str], *, all_read: bool = False) -> Apply:
    """Chooses how to apply a batch, by the lowest position of its folded changes per partition.

    A batch needs no look-up if everything it holds is newer than whatever was applied. Where
    each key stays in its partition, that is known per partition. Otherwise only the highest
    position of all shows it.

    Rows of one snapshot differ by the offset alone, which orders nothing between partitions. So
    while a snapshot is merged, no row needs to be looked up, whichever partitions keys are in.

    Args:
        plan: of the batch.
        lowest: per partition the lowest position among the folded changes, hexadecimal.
        all_read: whether all of them are rows of snapshots.
    """
    published = plan.published
    if published is None or (plan.is_empty and not published.carried.max_tombstone):
        return Apply.APPEND
    applied = plan.applied_before(lowest)
    newer = all(position > applied[p] for p, position in lowest.items())
    if not newer and all_read and not plan.keys_stay and plan.keys_remain:
        own = published.carried.applied
        newer = all(
            position > own.get(p, "") and without_offset(position) >= without_offset(applied[p])
            for p, position in lowest.items()
        )
    return Apply.REPLACE if newer else Apply.GUARDED
