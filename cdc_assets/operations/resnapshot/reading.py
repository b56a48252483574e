"""Reads a wave with Spark, by JDBC."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.mode import Mode
from cdc_assets.databases.rows import SourceRows, Wave
from cdc_assets.databases.statements import DIGEST, KEY, Range
from cdc_assets.errors import ConfigError, TerminalError, TransientError
from cdc_assets.formats.flat import any_of
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.statements.pinning import pinned
from cdc_assets.merge.verifying.canonical import of_lake_text
from cdc_assets.operations.session import TableSession
from cdc_assets.schema.comparing import Comparison, Key

_STEP: Final = "read the source by JDBC"
BY_SNAPSHOT: Final = (
    "have the connector make a snapshot, and: cdc-assets rebuild TABLE --from-snapshot"
)
"""The remedy for a table that cannot be read in waves."""


def read(spark: SparkSession, wave: Wave, where: str) -> DataFrame:
    """Reads all parts of a wave at once; pinned, so that the source is read once.

    Args:
        spark: the session.
        wave: open.
        where: for errors.

    Raises:
        ConfigError: if Spark has no driver of the database.
        TransientError: if the database could not be read.
    """
    with requiring_driver(wave, where), translated(_STEP, where):
        return pinned(unread(spark, wave))


def unread(spark: SparkSession, wave: Wave) -> DataFrame:
    """Returns the rows of a wave, which Spark reads with each use of the frame."""
    frames = [spark.read.format("jdbc").options(**part).load() for part in wave.parts]
    return reduce(DataFrame.unionByName, frames)


@contextmanager
def requiring_driver(wave: Wave, where: str) -> Iterator[None]:
    """Turns the lack of a driver into a `ConfigError` with the remedy."""
    try:
        yield
    except TransientError as error:
        if "ClassNotFound" not in error.what:
            raise
        driver = wave.parts[0]["driver"]
        what = f"Spark cannot read the source: {driver} is not on its class path"
        remedy = "add the driver there; the local server's comes by cdc-assets stack install"
        raise ConfigError(what, where=where, remedy=remedy) from None


def require_sound(
    rows: DataFrame, comparison: Comparison, within: Sequence[Range], where: str
) -> None:
    """Refuses rows without a digest, and rows that the lake has in none of these ranges of keys.

    They would be taken for rows that the source does not have.

    Raises:
        TerminalError: if there is one.
    """
    undigested = F.col(DIGEST).isNull()
    outside = outside_of(comparison, within)
    with translated(_STEP, where):
        counts = rows.agg(F.count_if(undigested), F.count_if(outside))
        ((long, misplaced),) = counts.collect()
    if long:
        what = f"{long} rows are too long for the database to digest them (max_allowed_packet)"
        raise TerminalError(what, where=where, remedy="raise it on the server")
    if misplaced:
        what = f"{misplaced} rows are not where the lake has their keys in order"
        remedy = BY_SNAPSHOT
        raise TerminalError(what, where=where, remedy=remedy)


def outside_of(comparison: Comparison, within: Sequence[Range]) -> Expression:
    """Returns whether the lake has a row that was read in none of these ranges of keys."""
    return ~any_of(~_outside(comparison, each) for each in within)


def require_mirror(session: TableSession, remedy: str = "leave it out") -> None:
    """Requires that the lake table has the rows of the source's table.

    Raises:
        ConfigError: if it has its changes, or versions of rows.
    """
    table = session.entry.table
    if session.config.source(table.source).mode_of(table) is not Mode.MIRROR:
        what = "its lake table has the source's changes, not its rows"
        raise ConfigError(what, where=session.where, remedy=remedy)


def require_key(source: SourceRows, where: str, remedy: str = BY_SNAPSHOT) -> None:
    """Requires a key that is read, by which rows can be identified.

    Args:
        source: the table's rows.
        where: for errors.
        remedy: for a table without a key.

    Raises:
        TerminalError: if there is none.
    """
    if not source.comparison.key:
        what = (
            "rows cannot be identified by its key, of which a column is not read"
            if source.comparison.is_keyed
            else "the table has no key"
        )
        raise TerminalError(what, where=where, remedy=remedy)


def _outside(comparison: Comparison, within: Range) -> Expression:
    own = _in_order([F.col(f"{KEY}{n}") for n in range(len(comparison.key))], comparison)

    def of_bound(bound: Key) -> Expression:
        return _in_order([F.lit(text) for text in bound], comparison)

    below = own < of_bound(within.start) if within.start is not None else F.lit(False)
    return below | (own >= of_bound(within.end)) if within.end is not None else below


def _in_order(texts: list[Expression], comparison: Comparison) -> Expression:
    pairs = zip(texts, comparison.key, strict=True)
    made = (of_lake_text(text, each, lenient=True) for text, each in pairs)
    return F.struct(*(value.alias(f"k{n}") for n, value in enumerate(made)))
