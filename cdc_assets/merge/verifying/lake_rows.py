"""Counts, digests and looks up rows of a lake table with Spark, for comparison with its source.

All reads are of one snapshot: the head that a plan was made on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.names import HELPERS
from cdc_assets.databases.statements import KEY, Range
from cdc_assets.formats.flat import any_of
from cdc_assets.lake import Lake
from cdc_assets.lake.carried import Carried
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.tables.lookups import lake_table
from cdc_assets.merge.tables.side_table import SideTable
from cdc_assets.merge.verifying.canonical import canonical, digest, of_lake_text
from cdc_assets.schema.comparing import Compared, Comparison, Key, Sum

TEXT: Final = f"{HELPERS}text_"
"""Columns of this name and a number: the texts of a row's key, in addition to the row."""
_PLACE: Final = f"{HELPERS}key_"
_BOUNDS: Final = f"{HELPERS}bounds"
_FIRST: Final = (1, 15)
_SECOND: Final = (16, 15)
"""Hexadecimal digits of a digest: 60 bits each, which all databases add up exactly."""


@dataclass(frozen=True, slots=True)
class LakeRow:
    """A row of a key: the digest of each compared column; None for NULL."""

    position: str
    is_deleted: bool
    columns: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class LakeKeyRows:
    """The lake's rows and remembered deletes of some keys at one snapshot.

    Attributes:
        rows: by key, for each that has any.
        deletes: the remembered position of deletes by key, hexadecimal.
        carried: the state recorded by the newest publish.
    """

    rows: Mapping[Key, tuple[LakeRow, ...]]
    deletes: Mapping[Key, str]
    carried: Carried

    def version(self, key: Key) -> object:
        """Returns the version of a key, another one once the lake has merged a change of it."""
        positions = tuple(sorted(row.position for row in self.rows.get(key, ())))
        everywhere = (self.carried.max_truncate, self.carried.generation)
        return positions, self.deletes.get(key, ""), everywhere

    def living(self, key: Key) -> tuple[LakeRow, ...]:
        """Returns the key's rows that are not marked as deleted."""
        return tuple(row for row in self.rows.get(key, ()) if not row.is_deleted)


class LakeRows:
    """The rows of one table at the head of a plan.

    Args:
        spark: the session.
        catalog: name of the lake's catalog.
        lake: for reading side tables.
        plan: made on the head.
        comparison: the columns compared.
    """

    def __init__(
        self,
        spark: SparkSession,
        catalog: str,
        lake: Lake,
        plan: BatchPlan,
        comparison: Comparison,
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._lake = lake
        self._plan = plan
        self._of = comparison
        self._ranges: Sequence[Range] = ()

    def bounds(self, every: int) -> tuple[Key, ...]:
        """Returns keys in order, about one of ``every`` rows; a key is always chosen or never."""
        keys = [F.col(sql.quote(each.name)) for each in self._of.key]
        chosen = self._living().where(F.pmod(F.xxhash64(*keys), F.lit(every)) == 0)
        texts = [canonical(each).alias(f"k{n}") for n, each in enumerate(self._of.key)]
        with translated("choose ranges of keys", self._where):
            found = chosen.orderBy(*keys).select(*texts).collect()
        return tuple(dict.fromkeys(tuple(row) for row in found))

    def total(self) -> Sum:
        """Returns count and checksum of all rows."""
        return next(iter(self._sums(self._hashed().withColumn("bucket", F.lit(0))).values()), Sum())

    def sums(self, bounds: Sequence[Key]) -> Mapping[int, Sum]:
        """Returns count and checksum of each bucket that has rows."""
        return self._sums(self._bucketed(self._hashed(), bounds))

    def digests(
        self, bounds: Sequence[Key], buckets: Collection[int]
    ) -> Mapping[Key, tuple[str, ...]]:
        """Returns the digests of the rows of these buckets, by key."""
        rows = self._bucketed(self._hashed(), bounds).where(F.col("bucket").isin(*buckets))
        found: dict[Key, tuple[str, ...]] = {}
        with translated("read digests", self._where):
            for *key, text in rows.select(*self._key_texts, "md5").collect():
                found[tuple(key)] = (*found.get(tuple(key), ()), text)
        return found

    def look(self, keys: Sequence[Key]) -> LakeKeyRows:
        """Returns the rows and remembered deletes of some keys."""
        published = self._plan.published
        carried = published.carried if published else Carried()
        rows: dict[Key, tuple[LakeRow, ...]] = {}
        with translated("look up keys", self._where):
            for *key, position, is_deleted, columns in self.of_keys(keys).collect():
                row = LakeRow(position, is_deleted, tuple(columns))
                rows[tuple(key)] = (*rows.get(tuple(key), ()), row)
            deletes = self._deletes(keys, carried)
        return LakeKeyRows(rows, deletes, carried)

    def of_keys(self, keys: Sequence[Key]) -> DataFrame:
        """Returns key, position, deleted flag and digests of columns of the rows of keys."""
        digests = (
            F.md5(canonical(each).cast("binary")).alias(f"c{n}")
            for n, each in enumerate(self._of.columns)
        )
        position = F.coalesce(F.hex(F.col(sql.POSITION)), F.lit(""))
        if self._is_history:  # a delete does not change the version's own position
            position = F.concat_ws("-", position, F.hex(F.col(sql.END_POSITION)))
        return self.joined(keys).select(
            *self._key_texts,
            position.alias("position"),
            self._is_deleted().alias("is_deleted"),
            F.array(*digests).alias("columns"),
        )

    def joined(self, keys: Sequence[Key]) -> DataFrame:
        """Returns the rows of keys, as the lake has them."""
        return _with_keys(self._all(), self.keys_frame(keys), self._of.key)

    def with_texts(self) -> DataFrame:
        """Returns all rows, as the lake has them, with their keys' texts (`TEXT`)."""
        texts = {f"{TEXT}{n}": canonical(each) for n, each in enumerate(self._of.key)}
        return self._all().withColumns(texts)

    def among(self, ranges: Sequence[Range]) -> LakeRows:
        """Returns the rows of some ranges of keys."""
        mine = LakeRows(self._spark, self._catalog, self._lake, self._plan, self._of)
        mine._ranges = ranges
        return mine

    def states(self, large: Sequence[Compared]) -> DataFrame:
        """Returns for each key the number of its rows and of living ones, with their digests.

        Columns: `KEY`, ``rows``, ``living``, ``position`` (the highest), ``md5``, and
        ``large``, the digest of some columns.
        """
        is_living = (
            ~F.coalesce(F.col(sql.DELETED), F.lit(False)) if self._plan.soft else F.lit(True)
        )
        rows = self._all().select(
            *(canonical(each).alias(f"{KEY}{n}") for n, each in enumerate(self._of.key)),
            F.col(sql.POSITION).alias("position"),
            is_living.alias("is_living"),
            digest(self._of.columns).alias("md5"),
            digest(large).alias("large"),
        )
        keys = [f"{KEY}{n}" for n in range(len(self._of.key))]
        return rows.groupBy(*keys).agg(
            F.count("*").alias("rows"),
            F.count_if("is_living").alias("living"),
            F.max("position").alias("position"),
            F.min(F.when(F.col("is_living"), F.col("md5"))).alias("md5"),
            F.min(F.when(F.col("is_living"), F.col("large"))).alias("large"),
        )

    def deleted_above(self, position: str) -> DataFrame | None:
        """Returns the `KEY` columns of deletes remembered with a higher position; None without."""
        plan = self._plan
        carried = plan.published.carried if plan.published else Carried()
        if plan.soft or carried.max_tombstone <= position:
            return None
        side = SideTable(self._spark, self._catalog, self._lake, plan.entry.stem, plan.published)
        entries = side.entries()
        if entries is None:
            return None
        newer = entries.where(F.col(sql.POSITION) > F.lit(bytes.fromhex(position)))
        remembered = [_as_remembered(each) for each in self._of.key]
        texts = (canonical(each).alias(f"{KEY}{n}") for n, each in enumerate(remembered))
        return newer.select(*texts).distinct()

    def keys_frame(self, keys: Sequence[Key]) -> DataFrame:
        """Returns the texts of keys, as `KEY` and their number."""
        names = ", ".join(f"{KEY}{n} string" for n in range(len(self._of.key)))
        return self._spark.createDataFrame([*keys], names)

    # ── parts ────────────────────────────────────────────────────────────────────────────

    def _all(self) -> DataFrame:
        rows = lake_table(self._spark, self._catalog, self._plan, None)
        if not self._ranges:
            return rows
        return rows.where(any_of(map(self._inside, self._ranges)))

    def _inside(self, within: Range) -> Expression:
        """Returns whether a row's key is in a range."""
        condition = F.lit(True)
        if within.start is not None:
            first, own, bound = self._bounds(within.start)
            condition = condition & (own >= bound) & (first[0] >= first[1])
        if within.end is not None:
            first, own, bound = self._bounds(within.end)
            condition = condition & (own < bound) & (first[0] <= first[1])
        return condition

    def _bounds(self, bound: Key) -> tuple[tuple[Expression, Expression], Expression, Expression]:
        """Returns key and bound to compare: of the first column, which skips files, and whole."""
        own = [F.col(sql.quote(each.name)) for each in self._of.key]
        theirs = [of_lake_text(F.lit(text), c) for text, c in zip(bound, self._of.key, strict=True)]
        if len(own) == 1:
            return (own[0], theirs[0]), own[0], theirs[0]
        names = [f"k{n}" for n in range(len(own))]
        mine, other = (
            F.struct(*(each.alias(name) for each, name in zip(some, names, strict=True)))
            for some in (own, theirs)
        )
        return (own[0], theirs[0]), mine, other

    def _living(self) -> DataFrame:
        return self._all().where(~self._is_deleted())

    def _is_deleted(self) -> Expression:
        """Returns whether the source no longer has the row or, in a history, the version."""
        if self._is_history:
            return ~F.col(sql.CURRENT)
        return F.coalesce(F.col(sql.DELETED), F.lit(False)) if self._plan.soft else F.lit(False)

    @property
    def _is_history(self) -> bool:
        return self._plan.mode is Mode.HISTORY

    def _hashed(self) -> DataFrame:
        texts = (canonical(each).alias(f"{TEXT}{n}") for n, each in enumerate(self._of.key))
        places = (
            F.col(sql.quote(each.name)).alias(f"{_PLACE}{n}") for n, each in enumerate(self._of.key)
        )
        return self._living().select(*texts, *places, digest(self._of.columns).alias("md5"))

    def _bucketed(self, rows: DataFrame, bounds: Sequence[Key]) -> DataFrame:
        """Adds ``bucket``, the number of bounds that are not above the key, by bisection."""
        if not bounds:
            return rows.withColumn("bucket", F.lit(0))
        own = F.struct(
            *(
                of_lake_text(F.col(f"{KEY}{n}"), each).alias(f"{_PLACE}{n}")
                for n, each in enumerate(self._of.key)
            )
        )
        listed = F.array_sort(F.collect_list(own)).alias(_BOUNDS)
        mine = rows.crossJoin(F.broadcast(self.keys_frame(bounds).agg(listed)))
        return mine.withColumn("bucket", _bisected(len(bounds), len(self._of.key)))

    def _sums(self, rows: DataFrame) -> dict[int, Sum]:
        def part(at: int, count: int) -> Expression:
            number = F.conv(F.substring("md5", at, count), 16, 10).cast("decimal(20,0)")
            return F.sum(number).cast("string")

        counted = rows.groupBy("bucket").agg(F.count("*"), part(*_FIRST), part(*_SECOND))
        with translated("add up checksums", self._where):
            return {n: Sum(count, int(a), int(b)) for n, count, a, b in counted.collect()}

    @property
    def _key_texts(self) -> list[Expression]:
        return [F.col(f"{TEXT}{n}") for n in range(len(self._of.key))]

    def _deletes(self, keys: Sequence[Key], carried: Carried) -> dict[Key, str]:
        """Returns remembered deletes; where deleted rows are kept, their positions do instead."""
        plan = self._plan
        if plan.soft or not carried.max_tombstone:
            return {}
        side = SideTable(self._spark, self._catalog, self._lake, plan.entry.stem, plan.published)
        entries = side.entries()
        if entries is None:
            return {}
        first = tuple(_as_remembered(each) for each in self._of.key)
        found = _with_keys(entries, self.keys_frame(keys), first)
        newest = found.groupBy(*self._key_texts).agg(F.max(F.hex(F.col(sql.POSITION))))
        return {tuple(key): position for *key, position in newest.collect()}

    @property
    def _where(self) -> str:
        return self._plan.where


def _with_keys(rows: DataFrame, keys: DataFrame, of: Sequence[Compared]) -> DataFrame:
    """Returns the rows whose keys are among some, with the texts of their keys."""
    named = rows.withColumns({f"{TEXT}{n}": canonical(each) for n, each in enumerate(of)})
    same = [named[f"{TEXT}{n}"] == keys[f"{KEY}{n}"] for n in range(len(of))]
    condition = same[0]
    for each in same[1:]:
        condition = condition & each
    return named.join(F.broadcast(keys), condition, "left_semi")


def _as_remembered(compared: Compared) -> Compared:
    """Returns a column of the key by the name that it had when its side table was created."""
    column = compared.column
    first = (column.name, *column.identity.was)[-1]
    return Compared(replace(column, name=first), compared.form)


def _bisected(bounds: int, key: int) -> Expression:
    """Returns SQL that finds a bucket by halving the remaining bounds with each step."""
    steps = [1 << n for n in reversed(range(bounds.bit_length()))]
    own = ", ".join(f"'{_PLACE}{n}', {_PLACE}{n}" for n in range(key))
    inside = f"at + step <= {bounds} AND {_BOUNDS}[at + step - 1] <= named_struct({own})"
    listed = ", ".join(map(str, steps))
    return F.expr(f"aggregate(array({listed}), 0, (at, step) -> IF({inside}, at + step, at))")
