"""Converts Maxwell's JSON on Spark, from message to envelope."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.changes.names import TableName
from cdc_assets.formats import json_images as images
from cdc_assets.formats.envelope import Envelope, image_of, no_image, no_text, nothing_left_out
from cdc_assets.formats.flat import first_of
from cdc_assets.formats.maxwell.messages import DDL, MARKS, OPS
from cdc_assets.formats.record_json import lacking, misfits
from cdc_assets.formats.spec import CONTROL, ROW_OPS, STATEMENT, ReadSpec
from cdc_assets.schema.types import Column

_TEXTS: Final = ("database", "table", "type", "ts", "encrypted", "reason", "sql")


def document(spec: ReadSpec) -> Expression:
    """Returns the message as a struct."""
    return images.message_of(_columns(spec), _TEXTS, spec)


def _columns(spec: ReadSpec) -> dict[str, tuple[Column, ...]]:
    return {"data": spec.schema.columns, "old": spec.before_columns}


def envelope(document: Expression, spec: ReadSpec) -> Envelope:
    """Returns the envelope of a message."""
    message = images.body_of(document)
    data, old = (images.image_of(document, name) for name in ("data", "old"))
    row, was = (message.getField(each) for each in ("data", "old"))
    odd = misfits(row)
    op = _op(message, spec.table)
    is_delete, is_row = op == "d", op.isin(*ROW_OPS)

    def before(column: Column) -> Expression:
        return F.when(is_delete, data.value(column)).otherwise(old.value(column))

    database, table = message.getField("database"), message.getField("table")
    is_change = op.isin(*ROW_OPS, "d")
    unread = images.rejection(document, _columns(spec))
    return Envelope(
        op=op,
        is_read=op == "r",
        before=image_of(
            F.when(is_delete, data.is_there).otherwise(old.is_there), spec.before_columns, before
        ),
        after=data,
        # ``old`` holds the changed columns (``BinlogConnectorEvent.writeOldData``).
        unchanged=lacking(was, spec.key_columns),
        left_out=nothing_left_out(),
        record_key=no_image(),
        source=_source(F.when(is_change, message.getField("ts")), spec),
        ordinal=F.lit(None).cast("bigint"),
        reject=F.coalesce(unread, images.unkept(document), _rejection(message, op, is_change)),
        other_table=F.when(
            unread.isNull() & ~op.eqNullSafe(STATEMENT),
            images.other_table(database, table, spec.table, is_change),
        ),
        unknown=F.when(is_row, odd.getField("unknown")),
        absent=F.when(is_row, odd.getField("absent")),
    )


def _op(message: Expression, table: TableName) -> Expression:
    kind = message.getField("type")
    rows = first_of((kind == name, F.lit(op)) for name, op in OPS.items())
    is_statement, is_mark = _is_statement(message, table), kind.isin(*sorted(MARKS | DDL))
    return F.when(is_statement, STATEMENT).when(is_mark, CONTROL).otherwise(rows)


def _is_statement(message: Expression, table: TableName) -> Expression:
    """Returns whether it is a statement on the table, its database, or one that takes its name."""
    database, name, text = (message.getField(each) for each in ("database", "table", "sql"))
    is_named = (database == table.schema) & F.coalesce(name == table.name, F.lit(True))
    is_about = F.contains(F.lower(text), F.lit(table.name.lower()))
    may_be = F.coalesce(is_named, F.lit(False)) | F.coalesce(is_about, F.lit(True))
    return F.coalesce(message.getField("type").isin(*sorted(DDL)) & may_be, F.lit(False))


def _source(seconds: Expression, spec: ReadSpec) -> Expression:
    """Returns the binlog event's time; DDL has milliseconds, which are not needed."""
    none = F.lit(None)
    own = (none.cast(each.dataType).alias(each.name) for each in spec.order.fields)
    return F.struct(
        F.try_multiply(seconds.try_cast("bigint"), F.lit(1000)).alias("ts_ms"),
        none.cast("bigint").alias("ts_us"),
        no_text().alias("snapshot"),
        *own,
    )


def _rejection(message: Expression, op: Expression, is_change: Expression) -> Expression:
    """Returns the reason to reject a readable message."""
    nameless = message.getField("database").isNull() | message.getField("table").isNull()
    is_alone = message.getField("reason").isNotNull()
    return (
        F.when(message.getField("encrypted").isNotNull(), "it is encrypted")
        .when(op.isNull(), "not a message of Maxwell, or of a type that is not known")
        .when(is_change & nameless, "it does not name its database and table")
        .when(is_change & is_alone, "the key of a row alone, which Maxwell could not send")
        .when((op == "d") & message.getField("data").isNull(), "a delete without its row")
    )
