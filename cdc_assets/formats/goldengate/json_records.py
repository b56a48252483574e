"""Converts GoldenGate's JSON on Spark, from operation to envelope."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.formats import json_images as images
from cdc_assets.formats.envelope import Envelope, Image, OmittedValues, no_image, no_names, no_text
from cdc_assets.formats.flat import any_of, first_of
from cdc_assets.formats.goldengate.messages import OPS, UPDATE
from cdc_assets.formats.record_json import has_name, lacking, misfits, unread, value_text
from cdc_assets.formats.spec import ROW_OPS, ReadSpec
from cdc_assets.formats.values import decoded
from cdc_assets.schema.types import Column, Primitive, Wire, WireDetail

_TEXTS: Final = ("table", "op_type", "op_ts", "pos")
_NAME: Final = r"(?s)^(.+)\.([^.]+)\z"
_FLAT: Final = "a flat row (format=json_row)"
_PARTIAL_MOVE: Final = (
    "an update of the key that leaves other columns out (the Extract has to log all columns)"
)
_SEVERAL: Final = "several operations in one record (mode=tx)"


def document(spec: ReadSpec) -> Expression:
    """Returns the operation as a struct."""
    return images.message_of(_columns(spec), _TEXTS, spec)


def _columns(spec: ReadSpec) -> dict[str, tuple[Column, ...]]:
    return {"before": spec.before_columns, "after": spec.schema.columns}


def envelope(document: Expression, spec: ReadSpec, zone: str | None) -> Envelope:
    """Returns the envelope of an operation.

    Args:
        document: from `document`.
        spec: of the table.
        zone: of ``op_ts``; None for UTC.
    """
    message = images.body_of(document)
    before, after = (images.image_of(document, each) for each in ("before", "after"))
    was, now_is = (message.getField(each) for each in ("before", "after"))
    odd = misfits(now_is)
    op = _op(message)
    is_update = message.getField("op_type") == UPDATE
    schema, name = (F.regexp_extract(message.getField("table"), _NAME, at) for at in (1, 2))
    is_change, is_row = op.isin(*OPS.values()), op.isin(*ROW_OPS)

    now = now_is
    for each in spec.key_columns:  # a compressed update has its key at least before the change
        kept = is_update & ~has_name(now_is, each.name)
        value = F.when(kept, before.value(each)).otherwise(after.value(each))
        now = now.withField(f"`{each.name.replace('`', '``')}`", value)
    moved = any_of(before.value(each) != after.value(each) for each in spec.key_columns)
    is_partial = odd.getField("absent").isNotNull()
    unread = F.coalesce(_several(document), images.rejection(document, _columns(spec)))
    return Envelope(
        op=op,
        is_read=F.lit(False),
        before=before,
        after=Image(now),
        # GoldenGate gives its own key's old value; of a configured key it may not.
        unchanged=no_names() if spec.layout.split_keys else lacking(was, spec.key_columns),
        left_out=OmittedValues(
            lambda column: column.name not in spec.schema.key,
            names=F.when(is_update, lacking(now_is, spec.schema.columns)),
        ),
        record_key=no_image(),
        source=_source(message, spec, zone),
        ordinal=F.lit(None).cast("bigint"),
        reject=F.coalesce(
            unread,
            images.unkept(document),
            _rejection(message, op),
            F.when(is_update & moved & is_partial, _PARTIAL_MOVE),
        ),
        other_table=F.when(
            unread.isNull(),
            images.other_table(schema, name, spec.table, is_change & (op != "t")),
        ),
        unknown=F.when(is_row, odd.getField("unknown")),
        absent=F.when(op == "c", odd.getField("absent")),
    )


def _op(message: Expression) -> Expression:
    kind = message.getField("op_type")
    return first_of((kind == word, F.lit(op)) for word, op in OPS.items())


def _source(message: Expression, spec: ReadSpec, zone: str | None) -> Expression:
    """Returns the source, with ``op_ts``, the commit's time in the trail."""
    when = Column(
        "op_ts", Primitive.TIMESTAMPTZ, Wire.SCALAR, detail=WireDetail(zone=zone or "UTC")
    )
    micros = F.unix_micros(decoded(message.getField("op_ts"), when))
    own = (message.getField(each.name).alias(each.name) for each in spec.order.fields)
    return F.struct(
        F.floor(micros / 1000).cast("bigint").alias("ts_ms"),
        micros.alias("ts_us"),
        no_text().alias("snapshot"),
        *own,
    )


def _several(document: Expression) -> Expression:
    """Rejects an array, or several objects in sequence."""
    text = F.ltrim(value_text())
    is_sequence = text.rlike(r'(?s)^\[\s*\{\s*"') | text.rlike(r'\}\s*\{\s*"table"\s*:')
    is_several = unread(document).isNotNull() & is_sequence & text.contains('"op_type"')
    return F.when(F.coalesce(is_several, F.lit(False)), _SEVERAL)


def _rejection(message: Expression, op: Expression) -> Expression:
    """Returns the reason to reject a readable message."""
    before, after = message.getField("before"), message.getField("after")
    is_flat = before.isNull() & after.isNull() & (op != "t")
    return (
        F.when(op.isNull(), "not an operation of GoldenGate, or of a type that is not known")
        .when(~F.coalesce(message.getField("table").rlike(_NAME), F.lit(False)), "no schema.table")
        .when(is_flat, _FLAT)
        .when((op == "d") & before.isNull(), "a delete without its row (before)")
    )
