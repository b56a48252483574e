"""Reading a whole table in waves of its keys, by Spark.

A wave is a range of keys in a few parts that are read at once. Each part shows its keys as of one
moment after the wave was asked for; whether that is the same one for all parts is the database's
affair. No reader takes a lock that another reader or writer waits for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final, Protocol

from cdc_assets.changes.names import HELPERS
from cdc_assets.databases.rows import Range, SourceRows
from cdc_assets.errors import ConfigError
from cdc_assets.schema.comparing import Comparison, Form, Key

KEY: Final = f"{HELPERS}w"
"""Columns ``_cdc_assets_w0``, …: the texts of a row's key."""

TOLD: Final = f"{HELPERS}v"
"""Columns ``_cdc_assets_v0``, …: what the lake's values are made of, of each compared column."""

DIGEST: Final = f"{HELPERS}md5"
"""Column: of all compared columns."""

LARGE: Final = f"{HELPERS}large"
"""Column: the digest of the columns of `TableReading.omitted`."""

_FIXED: Final = frozenset({Form.BOOLEAN, Form.INTEGER, Form.FLOATING, Form.DAYS, Form.MICROS})


@dataclass(frozen=True, slots=True)
class Wave:
    """A range of keys that is to be read; open until its block ends.

    Attributes:
        end: the key that the next wave begins with; None for the last one.
        parts: for each part, the options of Spark's JDBC reader; secrets among them.
    """

    end: Key | None
    parts: Sequence[Mapping[str, str]] = field(repr=False)


class TableReading(Protocol):
    """Reads a table of a database in waves."""

    @property
    def omitted(self) -> tuple[int, ...]:
        """Places of the columns whose values an update may leave out of its event."""
        ...

    def wave(self, start: Key | None, rows: int, parts: int) -> AbstractContextManager[Wave]:
        """Yields a wave: so many parts of so many rows, from a key on; None for the first wave."""
        ...

    def estimate(self) -> int:
        """Returns about how many rows there are."""
        ...


def reading_of(rows: SourceRows, where: str) -> TableReading:
    """Returns the reading of a table in waves.

    Raises:
        ConfigError: if its database has no such thing.
    """
    from cdc_assets.databases.mysql.rows import MysqlRows
    from cdc_assets.databases.postgres.rows import PostgresRows

    if isinstance(rows, PostgresRows | MysqlRows):
        return rows.reading()
    what = "tables of this database are not read again"
    remedy = "have the connector make a snapshot, and: cdc-assets rebuild --from-snapshot"
    raise ConfigError(what, where=where, remedy=remedy)


def ranges(start: Key | None, bounds: Sequence[Key], parts: int) -> tuple[list[Range], Key | None]:
    """Returns a wave's parts, and where the next one begins; None if there is none.

    Args:
        start: where the wave begins.
        bounds: where its parts end, as many as there are.
        parts: as many were asked for; fewer bounds are those of the last wave.
    """
    end = bounds[-1] if len(bounds) == parts else None
    starts = (start, *(bounds if end is None else bounds[:-1]))
    ends = (*bounds, None) if end is None else tuple(bounds)
    return [Range(*pair) for pair in zip(starts, ends, strict=True)], end


def of_varying_length(comparison: Comparison) -> tuple[int, ...]:
    """Places of the columns of a varying length."""
    return tuple(
        n for n, each in enumerate(comparison.columns) if each.is_list or each.form not in _FIXED
    )
