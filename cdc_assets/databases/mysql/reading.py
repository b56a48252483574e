"""Waves of a table of MySQL or MariaDB: see `cdc_assets.databases.reading`.

Each part is read by one statement, which shows its keys as of the moment at which it began; no
snapshot is shared. The binlog has all columns of each change, so that none is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cdc_assets.databases.mysql.dsn import parse_dsn
from cdc_assets.databases.mysql.jdbc import reader_options
from cdc_assets.databases.mysql.rows import READ_ONLY, MysqlRows
from cdc_assets.databases.reading import Wave, ranges
from cdc_assets.databases.rows import GRACE_SECONDS, Access
from cdc_assets.schema.comparing import Key


class MysqlReading:
    """See `TableReading`.

    Args:
        rows: of the table: they have the statements, and the connection.
        access: how it was made.
    """

    omitted: tuple[int, ...] = ()

    def __init__(self, rows: MysqlRows, access: Access) -> None:
        self._rows = rows
        self._reader = {
            **reader_options(parse_dsn(access.dsn), access.where, is_encrypted=rows.is_encrypted()),
            "sessionVariables": ",".join(f"{n}={v}" for n, v in rows.session().items()),
            "sessionInitStatement": READ_ONLY,
            "socketTimeout": f"{(access.statement_seconds + GRACE_SECONDS) * 1000:.0f}",
        }

    @contextmanager
    def wave(self, start: Key | None, rows: int, parts: int) -> Iterator[Wave]:
        """See `TableReading`."""
        within, end = ranges(start, self._rows.bounds(start, rows, parts), parts)
        yield Wave(end, [{**self._reader, "query": self._rows.whole(each)} for each in within])

    def estimate(self) -> int:
        """See `TableReading`: the server's."""
        return self._rows.estimate()
