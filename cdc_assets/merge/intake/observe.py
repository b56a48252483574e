"""Counts a batch's records in the same pass that folds them.

The figures are Spark's observed metrics, so they cost no second read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.latency import LatencyHistogram, bucket_of
from cdc_assets.changes.offsets import Coordinate, OffsetRange
from cdc_assets.decode import CATALOG
from cdc_assets.errors import TransientError
from cdc_assets.formats.flat import by_partition
from cdc_assets.formats.lacking import texts
from cdc_assets.formats.record_keys import has_moved
from cdc_assets.formats.spec import CONTROL, OTHER, ROW_OPS, STATEMENT, TOMBSTONE
from cdc_assets.merge.intake.figures import MOST_OTHERS, BatchFigures
from cdc_assets.merge.plan.result import UnknownColumn
from cdc_assets.merge.statements.observed import Observed

_REJECTED: Final = "rejected"
_UNWRITTEN: Final = "of a new schema"
_IN_DOUBT: Final = "c with a placeholder"
_REKEYED: Final = "u of another key"
_REKEYED_IN_DOUBT: Final = "u of another key with a placeholder"
_SINGLE: Final = (*ROW_OPS, "d", "t", TOMBSTONE, CONTROL, OTHER, STATEMENT)
_OPS: Final = (*_SINGLE, _IN_DOUBT, _REKEYED, _REKEYED_IN_DOUBT, _REJECTED, _UNWRITTEN)
_COUNTED_AS: Final = {_IN_DOUBT: "c", _REKEYED: "u", _REKEYED_IN_DOUBT: "u"}
_NO_CHANGES: Final = (TOMBSTONE, CONTROL, STATEMENT, OTHER)
_TRACKED: Final = 1 << 16
_STEPS: Final = ((10.0, 0.01), (600.0, 0.5), (86_400.0, 15.0), (366 * 86_400.0, 10_800.0))
"""Ages are rounded up to these steps; every bound of the histogram is a multiple of them."""
FEW_SCHEMAS: Final = 16
"""So many schemas of keys are told at most."""
_MOST_SCHEMAS: Final = 1 << 10
_AGES: Final = 100_000
_ONLY_OBSERVED: Final = ("kind", "unlike", "paired", "pair", "suspicious", "key_schema", "begins")
_UNTIMED: Final = _AGES - 1


@dataclass(frozen=True, slots=True)
class Watched:
    """Figures that not every batch has.

    Attributes:
        others: whether the topic may hold changes of other tables.
        strays: whether to tell that a record names another table.
        key_schemas: whether the records have a ``key_schema``.
        counts_key_schemas: whether to count them one by one, as they have had several. Otherwise
            only whether there is one, which costs a tenth of a backlog's time less.
        snapshot: whether to notice where a complete snapshot begins.
    """

    others: bool = False
    strays: bool = False
    key_schemas: bool = False
    counts_key_schemas: bool = False
    snapshot: bool = False


_USUAL: Final = Watched()


class BatchObserver:
    """An observer that attaches figures to a decoded batch and returns them after an action.

    Attributes:
        also: the figures beside the usual ones.
    """

    def __init__(
        self,
        topic: str,
        ranges: Sequence[OffsetRange],
        asked_at: datetime,
        suspicious: Expression | None = None,
        watched: Watched = _USUAL,
        *,
        pardoned: Sequence[str] = (),
    ) -> None:
        """Stores what is to be observed.

        Args:
            topic: of the batch.
            ranges: of the batch.
            asked_at: time that ages are measured against.
            suspicious: whether a record may show a restart of the source's positions; None if
                none is looked for.
            watched: figures beside the usual ones.
            pardoned: columns, by their names in records, that records may lack.
        """
        self._pardoned = pardoned
        self.also = watched
        self._topic = topic
        self._suspicious = suspicious
        self._ranges = ranges
        self._asked_at = asked_at
        self._observed = Observed("batch")

    @property
    def name(self) -> str:
        """Name of the observation."""
        return self._observed.name

    def attach(self, decoded: DataFrame) -> DataFrame:
        """Returns the same rows, observed.

        The counted values are first computed in columns of their own, because Spark compiles a
        projection but interprets the metrics.
        """
        age = _by_reference(self._asked_at.timestamp()) - F.col("ts").cast("double")
        kind = _op_number() * _AGES + F.coalesce(age_number(age), F.lit(_UNTIMED))
        prepared = decoded.select(
            "*",
            kind.cast("int").alias("kind"),
            _unlike(self._pardoned).alias("unlike"),
            F.when(~self._ends_range(), F.col("pair")).alias("paired"),
            *([] if self._suspicious is None else [self._suspicious.alias("suspicious")]),
            *([self._begins_range().alias("begins")] if self.also.snapshot else []),
        )
        watched = [] if self._suspicious is None else _watched()
        others = [_other_tables()] if self.also.others else []
        of_keys = _key_schemas(self.also) if self.also.key_schemas else []
        begun = _begun() if self.also.snapshot else []
        strays = [F.max("other_table").alias("stray")] if self.also.strays else []
        metrics = (*_metrics(), *watched, *others, *strays, *of_keys, *begun)
        return self._observed.attach(prepared, metrics).drop(*_ONLY_OBSERVED)

    def _ends_range(self) -> Expression:
        """Returns whether a delete is the last record of its range: its tombstone is not here."""
        end = by_partition(F.col("partition"), {each.partition: each.end for each in self._ranges})
        return (F.col("op") == "d") & F.coalesce(end == F.col("offset") + 1, F.lit(False))

    def _begins_range(self) -> Expression:
        """Returns whether a row of a complete snapshot has the first offset of its range."""
        starts = {each.partition: each.start for each in self._ranges}
        is_first = by_partition(F.col("partition"), starts) == F.col("offset")
        return F.col("read_lsn").isNotNull() & F.coalesce(is_first, F.lit(False))

    def has_figures(self, read: DataFrame) -> bool:
        """Returns whether Spark has told the figures of a frame that has read the rows."""
        return self._observed.is_told(read)

    def figures(self, read: DataFrame) -> BatchFigures:
        """Returns the observed figures.

        Args:
            read: the frame whose execution has read all the attached rows, once.

        Raises:
            TransientError: if Spark does not tell them, or the batch has more kinds than can be
                counted exactly.
        """
        got = self._got(read)
        kinds = {row["item"]: row["count"] for row in got["kinds"] or ()}
        if sum(kinds.values()) != got["total"]:
            what = "this batch's latencies are too many to count"
            raise TransientError(
                what, where=f"topic={self._topic}", remedy="lower batch.max_records"
            )
        by_op: Counter[str] = Counter()
        ages: Counter[int] = Counter()
        for kind, count in kinds.items():
            op, age = divmod(kind, _AGES)
            by_op[_OPS[op]] += count
            if _OPS[op] in _COUNTED_AS:
                by_op[_COUNTED_AS[_OPS[op]]] += count
            if age != _UNTIMED:
                ages[bucket_of(seconds_of(age))] += count
        return BatchFigures(
            records=got["total"] - sum(by_op[each] for each in _NO_CHANGES),
            tombstones=by_op[TOMBSTONE],
            by_op={op: by_op[op] for op in (*ROW_OPS, "d", "t")},
            rejected=by_op[_REJECTED] + by_op[_UNWRITTEN],
            unknown_columns=self._unknown(got["unlike"]),
            absent_columns=tuple((got["unlike"] or {"absent": None})["absent"] or ()),
            ages=LatencyHistogram.from_counts(ages),
            asked_at=self._asked_at,
            in_doubt=by_op[_IN_DOUBT] + by_op[_REKEYED_IN_DOUBT],
            rekeyed=by_op[_REKEYED] + by_op[_REKEYED_IN_DOUBT],
            lone_tombstones=bool(by_op[TOMBSTONE] and got["paired"]),
            has_unwritten=bool(by_op[_UNWRITTEN]),
            controls=by_op[CONTROL] + by_op[STATEMENT],
            statements=by_op[STATEMENT],
            others=by_op[OTHER],
            other_tables=_named(got.get("other_tables")),
            has_strays=got.get("stray") is not None,
            suspicious=bool(got.get("suspicious")),
            newest_told_ms=got.get("newest_told_ms"),
            max_read=got["max_read"],
            min_floating=got["min_floating"],
            begun_at_start=self._begun_at_start(got),
            key_schemas=_schemas_told(got),
            has_more_key_schemas=got.get("lowest_schema") != got.get("highest_schema"),
        )

    def _begun_at_start(self, got: Mapping[str, Any]) -> int | None:
        is_one = self.also.snapshot and got["min_read"] == got["max_read"]
        return got["max_read"] if is_one and got["begun"] == len(self._ranges) else None

    def _got(self, read: DataFrame) -> Mapping[str, Any]:
        got = self._observed.told(read)
        if got:
            return got
        what = "Spark has read this batch and has not told its figures"
        remedy = "nothing was written; the next try merges it"
        raise TransientError(what, where=f"topic={self._topic}", remedy=remedy)

    def _unknown(self, found: Any) -> tuple[UnknownColumn, ...]:
        if found is None or found["unknown"] is None:
            return ()
        at = Coordinate(self._topic, -found["partition"], -found["offset"])
        return tuple(UnknownColumn(name, at) for name in found["unknown"])


def _named(found: Any) -> tuple[str, ...]:
    names = (row["item"] for row in found or ())
    return tuple(sorted(name for name in names if name))


def _by_reference(value: float) -> Expression:
    """Returns a constant that Spark does not write into the code that it generates.

    Otherwise each batch's code would be new: compiled again, and slow until it is warm.
    """
    return F.get(F.array(F.lit(value)), F.col("partition") * 0)


def _metrics() -> list[Expression]:
    """Returns few metrics, as each costs time for every record: one sketch counts all kinds.

    A delete and the record without a value after it cancel each other out in ``paired``.

    The sketch is exact while it tracks fewer than three quarters of its capacity, which
    ``total`` proves.
    """
    counted = F.call_function("approx_top_k", F.col("kind"), F.lit(_TRACKED // 2), F.lit(_TRACKED))
    return [
        F.count(F.lit(1)).alias("total"),
        counted.alias("kinds"),
        F.max("unlike").alias("unlike"),
        F.bit_xor("paired").alias("paired"),
        F.max("read_lsn").alias("max_read"),
        F.min("floating_lsn").alias("min_floating"),
    ]


def _watched() -> list[Expression]:
    """Returns the metrics that `cdc_assets.merge.fold.restarts` needs."""
    told_ms = F.when(F.col("op") != "t", F.col("told_ms"))
    return [F.max("suspicious").alias("suspicious"), F.max(told_ms).alias("newest_told_ms")]


def _begun() -> list[Expression]:
    """Returns the metrics that `BatchFigures.begun_at_start` is told by."""
    return [F.min("read_lsn").alias("min_read"), F.count_if("begins").alias("begun")]


def _other_tables() -> Expression:
    """Returns the names of the most frequent other tables; later batches find missing ones."""
    found = F.call_function(
        "approx_top_k", F.col("other_table"), F.lit(MOST_OTHERS), F.lit(_TRACKED)
    )
    return found.alias("other_tables")


def _key_schemas(watched: Watched) -> list[Expression]:
    """Returns the most frequent schemas of keys, or two: more than one is as telling as all."""
    schema = F.col("key_schema")
    if not watched.counts_key_schemas:
        return [F.min(schema).alias("lowest_schema"), F.max(schema).alias("highest_schema")]
    found = F.call_function("approx_top_k", schema, F.lit(FEW_SCHEMAS), F.lit(_MOST_SCHEMAS))
    return [found.alias("key_schemas")]


def _schemas_told(got: Mapping[str, Any]) -> frozenset[int]:
    ends = (got.get("lowest_schema"), got.get("highest_schema"))
    counted = (row["item"] for row in got.get("key_schemas") or ())
    return frozenset(each for each in (*ends, *counted) if each is not None)


def _op_number() -> Expression:
    op, is_create = F.col("op"), F.col("op") == "c"
    number = F.when(F.col("is_unwritten"), _OPS.index(_UNWRITTEN))
    number = number.when(F.col("reject").isNotNull(), _OPS.index(_REJECTED))
    number = number.when(F.col("in_doubt") & is_create, _OPS.index(_IN_DOUBT))
    number = number.when(F.col("in_doubt"), _OPS.index(_REKEYED_IN_DOUBT))
    number = number.when(has_moved(), _OPS.index(_REKEYED))
    known = F.nullif(F.array_position(texts(_SINGLE), op), F.lit(0)) - 1
    return number.otherwise(F.coalesce(known, F.lit(_OPS.index(_REJECTED))))


def age_number(age: Expression) -> Expression:
    """Returns a small number for an age, which `seconds_of` rounds up to its step: ``jvm/src``."""
    steps = F.array(*(F.lit(each) for pair in _STEPS for each in pair))
    known = F.coalesce(age, F.lit(math.nan))
    return F.nullif(F.call_function(f"{CATALOG}.step", known, steps), F.lit(-1))


def seconds_of(number: int) -> float:
    """Returns the age in seconds that a number stands for; infinity beyond a year."""
    base, low = 0, 0.0
    for high, step in _STEPS:
        size = round((high - low) / step)
        if number <= base + size:
            return low + (number - base) * step
        base, low = base + size, high
    return math.inf


def _unlike(pardoned: Sequence[str]) -> Expression:
    """Returns a record's difference from the table, higher if it differs more; NULL for none.

    Of equally large differences the first of the lowest partition is the highest, in every try.
    """
    unknown, absent = F.col("unknown"), F.col("absent")
    if pardoned:
        rest = F.array_except(absent, texts(pardoned))
        absent = F.when(F.array_size(rest) > 0, rest)
    found = F.col("reject").isNull() & (unknown.isNotNull() | absent.isNotNull())
    names = F.array_size(unknown), F.array_size(absent)
    total = sum((F.coalesce(each, F.lit(0)) for each in names), F.lit(0))
    place = (F.negative(each).alias(each) for each in ("partition", "offset"))
    both = unknown.alias("unknown"), absent.alias("absent")
    return F.when(found, F.struct(total.alias("size"), *place, *both))
