"""Reading a whole table in waves of its keys, by Spark, at one moment for each wave.

A wave is a range of keys in a few parts that are read at once. All parts of one wave see the same
state of the table: that of one transaction, which takes no lock that another reader or writer waits
for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final, Protocol

from cdc_assets.databases.rows import SourceRows
from cdc_assets.errors import ConfigError
from cdc_assets.schema.comparing import Comparison, Form, Key

KEY: Final = "cdc_w"
"""Columns ``cdc_w0``, …: the texts of a row's key."""

TOLD: Final = "cdc_v"
"""Columns ``cdc_v0``, …: what the lake's values are made of, of each compared column."""

DIGEST: Final = "cdc_md5"
"""Column: of all compared columns."""

LARGE: Final = "cdc_large"
"""Column: the digest of those compared columns that an update may leave out of its event."""

_FIXED: Final = frozenset({Form.BOOLEAN, Form.INTEGER, Form.FLOATING, Form.DAYS, Form.MICROS})


@dataclass(frozen=True, slots=True)
class Wave:
    """A range of keys that is read as of one moment; open until its block ends.

    Attributes:
        until: a place in the database's log that everything that is read lies before.
        end: the key that the next wave begins with; None for the last one.
        parts: for each part, the options of Spark's JDBC reader; secrets among them.
    """

    until: str
    end: Key | None
    parts: Sequence[Mapping[str, str]] = field(repr=False)


class TableReading(Protocol):
    """What a database does to have a table read in waves."""

    def wave(self, start: Key | None, rows: int, parts: int) -> AbstractContextManager[Wave]:
        """A wave of so many parts, each of so many rows, from a key on; None for the first one."""
        ...

    def estimate(self) -> int:
        """About how many rows there are."""
        ...


def reading_of(rows: SourceRows, where: str) -> TableReading:
    """What has a table read in waves.

    Raises:
        ConfigError: if its database has no such thing.
    """
    from cdc_assets.databases.postgres.rows import PostgresRows

    if isinstance(rows, PostgresRows):
        return rows.reading()
    what = "tables of this database are not read again"
    remedy = "have the connector make a snapshot, and: cdc-assets rebuild --from-snapshot"
    raise ConfigError(what, where=where, remedy=remedy)


def large(comparison: Comparison) -> tuple[int, ...]:
    """Places of the columns of a varying length, which an update may leave out where it kept them.

    Of these, and of no others, a change does not always tell the value.
    """
    return tuple(
        n for n, each in enumerate(comparison.columns) if each.is_list or each.form not in _FIXED
    )
