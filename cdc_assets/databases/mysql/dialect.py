"""SQL of MySQL and MariaDB: values as canonical text, their order, and ranges of keys.

Statements are of a session in UTC whose ``sql_mode`` is empty. A pair of a source's and a lake's
type that is not listed here is not compared, and named. Texts are put in order as bytes: no
collation has a counterpart in the lake.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Final

from cdc_assets.databases.dialect import SALTED, Dialect, Given, KeyFault, parameter
from cdc_assets.databases.mysql.connection import quote
from cdc_assets.databases.mysql.type_text import MysqlType, parse_column_type
from cdc_assets.databases.mysql.types import BYTES, INTEGERS, TEXTS, MysqlColumn, bit_width
from cdc_assets.schema.comparing import Compared, Form, Key
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
_FIRST: Final = date(1970, 1, 1)
_DAY: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class MysqlSource:
    """A column with everything that its SQL depends on.

    Attributes:
        column: the column, as the catalog has it.
        default: its default value, if that is a constant: connectors write it in the place of a
            zero date where there has to be one.
        charset: its character set; empty where it has none.
        collation: likewise.
    """

    column: MysqlColumn
    default: str | None = None
    charset: str = ""
    collation: str = ""

    @property
    def name(self) -> str:
        """The column's name in the database."""
        return self.column.name

    @property
    def not_null(self) -> bool:
        """Whether it is declared NOT NULL."""
        return self.column.not_null

    @property
    def type(self) -> MysqlType:
        """The column's type."""
        return parse_column_type(self.column.type_text)


class MysqlDialect(Dialect[MysqlSource]):
    """See `Dialect`."""

    most_keys = 200
    numbers_rows = False  # MySQL 5.7
    barrier = "LIMIT 18446744073709551615"
    longest = "max_allowed_packet"

    def quote(self, name: str) -> str:
        """See `Dialect`."""
        return quote(name)

    def form_of(self, source: MysqlSource, lake: Column) -> Form | str:
        """See `Dialect`."""
        declared = source.column.type_text
        if lake.detail is not None and lake.detail.salt:
            return SALTED
        if lake.detail is not None and lake.detail.mask:
            if source.type.name in _WIRES_OF_DIGESTS.get(lake.wire, frozenset()):
                return Form.DIGEST
            return f"it is masked, and {declared} is not sent as its text"
        form = _form(source.type, lake.type)
        if form is None:
            return f"{declared}, stored as {lake.type}, has no text that both sides write alike"
        return form

    def may_be_key(self, source: MysqlSource, compared: Compared) -> bool:
        """See `Dialect`."""
        if source.type.name in {"bit", "time"}:
            return False
        match compared.form:
            case Form.TEXT | Form.BYTES | Form.INTEGER | Form.DECIMAL | Form.DAYS | Form.MICROS:
                return True
            case _:
                return False

    def is_indexed(self, source: MysqlSource) -> bool:
        """See `Dialect`."""
        return source.type.name not in _TEXTS

    def finds_keys(self, source: MysqlSource) -> bool:
        """See `Dialect`."""
        return source.type.name not in _UNFOUND

    def canonical(self, source: MysqlSource, compared: Compared, value: str) -> str:
        """See `Dialect`."""
        return _as_text(_canonical(source, compared, value))

    def lake_text(self, source: MysqlSource, compared: Compared, value: str) -> str:
        """See `Dialect`."""
        match compared.form:
            case Form.FLOATING:
                return _as_text(f"CAST({value} * 1e0 AS CHAR)")
            case Form.NUMBER:  # with the zeros of its scale, as it is sent
                return _as_text(f"CAST({value} + 0 AS CHAR)")
            case _:
                return self.canonical(source, compared, value)

    def digest(self, texts: Sequence[str]) -> str:
        """See `Dialect`."""
        return f"MD5(CONCAT({', '.join(map(_framed, texts))}))" if texts else "MD5('')"

    def number(self, digest: str, begin: int) -> str:
        """See `Dialect`."""
        return f"CAST(CONV(SUBSTR({digest}, {begin}, 15), 16, 10) AS UNSIGNED)"

    def lake_value(self, source: MysqlSource, compared: Compared, value: str) -> str | None:
        """See `Dialect`: texts as bytes, dates as numbers of days and microseconds."""
        match compared.form:
            case Form.TEXT:
                return _as_bytes(_written(source.type, value))
            case Form.BOOLEAN:  # connectors send any other number as true
                return f"({value} <> 0)"
            case Form.DECIMAL:
                return f"({value} + 0)"
            case Form.INTEGER:
                return _number(source.type, value)
            case Form.DAYS:
                return _dated(source, value, _days)
            case Form.MICROS:
                return _dated(source, value, _micros)
            case Form.INSTANT:
                return _micros(value)
            case _:
                return None

    def constant(self, compared: Compared, text: str) -> str:
        """See `Dialect`."""
        match compared.column.type:
            case Primitive.STRING:
                return f"X'{text.encode().hex()}'"
            case Primitive.DATE:
                return str((date.fromisoformat(text) - _FIRST).days)
            case Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
                since = datetime.fromisoformat(text) - datetime.combine(_FIRST, time())
                return str(since // timedelta(microseconds=1))
            case _:
                return text

    def like(self, source: MysqlSource, compared: Compared, value: str, pattern: str) -> str:
        """See `Dialect`: not as bytes, of which a character may have several."""
        text = self.canonical(source, compared, value)
        return f"{text} LIKE CONVERT(X'{pattern.encode().hex()}' USING utf8mb4)"

    def ordered(self, source: MysqlSource, value: str) -> str:
        """See `Dialect`: texts without a collation."""
        return _as_bytes(value) if source.type.name in _TEXTS else value

    def of_text(self, source: MysqlSource, compared: Compared, text: str) -> str:
        """See `Dialect`."""
        if compared.form is Form.TEXT:
            return _as_bytes(text)
        return _value(source.type, compared.form, text)

    def equal(self, source: MysqlSource, compared: Compared, value: str, text: str) -> str:
        """See `Dialect`."""
        if compared.form is not Form.TEXT:
            return f"{value} = {_value(source.type, compared.form, text)}"
        if source.type.name in _UNFOUND or not (source.charset and source.collation):
            return f"{self.ordered(source, value)} = {self.of_text(source, compared, text)}"
        return f"{value} = CONVERT({text} USING {source.charset}) COLLATE {source.collation}"

    def before(self, columns: Sequence[str], bound: Sequence[str]) -> str:
        """See `Dialect`: column by column, since no index serves a comparison of rows."""
        pairs = list(zip(columns, bound, strict=True))
        column, value = pairs.pop()
        condition = f"{column} < {value}"
        for column, value in reversed(pairs):
            condition = f"({column} < {value} OR ({column} = {value} AND {condition}))"
        return condition

    def from_on(self, columns: Sequence[str], bound: Sequence[str]) -> Sequence[str]:
        """See `Dialect`."""
        return [f"{columns[0]} >= {bound[0]}", f"NOT ({self.before(columns, bound)})"]

    def below(self, columns: Sequence[str], bound: Sequence[str]) -> Sequence[str]:
        """See `Dialect`."""
        return [f"{columns[0]} <= {bound[0]}", self.before(columns, bound)]

    def matching(
        self,
        table: str,
        same: Callable[[Sequence[str]], str],
        keys: Sequence[Key],
        given: Given,
    ) -> str:
        """See `Dialect`."""
        each = (f"({same([parameter(text, given) for text in key])})" for key in keys)
        return f"FROM {table} AS t WHERE {' OR '.join(each)}"

    def faulty_keys(self, key: Sequence[tuple[MysqlSource, Compared, str]]) -> Iterator[KeyFault]:
        """See `Dialect`: also rows for whose key the lake has another date, perhaps another's."""
        yield from super().faulty_keys(key)
        dates = [value for _, each, value in key if each.form in {Form.DAYS, Form.MICROS}]
        if not dates:
            return
        what = (
            "the key of a row has a date without a month or a day, in whose place connectors "
            "write another date: rows cannot be distinguished"
        )
        remedy = "give these rows a date; connectors cannot tell them apart either"
        yield KeyFault(" OR ".join(f"TO_DAYS({each}) IS NULL" for each in dates), what, remedy)


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


def _framed(text: str) -> str:
    """Returns a text with its length, which separates texts in sequence.

    NULL only if it is longer than the server puts together (``max_allowed_packet``).
    """
    return f"COALESCE(CONCAT(CHAR_LENGTH({text}), ':', {text}), IF({text} IS NULL, '-', NULL))"


def _as_text(text: str) -> str:
    """Returns it in one character set and collation, so that columns can be put together."""
    return f"CONVERT({text} USING utf8mb4) COLLATE utf8mb4_bin"


def _as_bytes(text: str) -> str:
    return f"CAST(CONVERT({text} USING utf8mb4) AS BINARY)"


def _canonical(source: MysqlSource, compared: Compared, value: str) -> str:
    parsed = source.type
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
            return f"CAST({_dated(source, value, _days)} AS CHAR)"
        case Form.MICROS:
            return f"CAST({_dated(source, value, _micros)} AS CHAR)"
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


def _dated(source: MysqlSource, value: str, number: Callable[[str], str]) -> str:
    """Returns a date as connectors write it: a zero date as NULL, or as a default if NOT NULL."""
    if not source.not_null:
        return number(value)
    found = _DATE.fullmatch(source.default or "")
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

    The logarithm may be off by one next to a power of two. Below 2^-1022 there is no exponent, and
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


def _value(parsed: MysqlType, form: Form, text: str) -> str:
    """Returns SQL that converts canonical text to a value of the column's type."""
    match form:
        case Form.DECIMAL if parsed.name == "decimal":
            return f"CAST({text} AS DECIMAL(65,{_scale(parsed)}))"
        case Form.INTEGER | Form.DECIMAL:
            return f"CAST({text} AS {'UNSIGNED' if parsed.unsigned else 'SIGNED'})"
        case Form.BYTES:
            return f"UNHEX({text})"
        case Form.DAYS:
            return f"(DATE'1970-01-01' + INTERVAL {text} DAY)"
        case Form.MICROS:
            return f"(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL {text} MICROSECOND)"
        case _:
            msg = f"no key has the form {form}"
            raise ValueError(msg)
