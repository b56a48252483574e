"""The content of one record about one change, as expressions: the contract of every format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.schema.types import Column


def no_text() -> Expression:
    """Returns NULL of type string."""
    return F.lit(None).cast("string")


def no_names() -> Expression:
    """Returns NULL of type array of strings."""
    return F.lit(None).cast("array<string>")


@dataclass(frozen=True, slots=True)
class Image:
    """A row's image in a record.

    Attributes:
        row: struct of its columns as they arrive, see `cdc_assets.formats.values`, some of which
            may be missing; NULL if the record holds none.
    """

    row: Expression

    @property
    def is_there(self) -> Expression:
        """Whether the record holds the row."""
        return self.row.isNotNull()

    def value(self, column: Column) -> Expression:
        """Returns the value of a column of the row."""
        return self.row.getField(column.name)


@dataclass(frozen=True, slots=True)
class OmittedValues:
    """Values that a change leaves out of the row after it.

    Attributes:
        may_be: whether a column's value may be left out.
        placeholder: the text in the place of such values; empty if ``names`` lists their columns.
        names: array with the names of the columns that are left out.
    """

    may_be: Callable[[Column], bool]
    placeholder: str = ""
    names: Expression = field(default_factory=no_names)


def nothing_left_out() -> OmittedValues:
    """Returns an `OmittedValues` by which no value is ever left out."""
    return OmittedValues(lambda _: False)


@dataclass(frozen=True, slots=True)
class Envelope:
    """The parts of a record from which `cdc_assets.formats.changes` makes a change.

    Attributes:
        op: ``c`` ``u`` ``d`` ``r`` ``t``; ``tombstone`` for a record without a value; ``control``
            for one that is no change and is passed over; NULL if it is unknown.
        is_read: whether it is a row of a snapshot, whatever ``op`` says.
        before, after: the row's images; ``before`` holds the columns of the key, or all columns of
            a table without one.
        unchanged: names of columns that ``before`` omits because they did not change.
        left_out: the values that ``after`` omits. Which operations may do so is decided later.
        record_key: columns of the record's own key.
        source: struct of ``ts_ms``, ``ts_us``, ``snapshot`` and the fields of the table's order.
        ordinal: the change's place in its transaction; NULL if unknown.
        reject: the reason why the record cannot be read, without its values; NULL if it can.
        no_op: the reason where ``op`` is NULL, after ``reject``; other operations than the usual
            are rejected too. Empty if ``reject`` says so.
        odd: a reason that comes after those.
        replaced: the reason why a text with U+FFFD, which readers put for bytes of no character,
            cannot be merged; NULL if it can be.
        checks_texts: whether texts may be other than UTF-8.
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
    unchanged: Expression
    left_out: OmittedValues
    record_key: Image
    source: Expression
    ordinal: Expression
    reject: Expression
    other_table: Expression
    unknown: Expression
    absent: Expression
    is_made: bool = False
    no_op: str = ""
    odd: Expression = field(default_factory=no_text)
    placed: Expression | None = None
    replaced: Expression = field(default_factory=no_text)
    checks_texts: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """A message of several rows.

    Attributes:
        head: the part common to all rows.
        rows: an array with the part of each row; NULL or empty if it has none.
    """

    head: Expression
    rows: Expression


def image_of(
    is_there: Expression, columns: Sequence[Column], value: Callable[[Column], Expression]
) -> Image:
    """Returns an image with the values of these columns, as far as a record may hold them."""
    if not columns:
        return no_image()
    row = F.struct(*(value(each).alias(each.name) for each in columns))
    return Image(F.when(is_there, row))


def no_image() -> Image:
    """Returns the image for a record without a row."""
    return Image(F.lit(None).cast("struct<__none:string>"))


def if_any(names: Expression) -> Expression:
    """Returns an array of names; NULL instead of an empty array."""
    return F.when(F.size(names) > 0, names)
