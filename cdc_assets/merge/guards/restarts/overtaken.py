"""Finds changes of a connector's first transaction below earlier deliveries of their own keys.

Within one numbering there are none (`cdc_assets.changes.restarts`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cdc_assets.changes.position import LowWatermarks
from cdc_assets.formats.order import order_of
from cdc_assets.formats.record_keys import has_moved
from cdc_assets.formats.spec import ROW_OPS
from cdc_assets.merge.intake.decoding import BatchDecoder
from cdc_assets.merge.intake.read import is_one_task
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements.joins import hinted
from cdc_assets.merge.statements.pinning import cached, pinned
from cdc_assets.merge.tables.lookups import KeyLookups

_FLAG: Final = "is_overtaken"
_PLACE: Final = ("partition", "offset")
_FACTS: Final = (*_PLACE, "op", "told_ms", "may_witness", "floats")
_DIGITS: Final = 16
"""Hexadecimal digits of one number of a position."""


@contextmanager
def looked_at(
    decoder: BatchDecoder,
    low_watermarks: LowWatermarks,
    known: KeyLookups | None,
    *,
    may_reject: bool = True,
) -> Iterator[DataFrame]:
    """Yields the records of a batch that have a position, with ``is_overtaken``.

    Args:
        decoder: of the batch.
        low_watermarks: see `cdc_assets.changes.position.low_watermark_at`.
        known: look-ups of keys in the lake; None if no change is without a last commit.
        may_reject: whether a record may be rejected. Where none is, rows need not be decoded.
    """
    plan, decoded = decoder.plan, decoder.decode(low_watermarks)
    if may_reject:
        decoded = decoded.where(F.col("reject").isNull())
    placed = decoded.where(F.col("n0").isNotNull())
    if known is None or not plan.schema.key or not order_of(plan.layout.scheme).has_low_watermarks:
        yield placed.withColumn(_FLAG, F.lit(False))
        return
    narrow = placed.select(*_FACTS, *plan.numbers, "key", "old_key")
    with cached(narrow, "placed", is_small=is_one_task(plan.ranges)) as records:
        yield _flagged(records, known, plan)


def _flagged(records: DataFrame, known: KeyLookups, plan: BatchPlan) -> DataFrame:
    """Adds the flag to the records, from those that change rows or delete old keys."""
    own = plan.numbers[:-1]
    at = F.struct(*own)
    both = F.array("key", "old_key")
    keys_of = F.explode(F.when(has_moved(), both).otherwise(F.array("key"))).alias("key")
    rows = records.where(F.col("op").isin(*ROW_OPS, "d")).select(*_PLACE, "floats", *own, keys_of)
    keys = pinned(rows.where("floats").select("key").distinct())
    count = keys.count()
    if not count:
        return records.withColumn(_FLAG, F.lit(False))
    wanted = hinted(keys.select(F.col("key").alias("wanted")), count)
    mine = rows.join(wanted, rows["key"] == wanted["wanted"], "left_semi")
    earlier = (
        Window.partitionBy("partition", "key")
        .orderBy("offset")
        .rangeBetween(Window.unboundedPreceding, -1)
    )
    before = F.max(at).over(earlier).alias("before")
    ranked = mine.select(*_PLACE, "key", "floats", at.alias("at"), before).where("floats")
    positions = known.positions(keys, known.rows(keys, count=count))
    if plan.shadow is not None:  # rows that were read stand above their own last change
        read_at = F.lit(bytes.fromhex(plan.read_at))
        positions = positions.where(F.col("known_position") != read_at)
    stands = positions.select("known_key", _numbers("known_position", own).alias("stands"))
    compared = ranked.join(hinted(stands, count), ranked["key"] == stands["known_key"], "left")
    overtaken = compared.where(F.col("at") < F.greatest("before", "stands"))
    places = pinned(overtaken.select(*_PLACE).distinct())
    found = places.withColumn(_FLAG, F.lit(True))
    flagged = records.join(hinted(found, found.count()), list(_PLACE), "left")
    return flagged.withColumn(_FLAG, F.coalesce(_FLAG, F.lit(False)))


def _numbers(position: str, names: tuple[str, ...]) -> Expression:
    """Returns the first numbers of an encoded position."""
    digits = F.hex(F.col(position))
    each = (
        F.conv(F.substring(digits, i * _DIGITS + 1, _DIGITS), _DIGITS, 10)
        .cast("bigint")
        .alias(name)
        for i, name in enumerate(names)
    )
    return F.struct(*each)
