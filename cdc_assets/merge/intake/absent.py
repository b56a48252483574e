"""Columns that the lake has and records lack: never overwritten with NULL unnoticed.

A record's row image holds every column that the source publishes, so an absent one was dropped,
is not published (any more), or was added later than the record. Only the last does no harm, and
only the first is what the source did. In this order:

1. dropped, by the database's catalog, or named under ``absent_columns``: marked with the table;
   its values are emptied in the rows that change from now on;
2. there but not published, by the catalog: the table stops;
3. otherwise the batch is looked through: the table stops if a row would lose a value to a newer
   record without the column. Records from before a column was added overwrite none.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.errors import TerminalError
from cdc_assets.formats.existing import existing_value
from cdc_assets.formats.order import position_bytes
from cdc_assets.formats.spec import ROW_OPS
from cdc_assets.merge.intake.decoding import BatchDecoder
from cdc_assets.merge.intake.describe import TypeSource
from cdc_assets.merge.intake.layouts import LakeTables
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.tables.known import lake_table
from cdc_assets.schema.types import Column, TableSchema

_log = logging.getLogger(__name__)
_ACCEPT: Final = "name it under tables.<schema.table>.absent_columns to have it emptied"


@dataclass(frozen=True, slots=True)
class AbsentColumns:
    """Decides about the absent columns of one table's batch."""

    spark: SparkSession
    catalog: str
    types: TypeSource
    tables: LakeTables

    def settled(self, decoder: BatchDecoder, names: Sequence[str]) -> TableSchema:
        """The table's schema, with what is known of these columns from now on.

        Args:
            decoder: of the batch whose records lack them.
            names: the columns.

        Raises:
            TerminalError: if a row would lose a value that the source still has, or may have.
        """
        plan = decoder.plan
        schema = plan.schema
        called = {schema.column(name).sent_as: name for name in names}
        verdict = self.types.asked.absence(plan.entry, [*called])
        if verdict.unpublished:
            raise _not_published(plan, verdict.unpublished)
        dropped, given_up = (
            [called[each] for each in n] for n in (verdict.dropped, verdict.given_up)
        )
        gone = (*given_up, *dropped)
        doubtful = [name for name in names if name not in gone]
        if doubtful and plan.schema.key:
            with translated("look for values that would be lost", plan.where):
                lost = self._first_lost(decoder, [schema.column(name) for name in doubtful])
            if lost is not None:
                raise _would_be_lost(plan, *lost, known=verdict.is_known)
        schema = self.tables.with_absent(schema, dropped, given_up)
        if gone:
            _log.warning(
                "table=%s: records lack %s, which the source dropped or the configuration gives "
                "up: emptied in the rows that change", plan.entry.table, ", ".join(gone),
            )  # fmt: skip
        return schema

    def _first_lost(
        self, decoder: BatchDecoder, lacked: Sequence[Column]
    ) -> tuple[str, Coordinate] | None:
        """The first record that would empty a column of a row, older than itself, and which."""
        plan = decoder.plan
        changes = _changes(decoder)
        lake = lake_table(self.spark, self.catalog, plan, None).select(
            F.struct(*(_named(key) for key in plan.schema.key)).alias("known_key"),
            F.col(sql.POSITION).alias("known_position"),
            *(_is_in_lake(c, plan).alias(f"held{i}") for i, c in enumerate(lacked)),
        )
        columns = list(enumerate(lacked))
        by_key = changes.groupBy("key").agg(
            *(F.max(F.when(_lacks(c), _at())).alias(f"lacks{i}") for i, c in columns),
            *(F.min(F.when(_holds(c), F.col("position"))).alias(f"has{i}") for i, c in columns),
        )
        known = by_key.join(lake, by_key["key"] == lake["known_key"], "left")
        first = F.array_compact(F.array(*(_loss(i, c.name) for i, c in columns)))
        found = known.select(F.get(first, F.lit(0)).alias("lost")).where("lost IS NOT NULL")
        row = found.agg(F.min("lost").alias("lost")).collect()[0]["lost"]
        if row is None:
            return None
        return row["name"], Coordinate(plan.entry.topic, row["partition"], row["offset"])


def _changes(decoder: BatchDecoder) -> DataFrame:
    plan = decoder.plan
    decoded = decoder.decode(plan.snapshot_starts)
    rows = decoded.where(F.col("reject").isNull() & F.col("op").isin(*ROW_OPS))
    return rows.withColumn("position", position_bytes(plan.numbers))


def _lacks(column: Column) -> Expression:
    return F.coalesce(F.array_contains("absent", column.sent_as), F.lit(False))


def _holds(column: Column) -> Expression:
    return ~_lacks(column) & _is_held(F.col("row").getField(column.name), column)


def _is_in_lake(column: Column, plan: BatchPlan) -> Expression:
    return F.lit(False) if column in plan.unfilled else _is_held(_named(column.name), column)


def _is_held(value: Expression, column: Column) -> Expression:
    """Whether it would be another one in a row that is older than the column."""
    if column.existing is None:
        return value.isNotNull()
    return ~value.eqNullSafe(existing_value(column))


def _at() -> Expression:
    return F.struct("position", "partition", "offset")


def _loss(index: int, name: str) -> Expression:
    """Where a key's newest record without the column is newer than a value of it."""
    lacks = F.col(f"lacks{index}")
    in_batch = F.col(f"has{index}") < lacks.getField("position")
    older = F.col("known_position").isNull() | (
        F.col("known_position") < lacks.getField("position")
    )
    in_lake = F.col(f"held{index}") & older
    place = F.struct(
        lacks.getField("partition").alias("partition"),
        lacks.getField("offset").alias("offset"),
        F.lit(name).alias("name"),
    )
    lost = F.coalesce(in_batch, F.lit(False)) | F.coalesce(in_lake, F.lit(False))
    return F.when(lacks.isNotNull() & lost, place)


def _named(name: str) -> Expression:
    return F.col(sql.quote(name)).alias(name)


def _not_published(plan: BatchPlan, columns: dict[str, str]) -> TerminalError:
    told = "; ".join(f"column {name}: {why}" for name, why in columns.items())
    what = f"records lack what the table has: {told}"
    remedy = (
        "build the table anew, which leaves the column out, or has it if it is published by then "
        "(ALTER PUBLICATION … SET (publish_generated_columns = stored), or the column list); or "
        f"{_ACCEPT}"
    )
    return TerminalError(what, where=plan.where, remedy=remedy)


def _would_be_lost(plan: BatchPlan, name: str, at: Coordinate, *, known: bool) -> TerminalError:
    what = f"a record lacks column {name!r}, of which its row has a value"
    where = f"table={plan.entry.table} {at}"
    if known:
        remedy = "let the connector send it again (column.exclude.list, transformations), or "
    else:
        remedy = "configure database:, which tells whether it was dropped or is not published, or "
    return TerminalError(what, where=where, remedy=remedy + _ACCEPT)
