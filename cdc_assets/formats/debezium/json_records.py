"""Debezium's JSON on Spark: text to envelope."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from cdc_assets.formats.debezium import envelope as common
from cdc_assets.formats.debezium.inline import PAYLOAD, SCHEMA
from cdc_assets.formats.debezium.usual_layout import usual_layout
from cdc_assets.formats.envelope import Envelope, Image, fields_of, no_text
from cdc_assets.formats.order import Order
from cdc_assets.formats.spec import ROW_OPS, TOMBSTONE, ReadSpec, wire_struct

_LONGEST_SCHEMA: Final = 8 << 20
_BAD: Final = "__unreadable"
_NO_KEY_TEXT: Final = "its key is not UTF-8"
_LONGEST_TEXT: Final = 20_000_000
"""Jackson's ``StreamReadConstraints``, as Spark leaves them."""

_LONGEST: Final = 2**31 - 1
_OPTIONS: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _BAD,
    "allowSingleQuotes": "false",
}


def document(spec: ReadSpec, *, is_inline: bool, row: common.RowType = wire_struct) -> Expression:
    """``{"payload": envelope}``, and the text of what cannot be read."""
    # Within an object of ours, whatever follows the record's own object makes it unreadable.
    wrapped = _payload_text() if is_inline else F.concat(F.lit('{"payload":'), _text(), F.lit("}"))
    return F.from_json(_once(wrapped) if spec.parse_here else wrapped, _type(spec, row), _OPTIONS)


def _type(spec: ReadSpec, row: common.RowType) -> StructType:
    payload = StructField("payload", common.envelope_type(spec, row))
    return StructType([payload, StructField(_BAD, StringType())])


def _once(text: Expression) -> Expression:
    """The same, as what Spark calls not deterministic: it is parsed where this stands.

    Otherwise a condition on a change is pushed below the parsing, into the scan of the records,
    and each part of it that looks at the document parses it for itself: with 1,500 columns a
    record was parsed some thousand times.
    """
    return F.when(F.spark_partition_id() >= 0, text)


def envelope(
    document: Expression, spec: ReadSpec, placeholder: str, *, is_inline: bool
) -> Envelope:
    """What a record says."""
    payload = document.getField("payload")
    op = F.when(F.col("value").isNull(), TOMBSTONE).otherwise(payload.getField("op"))
    after, before = payload.getField("after"), payload.getField("before")
    path = "$.payload.before" if is_inline else "$.before"
    logged = F.json_object_keys(F.get_json_object(_text(), path))
    unlike = _unlike(after, op, spec, is_inline=is_inline)
    return Envelope(
        op=op,
        is_read=common.is_read(payload),
        before=fields_of(before),
        after=fields_of(after),
        unchanged=lambda column: before.isNotNull() & ~F.array_contains(logged, column.name),
        left_out=lambda column: common.left_out(
            after.getField(column.name), column, spec, placeholder
        ),
        record_key=record_key(spec),
        source=payload.getField("source"),
        ordinal=common.ordinal(payload, spec),
        reject=_rejection(document, op, spec),
        other_table=no_text(),
        unknown=unlike[0],
        absent=unlike[1],
    )


def sources(raw: DataFrame, order: Order, *, is_inline: bool) -> DataFrame:
    """``partition offset source`` of records."""
    kind = StructType([StructField("source", common.source_type(order))])
    if is_inline:
        kind = StructType([StructField("payload", kind)])
    parsed = F.from_json(_payload_text() if is_inline else _text(), kind)
    source = (parsed.getField("payload") if is_inline else parsed).getField("source")
    return raw.select("partition", "offset", source.alias("source"))


# ── the schema in a record ────────────────────────────────────────────────────────────────


def writer() -> Expression:
    """A hash of the record's schema; NULL for records without one."""
    return F.when(_schema_text().isNotNull(), F.xxhash64(_schema_text()))


def schema_alone() -> Expression:
    """The record without its payload; NULL if the schema is longer than any table's."""
    text = F.when(F.octet_length(_schema_text()) <= _LONGEST_SCHEMA, _schema_text())
    return F.concat(F.lit(SCHEMA), text, F.lit("}")).cast("binary")


def _schema_text() -> Expression:
    cut = F.substring(_front(), len(SCHEMA) + 1, _LONGEST)
    return F.when(_is_plain(), cut).otherwise(F.get_json_object(_text(), "$.schema"))


def _is_plain() -> Expression:
    """Whether it is laid out as `cdc_assets.formats.debezium.inline` says."""
    text = _text()
    return text.startswith(SCHEMA) & text.contains(PAYLOAD) & _front().endswith("}")


def _front() -> Expression:
    return F.substring_index(_text(), PAYLOAD, 1)


def _payload_text() -> Expression:
    """The record without its schema, which would take longer to read than the rest of it."""
    rest = F.substring(_text(), F.length(_front()) + 2, F.lit(_LONGEST))
    return F.when(_is_plain(), F.concat(F.lit("{"), rest)).otherwise(_text())


# ── which columns a row image has ─────────────────────────────────────────────────────────


def _unlike(
    after: Expression, op: Expression, spec: ReadSpec, *, is_inline: bool
) -> tuple[Expression, Expression]:
    """``unknown`` and ``absent``: how a row image's fields differ from the table's columns.

    With a schema in the record, only that is looked at. Without, its field names are the only
    sign, and reading each record's would cost as much as parsing it. Nearly all records match
    `usual_layout`, which is cheap to test and leaves no room for another name or a missing one.
    """
    is_row = op.isin(*ROW_OPS)
    if is_inline:
        return no_text(), F.when(is_row, common.lacks(spec))
    must = (*spec.expected, *spec.schema.key)
    unusual = after.isNotNull() & ~_text().rlike(usual_layout(spec.schema.names, must))
    fields = F.json_object_keys(F.get_json_object(_text(), "$.after"))
    known = common.texts((*spec.schema.names, *spec.target.left_out))
    lacks = F.array_except(common.texts(spec.expected), fields)
    strange = F.get(F.array_except(fields, known), F.lit(0))
    absent = F.when(unusual & is_row & (F.size(lacks) > 0), lacks)
    return F.when(unusual, strange), absent


# ── what cannot be read ───────────────────────────────────────────────────────────────────


def _rejection(document: Expression, op: Expression, spec: ReadSpec) -> Expression:
    unreadable = document.getField(_BAD).isNotNull() | document.isNull()
    key, nothing = _key_text(), F.lit("neither key nor value") if spec.schema.key else no_text()
    return (
        F.when(key.isNotNull() & ~F.is_valid_utf8(key), _NO_KEY_TEXT)
        .when((op == TOMBSTONE) & key.isNull(), nothing)
        .when(op == TOMBSTONE, no_text())
        .when(~F.is_valid_utf8(_text()), "its value is not UTF-8")
        .when(unreadable, _unreadable())
        .when(_has_half_a_character(_text()), "a text holds half of a surrogate pair")
        .when(op.isNull(), "not a Debezium envelope: it has no op")
        .when(~op.isin(*ROW_OPS, "d", "t"), "an operation that is not known")
    )


def _unreadable() -> Expression:
    """Spark reads no text of more than 20,000,000 characters, and nothing else of its record."""
    shape = "not a JSON object of the expected shape and types"
    limited = f"{shape}, or a text in it is longer than {_LONGEST_TEXT:,} characters"
    return F.when(F.octet_length("value") > _LONGEST_TEXT, limited).otherwise(shape)


def _has_half_a_character(text: Expression) -> Expression:
    r"""Spark would read a lone ``\ud800`` as a question mark.

    Escaped back-slashes and whole pairs are taken out before what is left is looked at; nearly
    all records are done with after the first condition.
    """
    whole = r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rest = F.regexp_replace(text, whole, " ")
    return text.contains("\\u") & rest.rlike(r"\\u[dD][89a-fA-F]")


# ── text ──────────────────────────────────────────────────────────────────────────────────


def record_key(spec: ReadSpec, row: common.RowType = wire_struct) -> Image:
    """The Kafka key, with or without a schema around it."""
    bare = row(spec.key_columns)
    wrapped = StructType([StructField("payload", bare)])
    text = _key_text()
    is_wrapped = text.startswith(SCHEMA)
    parsed = F.when(is_wrapped, F.from_json(text, wrapped).getField("payload")).otherwise(
        F.from_json(text, bare)
    )
    return fields_of(parsed)


def _text() -> Expression:
    return F.col("value").cast("string")


def _key_text() -> Expression:
    return F.col("key").cast("string")
