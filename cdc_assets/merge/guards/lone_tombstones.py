"""Finds unpaired tombstones: records without a value that delete a row by themselves.

Debezium sends one right after each delete event, with its key: that one adds nothing. One that
follows no delete event is itself a delete, of whatever its key held at that place of the log. It
has no position of its source. It takes that of the change before it, with its own offset, so
that it is newer than that change and older than whatever the source did later.

If its key cannot be read, nobody knows what it deletes, and it cannot be merged. The one right
after a delete event is not needed, and may have any key.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cdc_assets.formats.record_keys import any_null
from cdc_assets.formats.spec import ROW_OPS, TOMBSTONE
from cdc_assets.merge.fold.changeset import Knowledge
from cdc_assets.merge.fold.context import Pass
from cdc_assets.merge.guards.guard import Guard
from cdc_assets.merge.statements.joins import hinted
from cdc_assets.merge.statements.pinning import pinned

_NUMBER_BYTES = 8
_NO_KEY: Final = (
    "a record without a value whose key cannot be read: it deletes a row, and nothing says which"
)


class LoneTombstones(Guard):
    """Finds the deletes that are only a record without a value, and refuses those without a key."""

    case = "a record without a value follows no delete"

    def learn(self, this: Pass, known: Knowledge) -> Knowledge:
        """Adds these deletes, which are few, and the records that cannot be merged."""
        if not (this.figures.lone_tombstones and this.plan.schema.key):
            return known
        decoder, key, numbers = this.batch.decoder, this.plan.schema.key, this.plan.numbers
        context = self.setting.context
        with self.means.steps.step("look up"):
            decoded = decoder.decode(known.low_watermarks, tombstone_keys=True)
            before = None
            if context is not None:
                before = decoder.decode(known.low_watermarks, context, tombstone_keys=True)
            found = pinned(orphans(decoded, before, key, numbers))
            named, unread = by_name(found, key)
            if not unread.isEmpty():
                known = known.refusing(pinned(unpaired(unread, decoded, before)))
            rows = self.means.lookups(this.batch)
            deletes = pinned(as_deletes(named, rows.newest(named, rows.rows(named)), numbers))
        lone = this.batch.changes.from_its_beginning(deletes)
        return known.amended(lambda changes: changes.unionByName(lone))


def orphans(
    decoded: DataFrame, context: DataFrame | None, key: tuple[str, ...], numbers: tuple[str, ...]
) -> DataFrame:
    """Returns the records without a value that no delete event of their key precedes.

    Includes all whose key cannot be read, whatever precedes them: see `by_name`.

    Args:
        decoded: the batch, with the keys of records without a value.
        context: the decoded record before each range; None if there are none.
        key: columns of the key.
        numbers: columns of the position.

    Returns:
        The decoded columns, and ``before``: a struct of the numbers of the change before it in
        the batch, NULL if there is none.
    """
    whole = decoded.withColumn("is_context", F.lit(False))
    if context is not None:
        whole = whole.unionByName(context.withColumn("is_context", F.lit(True)))
    marked = whole.where(F.col("reject").isNull() & F.col("op").isin(*ROW_OPS, "d", TOMBSTONE))
    # Rows of changes are not sorted along, as a batch may be large.
    mine = marked.withColumn("row", F.when(F.col("op") == TOMBSTONE, F.col("row")))
    in_log = Window.partitionBy("partition", "key").orderBy("offset")
    before = F.when(F.col("op") != TOMBSTONE, F.struct(*numbers))
    looked = mine.withColumns(
        {"op_before": F.lag("op").over(in_log), "before": F.lag(before).over(in_log)}
    )
    alone = F.col("op_before").isNull() | F.col("op_before").isin(*ROW_OPS)
    alone = alone | any_null(F.col("key"), key)
    found = looked.where((F.col("op") == TOMBSTONE) & alone & ~F.col("is_context"))
    return found.drop("op_before", "is_context")


def by_name(found: DataFrame, key: tuple[str, ...]) -> tuple[DataFrame, DataFrame]:
    """Splits `orphans` into those whose key is known, and the *nameless*, whose key is not."""
    unknown = any_null(F.col("key"), key)
    return found.where(~unknown), found.where(unknown)


def unpaired(unread: DataFrame, decoded: DataFrame, context: DataFrame | None) -> DataFrame:
    """Returns ``partition offset reason`` of the nameless not right after a delete event.

    Args:
        unread: the nameless of `by_name`.
        decoded: as for `orphans`.
        context: as for `orphans`.
    """
    events = decoded if context is None else decoded.unionByName(context)
    deletes = events.where("op = 'd'").select(F.col("pair").alias("said"))
    alone = unread.join(deletes, unread["pair"] == deletes["said"], "left_anti")
    return alone.select("partition", "offset", F.lit(_NO_KEY).alias("reason"))


def as_deletes(orphaned: DataFrame, known: DataFrame, numbers: tuple[str, ...]) -> DataFrame:
    """Turns orphans into delete events in their place, if there is anything to delete.

    There is nothing where the change before is a delete that was merged: the record belongs to
    that, read again by itself, and has no time of its own.

    Args:
        orphaned: of `orphans`, checkpointed.
        known: of `Known.newest`, for these keys.
        numbers: columns of the position.
    """
    count = orphaned.count()
    joined = orphaned.join(hinted(known, count), orphaned["key"] == known["known_key"], "left")
    in_lake = [_number(i) for i in range(len(numbers))]
    earlier = in_lake[-1] < F.col("offset")
    source, last = numbers[:-1], numbers[-1]
    placed = {
        name: F.coalesce(F.col("before").getField(name), F.when(earlier, in_lake[i]))
        for i, name in enumerate(source)
    }
    columns = {**placed, last: F.col("offset"), "op": F.lit("d")}
    follows = F.lit(True) if source else in_lake[-1] + 1 == F.col("offset")
    is_of_delete = F.col("before").isNull() & F.coalesce(F.col("is_gone") & follows, F.lit(False))
    found = joined.where(~is_of_delete).withColumns(columns)
    if source:
        found = found.where(F.col(source[0]).isNotNull())
    return found.drop("before", "known_key", "known_position", "is_gone", "pair")


def _number(index: int) -> Expression:
    digits = F.hex(F.substring(F.col("known_position"), index * _NUMBER_BYTES + 1, _NUMBER_BYTES))
    return F.conv(digits, 16, 10).try_cast("bigint")
