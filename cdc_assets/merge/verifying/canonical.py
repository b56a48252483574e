"""Converts the lake's values to canonical text, and back: see `cdc_assets.schema.comparing`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.databases.statements import LAKE_TEXT
from cdc_assets.merge.statements import sql
from cdc_assets.schema.comparing import Compared, Form
from cdc_assets.schema.types import ListOf

_HEX_FLOAT: Final = r"^-?0x([01])\.([0-9a-f]+)p(-?[0-9]+)$"
_BIAS: Final = 1023
_SIGN: Final = 2048


def canonical(compared: Compared) -> Expression:
    """Returns a column's value as text; NULL for NULL."""
    value = F.col(sql.quote(compared.name))
    if not compared.is_list:
        return _text(value, compared)
    texts = F.transform(value, lambda each: framed(_text(each, compared)))
    return F.array_join(texts, "")


def framed(text: Expression) -> Expression:
    """Returns a text with its length, so that concatenated texts differ."""
    return F.coalesce(F.concat(F.length(text).cast("string"), F.lit(":"), text), F.lit("-"))


def digest(columns: Sequence[Compared]) -> Expression:
    """Returns the digest of a whole row: the same as the source's for equal rows."""
    return F.md5(F.concat(F.lit(""), *(framed(canonical(each)) for each in columns)))


def of_lake_text(text: Expression, compared: Compared, *, lenient: bool = False) -> Expression:
    """Returns the lake's value for a source's text.

    Args:
        text: of the source; of a key its canonical text, too.
        compared: the column.
        lenient: whether to return NULL for values that the lake's type cannot hold, for which the
            caller must then check; if not, the statement fails.
    """
    column = compared.column
    if not isinstance(column.type, ListOf):
        return _value(text, compared.form, str(column.type), lenient=lenient)
    element = str(column.type.element)
    texts = F.from_json(text, "array<string>")
    return F.transform(texts, lambda each: _value(each, compared.form, element, lenient=lenient))


def of_lake_texts(columns: Sequence[Compared]) -> list[Expression]:
    """Returns the lake's values for the columns `LAKE_TEXT`, by their names; lenient.

    The lake can hold a row's values exactly if their `digest` is the source's.
    """
    return [
        of_lake_text(F.col(f"{LAKE_TEXT}{n}"), each, lenient=True).alias(each.name)
        for n, each in enumerate(columns)
    ]


def _value(text: Expression, form: Form, type_: str, *, lenient: bool) -> Expression:
    def cast(to: str) -> Expression:
        return text.try_cast(to) if lenient else text.cast(to)

    match form:
        case Form.BYTES:
            return F.unhex(text)
        case Form.DAYS:
            return F.date_from_unix_date(cast("int"))
        case Form.MICROS | Form.INSTANT:
            return F.timestamp_micros(cast("bigint")).cast(type_)
        case _:
            return cast(type_)


def _text(value: Expression, compared: Compared) -> Expression:
    match compared.form:
        case Form.NUMBER:
            trimmed = F.regexp_replace(value, r"(\.(?:[0-9]*[1-9])?)0+$", "$1")
            return F.regexp_replace(trimmed, r"\.$", "")
        case Form.FLOATING:
            return _bits(value.cast("double"))
        case Form.BYTES:
            return F.lower(F.hex(value))
        case Form.DAYS:
            return F.unix_date(value).cast("string")
        case Form.MICROS:
            return F.unix_micros(value.cast("timestamp")).cast("string")
        case Form.INSTANT:
            return F.nullif(F.unix_micros(value), F.lit(0)).cast("string")
        case _:
            return value.cast("string")


def _bits(value: Expression) -> Expression:
    """Returns a double's bits from Java's format: hexadecimal digits, a sign, a power of two."""
    written = F.format_string("%a", value)
    lead, power = (F.regexp_extract(written, _HEX_FLOAT, n) for n in (1, 3))
    exponent = F.when(lead == "1", F.try_add(power.try_cast("int"), F.lit(_BIAS))).otherwise(0)
    sign = F.when(written.startswith("-"), _SIGN).otherwise(0)
    head = F.lpad(F.lower(F.hex((sign + exponent).cast("bigint"))), 3, "0")
    fraction = F.rpad(F.regexp_extract(written, _HEX_FLOAT, 2), 13, "0")
    return (
        F.when(value.isNull(), F.lit(None).cast("string"))
        .when(F.isnan(value), F.lit("7ff8000000000000"))
        .when(value == float("inf"), F.lit("7ff0000000000000"))
        .when(value == float("-inf"), F.lit("fff0000000000000"))
        .otherwise(F.concat(head, fraction))
    )
