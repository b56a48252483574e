"""Waves of a PostgreSQL table: see `cdc_assets.databases.reading`.

One transaction of ours exports its snapshot, and each of Spark's readers takes it: so all parts of
a wave show the table at one moment. Our transaction holds the table as any ``SELECT`` does, and the
snapshot no longer than its wave is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg

from cdc_assets.databases.postgres.connection import address_of
from cdc_assets.databases.postgres.jdbc import reader_options
from cdc_assets.databases.postgres.rows import SETTINGS, PostgresRows, failure
from cdc_assets.databases.reading import Wave, of_varying_length, ranges
from cdc_assets.databases.rows import GRACE_SECONDS, Access, Range
from cdc_assets.schema.comparing import Key

_NOT_OF_READERS: Final = frozenset({
    "default_transaction_isolation", "default_transaction_read_only",
})  # fmt: skip


class PostgresReading:
    """See `TableReading`.

    Args:
        rows: of the table: they write the statements, and have the connection.
        connection: that.
        access: how it was made.
    """

    def __init__(
        self, rows: PostgresRows, connection: psycopg.Connection[Any], access: Access
    ) -> None:
        self._rows = rows
        self._connection = connection
        self._access = access
        self._address = address_of(access.dsn)
        self._reader = reader_options(
            connection, access.where, access.statement_seconds + GRACE_SECONDS
        )
        # An update leaves large values out that it does not change (TOAST).
        self.omitted = of_varying_length(rows.comparison)

    @contextmanager
    def wave(self, start: Key | None, rows: int, parts: int) -> Iterator[Wave]:
        """See `TableReading`."""
        with self._translated(), self._connection.transaction():
            snapshot = self._one("SELECT pg_export_snapshot()")
            within, end = ranges(start, self._bounds(start, rows, parts), parts)
            yield Wave(end, [self._options(each, snapshot) for each in within])

    def estimate(self) -> int:
        """See `TableReading`: the planner's."""
        return self._rows.estimate()

    def _bounds(self, start: Key | None, rows: int, parts: int) -> tuple[Key, ...]:
        statement, given = self._rows.bounds(start, rows, parts)
        return tuple(map(tuple, self._connection.execute(statement.encode(), given).fetchall()))

    def _one(self, statement: str) -> str:
        row = self._connection.execute(statement.encode()).fetchone()
        return str((row or ("",))[0])

    def _options(self, within: Range, snapshot: str) -> Mapping[str, str]:
        statement, given = self._rows.whole(within)
        return {
            **self._reader,
            "query": self._literal(statement, given),
            "sessionInitStatement": "; ".join(self._begins(snapshot)),
        }

    def _begins(self, snapshot: str) -> Sequence[str]:
        """Returns the first statements of a reader's transaction; the driver has begun it."""
        seconds = self._access.statement_seconds
        settings = {
            **{name: value for name, value in SETTINGS.items() if name not in _NOT_OF_READERS},
            "statement_timeout": f"{seconds * 1000:.0f}",
        }
        return (
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
            self._literal("SET TRANSACTION SNAPSHOT %s", [snapshot]),
            *(self._literal(f"SET LOCAL {name} = %s", [text]) for name, text in settings.items()),
        )

    def _literal(self, statement: str, given: Sequence[str]) -> str:
        return psycopg.ClientCursor(self._connection).mogrify(statement.encode(), given)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise failure(error, self._address, self._access) from None
