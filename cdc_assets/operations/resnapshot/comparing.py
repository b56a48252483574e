"""Compares a wave with the lake's rows of its keys, and finds the state of each key.

A key whose row, or whose remembered delete, has a position above the wave's was changed since the
lake was looked at first. Its row is left alone: the log has its newest state. Rows of all other
keys have to be as the wave shows them (`cdc_assets.operations.resnapshot.wave`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.names import HELPERS
from cdc_assets.databases.statements import DIGEST, KEY, LAKE_TEXT, LARGE
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.pinning import pinned
from cdc_assets.merge.verifying.canonical import digest, of_lake_texts
from cdc_assets.merge.verifying.lake_rows import TEXT, LakeRows
from cdc_assets.merge.verifying.putting import AT, EXISTS
from cdc_assets.schema.comparing import Comparison, Key

_STATE: Final = f"{HELPERS}state"
_DELETED: Final = f"{HELPERS}deleted_since"
_HELD: Final = f"{HELPERS}held"


class KeyState(StrEnum):
    """The state of a key."""

    EQUAL = "equal"
    NEWER = "newer"  # changed since, by the log
    DOUBTFUL = "doubtful"  # likewise, and the change may have left out the values that differ
    UNABLE = "unable"  # a value that was not read, or that the lake cannot hold
    PUT = "put"
    VANISHED = "vanished"


@dataclass(frozen=True, slots=True)
class ComparedWave:
    """A wave that was compared with the lake.

    Attributes:
        counts: the number of keys by state.
        rows: the number of rows that the source has.
        differing: rows to put or remove, as `cdc_assets.merge.verifying.putting` has them; pinned.
        doubtful: keys to be looked at one by one.
    """

    counts: dict[str, int]
    rows: int
    differing: DataFrame
    doubtful: tuple[Key, ...]

    @property
    def to_put(self) -> int:
        """Number of keys to be put or removed."""
        return self.counts.get(KeyState.PUT, 0) + self.counts.get(KeyState.VANISHED, 0)


def compare(
    wave: DataFrame,
    lake: LakeRows,
    comparison: Comparison,
    position: str,
    *,
    omitted: Sequence[int],
    most: int,
) -> ComparedWave:
    """Finds the state of each key that the wave or the lake has.

    Args:
        wave: the rows that were read, pinned.
        lake: its rows of the wave's keys, at one head.
        comparison: how rows are compared.
        position: the wave's, hexadecimal.
        omitted: places of columns whose values a change may leave out.
        most: the greatest number of doubtful keys to name; all are counted.
    """
    keys = _keys(comparison)
    there = lake.states([comparison.columns[n] for n in omitted])
    joined = _held(wave, comparison).join(there, keys, "full_outer")
    at = F.lit(bytes.fromhex(position))
    newer = F.coalesce(F.col("position") > at, F.lit(False))
    deleted = lake.deleted_above(position)
    if deleted is not None:
        marked = F.broadcast(deleted.withColumn(_DELETED, F.lit(True)))
        joined = joined.join(marked, keys, "left")
        newer = newer | F.coalesce(F.col(_DELETED), F.lit(False))
    exists = F.col(DIGEST).isNotNull()
    values = [F.col(f"{LAKE_TEXT}{n}") for n in range(len(comparison.columns))]
    found = pinned(
        joined.select(
            *keys,
            *values,
            exists.alias(EXISTS),
            at.alias(AT),
            _state(newer, exists, comparison).alias(_STATE),
        )
    )
    counted = found.groupBy(_STATE).agg(F.count("*"), F.count_if(EXISTS)).collect()
    doubtful = found.where(F.col(_STATE) == KeyState.DOUBTFUL).select(*keys).limit(most)
    has_doubtful = any(state == KeyState.DOUBTFUL for state, _, _ in counted)
    return ComparedWave(
        {state: count for state, count, _ in counted},
        sum(existing for _, _, existing in counted),
        found.where(F.col(_STATE).isin(KeyState.PUT, KeyState.VANISHED)).drop(_STATE),
        tuple(tuple(row) for row in doubtful.collect()) if has_doubtful else (),
    )


def untouched(
    differing: DataFrame, lake: LakeRows, comparison: Comparison, position: str
) -> DataFrame:
    """Returns the rows to be put whose keys were not merged meanwhile; pinned."""
    keys = _keys(comparison)
    at = F.lit(bytes.fromhex(position))
    texts = [F.col(f"{TEXT}{n}").alias(name) for n, name in enumerate(keys)]
    since = lake.with_texts().where(F.col(sql.POSITION) > at).select(*texts)
    left = differing.join(since, keys, "left_anti")
    deleted = lake.deleted_above(position)
    return pinned(left if deleted is None else left.join(deleted, keys, "left_anti"))


def overtaken(before: DataFrame, after: DataFrame, comparison: Comparison) -> tuple[Key, ...]:
    """Returns the keys of rows that are not to be put any more: they were changed meanwhile."""
    keys = _keys(comparison)
    rows = before.select(*keys).join(after.select(*keys), keys, "left_anti")
    return tuple(tuple(row) for row in rows.collect())


def _held(wave: DataFrame, comparison: Comparison) -> DataFrame:
    """Returns the wave, with whether the lake can hold the values exactly."""
    texts = (f"{LAKE_TEXT}{n}" for n in range(len(comparison.columns)))
    own = [*_keys(comparison), *texts, DIGEST, LARGE]
    with_values = wave.select(*own, *of_lake_texts(comparison.columns))
    held = digest(comparison.columns) == F.col(DIGEST)
    return with_values.select(*own, held.alias(_HELD))


def _state(newer: Expression, exists: Expression, comparison: Comparison) -> Expression:
    living = F.coalesce(F.col("living"), F.lit(0))
    is_one = (living == 1) & (F.col("rows") == 1)
    kept_otherwise = exists & (living == 1) & (F.col("large") != F.col(LARGE))
    unread = F.lit(bool(comparison.unread))
    return (
        F.when(newer & ((living > 1) | kept_otherwise), KeyState.DOUBTFUL)
        .when(newer, KeyState.NEWER)
        .when(exists & is_one & (F.col("md5") == F.col(DIGEST)), KeyState.EQUAL)
        .when(exists & ~F.col(_HELD), KeyState.UNABLE)
        .when(exists & unread & (living == 0), KeyState.UNABLE)
        .when(exists, KeyState.PUT)
        .when(living > 0, KeyState.VANISHED)
        .otherwise(KeyState.EQUAL)
    )


def _keys(comparison: Comparison) -> list[str]:
    return [f"{KEY}{n}" for n in range(len(comparison.key))]
