"""A record as text, and why it cannot be read."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType

from cdc_assets.formats.envelope import no_text
from cdc_assets.formats.key_form import NUMBER_BYTES
from cdc_assets.formats.spec import ROW_OPS, TOMBSTONE, ReadSpec

PAYLOAD: Final = "payload"
_BAD: Final = "__unreadable"
_NO_KEY_TEXT: Final = "its key is not UTF-8"
_LONGEST_TEXT: Final = 20_000_000
"""Jackson's ``StreamReadConstraints``, as Spark leaves them."""

_OPTIONS: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _BAD,
    "allowSingleQuotes": "false",
}


def value_text() -> Expression:
    """The value."""
    return F.col("value").cast("string")


def key_text() -> Expression:
    """The key."""
    return F.col("key").cast("string")


def within_object(text: Expression) -> Expression:
    """``{"payload": …}``: whatever follows the record's own object makes it unreadable then."""
    return F.concat(F.lit('{"payload":'), text, F.lit("}"))


def parsed(text: Expression, payload: DataType, spec: ReadSpec) -> Expression:
    """``{"payload": …}`` as a struct, with the text of what cannot be read."""
    kind = StructType([StructField(PAYLOAD, payload), StructField(_BAD, StringType())])
    return F.from_json(_once(text) if spec.parse_here else text, kind, _OPTIONS)


def is_readable(document: Expression) -> Expression:
    """Whether what `parsed` gave could be read."""
    return document.getField(_BAD).isNull() & document.isNotNull()


def _once(text: Expression) -> Expression:
    """The same, as what Spark calls not deterministic: it is parsed where this stands.

    Otherwise a condition on a change is pushed below the parsing, into the scan of the records,
    and each part of it that looks at the document parses it for itself: with 1,500 columns a
    record was parsed some thousand times.
    """
    return F.when(F.spark_partition_id() >= 0, text)


# ── what cannot be read ───────────────────────────────────────────────────────────────────


def rejection(document: Expression, op: Expression, spec: ReadSpec, no_op: str) -> Expression:
    """Why a record is no change; NULL if it is one.

    Args:
        document: of `parsed`.
        op: what it says.
        spec: of the table.
        no_op: the reason where it says nothing.
    """
    unreadable = document.getField(_BAD).isNotNull() | document.isNull()
    key, nothing = key_text(), F.lit("neither key nor value") if spec.schema.key else no_text()
    is_no_text = key.isNotNull() & ~F.is_valid_utf8(key)
    return (
        F.when(F.lit(False) if spec.layout.key_form in NUMBER_BYTES else is_no_text, _NO_KEY_TEXT)
        .when((op == TOMBSTONE) & key.isNull(), nothing)
        .when(op == TOMBSTONE, no_text())
        .when(~F.is_valid_utf8(value_text()), "its value is not UTF-8")
        .when(unreadable, _unreadable())
        .when(_has_half_a_character(value_text()), "a text holds half of a surrogate pair")
        .when(op.isNull(), no_op)
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
