"""Parses a record's JSON on Spark, and gives the reason if it cannot be read.

Nothing here raises on any bytes.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType

from cdc_assets.formats.spec import ReadSpec

PAYLOAD: Final = "payload"
_BAD: Final = "__unreadable"
NO_OBJECT: Final = "not a JSON object of the expected shape and types"
_LONGEST_TEXT: Final = 20_000_000
"""Jackson's ``StreamReadConstraints``, as Spark leaves them."""

_OPTIONS: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _BAD,
    "allowSingleQuotes": "false",
}


def value_text() -> Expression:
    """Returns the value as text."""
    return F.col("value").cast("string")


def key_text() -> Expression:
    """Returns the key as text."""
    return F.col("key").cast("string")


def within_object(text: Expression) -> Expression:
    """Returns ``{"payload": …}``, which makes anything after the record's own object an error."""
    return F.concat(F.lit('{"payload":'), text, F.lit("}"))


def parsed(text: Expression, payload: DataType, spec: ReadSpec) -> Expression:
    """Parses ``{"payload": …}`` into a struct, with the text of an unreadable record beside it."""
    kind = StructType([StructField(PAYLOAD, payload), StructField(_BAD, StringType())])
    return F.from_json(found_here(text, spec), kind, _OPTIONS)


def is_readable(document: Expression) -> Expression:
    """Returns whether the result of `parsed` could be read."""
    return document.getField(_BAD).isNull() & document.isNotNull()


def found_here(value: Expression, spec: ReadSpec) -> Expression:
    """Marks a value as non-deterministic for Spark, so that it is evaluated where it stands.

    Otherwise Spark pushes a condition on a change below the parsing, into the scan of the records,
    and each part of the condition that uses the document parses it again: with 1,500 columns a
    record was parsed some thousand times.
    """
    return F.when(F.spark_partition_id() >= 0, value) if spec.parse_here else value


# ── unreadable records ────────────────────────────────────────────────────────────────────


def unread(document: Expression) -> Expression:
    """Returns the reason why a value from `parsed` is not readable JSON; NULL if it is."""
    return (
        F.when(~F.is_valid_utf8(value_text()), "its value is not UTF-8")
        .when(~is_readable(document), _unreadable())
        .when(_has_half_a_character(value_text()), "a text holds half of a surrogate pair")
    )


def _unreadable() -> Expression:
    """Returns the reason; Spark reads no record with a text of more than 20,000,000 characters."""
    limited = f"{NO_OBJECT}, or a text in it is longer than {_LONGEST_TEXT:,} characters"
    return F.when(F.octet_length("value") > _LONGEST_TEXT, limited).otherwise(NO_OBJECT)


def _has_half_a_character(text: Expression) -> Expression:
    r"""Returns whether the text has a lone ``\ud800``, which Spark would read as a question mark.

    Escaped backslashes and whole pairs are removed before the rest is examined; nearly all records
    need only the first condition.
    """
    whole = r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rest = F.regexp_replace(text, whole, " ")
    return text.contains("\\u") & rest.rlike(r"\\u[dD][89a-fA-F]")
