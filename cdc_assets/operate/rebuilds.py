"""Refuses what a rebuild that is under way would take away again.

Its new table is made from the log or the source, and takes the place of all that the old one holds
by then. So what is put into the old one meanwhile is lost with it, or, where columns change, even
what is published while its last rows are written.
"""

from __future__ import annotations

from cdc_assets.changes.names import TableName
from cdc_assets.errors import TerminalError
from cdc_assets.operate.services import Services


def is_under_way(services: Services, table: TableName) -> bool:
    """Returns whether a table is being built anew, whether or not somebody works at it now."""
    return services.desired.of(table).rebuild is not None


def require_none(services: Services, table: TableName, then: str) -> None:
    """Requires that a table is not being built anew.

    Args:
        services: which know people's wishes.
        table: the table.
        then: what to do once it is not, as the end of the remedy.

    Raises:
        TerminalError: if it is.
    """
    wanted = services.desired.of(table).rebuild
    if wanted is None:
        return
    what = f"the table is being built anew, {wanted.words()}"
    again = f"cdc-assets rebuild {table}"
    remedy = f"swap it in ({again}) or drop what was built ({again} --abandon), then {then}"
    raise TerminalError(what, where=f"table={table}", remedy=remedy)
