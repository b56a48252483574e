"""Checks that a table may join those that are merged into one: all must be read in one way."""

from __future__ import annotations

from cdc_assets.errors import TerminalError
from cdc_assets.merge.intake.describe import FirstSchema
from cdc_assets.schema.types import Column, Wire


def require_alike(
    table: FirstSchema, joining: FirstSchema, where: str, *, has_schemas: bool
) -> None:
    """Refuses a table that is unlike the one it joins; it may have more or fewer columns.

    Args:
        table: schema of the existing table.
        joining: schema of the new one.
        where: for the error.
        has_schemas: whether each of its records carries a schema, with which types are compared
            instead.

    Raises:
        TerminalError: if its records or its key differ, or a column of both has another form on
            the wire and the records do not say so.
    """
    known = {each.name: each for each in table.schema.columns}
    both = [(known[each.name], each) for each in joining.schema.columns if each.name in known]
    differ = [mine.name for theirs, mine in both if _arrives(theirs) != _arrives(mine)]
    if table.layout != joining.layout:
        what = f"its records are of another kind ({joining.layout}) than theirs ({table.layout})"
    elif table.schema.key != joining.schema.key:
        what = f"its key is {', '.join(joining.schema.key)}, theirs {', '.join(table.schema.key)}"
    elif differ and not has_schemas:
        what = f"columns {', '.join(differ)} arrive in another way than theirs"
    else:
        return
    what = f"the table cannot be merged with the others: {what}"
    remedy = "give it a table of its own (merge_into), or configure columns and key alike"
    raise TerminalError(what, where=where, remedy=remedy)


def _arrives(column: Column) -> tuple[object, ...]:
    """Returns the column's form on the wire; unsigned integers are stored as the table has them."""
    type_ = None if column.wire is Wire.UNSIGNED_LONG else column.type
    return type_, column.wire, column.element_wire, column.detail
