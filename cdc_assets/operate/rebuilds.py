"""Keeps the directive of a rebuild that is under way, and refuses other changes of the table.

The shadow table is made from the log or the source, and replaces all rows of the lake table. So
rows that are put into the lake table meanwhile are lost with it, or, where columns change, even
rows that are published while the last rows of the shadow table are written.
"""

from __future__ import annotations

from cdc_assets.changes.names import TableName
from cdc_assets.desired import Directive, DirectiveNote
from cdc_assets.errors import TerminalError
from cdc_assets.operate.services import Services


def is_under_way(services: Services, table: TableName) -> bool:
    """Returns whether a rebuild of a table is under way, also if no process works at it now."""
    return services.desired.of(table).rebuild is not None


def require_none(services: Services, table: TableName, then: str) -> None:
    """Requires that no rebuild of a table is under way.

    Args:
        services: store the directives.
        table: the table.
        then: the end of the remedy: the command to run after the rebuild.

    Raises:
        TerminalError: if one is under way.
    """
    wanted = services.desired.of(table).rebuild
    if wanted is None:
        return
    what = f"the table is being rebuilt, {wanted.words()}"
    again = f"cdc-assets rebuild {table}"
    remedy = f"swap it in ({again}) or drop what was built ({again} --abandon), then {then}"
    raise TerminalError(what, where=f"table={table}", remedy=remedy, page="being-rebuilt")


def store_directive(services: Services, table: TableName) -> None:
    """Stores the directive of a table's rebuild, unless there is one."""
    if not is_under_way(services, table):
        wanted = DirectiveNote(services.clock(), "cdc-assets rebuild")
        services.desired.put(table, Directive.REBUILD, wanted)


def remove_directive(services: Services, table: TableName) -> None:
    """Removes the directive, before the shadow table is dropped: that alone shows the rest."""
    services.desired.remove(table, Directive.REBUILD)
