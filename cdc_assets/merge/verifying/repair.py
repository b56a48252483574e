"""Putting rows right that were proven to differ: what the source has takes their place.

What `cdc_assets.merge.verifying.judging` has proven of a key is: the newest change of it that the
lake has merged is what the source showed when it was read. So the row is put in by that version,
and all that is needed of its position is that older changes lose to it and newer ones win:

- Each change that was merged when the lake was looked at *before* the source was read has a
  position no higher than the highest that had been applied then. That is the one it gets.
- Each change that the source did not show yet commits after those that the lake had merged by
  then, so that its position is higher.

A position of the source's log at the time of reading would not do: PostgreSQL's changes are placed
by the commit *before* theirs, which may lie far below it where the source was at rest.

1. Plan on the table's head, and look at the keys there: those of which a change was merged since
   they were judged are left alone.
2. Delete the rows of the others on a branch, remember the deletes of keys that the source does not
   have, append the source's rows. Offsets stay as they are.
3. Publish, as any batch: all of it or nothing. If another writer came first, from 1 on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.errors import ConflictError, TerminalError
from cdc_assets.lake import Lake, Published
from cdc_assets.lake.carried import SideMark
from cdc_assets.merge.apply.branch import Branch
from cdc_assets.merge.apply.publish import Publisher
from cdc_assets.merge.intake.planning import Planner
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.statements.pinning import pinned
from cdc_assets.merge.tables.side import SideTable
from cdc_assets.merge.tables.tombstones import Tombstones
from cdc_assets.merge.verifying.canonical import of_told
from cdc_assets.merge.verifying.judging import Difference, Kind
from cdc_assets.merge.verifying.lake_rows import LakeRows
from cdc_assets.registry import TableEntry
from cdc_assets.schema.comparing import Comparison

_TRIES: Final = 20
"""Other writers publish every few seconds; each try takes a few."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A difference, and the position that what is put in its place gets, hexadecimal."""

    difference: Difference
    position: str


@dataclass(frozen=True, slots=True)
class Done:
    """How many keys were put right, were overtaken by a change, and cannot be put right."""

    repaired: int
    overtaken: int
    unrepaired: int


def highest_of(plan: BatchPlan) -> str:
    """The highest position that was applied when a plan was made, hexadecimal."""
    return max(plan.published.carried.applied.values(), default="") if plan.published else ""


@dataclass(frozen=True, slots=True)
class Lakes:
    """What a table's rows are put right with.

    Attributes:
        spark: gives the session.
        catalog: name of the lake's catalog.
        lake: the catalog.
        planner: makes plans on the head.
    """

    spark: Callable[[], SparkSession]
    catalog: str
    lake: Lake
    planner: Planner


class Repair:
    """Puts right rows of one table.

    Args:
        lakes: where.
        entry: the table.
        comparison: how its rows were compared.
        run_id: recorded with the publish.
        clock: wall clock.
    """

    def __init__(
        self,
        lakes: Lakes,
        entry: TableEntry,
        comparison: Comparison,
        run_id: str,
        clock: Callable[[], datetime],
    ) -> None:
        self._session = lakes.spark
        self._catalog = lakes.catalog
        self._lake = lakes.lake
        self._planner = lakes.planner
        self._entry = entry
        self._of = comparison
        self._run_id = run_id
        self._clock = clock

    def apply(self, wanted: Sequence[Wanted]) -> Done:
        """Put in what the source has.

        Raises:
            ConflictError: if other writers came first each time.
            CdcError: as for any batch; nothing was published, or all of it.
        """
        able = [each for each in wanted if self._is_able(each.difference)]
        if any(not each.position for each in able):
            what = "no change of the table was applied yet: nothing tells what a row is newer than"
            raise TerminalError(what, where=self._where, remedy=f"rebuild {self._entry.table}")
        tries = 1
        while able:
            try:
                repaired = self._tried(able)
            except ConflictError:
                if tries == _TRIES:
                    raise
                tries += 1
                continue
            return Done(repaired, len(able) - repaired, len(wanted) - len(able))
        return Done(0, 0, len(wanted))

    def _is_able(self, difference: Difference) -> bool:
        """Whether all columns of its row can be had exactly: from the source, or from the lake."""
        return not self._of.unread or difference.kind in {Kind.DIFFERENT, Kind.ONLY_IN_LAKE}

    def _tried(self, wanted: Sequence[Wanted]) -> int:
        # 1. plan, and look
        plan = self._planner.again(self._entry, (), self._run_id).plan
        rows = LakeRows(self._session(), self._catalog, self._lake, plan, self._of)
        look = rows.look([each.difference.key for each in wanted])
        still = [
            each for each in wanted if look.version(each.difference.key) == each.difference.version
        ]
        if still:
            with translated("put rows right", self._where):
                self._put(plan, rows, still)
        return len(still)

    def _put(self, plan: BatchPlan, rows: LakeRows, wanted: Sequence[Wanted]) -> None:
        # 2. delete, remember, append
        work = _Rows(self._session(), self._catalog, plan, rows, self._of)
        there = work.there(wanted)
        vanished, put = work.vanished(there), work.put(wanted, there)
        publisher = Publisher(self._session(), self._catalog, self._lake, plan)
        branch = Branch(self._session(), publisher, self._entry.shard)
        with branch.dropped_on_failure():
            side = None if plan.soft else self._remembered(plan, vanished)
            deletes = there.select(work.key_of(there).alias("key"))
            branch.delete_keys(deletes, plan.schema.key, len(wanted))
            branch.append(put, self._published(plan, wanted, side).to_properties())
            self._planner.require_same_topic(plan)
        # 3. publish
        branch.publish()

    def _remembered(self, plan: BatchPlan, vanished: DataFrame) -> SideMark | None:
        if vanished.isEmpty():
            return None
        side = SideTable(
            self._session(), self._catalog, self._lake, plan.entry.stem, plan.published
        )
        return Tombstones(side, plan.schema).remember(vanished, plan.attempt)

    def _published(
        self, plan: BatchPlan, wanted: Sequence[Wanted], side: SideMark | None
    ) -> Published:
        before = plan.published
        if before is None:
            what = "the table lost its offsets while it was compared"
            raise ConflictError(what, where=self._where, remedy="compare it again")
        carried = before.carried
        highest = max(each.position for each in wanted) if side else ""
        carried = replace(
            carried,
            side=side or carried.side,
            max_tombstone=max(carried.max_tombstone, highest),
        )
        counts = {"records": 0, "quarantined": before.counts.get("quarantined", 0)}
        return replace(
            before,
            start=before.offsets,
            attempt=plan.attempt,
            run=self._run_id,
            kind="repair",
            published_at=self._clock(),
            carried=carried,
            counts=counts,
            shard=self._entry.shard_value,
            others=plan.state.others if plan.state else {},
        )

    @property
    def _where(self) -> str:
        return f"table={self._entry.table} lake={self._entry.target}"


class _Rows:
    """The rows that are taken away and put in."""

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

    def there(self, wanted: Sequence[Wanted]) -> DataFrame:
        """The lake's rows of the keys, as they are before anything is written."""
        told = self._told(wanted)
        rows = self._rows.joined([each.difference.key for each in wanted])
        same = [rows[f"cdc_text_{n}"] == told[f"cdc_w{n}"] for n in range(len(self._of.key))]
        return pinned(rows.join(F.broadcast(told), same))

    def vanished(self, there: DataFrame) -> DataFrame:
        """``key position ts`` of those that the source does not have."""
        gone = there.where("NOT cdc_exists")
        ts = F.lit(None).cast("timestamp").alias("ts")
        return gone.select(
            self.key_of(gone).alias("key"), F.col("cdc_position").alias("position"), ts
        ).distinct()

    def put(self, wanted: Sequence[Wanted], there: DataFrame) -> DataFrame:
        """The rows to append, by the columns that the lake has."""
        mine = [f"cdc_w{n}" for n in range(len(self._of.key))]
        kept = there.dropDuplicates(mine).withColumn("cdc_kept", F.lit(True))
        told = self._told(wanted).alias("t")
        same = [F.col(f"t.{name}") == F.col(f"r.{name}") for name in mine]
        joined = told.join(kept.alias("r"), same, "left")
        if not self._plan.soft:
            joined = joined.where("t.cdc_exists")
        table = self._spark.table(sql.table(self._catalog, self._plan.entry.target))
        return joined.select(*(self._value(each.name, str(each.dataType.simpleString()))
                               for each in table.schema))  # fmt: skip

    def _value(self, name: str, type_: str) -> Expression:
        exists, kept = F.col("t.cdc_exists"), F.col(f"r.{sql.quote(name)}")
        places = {each.name: n for n, each in enumerate(self._of.columns)}
        shard = self._plan.entry.shard
        if name == sql.POSITION:
            value = F.col("t.cdc_position")
        elif name in {sql.COMMIT_TIME, sql.DELETED_AT}:
            value = F.lit(None)
        elif name == sql.DELETED:
            value = ~exists
        elif shard is not None and name == shard.column:
            value = F.lit(shard.value)
        elif name in places:
            at = places[name]
            value = F.when(exists, of_told(F.col(f"t.cdc_v{at}"), self._of.columns[at])).otherwise(
                kept
            )
        else:
            value = kept
        return value.cast(type_).alias(name)

    def key_of(self, rows: DataFrame) -> Expression:
        """A struct of the key's values in the lake's rows."""
        return F.struct(*(rows[sql.quote(name)].alias(name) for name in self._plan.schema.key))

    def _told(self, wanted: Sequence[Wanted]) -> DataFrame:
        """Keys (``cdc_w0``, …), columns (``cdc_v0``, …), whether the row exists, its position."""
        width = len(self._of.columns)
        nothing = (None,) * width
        rows = [
            (
                *each.difference.key,
                *(each.difference.told or nothing),
                each.difference.told is not None,
                bytearray.fromhex(each.position),
            )
            for each in wanted
        ]
        keys = [f"cdc_w{n} string" for n in range(len(self._of.key))]
        values = [f"cdc_v{n} string" for n in range(width)]
        own = ["cdc_exists boolean", "cdc_position binary"]
        return self._spark.createDataFrame(rows, ", ".join([*keys, *values, *own]))
