"""GoldenGate's JSON on Spark: an operation to an envelope."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.formats import json_images as images
from cdc_assets.formats.envelope import Envelope, Image, no_text
from cdc_assets.formats.goldengate.messages import OPS
from cdc_assets.formats.record_json import is_readable, value_text
from cdc_assets.formats.scalar_values import from_scalar
from cdc_assets.formats.spec import ROW_OPS, ReadSpec
from cdc_assets.schema.types import Column, Primitive, Wire, WireDetail

_TEXTS: Final = ("table", "op_type", "op_ts", "pos")
_NAME: Final = r"(?s)^(.+)\.([^.]+)\z"
_FLAT: Final = "a flat row (format=json_row)"
_SEVERAL: Final = "several operations in one record (mode=tx)"


def document(spec: ReadSpec) -> Expression:
    """The operation as a struct."""
    columns = {"before": spec.before_columns, "after": spec.schema.columns}
    return images.message_of(columns, _TEXTS, spec)


def envelope(document: Expression, spec: ReadSpec, zone: str | None) -> Envelope:
    """What an operation says.

    Args:
        document: of `document`.
        spec: of the table.
        zone: of ``op_ts``; None for UTC.
    """
    message = images.body_of(document)
    before, after = (images.image_of(document, each) for each in ("before", "after"))
    had, has = images.names_in("before"), images.names_in("after")
    op = _op(message)
    is_update = op == "u"
    schema, name = (F.regexp_extract(message.getField("table"), _NAME, at) for at in (1, 2))
    is_change, is_row = op.isin(*OPS.values()), op.isin(*ROW_OPS)

    def now(column: Column) -> Expression:
        """A compressed update has its key at least before the change."""
        value = after.value(column)
        if column.name not in spec.schema.key:
            return value
        kept = is_update & ~images.has_name(has, column.name)
        return F.when(kept, before.value(column)).otherwise(value)

    def left_out(column: Column) -> Expression | None:
        if column.name in spec.schema.key:
            return None
        return is_update & ~images.has_name(has, column.name)

    return Envelope(
        op=op,
        is_read=F.lit(False),
        before=before,
        after=Image(after.is_there, now),
        unchanged=lambda column: ~images.has_name(had, column.name),
        left_out=left_out,
        record_key=Image(F.lit(False), lambda _: no_text()),
        source=_source(message, spec, zone),
        ordinal=F.lit(None).cast("bigint"),
        reject=F.coalesce(
            _several(document), images.rejection(document, (had, has)), _rejection(message, op)
        ),
        other_table=images.other_table(schema, name, spec.table, is_change & (op != "t")),
        unknown=F.when(is_row, images.strange(has, spec)),
        absent=F.when(op == "c", images.lacking(has, spec)),
    )


def _op(message: Expression) -> Expression:
    kind, named = message.getField("op_type"), no_text()
    for word, op in OPS.items():
        named = F.when(kind == word, op).otherwise(named)
    return named


def _source(message: Expression, spec: ReadSpec, zone: str | None) -> Expression:
    """``op_ts`` is the commit's time, by the trail."""
    when = Column(
        "op_ts", Primitive.TIMESTAMPTZ, Wire.SCALAR, detail=WireDetail(zone=zone or "UTC")
    )
    told = from_scalar(message.getField("op_ts"), when)
    micros = F.unix_micros(F.lit(None).cast("timestamp") if told is None else told)
    own = (message.getField(each.name).alias(each.name) for each in spec.order.fields)
    return F.struct(
        F.floor(micros / 1000).cast("bigint").alias("ts_ms"),
        micros.alias("ts_us"),
        no_text().alias("snapshot"),
        *own,
    )


def _several(document: Expression) -> Expression:
    """An array, or objects one after the other."""
    text = F.ltrim(value_text())
    is_sequence = text.rlike(r'(?s)^\[\s*\{\s*"') | text.rlike(r'\}\s*\{\s*"table"\s*:')
    is_told = ~is_readable(document) & is_sequence & text.contains('"op_type"')
    return F.when(F.coalesce(is_told, F.lit(False)), _SEVERAL)


def _rejection(message: Expression, op: Expression) -> Expression:
    """Of a message that can be read."""
    before, after = message.getField("before"), message.getField("after")
    is_flat = before.isNull() & after.isNull() & (op != "t")
    return (
        F.when(op.isNull(), "not an operation of GoldenGate, or of a type that is not known")
        .when(~F.coalesce(message.getField("table").rlike(_NAME), F.lit(False)), "no schema.table")
        .when(is_flat, _FLAT)
        .when((op == "d") & before.isNull(), "a delete without its row (before)")
    )
