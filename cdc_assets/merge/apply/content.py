"""Hashes the content of changes, which distinguishes changes of one position.

A change that is sent again must have the hash that it had the first time, though the table's
columns may have changed in between: its values are then decoded to wider types, and it has values
of columns that were added since. So values are hashed in the columns and types that the table was
made with, as far as they fit, and then those of columns that were added, unless they are NULL or
what older rows have: Spark's hash passes NULL over.

Values of columns that the table has dropped are not decoded any more. So a change that has them may
have been counted with another hash: `require_whole_content`.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.errors import TerminalError
from cdc_assets.formats.existing import existing_value
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.tables.tombstones import first_name
from cdc_assets.schema.promotions import fits
from cdc_assets.schema.types import Column, ColumnType, TableSchema


def content_of(made: TableSchema, now: TableSchema) -> Expression:
    """Returns the hash of ``op`` and ``row`` of changes and, of a table without a key, ``old_row``.

    Args:
        made: the columns that the table was made with.
        now: those of the changes.
    """
    names = ("row",) if now.key else ("row", "old_row")
    return F.xxhash64("op", *(each for name in names for each in _image(name, made, now)))


def require_whole_content(plan: BatchPlan) -> None:
    """Fails if a redelivered change could have another content hash than before.

    Args:
        plan: of a batch that may hold such changes.

    Raises:
        TerminalError: if records have columns that the table has dropped since.
    """
    if not plan.forgotten:
        return
    what = (
        f"records have {', '.join(plan.forgotten)}, which the lake has dropped: it is unknown "
        "whether their changes were merged before, with these columns"
    )
    remedy = (
        "cdc-assets rebuild TABLE; if that stops here too: cdc-assets rebuild TABLE --from-snapshot"
    )
    raise TerminalError(what, where=plan.where, remedy=remedy)


def _image(name: str, made: TableSchema, now: TableSchema) -> Iterator[Expression]:
    """Yields the values to be hashed; those of a struct are hashed as if they were alone."""
    homes, image = _homes(made, now), F.col(name)
    if [*homes.values()] == [*now.columns] and _types(made) == _types(now):
        yield image
        return
    for first, column in homes.items():
        yield from _as_made(image.getField(column.name), made.column(first).type, column.type)
    first_ones = {each.name for each in homes.values()}
    for column in now.columns:
        if column.name not in first_ones:
            yield _if_its_own(image.getField(column.name), column)


def _homes(made: TableSchema, now: TableSchema) -> dict[str, Column]:
    """Returns the columns of the table's creation, by their names at that time, in that order.

    Of several columns that had one name in turn the first counts.
    """
    found: dict[str, Column] = {}
    for each in sorted(now.columns, key=lambda column: column.identity.turn):
        found.setdefault(first_name(each), each)
    there = {c.name: found[c.name] for c in made.columns if c.name in found}
    return {name: c for name, c in there.items() if fits(made.column(name).type, c.type)}


def _types(schema: TableSchema) -> list[ColumnType]:
    return [each.type for each in schema.columns]


def _as_made(value: Expression, made: ColumnType, now: ColumnType) -> Iterator[Expression]:
    """Yields a value in its former type and, if that type cannot hold the value, in the present."""
    if made == now:
        yield value
        return
    narrow = value.try_cast(str(made))
    is_same = narrow.cast(str(now)).eqNullSafe(value)
    yield F.when(is_same, narrow)
    yield F.when(~is_same, value)


def _if_its_own(value: Expression, column: Column) -> Expression:
    if column.existing is None:
        return value
    return F.when(~value.eqNullSafe(existing_value(column)), value)
