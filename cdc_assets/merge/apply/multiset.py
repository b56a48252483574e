"""Applies a batch to a keyless table: counts by how many each row of the multiset changes.

A create adds one copy of its row, a delete removes one of the row before it, an update does both.
The changes of one row are added up: a surplus is appended, a deficit removed by the places of rows
in their files, so that of two equal rows one stays.

Adding up is not idempotent, so each event must count once:

1. of repeats in the batch one is kept (`CountedTable.counted`): an event is identified by what
   all its deliveries share of its position (`Order.event_at`), and, where several events may share
   that, by its place in its transaction;
2. for an event that is not newer than everything applied, the ledger shows whether it was counted;
3. rows of a snapshot are not repeated within it. A later snapshot holds the whole table again:
   it is a truncate at its position (`snapshot_start`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cdc_assets.changes.offsets import Coordinate, OffsetVector
from cdc_assets.changes.position import NUMBER_DIGITS, without_offset
from cdc_assets.errors import RejectedRecordError, TerminalError
from cdc_assets.formats.order import order_of, position_bytes
from cdc_assets.lake.carried import SideMark
from cdc_assets.merge.apply.branch import Branch
from cdc_assets.merge.apply.content import content_of, require_whole_content
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.deadline import Steps
from cdc_assets.merge.statements.failures import released_after
from cdc_assets.merge.statements.joins import hinted
from cdc_assets.merge.statements.pinning import pinned
from cdc_assets.merge.statements.writing import PLACE
from cdc_assets.merge.tables.ledger import EVENT, Ledger
from cdc_assets.merge.tables.pruning import KeySearch
from cdc_assets.schema.types import TableSchema

_KEPT: Final = (
    "op", "partition", "offset", "ts", "told_ms", "position", "at", "ordinal", "is_numbered",
    "content", "row", "old_row",
)  # fmt: skip


class MissingRowError(RejectedRecordError):
    """A delete or update of a row that neither the table nor the batch has.

    Its create may be in another partition, after the batch's end there: a longer batch has it.
    """

    page = "keyless-missing-row"


@dataclass(frozen=True, slots=True)
class Changed:
    """The changes of a batch to the table's rows.

    Attributes:
        missing: ``row n position ts``: rows that are added, and how often.
        gone: `PLACE` of those that are removed; None for none.
    """

    missing: DataFrame
    gone: DataFrame | None


def events(changes: DataFrame, plan: BatchPlan) -> DataFrame:
    """Adds ``position`` to the changes, and ``at`` and ``ordinal``, which identify repeats.

    Rows that the table does not get are left out of them: such an event counts, and changes none.
    """
    order, position = order_of(plan.layout.scheme), position_bytes(plan.numbers)
    unique = order.is_unique
    content = content_of(plan.made, plan.schema)
    own = F.lit(0).cast("bigint") if unique else content
    named = changes.withColumns(
        {
            "position": position,
            "at": order.event_at(position),
            "is_numbered": F.col("ordinal").isNotNull() | F.lit(unique),
            "ordinal": own if unique else F.coalesce("ordinal", own),
            "content": content,
        }
    )
    if plan.condition is not None:
        named = named.withColumns(
            {name: F.when(F.expr(sql.condition(plan.condition, plan.schema, name)), F.col(name))
             for name in ("row", "old_row")}
        )  # fmt: skip
    return named.select(*_KEPT, F.lit(False).alias("partial"))


def snapshot_start(read: str) -> str:
    """Returns the highest position (hexadecimal) below all rows of the snapshot with ``read``.

    These rows differ in the Kafka offset only; the changes that the snapshot holds are older.
    """
    first = int(without_offset(read) + "0" * NUMBER_DIGITS, 16)
    return f"{first - 1:0{len(read)}X}"


def highest_read(frame: DataFrame) -> str:
    """Returns the highest position of a snapshot row, hexadecimal; empty without any."""
    found = frame.where("ts IS NULL").agg(F.hex(F.max("position")).alias("read")).collect()
    return found[0]["read"] or ""


class CountedTable:
    """The lake table of a keyless table while a batch is applied to it."""

    def __init__(self, catalog: str, plan: BatchPlan, steps: Steps, ledger: Ledger) -> None:
        self._catalog = catalog
        self._plan = plan
        self._steps = steps
        self._ledger = ledger

    def counted(self, frame: DataFrame, after: str, *, may_repeat: bool) -> DataFrame:
        """Returns the events above ``after`` (hexadecimal), each once.

        Args:
            frame: of `events`.
            after: position of the newest truncate.
            may_repeat: whether the table may have counted an event already.

        Raises:
            RejectedRecordError: if a repeat cannot be distinguished from a second, equal row.
            TerminalError: see `require_whole_content`.
        """
        is_unique = order_of(self._plan.layout.scheme).is_unique
        with self._steps.step("count events"):
            above = frame.where(F.col("position") > F.lit(bytes.fromhex(after)))
            streamed = above.where("ts IS NOT NULL")
            nth = F.row_number().over(Window.partitionBy(*EVENT).orderBy("partition", "offset"))
            ranked = streamed.withColumn("nth", nth)
            once = ranked.where("nth = 1").drop("nth")
            new, repeats = once, ranked.where("nth > 1").drop("nth")
            both = streamed.select(
                *EVENT, "content", F.struct("partition", "offset").alias("place")
            )
            entries = self._ledger.counted(streamed, self._committed) if may_repeat else None
            if entries is not None:
                if not is_unique:
                    require_whole_content(self._plan)
                entries = pinned(entries)
                counted = hinted(entries.select(*EVENT).distinct(), entries.count())
                new = once.join(counted, list(EVENT), "left_anti")
                repeats = repeats.unionByName(once.join(counted, list(EVENT), "left_semi"))
                both = both.unionByName(entries.select(*EVENT, "content"), allowMissingColumns=True)
            self._require_distinct(repeats)
            if not (is_unique and self._plan.forgotten):
                self._require_same(both)
            return pinned(above.where("ts IS NULL").unionByName(new))

    def remember(self, counted: DataFrame) -> SideMark:
        """Records the events."""
        with self._steps.step("record events"):
            streamed = counted.where("ts IS NOT NULL")
            return self._ledger.record(streamed, self._plan.attempt, self._committed)

    @contextmanager
    def changed(self, counted: DataFrame, branch: Branch) -> Iterator[Changed]:
        """Yields the missing rows and the places of surplus rows, to be used within the block.

        Raises:
            MissingRowError: if a row to be deleted does not exist.
        """
        with self._steps.step("count rows"):
            net = net_changes(counted, self._plan.schema).persist()
        with released_after(net.unpersist):
            surplus = net.where("n < 0")
            with self._steps.step("count rows"):
                due = surplus.agg(F.sum("n").alias("n")).collect()[0]["n"]
            gone = self._places(surplus, -due, counted, branch) if due else None
            yield Changed(net.where("n > 0"), gone)

    def write(self, changed: Changed, branch: Branch, properties: Mapping[str, str]) -> None:
        """Adds each missing row as often as needed, and removes surplus rows."""
        with self._steps.step("write rows", publishes=branch.publishes(properties)):
            branch.write(self._rows(changed.missing), properties, changed.gone)

    def _places(
        self, surplus: DataFrame, due: int, counted: DataFrame, branch: Branch
    ) -> DataFrame:
        with self._steps.step("look up"):
            found = pinned(self._surplus_rows(surplus, due, branch))
            there = found.count()
        if there != due:
            raise self._missing(surplus, found, counted, due - there)
        return found.select(*PLACE)

    def _surplus_rows(self, surplus: DataFrame, due: int, branch: Branch) -> DataFrame:
        """Returns place and ``row`` of the lake's surplus rows, the oldest of equal rows."""
        names, search = self._plan.schema.names, KeySearch(self._plan, self._catalog)
        likely = search.likely(surplus) if search.prunes else None
        rows = branch.rows() if likely is None else branch.rows().where(likely)
        table = rows.select(
            *PLACE,
            F.col(sql.POSITION),
            F.struct(*(F.col(sql.quote(name)) for name in names)).alias("row"),
        )
        wanted = hinted(surplus.select(F.col("row").alias("wanted"), "n"), due, len(names))
        mine = table.join(wanted, table["row"] == wanted["wanted"])
        oldest = Window.partitionBy("row").orderBy(sql.POSITION, "_file", "_pos")
        ranked = mine.withColumn("nth", F.row_number().over(oldest))
        return ranked.where("nth <= -n").select(*PLACE, "row")

    def _rows(self, missing: DataFrame) -> DataFrame:
        copies = missing.withColumn("copy", F.explode(F.sequence(F.lit(1), F.col("n"))))
        return copies.select(
            *(F.col("row").getField(name).alias(name) for name in self._plan.schema.names),
            F.col("position").alias(sql.POSITION),
            F.col("ts").alias(sql.COMMIT_TIME),
        )

    @property
    def _committed(self) -> OffsetVector:
        published = self._plan.published
        return published.offsets if published else OffsetVector()

    def _require_distinct(self, repeats: DataFrame) -> None:
        """Fails on unclear repeats: copied rows share a position, and may be equal."""
        unclear = repeats.where("op = 'c' AND NOT is_numbered")
        found = unclear.agg(
            F.count(F.lit(1)).alias("n"), F.min(F.struct("partition", "offset")).alias("first")
        ).collect()[0]
        if not found["n"]:
            return
        what = (
            f"{found['n']} created row(s) have the position and the content of another one: "
            "without a key, rows delivered twice cannot be distinguished from rows copied twice"
        )
        remedy = "set the connector's provide.transaction.metadata=true, or give the table a key"
        raise RejectedRecordError(
            what, where=self._at(found["first"]), remedy=remedy, page="keyless-repeat"
        )

    def _require_same(self, both: DataFrame) -> None:
        """Fails if an event has two contents: connectors may renumber a resumed transaction."""
        contents, place = F.count_distinct("content").alias("n"), F.min("place").alias("place")
        differing = both.groupBy(*EVENT).agg(contents, place).where("n > 1")
        found = differing.agg(F.min("place").alias("first")).collect()[0]
        if found["first"] is not None:
            what = "two events have one number in one transaction: a redelivery renumbered it"
            remedy = "it is unknown which of the two counts twice: cdc-assets rebuild TABLE"
            raise RejectedRecordError(
                what, where=self._at(found["first"]), remedy=remedy, page="renumbered-transaction"
            )

    def _missing(
        self, surplus: DataFrame, found: DataFrame, counted: DataFrame, count: int
    ) -> TerminalError:
        with self._steps.step("look up"):
            have = found.groupBy("row").count()
            less = surplus.join(have, "row", "left").where("coalesce(count, 0) < -n")
            rows = less.select(F.col("row").alias("old_row"))
            asked = counted.where("old_row IS NOT NULL").join(rows, "old_row", "left_semi")
            first = asked.agg(F.min(F.struct("partition", "offset")).alias("first")).collect()
        what = f"{count} deleted or updated row(s) are not in the lake; the first event"
        remedy = "the table lacks a part of its log: cdc-assets rebuild TABLE"
        return MissingRowError(what, where=self._at(first[0]["first"]), remedy=remedy)

    def _at(self, first: Mapping[str, int]) -> str:
        at = Coordinate(self._plan.entry.topic, first["partition"], first["offset"])
        return f"table={self._plan.entry.table} {at}"


def net_changes(counted: DataFrame, schema: TableSchema) -> DataFrame:
    """Returns ``row n position ts``: the change of each row's count, other than 0.

    Spark's groups have no sign of a zero in their keys: a row that is added is taken from a change.
    """
    added = counted.where("row IS NOT NULL").withColumn("n", F.lit(1))
    taken = counted.where("old_row IS NOT NULL").withColumn("row", F.col("old_row"))
    both = added.unionByName(taken.withColumn("n", F.lit(-1)))
    types = [str(each.type) for each in schema.columns]
    may_be_zero = any("float" in each or "double" in each for each in types)
    sent = [F.col("row").alias("sent")] if may_be_zero else []
    is_added = F.when(F.col("n") > 0, F.col("position"))
    newest = F.max_by(F.struct("position", "ts", *sent), is_added)
    net = both.groupBy("row").agg(F.sum("n").alias("n"), newest.alias("newest"))
    row = F.coalesce("newest.sent", "row") if sent else F.col("row")
    return net.where("n != 0").select(row.alias("row"), "n", "newest.position", "newest.ts")
