"""Reads cells on Spark: Debezium's envelope, with each column taken out of its cell.

A column that an update does not hold has no cell and is unchanged; a create and a row of a snapshot
hold the whole row, and a column without a cell is NULL there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StructField, StructType

from cdc_assets.changes.position import Scheme
from cdc_assets.formats.debezium.records.enveloped import EnvelopedRecords
from cdc_assets.formats.debezium.records.keys import record_key
from cdc_assets.formats.debezium.records.schemas import AroundValue
from cdc_assets.formats.envelope import (
    Envelope,
    Image,
    OmittedValues,
    image_of,
    no_text,
    nothing_left_out,
)
from cdc_assets.formats.flat import any_of
from cdc_assets.formats.spec import ROW_OPS, ReadSpec, wire_struct
from cdc_assets.formats.values import wire_type
from cdc_assets.schema.types import Column

_PLAIN: Final = (
    "its columns are plain values without cells, so that NULL and unchanged look alike: remove "
    "the transformation (PGCompatible), or set connector.record_type: full if every update "
    "holds the whole row"
)
_LIKE_PLAIN: Final = r'"(?:before|after)":\{"(?:[^"\\]++|\\.)*+":[^{n]'
_CASSANDRA: Final = (
    "a write to Cassandra: the record tells neither the write times of its cells, by which "
    "Cassandra itself decides between writes, nor whether it begins a row"
)
_NO_SET: Final = "a cell that does not say whether it is set"
_TOO_LATE: Final = (
    "its commit time needs more than 63 bits (hybrid times from the year 2041 on): it has no "
    "place in the order"
)


def document(spec: ReadSpec, *, is_inline: bool) -> Expression:
    """Parses as an envelope without cells is parsed."""
    schemas = AroundValue() if is_inline else None
    return EnvelopedRecords("", schemas, _cells).document(spec)


def envelope(plain: Envelope, document: Expression, spec: ReadSpec, *, is_full: bool) -> Envelope:
    """Returns the envelope of a record.

    Args:
        plain: the envelope as if columns had no cells.
        document: the parsed record.
        spec: the parameters for reading it.
        is_full: whether updates hold the whole row.
    """
    payload = document.getField("payload")
    after, before = payload.getField("after"), payload.getField("before")
    is_update = plain.op == "u"

    left_out = OmittedValues(
        lambda column: not is_full and column.name not in spec.schema.key,
        names=F.when(is_update, _unset(after, spec.schema.columns)),
    )
    cells = (
        *(after.getField(column.name) for column in spec.schema.columns),
        *(before.getField(column.name) for column in spec.before_columns),
    )
    lacking = _lacking(after, is_update, spec) if is_full else ()
    like_plain = F.col("value").cast("string").rlike(_LIKE_PLAIN)
    return replace(
        plain,
        before=_image(before, spec.before_columns),
        after=_image(after, spec.schema.columns),
        unchanged=F.when(before.isNotNull(), _unset(before, spec.key_columns)),
        left_out=left_out,
        record_key=_record_key(spec),
        reject=F.coalesce(
            F.when(plain.reject.isNotNull() & like_plain, _PLAIN),
            plain.reject,
            F.when(
                any_of(each.isNotNull() & each.getField("set").isNull() for each in cells), _NO_SET
            ),
            *_unplaced(plain, spec),
            *lacking,
        ),
        absent=plain.absent if is_full else F.when(~is_update, plain.absent),
    )


def of_cassandra(plain: Envelope) -> Envelope:
    """Rejects a record of Cassandra, which cannot be applied exactly."""
    reject = F.when(F.col("value").isNotNull(), _CASSANDRA)
    return replace(plain, left_out=nothing_left_out(), reject=F.coalesce(reject, plain.reject))


def refused(plain: Envelope) -> Envelope:
    """Rejects a change without cells that is not known to hold the whole row."""
    is_change = plain.op.isin(*ROW_OPS, "d")
    return replace(
        plain,
        left_out=nothing_left_out(),
        reject=F.coalesce(plain.reject, F.when(is_change, _PLAIN)),
    )


def _cells(columns: tuple[Column, ...]) -> StructType:
    if not columns:
        return wire_struct(columns)
    cell = ((column.name, wire_type(column)) for column in columns)
    is_set = StructField("set", BooleanType())
    return StructType(
        [
            StructField(name, StructType([StructField("value", type_), is_set]))
            for name, type_ in cell
        ]
    )


def _is_set(cell: Expression) -> Expression:
    return F.coalesce(cell.getField("set"), F.lit(False))


def _unset(image: Expression, columns: Sequence[Column]) -> Expression:
    """Returns the names of columns that are not set."""
    cells = (F.when(~_is_set(image.getField(c.name)), F.lit(c.name)) for c in columns)
    return F.array_compact(F.array(no_text(), *cells))


def _image(image: Expression, columns: Sequence[Column]) -> Image:
    def value(column: Column) -> Expression:
        cell = image.getField(column.name)
        return F.when(cell.getField("set"), cell.getField("value"))

    return image_of(image.isNotNull(), columns, value)


def _record_key(spec: ReadSpec) -> Image:
    """Reads the key, also without cells: a transformation may have taken its values out of them."""
    cells, plain = record_key(spec, _cells), record_key(spec)

    def value(column: Column) -> Expression:
        cell = cells.value(column)
        held = F.when(cell.getField("set"), cell.getField("value"))
        return F.coalesce(held, plain.value(column))

    return image_of(plain.is_there, spec.key_columns, value)


def _unplaced(plain: Envelope, spec: ReadSpec) -> list[Expression]:
    if spec.layout.scheme is not Scheme.YUGABYTE:
        return []
    return [F.when(plain.source.getField("commit_time") < 0, _TOO_LATE)]


def _lacking(after: Expression, is_update: Expression, spec: ReadSpec) -> list[Expression]:
    """Rejects updates with a column without a cell, though updates should hold the whole row."""
    return [
        F.when(
            is_update & ~_is_set(after.getField(column.name)),
            f"an update without column {column.name!r}, though connector.record_type is full",
        )
        for column in spec.schema.columns
    ]
