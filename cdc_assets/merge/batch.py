"""Executing one batch: read, decode, fold, apply to a branch, publish.

The steps and their order are those of docs/ARCHITECTURE.md from step 3 on:

3. read exactly the planned ranges, decode, refuse what cannot be merged;
4. fold by key, remember deleted keys, apply to a branch of the planned head;
5. to 7. publish, and drop the branch: `cdc_assets.merge.publish`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.latency import LatencyHistogram
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.changes.slo import SloWindow
from cdc_assets.config import SourceConfig
from cdc_assets.errors import RejectedRecordError, TerminalError, UnreachableError
from cdc_assets.formats.debezium_json import ROW_OPS
from cdc_assets.lake import Lake, Published
from cdc_assets.merge import sql
from cdc_assets.merge.decoding import BatchDecoder
from cdc_assets.merge.failures import released_after, translated
from cdc_assets.merge.fold import completed, newest_by_key, only_newer, set_values
from cdc_assets.merge.observe import BatchFigures, BatchObserver, Rejection
from cdc_assets.merge.plan import Apply, BatchPlan, choose
from cdc_assets.merge.publish import Publisher
from cdc_assets.merge.quarantine import Quarantine
from cdc_assets.merge.tombstones import Tombstones
from cdc_assets.registry import TableEntry
from cdc_assets.schema.types import TableSchema

_INCOMPLETE = "an update without its unchanged columns, of a row that the lake does not have"


class UnknownColumnError(TerminalError):
    """A record without a schema has a column that the table lacks."""

    def __init__(self, entry: TableEntry, found: Rejection) -> None:
        self.column = found.reason
        what = f"the source has a column {self.column!r} that the table has not"
        where = f"table={entry.table} {found.coordinate}"
        remedy = "give its type under tables.<schema.table>.columns, or configure database:"
        super().__init__(what, where=where, remedy=remedy)


@dataclass(frozen=True, slots=True)
class Folded:
    """What is known of the folded changes before they are applied."""

    keys: int
    deletes: int
    partial: int
    lowest: Mapping[int, str]
    highest: Mapping[int, str]
    highest_delete: str


@dataclass(frozen=True, slots=True)
class Resolved:
    """The changes that are to be applied, each whole; how many; how many could not be made so."""

    final: DataFrame
    kept: int
    incomplete: int = 0


@dataclass(frozen=True, slots=True)
class Executed:
    """What a batch did; ``published`` is None if nothing had to be."""

    published: Published | None
    figures: BatchFigures
    apply: Apply
    stale: int
    latency: LatencyHistogram
    schema: TableSchema


@dataclass
class BatchExecution:
    """One batch at work. Use once.

    Attributes:
        steps: seconds per step, filled as the work goes on.
    """

    spark: SparkSession
    catalog: str
    lake: Lake
    source: SourceConfig
    plan: BatchPlan
    decoder: BatchDecoder
    clock: Callable[[], datetime]
    steps: dict[str, float] = field(default_factory=dict)

    def run(self) -> Executed:
        """Do all of it; see the module.

        Raises:
            RejectedRecordError: if a record cannot be merged; nothing was published.
            ConflictError, OutcomeUnknownError: see `Publisher.publish`.
        """
        floor = self.plan.published.read_floor if self.plan.published else 0
        while True:
            with self._folded(floor) as (newest, folded, figures):
                higher = figures.floor_needed(floor)
                if higher is None:
                    # Positions of this batch do not depend on its own snapshot rows' floor.
                    return self._apply(newest, folded, figures, floor)
                floor = higher

    # ── 3. read, decode, refuse; 4. fold ─────────────────────────────────────────────────

    @contextmanager
    def _folded(self, floor: int) -> Iterator[tuple[DataFrame, Folded, BatchFigures]]:
        observer = self._observer()
        # By name: the client cannot join two plans that hold one observation.
        view = f"newest_{uuid.uuid4().hex}"
        with self._step("read, decode, fold"):
            changes = self._changes(floor, observer)
            key, unset_able = self.plan.schema.key, self.decoder.unset_able
            observed = newest_by_key(changes, key, unset_able).persist()
            observed.createOrReplaceTempView(view)
        newest = self.spark.table(view)

        def release() -> None:
            observed.unpersist()
            self.spark.catalog.dropTempView(view)

        with released_after(release):
            with self._step("read, decode, fold"):
                folded = _summary(observed)
                figures = observer.figures()
            self._require_mergeable(figures)
            if figures.rejected:
                rejected = self.decoder.decode(floor).where("reject IS NOT NULL")
                reason = F.col("reject").alias("reason")
                self._quarantine(rejected.select("partition", "offset", reason))
            yield newest, folded, figures

    def _changes(self, floor: int, observer: BatchObserver) -> DataFrame:
        """The changes that can be merged.

        The observer also keeps Spark from pushing the condition below the decoding, which
        would then be done twice; each reading needs one of its own.
        """
        decoded = observer.attach(self.decoder.decode(floor))
        return decoded.where(F.col("reject").isNull() & F.col("op").isin(*ROW_OPS, "d"))

    def _observer(self) -> BatchObserver:
        return BatchObserver(self.plan.entry.topic, self.clock())

    def _require_mergeable(self, figures: BatchFigures) -> None:
        if figures.first_rejected is not None and self.source.bad_records == "fail":
            raise _rejected(self.plan, figures.rejected, figures.first_rejected)
        if figures.unknown_column is not None:
            raise UnknownColumnError(self.plan.entry, figures.unknown_column)
        if figures.by_op["t"]:
            what = "the source table was truncated, which is not merged yet"
            raise TerminalError(
                what, where=self.plan.where, remedy="re-create the table from a new snapshot"
            )

    # ── 4. apply ─────────────────────────────────────────────────────────────────────────

    def _apply(
        self,
        newest: DataFrame,
        folded: Folded,
        figures: BatchFigures,
        floor: int,
    ) -> Executed:
        plan = self.plan
        rows = _rows(self.lake, plan)
        apply = choose(plan, rows, folded.lowest)
        with self._resolved(newest, folded, apply, floor) as resolved:
            figures = replace(figures, rejected=figures.rejected + resolved.incomplete)
            latency = self._latency(figures)
            stale = folded.keys - resolved.kept - resolved.incomplete
            if plan.replay and resolved.kept == 0:
                return Executed(None, figures, apply, stale, LatencyHistogram(), plan.schema)
            floor_after = max(floor, figures.max_read or 0)
            record = self._record(folded, figures, floor_after, latency)
            self._write(resolved.final, folded, apply, record)
        return Executed(record, figures, apply, stale, latency, plan.schema)

    @contextmanager
    def _resolved(
        self, newest: DataFrame, folded: Folded, apply: Apply, floor: int
    ) -> Iterator[Resolved]:
        guarded = apply is Apply.GUARDED
        if not guarded and not folded.partial:
            yield Resolved(newest, folded.keys)
            return
        with self._step("look up"):
            rows = self._lake_rows(newest if guarded else newest.where("partial")).persist()
            final, known = newest, None
            if guarded:
                known = self._known_positions(newest, rows)
                final = only_newer(newest, known)
            if folded.partial:
                changes = self._changes(floor, self._observer())
                final = self._whole(changes, final, known, rows)
            else:
                final = final.withColumn("incomplete", F.lit(False))
            final = final.persist()

        def release() -> None:
            final.unpersist()
            rows.unpersist()

        with released_after(release):
            with self._step("look up"):
                kept = final.count()
            incomplete = self._require_whole(final) if folded.partial else 0
            yield Resolved(final.where("NOT incomplete"), kept - incomplete, incomplete)

    def _lake_rows(self, wanted: DataFrame) -> DataFrame:
        """``known_key known_position known_row`` of the lake's rows with these keys."""
        plan = self.plan
        name = sql.table(self.catalog, plan.entry.target)
        reader = self.spark.read
        if plan.head is not None:
            reader = reader.option("versionAsOf", str(plan.head))
        table = reader.table(name)
        key = F.struct(*(F.col(sql.quote(each)) for each in plan.schema.key))
        names = self.decoder.unset_able
        row = F.struct(*(F.col(sql.quote(each)) for each in names)) if names else F.struct(F.lit(1))
        packed = table.select(
            key.alias("known_key"),
            F.coalesce(F.col(sql.POSITION), F.lit(b"")).alias("known_position"),
            row.alias("known_row"),
        )
        keys = F.broadcast(wanted.select(F.col("key").alias("wanted")))
        return packed.join(keys, packed["known_key"] == keys["wanted"], "left_semi")

    def _known_positions(self, newest: DataFrame, rows: DataFrame) -> DataFrame:
        positions = rows.select("known_key", "known_position")
        if self.plan.published and self.plan.published.tombstones:
            positions = positions.unionByName(self._tombstones().known(newest))
        return positions.groupBy("known_key").agg(F.max("known_position").alias("known_position"))

    def _whole(
        self, changes: DataFrame, final: DataFrame, known: DataFrame | None, rows: DataFrame
    ) -> DataFrame:
        partial = final.where("partial")
        unset_able = self.decoder.unset_able
        values = set_values(changes, partial, known, unset_able)
        existing = rows.select("known_key", "known_row")
        made = completed(partial, values, existing, unset_able, self.plan.schema.names)
        untouched = final.where("NOT partial").withColumn("incomplete", F.lit(False))
        return untouched.unionByName(made)

    def _quarantine(self, rejected: DataFrame) -> None:
        with self._step("quarantine"):
            quarantine = Quarantine(self.spark, self.catalog, self.plan.entry.table.source)
            quarantine.add(self.decoder.raw, rejected, self.plan.run_id, self.clock())

    def _require_whole(self, final: DataFrame) -> int:
        """How many updates cannot be completed; they are in quarantine now."""
        lost = final.where("incomplete").agg(
            F.count(F.lit(1)).alias("n"), F.min(F.struct("partition", "offset")).alias("first")
        )
        with self._step("look up"):
            found = lost.collect()[0]
        if found["n"] and self.source.bad_records == "fail":
            at = Rejection(self._coordinate(found["first"]), _INCOMPLETE)
            raise _rejected(self.plan, found["n"], at)
        if found["n"]:
            reason = F.lit(_INCOMPLETE).alias("reason")
            self._quarantine(final.where("incomplete").select("partition", "offset", reason))
        return found["n"]

    def _coordinate(self, row: Mapping[str, int]) -> Coordinate:
        return Coordinate(self.plan.entry.topic, row["partition"], row["offset"])

    def _write(self, final: DataFrame, folded: Folded, apply: Apply, record: Published) -> None:
        plan = self.plan
        if folded.deletes:
            with self._step("remember deletes"):
                self._tombstones().remember(final.where("op = 'd'"))
        publisher = Publisher(self.spark, self.catalog, self.lake, plan)
        with self._step("open branch"):
            branch = publisher.open_branch()
        try:
            if apply is not Apply.APPEND:
                self._delete(branch, final)
            with self._step("append rows"):
                self._append(branch, final, record)
        except UnreachableError:  # the branch stays; the next publish finds and drops it
            raise
        except Exception:
            publisher.close_branch()
            raise
        with self._step("publish"):
            publisher.publish()
            publisher.close_branch()

    def _delete(self, branch: str, final: DataFrame) -> None:
        view = f"keys_{uuid.uuid4().hex}"
        key = self.plan.schema.key
        keys = final.select(*(F.col("key").getField(name).alias(name) for name in key))
        with self._step("delete keys"):
            keys.createOrReplaceTempView(view)
        with (
            released_after(lambda: self.spark.catalog.dropTempView(view)),
            self._step("delete keys"),
        ):
            self.spark.sql(sql.delete_keys(branch, view, key))

    def _append(self, branch: str, final: DataFrame, record: Published) -> None:
        rows = final.where("op != 'd'").select(
            *(F.col("row").getField(name).alias(name) for name in self.plan.schema.names),
            F.col("position").alias(sql.POSITION),
            F.col("ts").alias(sql.COMMIT_TIME),
        )
        writer = rows.writeTo(branch)
        for name, value in record.to_properties().items():
            writer = writer.option(f"snapshot-property.{name}", value)
        writer.append()

    # ── what the snapshot says ───────────────────────────────────────────────────────────

    def _record(
        self, folded: Folded, figures: BatchFigures, floor: int, latency: LatencyHistogram
    ) -> Published:
        plan, before, now = self.plan, self.plan.published, self.clock()
        applied = dict(before.applied) if before else {}
        for partition, position in folded.highest.items():
            applied[partition] = max(applied.get(partition, ""), position)
        slo = before.slo if before else SloWindow()
        if not plan.replay:
            slo = slo.add(now, latency)
        return Published(
            offsets=plan.end,
            start=plan.start,
            topic=plan.entry.topic,
            topic_id=plan.identity.topic_id,
            cluster_id=plan.identity.cluster_id,
            attempt=plan.attempt,
            run=plan.run_id,
            kind="replay" if plan.replay else "tail",
            published_at=now,
            applied=applied,
            partitions=before.partitions if before else plan.partitions,
            read_floor=floor,
            tombstones=max(before.tombstones if before else "", folded.highest_delete),
            counts={
                "records": figures.records,
                **figures.by_op,
                "rejected": figures.rejected,
                "rejected_so_far": _so_far(before) + figures.rejected,
            },
            slo=slo.trim(now, self.source.slo.over_hours),
        )

    def _latency(self, figures: BatchFigures) -> LatencyHistogram:
        elapsed = (self.clock() - figures.asked_at).total_seconds()
        return figures.ages.shifted(elapsed)

    def _tombstones(self) -> Tombstones:
        return Tombstones(self.spark, self.catalog, self.plan.entry.target, self.plan.schema)

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            with translated(name, self.plan.where):
                yield
        finally:
            self.steps[name] = self.steps.get(name, 0.0) + time.monotonic() - started


def _summary(newest: DataFrame) -> Folded:
    by_partition = newest.groupBy("partition").agg(
        F.count(F.lit(1)).alias("keys"),
        F.count_if(F.col("op") == "d").alias("deletes"),
        F.count_if(F.col("partial")).alias("partial"),
        F.hex(F.min("position")).alias("lowest"),
        F.hex(F.max("position")).alias("highest"),
        F.hex(F.max(F.when(F.col("op") == "d", F.col("position")))).alias("highest_delete"),
    )
    rows = by_partition.collect()
    return Folded(
        keys=sum(row["keys"] for row in rows),
        deletes=sum(row["deletes"] for row in rows),
        partial=sum(row["partial"] for row in rows),
        lowest={row["partition"]: row["lowest"] for row in rows},
        highest={row["partition"]: row["highest"] for row in rows},
        highest_delete=max((row["highest_delete"] or "" for row in rows), default=""),
    )


def _so_far(before: Published | None) -> int:
    return before.counts.get("rejected_so_far", 0) if before else 0


def _rows(lake: Lake, plan: BatchPlan) -> int | None:
    if plan.head is None:
        return 0
    state = lake.state(plan.entry.target)
    return state.total_records if state and state.snapshot_id == plan.head else None


def _rejected(plan: BatchPlan, count: int, first: Rejection) -> RejectedRecordError:
    what = f"{count} record(s) cannot be merged; the first: {first.reason}"
    where = f"table={plan.entry.table} {first.coordinate}"
    remedy = "correct the source or the configuration, or set bad_records: quarantine"
    return RejectedRecordError(what, where=where, remedy=remedy)
