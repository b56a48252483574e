"""Values of MySQL and MariaDB as canonical text, by SQL: see `cdc_assets.schema.comparing`.

Statements are of a session in UTC whose ``sql_mode`` is empty. A pair of a source's and a lake's
type that is not listed here is not compared, and named. Texts are put in order as bytes: no
collation has a counterpart in the lake.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from cdc_assets.databases.mysql.type_text import MysqlType, parse_column_type
from cdc_assets.databases.mysql.types import BYTES, INTEGERS, TEXTS, MysqlColumn, bit_width
from cdc_assets.schema.comparing import Compared, Form
from cdc_assets.schema.types import Column, ColumnType, Decimal, Primitive, Wire

_TEXTS: Final = (TEXTS - {"json"}) | {"enum", "set", "uuid"}
"""``json`` is a type of MySQL alone, whose snapshot and changes have other texts of one document;
MariaDB's is a text."""

_NUMBERS: Final = frozenset({*INTEGERS, "year"})
_FLOATS: Final = frozenset({"float", "double"})
_FORMS: Final[Mapping[Primitive, Mapping[Form, frozenset[str]]]] = {
    Primitive.BOOLEAN: {Form.BOOLEAN: frozenset({"tinyint", "bit"})},
    Primitive.INT: {Form.INTEGER: _NUMBERS},
    Primitive.LONG: {Form.INTEGER: _NUMBERS | {"time", "bits"}},
    Primitive.FLOAT: {Form.FLOATING: frozenset({"float"})},
    Primitive.DOUBLE: {Form.FLOATING: _FLOATS},
    Primitive.STRING: {Form.TEXT: _TEXTS, Form.NUMBER: frozenset({"decimal"})},
    Primitive.BINARY: {Form.BYTES: BYTES},
    Primitive.DATE: {Form.DAYS: frozenset({"date"})},
    Primitive.TIMESTAMP: {Form.MICROS: frozenset({"datetime"})},
    Primitive.TIMESTAMPTZ: {Form.INSTANT: frozenset({"timestamp"})},
}
"""By the lake's type: forms, and the types of the source that they are of."""

_UNFOUND: Final = frozenset({"enum", "set", "uuid"})
"""Texts without a collation of their own."""

_WIRES_OF_DIGESTS: Final = {
    **dict.fromkeys((Wire.STRING, Wire.TEXT_LATIN1, Wire.JSON_TEXT), _TEXTS),
    **dict.fromkeys((Wire.INT, Wire.LONG), _NUMBERS),
}
_LONG_BITS: Final = 63
_DATE: Final = re.compile(r"[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}( [0-9:.]+)?")
_EPOCH: Final = 719_528
"""``TO_DAYS('1970-01-01')``."""
_DAY: Final = 86_400_000_000


def quote(name: str) -> str:
    """Quotes an identifier, in a statement that has parameters."""
    return f"`{name.replace('`', '``').replace('%', '%%')}`"


def form_of(source: MysqlColumn, lake: Column) -> Form | str:
    """Returns how a column is compared, or why it is not."""
    parsed = parse_column_type(source.type_text)
    if lake.detail is not None and lake.detail.mask:
        if parsed.name in _WIRES_OF_DIGESTS.get(lake.wire, frozenset()):
            return Form.DIGEST
        return f"it is masked, and {source.type_text} is not sent as its text"
    form = _form(parsed, lake.type)
    if form is None:
        return f"{source.type_text}, stored as {lake.type}, has no text that both sides write alike"
    return form


def _form(parsed: MysqlType, of: ColumnType) -> Form | None:
    if isinstance(of, Decimal):
        return Form.DECIMAL if parsed.name in {*_NUMBERS, "decimal", "bit"} else None
    if not isinstance(of, Primitive):
        return None
    name = parsed.name
    if name == "bit" and of is not Primitive.BOOLEAN:
        name = "bits" if bit_width(parsed) <= _LONG_BITS else name
    if parsed.name == "bit" and of is Primitive.BOOLEAN and bit_width(parsed) > 1:
        return None
    return next((form for form, names in _FORMS.get(of, {}).items() if name in names), None)


# ── as text ───────────────────────────────────────────────────────────────────────────────


def framed(text: str) -> str:
    """Returns a text with its length, so that texts that follow each other can be told apart.

    NULL only if it is longer than the server puts together (``max_allowed_packet``).
    """
    return f"COALESCE(CONCAT(CHAR_LENGTH({text}), ':', {text}), IF({text} IS NULL, '-', NULL))"


def canonical(
    source: MysqlColumn, compared: Compared, value: str, default: str | None = None
) -> str:
    """Returns SQL that writes a value as canonical text; NULL for NULL.

    Args:
        source: the column.
        compared: how.
        value: SQL for it.
        default: what the column has by itself, as far as that is a constant: connectors write it in
            the place of a zero date where there has to be one.
    """
    return _as_text(_canonical(source, compared, value, default))


def told(source: MysqlColumn, compared: Compared, value: str, default: str | None = None) -> str:
    """Returns SQL that writes a value so that the lake's can be made of it."""
    match compared.form:
        case Form.FLOATING:
            return _as_text(f"CAST({value} * 1e0 AS CHAR)")
        case Form.NUMBER:  # with the zeros of its scale, as it is sent
            return _as_text(f"CAST({value} + 0 AS CHAR)")
        case _:
            return canonical(source, compared, value, default)


def _as_text(text: str) -> str:
    """Returns it in one character set and collation, so that columns can be put together."""
    return f"CONVERT({text} USING utf8mb4) COLLATE utf8mb4_bin"


def _canonical(source: MysqlColumn, compared: Compared, value: str, default: str | None) -> str:
    parsed = parse_column_type(source.type_text)
    match compared.form:
        case Form.TEXT:
            return _written(parsed, value)
        case Form.DIGEST:
            return f"SHA2({_as_text(_written(parsed, value))}, 256)"
        case Form.INTEGER:
            return f"CAST({_number(parsed, value)} AS CHAR)"
        case Form.BOOLEAN:
            number = f"({value} + 0)"
            return f"CASE {number} WHEN 1 THEN 'true' WHEN 0 THEN 'false' ELSE {number} END"
        case Form.DECIMAL:
            return _scaled(parsed, compared, value)
        case Form.NUMBER:
            digits = f"CAST({value} + 0 AS CHAR)"
            trimmed = f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {digits}))"
            return trimmed if _scale(parsed) else digits
        case Form.FLOATING:
            return _bits(f"({value} * 1e0)")
        case Form.BYTES:
            return f"LOWER(HEX({value}))"
        case Form.DAYS:
            return f"CAST({_dated(source, value, _days, default)} AS CHAR)"
        case Form.MICROS:
            return f"CAST({_dated(source, value, _micros, default)} AS CHAR)"
        case Form.INSTANT:
            return f"CAST({_micros(value)} AS CHAR)"
        case _:
            msg = f"no column of MySQL has the form {compared.form}"
            raise ValueError(msg)


def _written(parsed: MysqlType, value: str) -> str:
    """Returns a long text as it is: of one above ``max_allowed_packet`` a cast makes NULL."""
    if parsed.name in _NUMBERS:
        return f"CAST({value} + 0 AS CHAR)"
    return f"CAST({value} AS CHAR)" if parsed.name == "uuid" else value


def _number(parsed: MysqlType, value: str) -> str:
    """Returns a number without the zeros that ``zerofill`` puts before it."""
    if parsed.name != "time":
        return f"({value} + 0)"
    seconds = f"(HOUR({value}) * 3600 + MINUTE({value}) * 60 + SECOND({value}))"
    micros = f"({seconds} * 1000000 + MICROSECOND({value}))"
    return f"({micros} * IF({value} < '00:00:00', -1, 1))"


def _days(value: str) -> str:
    return f"(TO_DAYS({value}) - {_EPOCH})"


def _micros(value: str) -> str:
    """Returns the microseconds of a date; NULL of one without a day."""
    seconds = f"(HOUR({value}) * 3600 + MINUTE({value}) * 60 + SECOND({value}))"
    return f"({_days(value)} * {_DAY} + {seconds} * 1000000 + MICROSECOND({value}))"


def _dated(
    source: MysqlColumn, value: str, number: Callable[[str], str], default: str | None
) -> str:
    """Returns a date as connectors write it: a zero date as NULL, or as a default if NOT NULL."""
    if not source.not_null:
        return number(value)
    found = _DATE.fullmatch(default or "")
    usual = number(f"CAST('{found[0]}' AS DATETIME(6))") + ", " if found else ""
    return f"COALESCE({number(value)}, {usual}0)"


def _scale(parsed: MysqlType) -> int:
    return parsed.arguments[1] if parsed.name == "decimal" and len(parsed.arguments) > 1 else 0


def _scaled(parsed: MysqlType, compared: Compared, value: str) -> str:
    """Returns it with the digits after the point that the lake has, or with its own if more."""
    of = compared.column.type
    scale = of.scale if isinstance(of, Decimal) else 0
    number, own = f"({value} + 0)", _scale(parsed)
    if own == scale:
        return f"CAST({number} AS CHAR)"
    if own < scale:
        return f"CAST(CAST({number} AS DECIMAL(65,{scale})) AS CHAR)"
    short = f"CAST({number} AS DECIMAL(65,{scale}))"
    return f"IF({number} = {short}, CAST({short} AS CHAR), CAST({number} AS CHAR))"


def _bits(value: str) -> str:
    """Returns a double's bits, of powers of two, which are exact; as hexadecimal digits.

    The logarithm may be off by one beside a power of two. Below 2^-1022 there is no exponent, and
    2^1074 is beyond a double.
    """
    size = f"ABS({value})"
    near = f"GREATEST(FLOOR(LOG2({size})), -1022)"
    power = (
        f"({near} + IF({size} / POW(2, {near}) >= 2, 1, 0)"
        f" - IF({near} > -1022 AND {size} / POW(2, {near}) < 1, 1, 0))"
    )
    # FLOOR(LOG2(…)) of the largest doubles is 1024, and 2^1024 is none.
    power = power.replace(near, f"LEAST({near}, 1023)")
    small = f"{size} < 2.2250738585072014e-308"
    whole = f"({size} / POW(2, {power}) - 1) * POW(2, 52)"
    tiny = f"{size} * POW(2, 537) * POW(2, 537)"
    sign = f"IF(CAST({value} AS CHAR) LIKE '-%%', 2048, 0)"
    lead = f"IF({small}, 0, {power} + 1023)"
    fraction = f"IF({small}, {tiny}, {whole})"
    return (
        f"IF({value} IS NULL, NULL, LOWER(CONCAT(LPAD(HEX(CAST({sign} + {lead} AS UNSIGNED)), 3,"
        f" '0'), LPAD(HEX(CAST({fraction} AS UNSIGNED)), 13, '0'))))"
    )


# ── keys ──────────────────────────────────────────────────────────────────────────────────


def may_be_key(source: MysqlColumn, compared: Compared) -> bool:
    """Returns whether rows can be found by the column, and both sides order them by it alike."""
    name = parse_column_type(source.type_text).name
    if name in {"bit", "time"}:
        return False
    match compared.form:
        case Form.TEXT | Form.BYTES | Form.INTEGER | Form.DECIMAL | Form.DAYS | Form.MICROS:
            return True
        case _:
            return False


def ordered(source: MysqlColumn, value: str) -> str:
    """Returns a key's column as it is put in order: texts by their bytes, without a collation."""
    is_text = parse_column_type(source.type_text).name in _TEXTS
    return f"CAST(CONVERT({value} USING utf8mb4) AS BINARY)" if is_text else value


def is_indexed(source: MysqlColumn) -> bool:
    """Returns whether an index on the column follows that order."""
    return parse_column_type(source.type_text).name not in _TEXTS


def finds_keys(source: MysqlColumn) -> bool:
    """Returns whether an index on the column finds rows by `equal`."""
    return parse_column_type(source.type_text).name not in _UNFOUND


def of_text(source: MysqlColumn, compared: Compared) -> str:
    """Returns SQL that makes of canonical text, ``{}``, what `ordered` has."""
    parsed = parse_column_type(source.type_text)
    match compared.form:
        case Form.TEXT:
            return "CAST(CONVERT({} USING utf8mb4) AS BINARY)"
        case _:
            return _value(parsed, compared.form)


def equal(source: MysqlColumn, compared: Compared, value: str, texts: tuple[str, str]) -> str:
    """Returns SQL by which an index finds the rows of a key, ``{}``; it may find others, too.

    Args:
        source: the column.
        compared: how.
        value: SQL for it.
        texts: its character set and its collation; empty where it has none.
    """
    charset, collation = texts
    parsed = parse_column_type(source.type_text)
    if compared.form is not Form.TEXT:
        return f"{value} = {_value(parsed, compared.form)}"
    if parsed.name in _UNFOUND or not (charset and collation):
        return f"{ordered(source, value)} = {of_text(source, compared)}"
    return f"{value} = CONVERT({{}} USING {charset}) COLLATE {collation}"


def _value(parsed: MysqlType, form: Form) -> str:
    match form:
        case Form.INTEGER:
            return f"CAST({{}} AS {'UNSIGNED' if parsed.unsigned else 'SIGNED'})"
        case Form.DECIMAL if parsed.name == "decimal":
            return f"CAST({{}} AS DECIMAL(65,{_scale(parsed)}))"
        case Form.DECIMAL:
            return "CAST({} AS UNSIGNED)"
        case Form.BYTES:
            return "UNHEX({})"
        case Form.DAYS:
            return "(DATE'1970-01-01' + INTERVAL {} DAY)"
        case Form.MICROS:
            return "(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL {} MICROSECOND)"
        case _:
            msg = f"no key has the form {form}"
            raise ValueError(msg)
