"""A record's JSON on Spark: its text, what is parsed of it, and why that cannot be read.

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
    return F.from_json(found_here(text, spec), kind, _OPTIONS)


def is_readable(document: Expression) -> Expression:
    """Whether what `parsed` gave could be read."""
    return document.getField(_BAD).isNull() & document.isNotNull()


def found_here(value: Expression, spec: ReadSpec) -> Expression:
    """The same, as what Spark calls not deterministic: it is found where this stands.

    Otherwise a condition on a change is pushed below the parsing, into the scan of the records,
    and each part of it that looks at the document parses it for itself: with 1,500 columns a
    record was parsed some thousand times.
    """
    return F.when(F.spark_partition_id() >= 0, value) if spec.parse_here else value


# ── what cannot be read ───────────────────────────────────────────────────────────────────


def unread(document: Expression) -> Expression:
    """Why a value is no JSON that can be read, by what `parsed` gave; NULL if it is."""
    return (
        F.when(~F.is_valid_utf8(value_text()), "its value is not UTF-8")
        .when(~is_readable(document), _unreadable())
        .when(_has_half_a_character(value_text()), "a text holds half of a surrogate pair")
    )


def _unreadable() -> Expression:
    """Spark reads no text of more than 20,000,000 characters, and nothing else of its record."""
    limited = f"{NO_OBJECT}, or a text in it is longer than {_LONGEST_TEXT:,} characters"
    return F.when(F.octet_length("value") > _LONGEST_TEXT, limited).otherwise(NO_OBJECT)


def _has_half_a_character(text: Expression) -> Expression:
    r"""Spark would read a lone ``\ud800`` as a question mark.

    Escaped back-slashes and whole pairs are taken out before what is left is looked at; nearly
    all records are done with after the first condition.
    """
    whole = r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rest = F.regexp_replace(text, whole, " ")
    return text.contains("\\u") & rest.rlike(r"\\u[dD][89a-fA-F]")
