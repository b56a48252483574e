"""Finds rows of a partitioned table by key, without reading partitions that cannot have them.

A table is rarely partitioned by its key. But the rows of updates mostly stay in their partitions.
So a row is looked for where its change puts it, and elsewhere only if it is not there. The search
needs no image of the row before the change, and does not trust one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.joins import hinted
from cdc_assets.merge.statements.pinning import pinned
from cdc_assets.merge.statements.writing import PLACE
from cdc_assets.schema.file_layout import Term, Transform
from cdc_assets.schema.types import ColumnType, Decimal, Primitive

_MOST_VALUES: Final = 1_000
"""Values of a term above which a condition on it would exclude little, and cost much."""
_RANGES: Final = frozenset({
    Primitive.INT, Primitive.LONG, Primitive.STRING, Primitive.BINARY, Primitive.DATE,
    Primitive.TIMESTAMP, Primitive.TIMESTAMPTZ,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class KeySearch:
    """A search for rows of the lake table by their keys.

    Attributes:
        plan: of the batch.
        catalog: name of the lake's catalog.
    """

    plan: BatchPlan
    catalog: str

    @property
    def prunes(self) -> bool:
        """Whether the table has partitions that a search may leave out."""
        return bool(self.plan.files.partition_by) and self.plan.head is not None

    def places(self, rows: DataFrame, changes: DataFrame, count: int) -> DataFrame:
        """Returns the places of the rows of these changes' keys.

        Args:
            rows: of the table.
            changes: have ``key``, and ``row`` unless they are deletes; one for each key.
            count: their number.
        """
        key = self.plan.schema.key
        table = rows.select(*PLACE, *map(sql.quote, (*rows.columns,)))
        keys = changes.select(*(F.col("key").getField(name).alias(name) for name in key))
        likely = self.likely(changes)
        if likely is None:
            return self._matching(table, keys, count).select(*PLACE)
        found = pinned(self._matching(table.where(likely), keys, count))
        there = found.count()
        if there >= count:
            return found.select(*PLACE)
        rest = pinned(
            keys.join(hinted(found.select(*map(sql.quote, key)), there), [*key], "left_anti")
        )
        return self._matching(table, rest, count - there).unionByName(found).select(*PLACE)

    def narrowed(self, rows: DataFrame, keys: DataFrame) -> DataFrame:
        """Returns the rows, without those that cannot have one of the keys as far as that is known.

        Args:
            rows: of the table.
            keys: the columns of the keys.
        """
        return rows.where(reduce(Expression.__and__, self._conditions(keys), F.lit(True)))

    def likely(self, changes: DataFrame) -> Expression | None:
        """Returns the condition on the partitions of rows; None if it would exclude none.

        Args:
            changes: have ``row``: the rows, or NULL.
        """
        terms = [each for each in self._terms if each.column not in self.plan.schema.key]
        known = changes.where(F.col("row").isNotNull())
        values = known.select(
            *(F.col("row").getField(name).alias(name) for name in {t.column for t in terms})
        )
        found = [*self._among(values, terms)]
        return reduce(Expression.__and__, found) if found else None

    def _matching(self, table: DataFrame, keys: DataFrame, count: int) -> DataFrame:
        names = [sql.quote(name) for name in self.plan.schema.key]
        rows = self.narrowed(table, keys).select(*PLACE, *names)
        wanted = hinted(keys, count)
        return rows.join(wanted, [rows[name] == wanted[name] for name in names], "left_semi")

    def _conditions(self, keys: DataFrame) -> Iterator[Expression]:
        """Yields conditions that all rows with these keys satisfy."""
        key = self.plan.schema.key
        yield from self._among(keys, [each for each in self._terms if each.column in key])
        ranged = {name: self.plan.schema.column(name).type for name in key}
        ranged = {n: t for n, t in ranged.items() if t in _RANGES or isinstance(t, Decimal)}
        bounds = [
            each
            for at, (name, type_) in enumerate(ranged.items())
            for each in (
                _text(F.min(sql.quote(name)), type_).alias(f"low{at}"),
                _text(F.max(sql.quote(name)), type_).alias(f"high{at}"),
            )
        ]
        if not bounds:
            return
        said = keys.agg(*bounds).collect()[0]
        for at, (name, type_) in enumerate(ranged.items()):
            if said[f"low{at}"] is not None:
                ends = (F.expr(sql.literal(said[f"{end}{at}"], type_)) for end in ("low", "high"))
                yield F.col(sql.quote(name)).between(*ends)

    def _among(self, values: DataFrame, terms: Sequence[Term]) -> Iterator[Expression]:
        """Yields the condition on each term that the values satisfy, unless these are too many."""
        if not terms:
            return
        types = {each: self._type(each) for each in terms}
        sets = []
        for at, each in enumerate(terms):
            value = F.expr(sql.value_of(self.catalog, each))
            some = F.collect_set(_text(value, types[each]))
            sets.append(F.slice(some, 1, _MOST_VALUES + 1).alias(f"some{at}"))
            sets.append(F.max(F.col(sql.quote(each.column)).isNull()).alias(f"none{at}"))
        said = values.agg(*sets).collect()[0].asDict()
        for at, each in enumerate(terms):
            if len(said[f"some{at}"]) <= _MOST_VALUES:
                yield self._one_of(each, said[f"some{at}"], is_null=bool(said[f"none{at}"]))

    def _one_of(self, term: Term, values: Sequence[str], *, is_null: bool) -> Expression:
        type_, null = self._type(term), F.col(sql.quote(term.column)).isNull()
        if not values:
            return null if is_null else F.lit(False)
        literals = ", ".join(sql.literal(each, type_) for each in sorted(values))
        among = F.expr(f"{sql.value_of(self.catalog, term)} IN ({literals})")
        return among | null if is_null else among

    @property
    def _terms(self) -> tuple[Term, ...]:
        names = self.plan.schema.names
        return tuple(t for t in self.plan.files.partition_by or () if t.column in names)

    def _type(self, term: Term) -> ColumnType:
        match term.transform:
            case Transform.IDENTITY | Transform.TRUNCATE:
                return self.plan.schema.column(term.column).type
            case Transform.DAY:
                return Primitive.DATE
            case _:
                return Primitive.INT


def _text(value: Expression, type_: ColumnType) -> Expression:
    return F.hex(value) if type_ is Primitive.BINARY else value.cast("string")
