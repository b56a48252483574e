"""PostgreSQL's SQL: values as canonical text, their order, and ranges of keys.

A pair of a source's and a lake's type that is not listed here is not compared, and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from cdc_assets.databases.dialect import SALTED, Dialect, Given, parameter
from cdc_assets.databases.postgres.columns import ENUM, PostgresColumn
from cdc_assets.databases.postgres.connection import quote
from cdc_assets.schema.comparing import Compared, Form, Key
from cdc_assets.schema.types import Column, Decimal, ListOf, Primitive, StructOf, Wire

_INTEGERS: Final = frozenset({"int2", "int4", "int8", "oid"})
_TEXTS: Final = frozenset({
    "text", "varchar", "bpchar", "char", "name", "citext", "json", "jsonb", "xml", "uuid", "inet",
    "cidr", "macaddr", "macaddr8", "ltree", "tsvector", "int4range", "int8range", "numrange",
    "tsrange", "daterange",
})  # fmt: skip
"""Types that the lake stores as the text that PostgreSQL writes."""

_NUMBERS: Final = _INTEGERS | {"numeric", "money"}
_FORMS: Final[dict[Primitive, dict[Form, frozenset[str]]]] = {
    Primitive.BOOLEAN: {Form.BOOLEAN: frozenset({"bool", "bit"})},
    Primitive.INT: {Form.INTEGER: _INTEGERS},
    Primitive.LONG: {Form.INTEGER: _INTEGERS | {"time", "bits"}},
    Primitive.FLOAT: {Form.FLOATING: frozenset({"float4"})},
    Primitive.DOUBLE: {Form.FLOATING: frozenset({"float4", "float8"})},
    Primitive.BINARY: {Form.BYTES: frozenset({"bytea", "uuid"})},
    Primitive.DATE: {Form.DAYS: frozenset({"date"})},
    Primitive.TIMESTAMP: {Form.MICROS: frozenset({"timestamp"})},
    Primitive.TIMESTAMPTZ: {Form.MICROS: frozenset({"timestamptz"})},
}
"""By the lake's type: forms, and the source's types that have them."""

_ORDERED_TEXTS: Final = frozenset({"text", "varchar", "bpchar", "uuid", "citext", "name"})
_FOUND_TEXTS: Final = frozenset({"text", "varchar", "bpchar"})
_WIRES_OF_DIGESTS: Final = {Wire.STRING: _TEXTS, Wire.INT: _INTEGERS, Wire.LONG: _INTEGERS}
_CAST_OTHERWISE: Final = frozenset({"inet", "bpchar", "char", "xml"})
"""Types whose cast to text does not write what connectors get, the text of the output function:
that of ``xml`` leaves out the declaration, that of ``inet`` a netmask of all bits, that of
``bpchar`` the blanks at the end."""

_NAN: Final = "7ff8000000000000"
_LONG_BITS: Final = 64


class PostgresDialect(Dialect[PostgresColumn]):
    """See `Dialect`."""

    omits_values = True  # TOAST
    barrier = "OFFSET 0"

    def quote(self, name: str) -> str:
        """See `Dialect`."""
        return quote(name)

    def form_of(self, source: PostgresColumn, lake: Column) -> Form | str:
        """See `Dialect`."""
        if lake.detail is not None and lake.detail.mask:
            return SALTED if lake.detail.salt else _form_of_digest(source, lake)
        if source.is_array != isinstance(lake.type, ListOf):
            return _odd(source, lake)
        of = lake.type.element if isinstance(lake.type, ListOf) else lake.type
        if isinstance(of, StructOf):
            return _odd(source, lake)
        form = _form(source, of)
        return _odd(source, lake) if form is None else form

    def may_be_key(self, source: PostgresColumn, compared: Compared) -> bool:
        """See `Dialect`."""
        if compared.is_list or source.type_name in {"time", "bit", "money"}:
            return False
        match compared.form:
            case Form.TEXT:
                return source.type_name in _ORDERED_TEXTS or source.kind == ENUM
            case Form.BOOLEAN | Form.INTEGER | Form.DECIMAL:
                return True
            case Form.BYTES | Form.DAYS | Form.MICROS:
                return True
            case _:
                return False

    def is_indexed(self, source: PostgresColumn) -> bool:
        """See `Dialect`: whatever the index's collation is."""
        is_text = source.type_name in {"text", "varchar", "bpchar", "citext", "name", "oid"}
        return not is_text and source.kind != ENUM

    def finds_keys(self, source: PostgresColumn) -> bool:
        """See `Dialect`."""
        return self.is_indexed(source) or source.type_name in _FOUND_TEXTS

    def canonical(self, source: PostgresColumn, compared: Compared, value: str) -> str:
        """See `Dialect`; for a list, the framed texts of its elements."""
        if not compared.is_list:
            return _canonical(source, compared, value)
        element = _framed(_canonical(source, compared, "u.v"))
        listed = f"(SELECT string_agg({element}, '' ORDER BY u.o) FROM unnest({value})"  # noqa: S608
        texts = f"coalesce({listed} WITH ORDINALITY AS u(v, o)), '')"
        return f"CASE WHEN {value} IS NOT NULL THEN {texts} END"

    def lake_text(self, source: PostgresColumn, compared: Compared, value: str) -> str:
        """See `Dialect`; for a list, JSON of its elements."""
        if not compared.is_list:
            return _lake_text(source, compared, value)
        elements = f"ARRAY(SELECT {_lake_text(source, compared, 'u.v')} FROM unnest({value})"  # noqa: S608
        listed = f"{elements} WITH ORDINALITY AS u(v, o) ORDER BY u.o)"
        return f"CASE WHEN {value} IS NOT NULL THEN array_to_json({listed})::text END"

    def digest(self, texts: Sequence[str]) -> str:
        """See `Dialect`."""
        return f"md5(array_to_string(ARRAY[{', '.join(map(_framed, texts))}]::text[], ''))"

    def number(self, digest: str, begin: int) -> str:
        """See `Dialect`."""
        return f"('x' || substr({digest}, {begin}, 15))::bit(60)::bigint"

    def lake_value(self, source: PostgresColumn, compared: Compared, value: str) -> str | None:
        """See `Dialect`."""
        if compared.is_list:
            return None
        match compared.form:
            case Form.TEXT:
                return f'({_lake_text(source, compared, value)}) COLLATE "C"'
            case Form.BOOLEAN:
                return f"({value} = B'1')" if source.type_name == "bit" else value
            case Form.INTEGER | Form.DECIMAL:
                return f"({_number(source, value)})"
            case Form.DAYS | Form.MICROS:
                return value
            case _:
                return None

    def constant(self, compared: Compared, text: str) -> str:
        """See `Dialect`."""
        match compared.column.type:
            case Primitive.STRING:
                return _constant(text)
            case Primitive.DATE:
                return f"DATE '{text}'"
            case Primitive.TIMESTAMP:
                return f"TIMESTAMP '{text}'"
            case Primitive.TIMESTAMPTZ:
                return f"TIMESTAMPTZ '{text}+00'"
            case _:
                return text

    def like(self, source: PostgresColumn, compared: Compared, value: str, pattern: str) -> str:
        """See `Dialect`."""
        return f"{self.lake_value(source, compared, value)} LIKE {_constant(pattern)}"

    def ordered(self, source: PostgresColumn, value: str) -> str:
        """See `Dialect`."""
        match source.type_name:
            case "text" | "varchar":
                return f'{value} COLLATE "C"'
            case "oid":
                return f"{value}::bigint"
            case name if name in {"bpchar", "citext", "name"} or source.kind == ENUM:
                return f'{_written(source, value)} COLLATE "C"'
            case _:
                return value

    def of_text(self, source: PostgresColumn, compared: Compared, text: str) -> str:
        """See `Dialect`."""
        match compared.form:
            case Form.TEXT if source.type_name == "uuid":
                return f"{text}::text::uuid"
            case Form.TEXT:
                return f'{text}::text COLLATE "C"'
            case Form.BYTES if source.type_name == "uuid":
                return f"{text}::text::uuid"
            case Form.BYTES:
                return f"decode({text}::text, 'hex')"
            case Form.INTEGER:
                return f"{text}::text::bigint"
            case Form.DECIMAL:
                return f"{text}::text::numeric"
            case Form.BOOLEAN:
                return f"{text}::text::boolean"
            case Form.DAYS:
                return f"(DATE '1970-01-01' + {text}::text::int)"
            case Form.MICROS:
                zone = "tz" if source.type_name == "timestamptz" else ""
                number = f"{text}::text::bigint"
                return (
                    f"(timestamp{zone} '1970-01-01 00:00:00'"
                    f" + ({number} / 1000000) * interval '1 s'"
                    f" + ({number} %% 1000000) * interval '1 microsecond')"
                )
            case _:
                msg = f"no key has the form {compared.form}"
                raise ValueError(msg)

    def equal(self, source: PostgresColumn, compared: Compared, value: str, text: str) -> str:
        """See `Dialect`."""
        # By the column's own collation, which the index has. The same text is equal by any
        # collation; by one that is not deterministic others are, too.
        match source.type_name:
            case "text" | "varchar":
                return f"{value} = {text}::text"
            case "bpchar":
                return f"{value} = {text}::text::bpchar"
            case _:
                return f"{self.ordered(source, value)} = {self.of_text(source, compared, text)}"

    def before(self, columns: Sequence[str], bound: Sequence[str]) -> str:
        """See `Dialect`."""
        return f"({', '.join(columns)}) < ({', '.join(bound)})"

    def from_on(self, columns: Sequence[str], bound: Sequence[str]) -> Sequence[str]:
        """See `Dialect`."""
        return [f"({', '.join(columns)}) >= ({', '.join(bound)})"]

    def matching(
        self,
        table: str,
        same: Callable[[Sequence[str]], str],
        keys: Sequence[Key],
        given: Given,
    ) -> str:
        """See `Dialect`: joins the table to lists of the keys' texts."""
        lists = [f"{parameter([*texts], given)}::text[]" for texts in zip(*keys, strict=True)]
        names = [f"k{n}" for n in range(len(lists))]
        asked = f"unnest({', '.join(lists)}) AS k ({', '.join(names)})"
        return f"FROM {asked} JOIN {table} AS t ON {same([f'k.{name}' for name in names])}"


# ── columns ───────────────────────────────────────────────────────────────────────────────


def _form_of_digest(source: PostgresColumn, lake: Column) -> Form | str:
    types = _WIRES_OF_DIGESTS.get(lake.wire, frozenset())
    is_text = lake.wire is Wire.STRING and source.kind == ENUM
    if not source.is_array and (source.type_name in types or is_text):
        return Form.DIGEST
    return f"it is masked, and {source.type_text} is not sent as its text"


def _odd(source: PostgresColumn, lake: Column) -> str:
    return f"{source.type_text}, stored as {lake.type}, has no text that both sides write alike"


def _form(source: PostgresColumn, of: Primitive | Decimal) -> Form | None:
    if isinstance(of, Decimal):
        is_known = source.type_name in _NUMBERS or _is_bits(source, _LONG_BITS)
        return Form.DECIMAL if is_known else None
    if of is Primitive.STRING:
        return _form_of_text(source)
    return next(
        (form for form, names in _FORMS.get(of, {}).items() if _is_one(source, names)), None
    )


def _form_of_text(source: PostgresColumn) -> Form | None:
    name = source.type_name
    if name == "numeric":
        return Form.NUMBER
    is_long = name == "bit" and source.modifier > _LONG_BITS
    return Form.TEXT if name in _TEXTS or source.kind == ENUM or is_long else None


def _is_one(source: PostgresColumn, names: frozenset[str]) -> bool:
    if source.type_name != "bit":
        return source.type_name in names
    is_number = _is_bits(source, _LONG_BITS - 1)
    return ("bits" in names and is_number) or ("bit" in names and source.modifier <= 1)


def _is_bits(source: PostgresColumn, most: int) -> bool:
    return source.type_name == "bit" and 1 < source.modifier <= most


def _constant(text: str) -> str:
    """Returns a text as its bytes, which need no quoting."""
    return f"convert_from(decode('{text.encode().hex()}', 'hex'), 'UTF8') COLLATE \"C\""


# ── as text ───────────────────────────────────────────────────────────────────────────────


def _framed(text: str) -> str:
    """Returns SQL that puts the length before a text, which separates texts in sequence."""
    return f"coalesce(length({text}) || ':' || ({text}), '-')"


def _canonical(source: PostgresColumn, compared: Compared, value: str) -> str:
    match compared.form:
        case Form.DIGEST:
            return f"encode(sha256(convert_to({_written(source, value)}, 'UTF8')), 'hex')"
        case Form.NUMBER:
            return f"trim_scale({value})::text"
        case Form.FLOATING:  # a NaN that was computed may have a sign, which no connector sends
            bits = f"encode(float8send({value}::float8), 'hex')"
            return f"CASE WHEN {value} = 'NaN' THEN '{_NAN}' ELSE {bits} END"
        case Form.DECIMAL:
            return _scaled(_number(source, value), compared)
        case Form.BYTES:
            is_uuid = source.type_name == "uuid"
            return f"replace({value}::text, '-', '')" if is_uuid else f"encode({value}, 'hex')"
        case Form.INTEGER:
            return f"{_number(source, value)}::text"
        case Form.BOOLEAN:
            is_bit = source.type_name == "bit"
            return f"({value} = B'1')::text" if is_bit else f"{value}::text"
        case Form.DAYS:
            days = f"({value} - DATE '1970-01-01')::text"
            return f"CASE WHEN isfinite({value}) THEN {days} ELSE {value}::text END"
        case Form.MICROS | Form.INSTANT:  # zero dates are MySQL's
            return _micros(value)
        case Form.TEXT:
            return _written(source, value)


def _lake_text(source: PostgresColumn, compared: Compared, value: str) -> str:
    match compared.form:
        case Form.NUMBER if source.modifier >= 0:  # with the zeros of its scale, as it is sent
            return f"{value}::text"
        case Form.FLOATING:
            return f"{value}::text"
        case _:
            return _canonical(source, compared, value)


def _written(source: PostgresColumn, value: str) -> str:
    """Returns SQL for the text of the type's output function."""
    if source.type_name in _CAST_OTHERWISE:
        return f"CASE WHEN {value} IS NOT NULL THEN concat({value}) END"
    return f"{value}::text"


def _number(source: PostgresColumn, value: str) -> str:
    match source.type_name:
        case "time":
            return f"(extract(epoch FROM {value}) * 1000000)::bigint"
        case "money":
            return f"{value}::numeric"
        case "bit":
            padded = f"lpad({value}::text, 64, '0')"
            high, low = (f"substr({padded}, {at}, 32)::bit(32)" for at in (1, 33))
            return f"(lpad({high}::text, 64, '0')::bit(64)::bigint * 4294967296::numeric" \
                   f" + lpad({low}::text, 64, '0')::bit(64)::bigint)"  # fmt: skip
        case "oid":
            return f"{value}::bigint"
        case _:
            return value


def _scaled(number: str, compared: Compared) -> str:
    """Rounds to the lake's scale, if that does not change the value."""
    of = compared.column.type
    of = of.element if isinstance(of, ListOf) else of
    scale = of.scale if isinstance(of, Decimal) else 0
    number = f"({number})::numeric"
    rounded = f"round({number}, {scale})"
    return f"(CASE WHEN {number} = {rounded} THEN {rounded} ELSE {number} END)::text"


def _micros(value: str) -> str:
    seconds = f"extract(epoch FROM date_trunc('second', {value}))::bigint * 1000000"
    micros = f"extract(microseconds FROM {value})::bigint %% 1000000"
    return f"CASE WHEN isfinite({value}) THEN ({seconds} + {micros})::text ELSE {value}::text END"
