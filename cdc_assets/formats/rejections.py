"""Finds why a record cannot be merged. Reasons never contain its values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.formats.envelope import Envelope, Image
from cdc_assets.formats.instants import FIRST_MICRO, LAST_MICRO
from cdc_assets.formats.record_keys import any_null
from cdc_assets.formats.spec import CONTROL, OTHER, ROW_OPS, STATEMENT, TOMBSTONE, ReadSpec
from cdc_assets.formats.stored_values import unfit_for
from cdc_assets.formats.values import unfit
from cdc_assets.schema.types import Column, ColumnType

_UNDECIDED: Final = (
    "a create with the connector's placeholder: without positions (source.lsn and source.sequence) "
    "an unchanged value of a changed key cannot be told from data"
)
_LATE_READ: Final = (
    "a row of a snapshot that was taken while changes were streamed: without a key it cannot be "
    "told from them"
)
_WHOSE: Final = (
    "a record without a value that follows no delete, in a topic of several tables: nothing says "
    "whose row it deletes"
)


def rejection(envelope: Envelope, spec: ReadSpec) -> Expression:
    """Returns the reason why a record cannot be merged by what it holds; NULL if it can be."""
    op, after, before = envelope.op, envelope.after, envelope.before
    shape = (
        F.when((op == TOMBSTONE) & F.lit(spec.own is not None and spec.own.is_shared), _WHOSE)
        .when(op.isin(TOMBSTONE, CONTROL, STATEMENT), F.lit(None).cast("string"))
        .when(op.isin(*ROW_OPS) & ~after.is_there, "no row image (after)")
        .when(
            _is_beyond_time(envelope, spec),
            "its commit time (source.ts_ms) is beyond the year 9999",
        )
    )
    images = [after] if spec.has_rows else []
    if spec.counts_rows and spec.has_rows:
        images.append(before)
        reason = "no row image before the change: without a key it needs REPLICA IDENTITY FULL"
        shape = shape.when(op.isin("u", "d") & ~before.is_there, reason)
    targets = {way.name: target for target, ways in spec.pairs for way in ways}
    values = [
        F.when(bad, f"column {column.name!r}: its value does not fit {type_}")
        for image in images
        for column in spec.schema.columns
        for bad, type_ in _unfit(image, column, envelope, targets.get(column.name))
    ]
    values += _undecided(envelope, spec)
    return F.coalesce(envelope.reject, shape, *values)


def _undecided(envelope: Envelope, spec: ReadSpec) -> Iterator[Expression]:
    """Yields rejections of creates with a placeholder, where only offsets order the changes.

    A changed key is a delete and a create at one position; without positions, a create with a
    placeholder may be that, or an insert of this text.
    """
    if not spec.schema.key or spec.order.types or not spec.has_rows:
        return
    is_create = (envelope.op == "c") & ~envelope.is_read
    for column in spec.schema.columns:
        held = envelope.left_out(column)
        if held is not None:
            yield F.when(is_create & held, f"column {column.name!r}: {_UNDECIDED}")


def _is_beyond_time(envelope: Envelope, spec: ReadSpec) -> Expression:
    """Returns whether a change's commit time is out of range; a row of a snapshot has none."""
    source = envelope.source
    given = source.getField("ts_us").isNotNull() | source.getField("ts_ms").isNotNull()
    micros = spec.order.told_micros(source)
    fits = F.coalesce(micros.between(FIRST_MICRO, LAST_MICRO), F.lit(False))
    return given & ~fits & ~envelope.is_read


def _unfit(
    image: Image, column: Column, envelope: Envelope, target: Column | None
) -> Iterator[tuple[Expression, ColumnType]]:
    """Yields whether a value does not fit the column's own type, or does not fit the lake's."""
    value = image.value(column)
    held = envelope.left_out(column) if image is envelope.after else None
    bad = unfit(value, column)
    if bad is not None:
        yield (bad if held is None else bad & ~held), column.type
    other = unfit_for(value, column, target) if target is not None else None
    if target is not None and other is not None:
        yield (other if held is None else other & ~held), target.type


def unplaced(spec: ReadSpec) -> Iterator[Expression]:
    """Yields rejections of changes without a complete key, or without a position."""
    op = F.col("op")
    if spec.target.key:
        missing = any_null(F.col("key"), spec.target.key)
        nameless = (op == "d") & F.col("pair").isNull() & missing
        yield F.when(nameless, "a delete with neither key nor before image")
        yield F.when(op.isin(*ROW_OPS, "d") & missing, "a key column has no value")
        unknown = F.col("old_key").isNotNull() & any_null(F.col("old_key"), spec.target.key)
        reason = "an update without the key before it (REPLICA IDENTITY FULL would log it)"
        yield F.when(unknown, reason)
    yield F.when(F.col("is_late_read"), _LATE_READ)
    no_position = ~op.isin(TOMBSTONE, CONTROL, STATEMENT, OTHER) & F.col("n0").isNull()
    yield F.when(no_position, f"no source position ({spec.layout.scheme})")
