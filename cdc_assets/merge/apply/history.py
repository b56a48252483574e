"""Applies a batch to a table that holds each version of each row.

1. *Tell apart.* Changes that the table already has are left out
   (`cdc_assets.merge.apply.identify`). The rows themselves record which changes made and ended
   them; ends that ended nothing are in a side table (`cdc_assets.merge.tables.ends`).
2. *Truncates* end all older current versions, by one statement each. Versions that the table has
   on both sides of a truncate are looked up.
3. *Look up* the current versions of the batch's keys. If a change may be older than what was
   applied, also all that end at or after the lowest such change, which then takes its place in
   the past. Of each key these are the newest versions without a gap.
4. *Fold* them together with the changes (`cdc_assets.merge.fold.versions`).
5. *Write*: changed versions are deleted and appended in their new state, new ones appended; all
   of it to the batch's branch. Current versions have a partition of their own, so that a batch
   costs no more when the past grows.

Finds changes missing from a history, whose versions record the changes at both their ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.position import without_offset
from cdc_assets.lake.carried import SideMark
from cdc_assets.merge.apply.branch import Branch
from cdc_assets.merge.apply.identify import (
    CHANGE_ID,
    CONTENT_BYTES,
    Identification,
    first_deliveries,
    require_distinct,
    unset_names,
)
from cdc_assets.merge.fold import versions as fold
from cdc_assets.merge.fold.summary import Folded
from cdc_assets.merge.intake.observe import BatchFigures
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.deadline import Steps
from cdc_assets.merge.statements.joins import hinted
from cdc_assets.merge.statements.pinning import pinned
from cdc_assets.merge.tables.ends import Emptied, Ends, emptied_in, frame_of
from cdc_assets.merge.tables.lookups import lake_table


@dataclass(frozen=True, slots=True)
class VersionEffects:
    """The effects of a batch on the table.

    Attributes:
        versions: of `fold.ended`, checkpointed.
        gone: ``key position held`` of versions that are none any more, checkpointed; None if there
            are none.
        incomplete: ``partition offset`` of changes that cannot be completed; None if there are
            none.
        applied: ``partition offset`` of the changes that the table lacked; ``changes`` is their
            number.
        emptied: the truncates among them.
        counts: numbers of versions and deletes, by the action taken.
        highest_lone: the highest position of a delete that ended nothing, hexadecimal.
    """

    versions: DataFrame
    gone: DataFrame | None
    incomplete: DataFrame | None
    applied: DataFrame
    changes: int
    emptied: tuple[Emptied, ...]
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    highest_lone: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (any(self.counts.values()) or self.emptied)


class HistoryTable:
    """The lake table while a batch is applied to it.

    Args:
        spark: the session.
        catalog: name of the lake's catalog.
        plan: of the batch.
        steps: measures.
        omittable: columns that a change may leave unchanged.
        ends: the remembered deletes and truncates, in the side table.
    """

    def __init__(
        self,
        spark: SparkSession,
        catalog: str,
        plan: BatchPlan,
        steps: Steps,
        omittable: tuple[str, ...],
        ends: Ends,
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._plan = plan
        self._steps = steps
        self._omittable = omittable
        self._ends = ends
        self._telling = Identification.of(plan)
        self._repeats = Repeats(spark, plan, ends)

    def resolve(
        self, folded: Folded, figures: BatchFigures, branch: Branch, *, rekeyed: bool
    ) -> VersionEffects:
        """Determines the effects of the batch, and writes the effects of its truncates.

        Args:
            folded: of `cdc_assets.merge.apply.identify.recordable`, cached.
            figures: of the batch.
            branch: of the batch, with all that was written before.
            rekeyed: whether an update of the batch changes the key.

        Raises:
            RejectedRecordError: if a redelivered change cannot be distinguished from two changes.
        """
        is_late = self._may_be_late(folded, figures, rekeyed=rekeyed)
        with self._steps.step("look for changes that are there"):
            ends = self._repeats.ends_known(folded) if is_late else EndsKnown()
            new = self._repeats.new(folded, ends, self._table(branch), is_late=is_late)
        with self._steps.step("look for truncates"):
            emptied = self._emptied(new) if is_late else ()
            place = _NewChanges(new, emptied, _lowest(new, emptied) if is_late else None)
        keys = self._keys(place, branch)
        self._end_all(emptied, branch)
        with self._steps.step("look up"):
            events = self._events(place, ends, self._versions(place, keys, branch))
        with self._steps.step("fold versions"):
            return self._resolved(events, place, may_leave=bool(folded.partial or is_late))

    def remember(self, resolved: VersionEffects) -> SideMark | None:
        """Remembers deletes and truncates that ended no version; returns None without any."""
        if not (resolved.counts.get("lone") or resolved.emptied):
            return None
        own = ("key", "op", *fold.PLACED)
        lone = resolved.versions.where("is_lone").select(*own)
        with self._steps.step("remember ends"):
            if resolved.emptied:
                key = F.lit(None).cast(resolved.versions.schema["key"].dataType).alias("key")
                all_keys = frame_of(self._spark, resolved.emptied).select(key, "op", *fold.PLACED)
                lone = lone.unionByName(all_keys)
            return self._ends.remember(lone, self._plan.attempt)

    def write(
        self, resolved: VersionEffects, branch: Branch, properties: Mapping[str, str]
    ) -> None:
        """Adds the new versions, and replaces or removes changed ones."""
        rows = resolved.versions.where("is_new OR is_changed")
        with self._steps.step("write rows", publishes=branch.publishes(properties)):
            gone = self._places(resolved, branch)
            branch.write(fold.as_rows(rows, self._plan.schema.names), properties, gone)

    def _places(self, resolved: VersionEffects, branch: Branch) -> DataFrame | None:
        """Returns the places of the versions that have changed, or no longer exist."""
        changed = resolved.versions.where("is_changed").select("key", "position", "held")
        if resolved.gone is not None:
            changed = changed.unionByName(resolved.gone)
        found = list[DataFrame]()
        for name, current in (("current", True), ("past", False)):
            if count := resolved.counts.get(name):
                mine = changed.where(F.col("held.is_current") == current)
                places = branch.places_of_versions(mine, count, current=current)
                found += [] if places is None else [places]
        return reduce(DataFrame.unionByName, found) if found else None

    # ── 1. what is new ───────────────────────────────────────────────────────────────────

    def _may_be_late(self, folded: Folded, figures: BatchFigures, *, rekeyed: bool) -> bool:
        """Whether the table may have, or have newer than, anything in the batch."""
        plan, published = self._plan, self._plan.published
        if plan.replay or figures.may_be_anywhere or self._has_barrier:
            return True
        if published is None:
            return False
        applied = plan.applied_before(folded.lowest)
        cut = without_offset if self._telling.by_position else str
        return rekeyed or any(
            cut(position) <= cut(applied[p]) or position <= plan.begins_after
            for p, position in folded.lowest.items()
        )

    @property
    def _has_barrier(self) -> bool:
        """Whether rows older than the plan's barrier are yet to be ended."""
        plan = self._plan
        return bool(plan.barrier) and not plan.replay and plan.barrier > plan.begins_after

    # ── 2. truncates ─────────────────────────────────────────────────────────────────────

    def _emptied(self, new: DataFrame) -> tuple[Emptied, ...]:
        """Returns the truncates that the table does not know, lowest position first."""
        topic = F.lit(self._plan.entry.topic).alias("topic")
        found = emptied_in(new.select("*", topic))
        if not self._has_barrier:
            return found
        at = bytes.fromhex(self._plan.barrier)
        barrier = Emptied(at, None, at + bytes(CONTENT_BYTES))
        return tuple(sorted((*found, barrier), key=lambda each: each.position))

    def _keys(self, place: _NewChanges, branch: Branch) -> DataFrame:
        """Returns the keys of the changes, and of the versions that a truncate cuts.

        It cuts those that ended after it, or were read again by a snapshot after it.
        """
        keys = place.new.where("op != 't'").select("key").distinct()
        if not (place.emptied and self._has_rows):
            return keys
        cut = _is_cut(each.position for each in place.emptied)
        key = F.struct(*(F.col(sql.quote(n)).alias(n) for n in self._plan.schema.key))
        with self._steps.step("look for truncates"):
            mine = self._table(branch).where(cut).select(key.alias("key"))
            return pinned(keys.unionByName(mine).distinct())

    def _end_all(self, emptied: tuple[Emptied, ...], branch: Branch) -> None:
        """Ends the table's versions; none is left after a truncate above all that was applied."""
        if emptied and self._has_rows:
            published = self._plan.published
            applied = published.carried.applied.values() if published else ()
            highest = max((*applied, self._plan.begins_after)) if applied else None
            with self._steps.step("truncate"):
                for each in emptied:
                    branch.end_older(each.position.hex(), each.literals())
                    if highest is not None and each.position > bytes.fromhex(highest):
                        return

    # ── 3. look up ───────────────────────────────────────────────────────────────────────

    @property
    def _has_rows(self) -> bool:
        return self._plan.head is not None

    def _table(self, branch: Branch) -> DataFrame:
        return lake_table(self._spark, self._catalog, self._plan, branch.identifier)

    def _versions(self, place: _NewChanges, keys: DataFrame, branch: Branch) -> DataFrame | None:
        """Returns the newest versions of these keys from some position on, without a gap.

        These are the current ones, and where changes may be late also those that end at or after
        the lowest of them. Checkpointed; None if the table has no rows.
        """
        if not self._has_rows:
            return None
        takes_part = F.col(sql.CURRENT)
        if place.lowest is not None:
            takes_part = takes_part | (F.col(sql.END_POSITION) >= F.lit(place.lowest))
        schema = self._plan.schema
        table = self._table(branch).where(takes_part)
        events = fold.versions_as_events(table, schema.key, schema.names)
        wanted = hinted(keys.select(F.col("key").alias("wanted")), keys.count())
        return pinned(events.join(wanted, events["key"] == wanted["wanted"], "left_semi"))

    # ── 4. fold ──────────────────────────────────────────────────────────────────────────

    def _events(self, place: _NewChanges, ends: EndsKnown, versions: DataFrame | None) -> DataFrame:
        """Returns all events that take part: changes, versions, and ends that ended nothing yet."""
        schema, unset = self._plan.schema, unset_names(self._omittable)
        changes = place.new.where("op != 't'")
        own = fold.changes_as_events(changes, schema.names, self._plan.entry.topic, unset)
        row_type = own.schema["row"].dataType
        frames = [own, *(fold.also_known(versions) if versions is not None else ())]
        if ends.lone is not None and place.lowest is not None:
            lone = ends.lone.where(F.col("position") >= F.lit(place.lowest))
            mine = lone.join(own.select("key").distinct(), "key", "left_semi")
            frames.append(fold.ends_as_events(mine, row_type))
        events = reduce(DataFrame.unionByName, frames)
        low = place.lowest or b""
        after = [e for e in (*ends.truncates, *place.emptied) if e.position >= low]
        if not after:
            return events
        truncates = F.broadcast(frame_of(self._spark, after))
        of_all = events.select("key").distinct().crossJoin(truncates)
        return events.unionByName(fold.ends_as_events(of_all, row_type))

    def _resolved(
        self, events: DataFrame, place: _NewChanges, *, may_leave: bool
    ) -> VersionEffects:
        lives, incomplete, unset = fold.in_lives(events), None, ()
        if may_leave:
            lives = pinned(lives)
            unset = _left_alone(lives, self._plan.schema.names)
            lost = lives.where("NOT whole").select("partition", "offset").distinct()
            incomplete = lost if unset and not lost.isEmpty() else None
        read, gone = fold.read_apart(fold.carried(lives, unset)), None
        if may_leave:
            read = pinned(read)
            gone = read.where("is_again AND held IS NOT NULL").select("key", "position", "held")
        versions = pinned(fold.ended(read))
        counts, highest = self._counted(versions, gone)
        applied, emptied = place.new.select("partition", "offset"), place.emptied
        if incomplete is not None:
            applied = applied.join(incomplete, ["partition", "offset"], "left_anti")
        return VersionEffects(
            versions, gone, incomplete, applied, applied.count(), emptied, counts, highest
        )

    def _counted(self, versions: DataFrame, gone: DataFrame | None) -> tuple[dict[str, int], str]:
        is_current = F.col("held.is_current")
        changed = F.col("is_changed")
        found = versions.agg(
            F.count_if("is_new").alias("new"),
            F.count_if(changed & is_current).alias("current"),
            F.count_if(changed & ~is_current).alias("past"),
            F.count_if("is_lone").alias("lone"),
            F.hex(F.max(F.when(F.col("is_lone"), F.col("position")))).alias("highest"),
        ).collect()[0]
        counts = {name: int(found[name]) for name in ("new", "current", "past", "lone")}
        for row in gone.groupBy(is_current.alias("is_current")).count().collect() if gone else ():
            counts["current" if row["is_current"] else "past"] += row["count"]
        return counts, found["highest"] or ""


@dataclass(frozen=True, slots=True)
class _NewChanges:
    """A batch's new changes, and their place among the positions.

    Attributes:
        new: its changes that the table lacks.
        emptied: its truncates that the table lacks.
        lowest: no position of both is lower; None if they are newer than whatever was applied.
    """

    new: DataFrame
    emptied: tuple[Emptied, ...]
    lowest: bytes | None


def _lowest(new: DataFrame, emptied: tuple[Emptied, ...]) -> bytes:
    """Returns the lowest position of both frames; above any position if they are empty."""
    found = new.agg(F.min("position").alias("lowest")).collect()[0]["lowest"]
    positions = [each.position for each in emptied]
    if found is not None:
        positions.append(bytes(found))
    return min(positions) if positions else b"\xff"


def _is_cut(truncates: Iterable[bytes]) -> Expression:
    """Returns whether one of these cuts a version; its depth does not grow with their number."""
    position, end = F.col(sql.POSITION), F.col(sql.END_POSITION)

    def by(at: Expression) -> Expression:
        later = F.exists(sql.READ_AGAIN, lambda read: read.getField("position") > at)
        behind = F.coalesce(end > at, F.lit(False)) | F.coalesce(later, F.lit(False))
        return (position < at) & behind

    return F.exists(F.array(*map(F.lit, truncates)), by)


def _left_alone(events: DataFrame, names: Sequence[str]) -> tuple[str, ...]:
    """Returns the columns that at least one of the events leaves unchanged.

    Columns that were renamed since, or are gone, keep the table's values.
    """
    rows = events.select(F.explode("unset")).distinct().collect()
    return tuple(sorted({row[0] for row in rows} & {*names}))


_PLACED: Final = ("event", "topic", "partition", "offset")
_MADE: Final = (sql.EVENT, sql.TOPIC, sql.PARTITION, sql.OFFSET)
_ENDED: Final = (sql.END_EVENT, sql.END_TOPIC, sql.END_PARTITION, sql.END_OFFSET)


@dataclass(frozen=True, slots=True)
class EndsKnown:
    """Remembered truncates, and deletes of the batch's keys, that ended no version."""

    truncates: tuple[Emptied, ...] = ()
    lone: DataFrame | None = None


class Repeats:
    """Look-ups for one batch.

    Args:
        spark: the session.
        plan: of the batch.
        ends: the remembered deletes and truncates, in the side table.
    """

    def __init__(self, spark: SparkSession, plan: BatchPlan, ends: Ends) -> None:
        self._spark = spark
        self._plan = plan
        self._ends = ends
        self._telling = Identification.of(plan)

    def ends_known(self, folded: Folded) -> EndsKnown:
        """Returns all remembered truncates, and the remembered deletes of the batch's keys."""
        truncates, published = self._ends.truncates(), self._plan.published
        if published is None or not published.carried.max_tombstone:
            return EndsKnown(truncates)
        keys = folded.frame.where("op != 't'").select("key").distinct()
        lone = self._ends.deletes(keys, folded.keys)
        return EndsKnown(truncates, None if lone is None else pinned(lone))

    def new(self, folded: Folded, ends: EndsKnown, table: DataFrame, *, is_late: bool) -> DataFrame:
        """Returns the changes that the table does not have yet, each once; checkpointed.

        Args:
            folded: of the batch.
            ends: of `ends_known`.
            table: as the batch finds it.
            is_late: whether the table may have any of the changes.

        Raises:
            RejectedRecordError: if a redelivered change cannot be distinguished from two changes.
        """
        changes = first_deliveries(folded.frame)
        events, once, _ = changes
        there = None
        if is_late:
            wanted = hinted(events.select("change_id").distinct(), folded.keys)
            recorded = self._recorded(folded, ends, table)
            there = pinned(recorded.join(wanted, "change_id", "left_semi"))
        if not self._telling.is_unique:
            require_distinct(self._plan, changes, there)
        if there is not None:
            repeated = there.select("change_id").distinct()
            once = once.join(hinted(repeated, folded.keys), "change_id", "left_anti")
        return pinned(once.drop("change_id"))

    def _recorded(self, folded: Folded, ends: EndsKnown, table: DataFrame) -> DataFrame:
        """Returns ``change_id event known_place`` of recorded changes that may be among these."""
        frames = [frame_of(self._spark, ends.truncates).select(*_PLACED)]
        if ends.lone is not None:
            frames.append(ends.lone.select(*_PLACED))
        if self._plan.head is not None:
            bounds, has_readings = self._bounds(folded)
            frames += [
                _placed(table.where(F.col(sql.EVENT).between(*bounds)), _MADE),
                _placed(table.where(F.col(sql.END_EVENT).between(*bounds)), _ENDED),
            ]
            if has_readings:
                again = table.select(F.explode(sql.READ_AGAIN).alias("again"))
                frames.append(_placed(again, tuple(f"again.{name}" for name in _PLACED)))
        recorded = reduce(DataFrame.unionByName, frames)
        place = F.concat_ws(":", "topic", "partition", "offset").alias("known_place")
        return recorded.select(F.expr(CHANGE_ID).alias("change_id"), "event", place).distinct()

    def _bounds(self, folded: Folded) -> tuple[tuple[Expression, Expression], bool]:
        """Returns bounds of the events, and whether the events include rows of snapshots.

        Files with no event within the bounds are skipped by their statistics.
        """
        found = folded.frame.agg(
            F.min("event").alias("low"),
            F.max("event").alias("high"),
            F.max(F.col("op") == "r").alias("has_readings"),
        ).collect()[0]
        low, high = (bytes(found[name] or b"")[:-CONTENT_BYTES] for name in ("low", "high"))
        bounds = F.lit(low), F.lit(high + b"\xff" * (CONTENT_BYTES + 1))
        return bounds, bool(found["has_readings"])


def _placed(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    return rows.select(*(F.col(name).alias(as_) for name, as_ in zip(names, _PLACED, strict=True)))
