"""Applying a part of a batch to a table with a key: look up, complete, remember, write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from cdc_assets.changes.restarts import APART_MS
from cdc_assets.lake.carried import SideMark
from cdc_assets.merge import sql
from cdc_assets.merge.branch import Branch
from cdc_assets.merge.failures import released_after
from cdc_assets.merge.fold import (
    completed,
    left_alone,
    newest_by_key,
    only_newer,
    pinned,
    position_bytes,
    set_values,
)
from cdc_assets.merge.known import Known
from cdc_assets.merge.parts import Part
from cdc_assets.merge.plan import Apply, BatchPlan, choose
from cdc_assets.merge.rekeyed import everywhere
from cdc_assets.merge.steps import Steps
from cdc_assets.merge.tombstones import Tombstones

INCOMPLETE = "an update without its unchanged columns, of a row that the lake does not have"


@dataclass(frozen=True, slots=True)
class Folded:
    """The newest change of each key of a part of a batch, and what is known of them.

    Attributes:
        frame: the changes, cached.
        keys, deletes, partial: how many there are.
        lowest, highest: positions by partition, hexadecimal.
        highest_delete: likewise; empty without deletes.
        newest: by partition the offset of the streamed change with the highest position, and
            whether it is a delete.
        latest_ms: by partition the newest time that the source told of them.
        is_unordered: whether in some partition that is more than `APART_MS` after the time of
            the one with the highest position.
    """

    frame: DataFrame
    keys: int
    deletes: int
    partial: int
    lowest: Mapping[int, str]
    highest: Mapping[int, str]
    highest_delete: str
    newest: Mapping[int, tuple[int, bool]]
    latest_ms: Mapping[int, int] = field(default_factory=dict[int, int])
    is_unordered: bool = False


@dataclass(frozen=True, slots=True)
class Resolved:
    """The changes that are to be applied, each whole; how many; which could not be made so."""

    final: DataFrame
    kept: int
    incomplete: DataFrame | None = None


def counted_by_partition(newest: DataFrame) -> DataFrame:
    """What `summarized` needs of the folded changes: a row for each Kafka partition."""
    is_delete = F.col("op") == "d"
    # An update that changes the key is a delete and a create at one position.
    place = F.struct("position", (~is_delete).alias("is_row"))
    streamed = F.when(F.col("ts").isNotNull(), place)
    return newest.groupBy("partition").agg(
        F.count(F.lit(1)).alias("keys"),
        F.count_if(is_delete).alias("deletes"),
        F.count_if(F.col("partial")).alias("partial"),
        F.hex(F.min("position")).alias("lowest"),
        F.hex(F.max("position")).alias("highest"),
        F.hex(F.max(F.when(is_delete, F.col("position")))).alias("highest_delete"),
        F.max_by(F.struct("offset", is_delete.alias("is_delete")), streamed).alias("newest"),
        F.max("told_ms").alias("latest"),
        F.max_by("told_ms", F.when(F.col("told_ms").isNotNull(), F.col("position"))).alias(
            "at_highest"
        ),
    )


def summarized(newest: DataFrame, rows: Sequence[Row]) -> Folded:
    """The folded changes and what is known of them: the rows of `counted_by_partition`."""
    return Folded(
        frame=newest,
        keys=sum(row["keys"] for row in rows),
        deletes=sum(row["deletes"] for row in rows),
        partial=sum(row["partial"] for row in rows),
        lowest={row["partition"]: row["lowest"] for row in rows},
        highest={row["partition"]: row["highest"] for row in rows},
        highest_delete=max((row["highest_delete"] or "" for row in rows), default=""),
        newest={row["partition"]: tuple(row["newest"]) for row in rows if row["newest"]},
        latest_ms={row["partition"]: row["latest"] for row in rows if row["latest"] is not None},
        is_unordered=any(
            row["latest"] > row["at_highest"] + APART_MS
            for row in rows
            if row["latest"] is not None
        ),
    )


class KeyedTable:
    """The lake table while a batch is applied to it.

    Args:
        plan: of the batch.
        known: look-ups.
        tombstones: remembered deletes.
        steps: measures.
        unset_able: columns that a change may leave alone.
        rekeyed: an update of the batch changes the key, and not one of the configuration.
    """

    def __init__(
        self,
        plan: BatchPlan,
        known: Known,
        tombstones: Tombstones,
        steps: Steps,
        unset_able: tuple[str, ...],
        *,
        rekeyed: bool = False,
    ) -> None:
        self._plan = plan
        self._known = known
        self._tombstones = tombstones
        self._steps = steps
        self._unset_able = unset_able
        self._rekeyed = rekeyed

    @contextmanager
    def part(self, folded: Folded, changes: DataFrame, part: Part) -> Iterator[Folded]:
        """The fold of a part, cached; of the whole batch if nothing has to be left out."""
        with self._part(folded, changes, part) as mine:
            if not self._rekeyed:
                yield mine
                return
            yield replace(mine, highest=everywhere(mine.highest, self._plan.partitions))

    @contextmanager
    def _part(self, folded: Folded, changes: DataFrame, part: Part) -> Iterator[Folded]:
        lowest = min(folded.lowest.values(), default="")
        if not part.before and (not lowest or lowest > part.floor):
            yield folded
            return
        plan = self._plan
        if part.before:
            mine = within(changes, part, plan.numbers)
            frame = newest_by_key(mine, plan.schema.key, plan.numbers, self._unset_able)
        else:
            frame = folded.frame.where(F.col("position") > F.lit(bytes.fromhex(part.floor)))
        cached = frame.persist()
        with released_after(cached.unpersist):
            with self._steps.step("fold a part"):
                mine = summarized(cached, counted_by_partition(cached).collect())
            yield mine

    def choose(self, folded: Folded, branch: Branch) -> Apply:
        """How to apply it; once something was written the branch says what is there."""
        if branch.identifier is not None or (self._rekeyed and self._plan.published):
            return Apply.GUARDED
        return choose(self._plan, folded.lowest)

    @contextmanager
    def resolved(
        self, folded: Folded, changes: DataFrame, apply: Apply, branch: Branch
    ) -> Iterator[Resolved]:
        """Leave out what the lake has newer, and complete partial images.

        Args:
            folded: of the part.
            changes: of the part, decoded.
            apply: how.
            branch: what was written before.
        """
        guarded = apply is Apply.GUARDED
        if not guarded and not folded.partial:
            yield Resolved(folded.frame, folded.keys)
            return
        newest = folded.frame
        wanted = newest if guarded else newest.where("partial")
        with self._steps.step("look up"):
            count = folded.keys if guarded else folded.partial
            rows = self._known.rows(wanted, branch.identifier, count=count).persist()
        with released_after(rows.unpersist), self._steps.step("look up"):
            final, positions = newest, rows.select("known_key", "known_position")
            if guarded:
                positions = self._known.positions(newest, rows)
                final = only_newer(newest, positions, count)
            if folded.partial:
                final = self._whole(changes, final, positions, rows, count)
            else:
                final = final.withColumn("incomplete", F.lit(False))
            final = pinned(final)
            counts = final.groupBy("incomplete").count().collect()
        kept = {row["incomplete"]: row["count"] for row in counts}
        lost = final.where("incomplete") if kept.get(True) else None
        yield Resolved(final.where("NOT incomplete"), kept.get(False, 0), lost)

    def remember(self, resolved: Resolved, folded: Folded) -> SideMark | None:
        """Remember the deletes; None if there are none to remember."""
        if not folded.deletes or self._plan.soft:
            return None
        with self._steps.step("remember deletes"):
            return self._tombstones.remember(resolved.final.where("op = 'd'"), self._plan.attempt)

    def write(
        self, resolved: Resolved, apply: Apply, branch: Branch, properties: Mapping[str, str]
    ) -> None:
        """Delete the keys, append the rows."""
        final, plan = resolved.final, self._plan
        if apply is not Apply.APPEND:
            with self._steps.step("delete keys"):
                branch.delete_keys(final, plan.schema.key, resolved.kept)
        with self._steps.step("append rows"):
            branch.append(self._rows(final), properties)

    def _rows(self, final: DataFrame) -> DataFrame:
        soft, is_delete = self._plan.soft, F.col("op") == "d"
        own = [F.col("position").alias(sql.POSITION), F.col("ts").alias(sql.COMMIT_TIME)]
        if soft:
            own.append(is_delete.alias(sql.DELETED))
            own.append(F.when(is_delete, F.col("ts")).alias(sql.DELETED_AT))
        rows = final if soft else final.where(~is_delete)
        names = self._plan.schema.names
        return rows.select(*(F.col("row").getField(name).alias(name) for name in names), *own)

    def _whole(
        self, changes: DataFrame, final: DataFrame, known: DataFrame, rows: DataFrame, count: int
    ) -> DataFrame:
        partial = final.where("partial")
        names = left_alone(partial, self._unset_able)
        placed = changes.withColumn("position", position_bytes(self._plan.numbers))
        soft = self._plan.soft
        values = set_values(placed, partial, known, names, count=count, keep_deleted=soft)
        existing = rows.select("known_key", "known_row")
        made = completed(partial, values, existing, names, self._plan.schema.names)
        untouched = final.where("NOT partial").withColumn("incomplete", F.lit(False))
        return untouched.unionByName(made)


def within(changes: DataFrame, part: Part, numbers: tuple[str, ...]) -> DataFrame:
    """The changes of a part."""
    position = position_bytes(numbers)
    if part.floor:
        changes = changes.where(position > F.lit(bytes.fromhex(part.floor)))
    if part.before:
        changes = changes.where(position < F.lit(bytes.fromhex(part.before)))
    return changes
