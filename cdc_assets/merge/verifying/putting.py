"""Replaces rows of the lake with rows read from the source, by one publish.

The callers prove which rows may be put in, and at which position
(`cdc_assets.merge.verifying.repair`, `cdc_assets.operations.resnapshot.wave`).

The rows are a frame: the texts of the keys (`KEY` and a number), the source's values from which the
columns are made (`LAKE_TEXT` and a number), whether the source has the row (`EXISTS`), and the
row's new position (`AT`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.names import HELPERS
from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.databases.statements import KEY, LAKE_TEXT
from cdc_assets.errors import ConflictError, TransientError
from cdc_assets.lake import Lake, Published
from cdc_assets.lake.carried import SideMark
from cdc_assets.merge.apply.branch import Branch
from cdc_assets.merge.apply.publish import Publisher
from cdc_assets.merge.intake.planning import Planner
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.joins import hinted
from cdc_assets.merge.statements.own_columns import own_columns
from cdc_assets.merge.statements.pinning import pinned
from cdc_assets.merge.tables.side_table import SideTable
from cdc_assets.merge.tables.tombstones import Tombstones
from cdc_assets.merge.verifying.canonical import of_lake_text
from cdc_assets.merge.verifying.lake_rows import TEXT, LakeRows
from cdc_assets.merge.verifying.way import PublishLease
from cdc_assets.registry import TableEntry
from cdc_assets.schema.comparing import Comparison

EXISTS = f"{HELPERS}exists"
AT = f"{HELPERS}at"


@dataclass(frozen=True, slots=True)
class Lakes:
    """The connections and planner for replacing a table's rows.

    Attributes:
        spark: returns the session.
        catalog: name of the lake's catalog.
        lake: the catalog.
        planner: makes plans on the head.
    """

    spark: Callable[[], SparkSession]
    catalog: str
    lake: Lake
    planner: Planner


@dataclass(frozen=True, slots=True)
class Putting:
    """One table's rows in the lake, and their replacement.

    Attributes:
        lakes: connections and planner.
        entry: the table.
        comparison: the columns that the source's rows hold.
        run_id: recorded with the publish, as is ``kind``.
        clock: wall clock.
        way: tells whether the table is about to be replaced.
    """

    lakes: Lakes
    entry: TableEntry
    comparison: Comparison
    run_id: str
    kind: PublishKind
    clock: Callable[[], datetime]
    way: PublishLease

    def rows(self, plan: BatchPlan) -> LakeRows:
        """Returns the table's rows at the head of a plan."""
        of = self.lakes
        return LakeRows(of.spark(), of.catalog, of.lake, plan, self.comparison)

    def put(
        self, plan: BatchPlan, rows: LakeRows, source_rows: DataFrame, count: int, highest: str
    ) -> None:
        """Deletes the lake's rows of these keys, remembers those that are gone, appends the others.

        Offsets stay as they are.

        Args:
            plan: on the table's head.
            rows: of that head.
            source_rows: the frame that the module describes; it must be checkpointed, see `pinned`.
            count: number of keys.
            highest: the highest of their positions, hexadecimal.

        Raises:
            ConflictError: if another writer came first; nothing was published.
            TransientError: if the table has other columns than were compared.
            TerminalError: if it is being rebuilt.
            CdcError: as for any batch; nothing was published, or all of it.
        """
        require_compared(plan, self.comparison)
        spark, of = self.lakes.spark(), self.lakes
        work = _Rows(spark, of.catalog, plan, rows, self.comparison)
        there = work.lake_rows(source_rows, count)
        vanished, put = work.gone_rows(there), work.new_rows(source_rows, there)
        publisher = Publisher(spark, of.catalog, of.lake, plan)
        branch = Branch(publisher, partial(self._require_same, plan))
        with branch.dropped_on_failure():
            side = None if plan.soft else self._remembered(plan, vanished)
            gone = branch.places(work.changes(there), count)
            branch.write(put, self._published(plan, highest, side).to_properties(), gone)
        branch.publish()

    def _require_same(self, plan: BatchPlan) -> None:
        self.lakes.planner.require_same_topic(plan)
        self.way.require_free()

    def _remembered(self, plan: BatchPlan, vanished: DataFrame) -> SideMark | None:
        if vanished.isEmpty():
            return None
        of = self.lakes
        side = SideTable(of.spark(), of.catalog, of.lake, plan.entry.stem, plan.published)
        return Tombstones(side, plan.schema).remember(vanished, plan.attempt)

    def _published(self, plan: BatchPlan, highest: str, side: SideMark | None) -> Published:
        before = plan.published
        if before is None:
            what = "the table lost its offsets while it was read"
            where = f"table={self.entry.table} lake={self.entry.target}"
            raise ConflictError(what, where=where, remedy="run the same command again")
        carried = before.carried
        carried = replace(
            carried,
            side=side or carried.side,
            max_tombstone=max(carried.max_tombstone, highest if side else ""),
        )
        counts = {"records": 0, "quarantined": before.counts.get("quarantined", 0)}
        return replace(
            before,
            start=before.offsets,
            attempt=plan.attempt,
            run=self.run_id,
            kind=self.kind,
            published_at=self.clock(),
            carried=carried,
            counts=counts,
            shard=self.entry.shard_value,
            others=plan.state.others if plan.state else {},
        )


def require_compared(plan: BatchPlan, comparison: Comparison) -> None:
    """Requires that the source was asked for all columns that the table has by now, by its key.

    A row that is put in would have nothing in the others.

    Raises:
        TransientError: if it was not.
    """
    asked = {each.name for each in (*comparison.columns, *comparison.left_out)}
    now = plan.schema.of_source
    added = [each.name for each in now.columns if each.name not in asked]
    if not added and now.key == tuple(each.name for each in comparison.key):
        return
    what = "the table's columns or its key have changed since it was compared"
    raise TransientError(what, where=plan.where, remedy="run the same command again")


class _Rows:
    """The rows to delete and to append."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: str,
        plan: BatchPlan,
        rows: LakeRows,
        comparison: Comparison,
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._plan = plan
        self._rows = rows
        self._of = comparison

    def lake_rows(self, source_rows: DataFrame, count: int) -> DataFrame:
        """Returns the lake's rows of the keys, as they are before anything is written."""
        keys = hinted(source_rows.select(*self._keys, EXISTS, AT), count)
        pairs = range(len(self._of.key))
        same = [F.col(f"{TEXT}{n}") == F.col(f"{KEY}{n}") for n in pairs]
        return pinned(self._rows.with_texts().join(keys, same))

    def gone_rows(self, lake_rows: DataFrame) -> DataFrame:
        """Returns ``key position ts`` of the rows that the source does not have."""
        gone = lake_rows.where(f"NOT {EXISTS}")
        ts = F.lit(None).cast("timestamp").alias("ts")
        return gone.select(
            self.key_of(gone).alias("key"), F.col(AT).alias("position"), ts
        ).distinct()

    def new_rows(self, source_rows: DataFrame, lake_rows: DataFrame) -> DataFrame:
        """Returns the rows to append, with the lake's columns."""
        kept = lake_rows.dropDuplicates(self._keys)
        same = [F.col(f"t.{name}") == F.col(f"r.{name}") for name in self._keys]
        joined = source_rows.alias("t").join(kept.alias("r"), same, "left")
        if not self._plan.soft:
            joined = joined.where(f"t.{EXISTS}")
        table = self._spark.table(sql.table(self._catalog, self._plan.entry.target))
        return joined.select(*(self._value(each.name, str(each.dataType.simpleString()))
                               for each in table.schema))  # fmt: skip

    def _value(self, name: str, type_: str) -> Expression:
        exists, kept = F.col(f"t.{EXISTS}"), F.col(f"r.{sql.quote(name)}")
        places = {each.name: n for n, each in enumerate(self._of.columns)}
        shard = self._plan.entry.shard
        is_own = name in own_columns(self._plan.mode, soft=self._plan.soft)
        if name == sql.POSITION:
            value = F.col(f"t.{AT}")
        elif is_own and name in {sql.COMMIT_TIME, sql.DELETED_AT}:
            value = F.lit(None)
        elif is_own and name == sql.DELETED:
            value = ~exists
        elif shard is not None and name == shard.column:
            value = F.lit(shard.value)
        elif name in places:
            at = places[name]
            value = F.when(
                exists, of_lake_text(F.col(f"t.{LAKE_TEXT}{at}"), self._of.columns[at])
            ).otherwise(kept)
        else:
            value = kept
        return value.cast(type_).alias(name)

    def changes(self, lake_rows: DataFrame) -> DataFrame:
        """Returns ``key row`` of the lake's rows, whose values tell their partitions."""
        held = {*lake_rows.columns}
        names = [each for each in self._plan.schema.names if each in held]
        row = F.struct(*(lake_rows[sql.quote(name)].alias(name) for name in names))
        return lake_rows.select(self.key_of(lake_rows).alias("key"), row.alias("row"))

    def key_of(self, rows: DataFrame) -> Expression:
        """Returns a struct of the key's values in the lake's rows."""
        return F.struct(*(rows[sql.quote(name)].alias(name) for name in self._plan.schema.key))

    @property
    def _keys(self) -> list[str]:
        return [f"{KEY}{n}" for n in range(len(self._of.key))]
