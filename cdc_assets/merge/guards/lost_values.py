"""Finds values that rows would lose to newer records without their column, or would not get.

The fold itself looks for them, as it brings all changes of a key together anyway: a separate look
would read the batch once more. See `cdc_assets.merge.intake.absent` for the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.errors import TerminalError
from cdc_assets.formats.existing import existing_value
from cdc_assets.formats.flat import any_of
from cdc_assets.formats.order import position_bytes
from cdc_assets.formats.spec import ROW_OPS
from cdc_assets.merge.fold.changeset import ChangeSet, Knowledge
from cdc_assets.merge.fold.context import Pass, PlannedBatch
from cdc_assets.merge.fold.newest import FOLDED, newest_by_key
from cdc_assets.merge.guards.guard import Guard
from cdc_assets.merge.intake.absent import ACCEPT
from cdc_assets.merge.intake.decoding import BatchDecoder, Doubt
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.joins import hinted
from cdc_assets.merge.tables.lookups import lake_table
from cdc_assets.schema.types import Column


class LostValues(Guard):
    """Stops a table in which a row would lose a value that the source still has, or may have."""

    case = "records lack a column of which rows may have values"

    def aggregates(self, batch: PlannedBatch) -> Mapping[str, Expression]:
        """Returns where each key's doubtful columns are missing, and where they have values."""
        if not _is_folded(batch.plan):
            return {}
        return held_and_lacking(batch.decoder.doubt, batch.plan.numbers)

    def judge(self, this: Pass) -> Pass:
        """Checks a batch before the table is changed, if its positions are final by then.

        Raises:
            TerminalError: if a value would be lost.
        """
        return this if this.may_rise else self.settle(this)

    def settle(self, last: Pass) -> Pass:
        """Checks a batch not checked yet, and returns the pass without doubt.

        Raises:
            TerminalError: if a value would be lost.
        """
        decoder, plan, folded, means = last.batch.decoder, last.plan, last.folded, self.means
        if decoder.doubt is None:
            return last
        looks = means.steps.step if _is_folded(plan) else self.look
        with looks("look for values that would be lost"):
            if _is_folded(plan):
                require_none_lost(means.spark, means.catalog, plan, decoder.doubt, folded.frame)
            else:
                look_through(means.spark, means.catalog, decoder, last.knowledge)
        if _is_folded(plan):
            folded = replace(folded, frame=folded.frame.select(*FOLDED))
        return replace(last, batch=PlannedBatch.of(replace(decoder, doubt=None)), folded=folded)


def _is_folded(plan: BatchPlan) -> bool:
    """Whether the pass folds a batch to one change of each key."""
    return plan.mode is not Mode.HISTORY


def held_and_lacking(doubt: Doubt | None, numbers: tuple[str, ...]) -> dict[str, Expression]:
    """Returns the aggregates for the fold, over all changes of a key.

    Args:
        doubt: the columns; None if there are none.
        numbers: of the position.

    Returns:
        By name: ``lacks0`` …, the place of the key's newest record without the column, and
        ``has0`` …, the position of its first record with a value of it; NULL if there is none.
    """
    position = position_bytes(numbers)
    place = F.struct(position.alias("position"), "partition", "offset")
    is_row = F.col("op").isin(*ROW_OPS)
    found: dict[str, Expression] = {}
    for i, column in enumerate(doubt.columns if doubt else ()):
        lacks = F.coalesce(F.array_contains("absent", column.sent_as), F.lit(False))
        holds = ~lacks & _is_held(F.col("row").getField(column.name), column)
        found[f"lacks{i}"] = F.max(F.when(is_row & lacks, place))
        found[f"has{i}"] = F.min(F.when(is_row & holds, position))
    return found


def require_none_lost(
    spark: SparkSession, catalog: str, plan: BatchPlan, doubt: Doubt, folded: DataFrame
) -> None:
    """Fails if a row would lose a value.

    Args:
        spark: the session.
        catalog: name of the lake's catalog.
        plan: of the batch.
        doubt: the columns.
        folded: the newest change of each key, with the aggregates of `held_and_lacking`.

    Raises:
        TerminalError: if a value would be lost that the source still has, or may have.
    """
    columns = dict(enumerate(doubt.columns))
    suspects = folded.where(any_of(F.col(f"lacks{i}").isNotNull() for i in columns))
    found = _first(suspects, columns, lambda i: F.col(f"has{i}") < _lacked(i))
    held = {i: c for i, c in columns.items() if _may_be_in_lake(c, plan)}
    earlier = [folded]
    if plan.head is not None and held:
        keys = suspects.select("key", *(f"lacks{i}" for i in held))
        rows = lake_table(spark, catalog, plan, None)
        if plan.mode is Mode.HISTORY:  # others keep their values
            rows = rows.where(sql.CURRENT)
        lake = rows.select(
            F.struct(*(_named(key) for key in plan.schema.key)).alias("known_key"),
            F.col(sql.POSITION).alias("known_position"),
            *(_is_held(_named(c.name), c).alias(f"held{i}") for i, c in held.items()),
        )
        few = hinted(keys, suspects.count())
        both = lake.join(few, lake["known_key"] == few["key"])
        older = F.col("known_position").isNull()
        values = {i: F.when(F.col(f"held{i}"), F.col("known_position")) for i in held}
        earlier.append(lake.select(*(values[i].alias(f"has{i}") for i in held)))
        found = found.unionByName(
            _first(
                both,
                held,
                lambda i: F.col(f"held{i}") & (older | (F.col("known_position") < _lacked(i))),
            )
        )
    row = found.agg(F.min("lost").alias("lost")).collect()[0]["lost"]
    if row is not None:
        at = Coordinate(plan.entry.topic, row["partition"], row["offset"])
        raise _would_be_lost(plan, row["name"], at, is_known=doubt.is_known)
    if doubt.are_sent and not plan.needs_keys_apart:
        for rows in earlier:
            _require_whole(plan, doubt, suspects, rows)


def _require_whole(plan: BatchPlan, doubt: Doubt, suspects: DataFrame, rows: DataFrame) -> None:
    """Fails if a column is missing from a record, but has a value in an older one of any row.

    Args:
        plan: of the batch.
        doubt: the columns.
        suspects: the keys with records that lack one.
        rows: with ``has0`` …, the positions of values of columns.

    Raises:
        TerminalError: if one does.
    """
    here = {i: column for i, column in enumerate(doubt.columns) if f"has{i}" in rows.columns}
    first = rows.agg(*(F.min(f"has{i}").alias(f"has{i}") for i in here)).collect()[0]
    known = {i: column for i, column in here.items() if first[f"has{i}"] is not None}
    if not known:
        return
    begun = {i: F.lit(bytes(first[f"has{i}"])) for i in known}
    found = _first(suspects, known, lambda i: begun[i] < _lacked(i))
    row = found.agg(F.min("lost").alias("lost")).collect()[0]["lost"]
    if row is not None:
        at = Coordinate(plan.entry.topic, row["partition"], row["offset"])
        raise _is_not_whole(plan, row["name"], at)


def look_through(
    spark: SparkSession, catalog: str, decoder: BatchDecoder, knowledge: Knowledge
) -> None:
    """Checks a batch whose pass does not fold it; reads the batch only if there is a doubt.

    Args:
        spark: the session.
        catalog: name of the lake's catalog.
        decoder: of the batch, with its plan.
        knowledge: facts that decide on the positions of its changes.

    Raises:
        TerminalError: see `require_none_lost`.
    """
    plan, doubt = decoder.plan, decoder.doubt
    if doubt is None:
        return
    changes = ChangeSet(decoder, plan).decoded(knowledge)
    found = held_and_lacking(doubt, plan.numbers)
    folded = newest_by_key(changes, plan.schema.key, plan.numbers, decoder.omittable, found)
    require_none_lost(spark, catalog, plan, doubt, folded)


def _first(
    frame: DataFrame, columns: dict[int, Column], is_lost: Callable[[int], Expression]
) -> DataFrame:
    """Returns ``lost``, where the first of these columns would lose a value; no row if none."""

    def places() -> Iterator[Expression]:
        for i, column in columns.items():
            lacks = F.col(f"lacks{i}")
            place = F.struct(
                lacks.getField("partition").alias("partition"),
                lacks.getField("offset").alias("offset"),
                F.lit(column.name).alias("name"),
            )
            yield F.when(lacks.isNotNull() & F.coalesce(is_lost(i), F.lit(False)), place)

    lost = F.get(F.array_compact(F.array(*places())), F.lit(0))
    return frame.select(lost.alias("lost")).where("lost IS NOT NULL")


def _lacked(index: int) -> Expression:
    return F.col(f"lacks{index}").getField("position")


def _may_be_in_lake(column: Column, plan: BatchPlan) -> bool:
    """Whether rows of the lake may have values of their own in the column."""
    return column not in plan.unfilled and plan.name_at_head(column.name) is not None


def _is_held(value: Expression, column: Column) -> Expression:
    """Whether the value differs from the value of rows older than the column."""
    if column.existing is None:
        return value.isNotNull()
    return ~value.eqNullSafe(existing_value(column))


def _named(name: str) -> Expression:
    return F.col(sql.quote(name)).alias(name)


def _would_be_lost(plan: BatchPlan, name: str, at: Coordinate, *, is_known: bool) -> TerminalError:
    what = f"a record lacks column {name!r}, of which its row has a value"
    where = f"table={plan.entry.table} {at}"
    if is_known:
        remedy = "let the connector send it again (column.exclude.list, transformations), or "
    else:
        remedy = "configure database:, which tells whether it was dropped or is not published, or "
    return TerminalError(what, where=where, remedy=remedy + ACCEPT, page="columns-missing")


def _is_not_whole(plan: BatchPlan, name: str, at: Coordinate) -> TerminalError:
    what = f"a record lacks column {name!r}, of which older records have values: it is not whole"
    remedy = (
        "let the producer send whole rows (transformations, large messages that are cut); if the "
        f"source has dropped the column, {ACCEPT}"
    )
    return TerminalError(
        what, where=f"table={plan.entry.table} {at}", remedy=remedy, page="columns-missing"
    )
