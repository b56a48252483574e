"""The content of one record about one change, as expressions: the contract of every format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.schema.types import Column


@dataclass(frozen=True, slots=True)
class Image:
    """A row as a record holds it.

    Attributes:
        is_there: whether the record holds one.
        value: of a column as it arrives, see `cdc_assets.formats.values`; NULL if it is missing.
    """

    is_there: Expression
    value: Callable[[Column], Expression]


@dataclass(frozen=True, slots=True)
class Envelope:
    """The parts of a record from which `cdc_assets.formats.changes` makes a change.

    Attributes:
        op: ``c`` ``u`` ``d`` ``r`` ``t``; ``tombstone`` for a record without a value; ``control``
            for one that is no change and is passed over; NULL if it is unknown.
        is_read: whether it is a row of a snapshot, whatever ``op`` says.
        before, after: the row's images; ``before`` holds the columns of the key, or all columns of
            a table without one.
        unchanged: whether ``before`` omits a column because it did not change.
        left_out: whether the value of a column in ``after`` is the placeholder of an omitted value;
            None for columns that are never omitted. Which operations may hold such a placeholder is
            decided later.
        record_key: columns as they arrive, of the record's own key; NULL if it has none.
        source: struct of ``ts_ms``, ``ts_us``, ``snapshot`` and the fields of the table's order.
        ordinal: the change's place in its transaction; NULL if unknown.
        reject: the reason why the record cannot be read, without its values; NULL if it can.
        other_table: ``schema.table`` of a change of another table in the same topic; NULL for the
            table's own.
        unknown, absent: names, of a row image: fields that the table does not have, and expected
            columns that are missing; NULL where there are none.
        is_made: whether ``source`` is assembled from several fields instead of being one.
        placed: a column with what its order tells of it, see `Order.placed`; None for nothing.
    """

    op: Expression
    is_read: Expression
    before: Image
    after: Image
    unchanged: Callable[[Column], Expression]
    left_out: Callable[[Column], Expression | None]
    record_key: Image
    source: Expression
    ordinal: Expression
    reject: Expression
    other_table: Expression
    unknown: Expression
    absent: Expression
    is_made: bool = False
    placed: Expression | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """A message of several rows.

    Attributes:
        head: the part common to all rows.
        rows: an array with the part of each row; NULL or empty if it has none.
    """

    head: Expression
    rows: Expression


def fields_of(struct: Expression) -> Image:
    """Returns an image whose columns are fields of a struct."""
    return Image(struct.isNotNull(), lambda column: struct.getField(column.name))


def no_text() -> Expression:
    """Returns NULL of type string."""
    return F.lit(None).cast("string")


def no_names() -> Expression:
    """Returns NULL of type array of strings."""
    return F.lit(None).cast("array<string>")


def if_any(names: Expression) -> Expression:
    """Returns the names; NULL if there are none."""
    return F.when(F.size(names) > 0, names)
