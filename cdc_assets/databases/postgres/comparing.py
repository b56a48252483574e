"""Builds SQL that writes PostgreSQL's values as canonical text (`cdc_assets.schema.comparing`).

A pair of a source's and a lake's type that is not listed here is not compared, and reported.
"""

from __future__ import annotations

from typing import Final

from cdc_assets.databases.postgres.columns import ENUM, PostgresColumn
from cdc_assets.schema.comparing import Compared, Form
from cdc_assets.schema.types import Column, Decimal, ListOf, Primitive, StructOf, Wire

_INTEGERS: Final = frozenset({"int2", "int4", "int8", "oid"})
_TEXTS: Final = frozenset({
    "text", "varchar", "char", "name", "citext", "json", "jsonb", "xml", "uuid", "inet", "cidr",
    "macaddr", "macaddr8", "ltree", "tsvector", "int4range", "int8range", "numrange", "tsrange",
    "daterange",
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

_ORDERED_TEXTS: Final = frozenset({"text", "varchar", "uuid", "citext", "name"})
_FOUND_TEXTS: Final = frozenset({"text", "varchar", "bpchar"})
_WIRES_OF_DIGESTS: Final = {Wire.STRING: _TEXTS, Wire.INT: _INTEGERS, Wire.LONG: _INTEGERS}
_LONG_BITS: Final = 64


def quote(name: str) -> str:
    """Quotes an identifier, for a statement that has parameters."""
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'


def form_of(source: PostgresColumn, lake: Column) -> Form | str:
    """Returns the form in which a column is compared, or the reason why it is not."""
    if lake.detail is not None and lake.detail.mask:
        return _form_of_digest(source, lake)
    if source.is_array != isinstance(lake.type, ListOf):
        return _odd(source, lake)
    of = lake.type.element if isinstance(lake.type, ListOf) else lake.type
    if isinstance(of, StructOf):
        return _odd(source, lake)
    form = _form(source, of)
    return _odd(source, lake) if form is None else form


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
    if name == "bpchar" and source.kind == "b":
        return Form.PADDED
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


# ── as text ───────────────────────────────────────────────────────────────────────────────


def canonical(source: PostgresColumn, compared: Compared, value: str) -> str:
    """Returns SQL that writes a value, or each of a list's, as canonical text; NULL for NULL."""
    if not compared.is_list:
        return _canonical(source, compared, value)
    element = framed(_canonical(source, compared, "u.v"))
    listed = f"(SELECT string_agg({element}, '' ORDER BY u.o) FROM unnest({value})"  # noqa: S608
    return (
        f"CASE WHEN {value} IS NOT NULL THEN coalesce({listed} WITH ORDINALITY AS u(v, o)), '') END"
    )


def told(source: PostgresColumn, compared: Compared, value: str) -> str:
    """Returns SQL for a value's text from which the lake's can be made; for a list, JSON of it."""
    if not compared.is_list:
        return _told(source, compared, value)
    elements = f"ARRAY(SELECT {_told(source, compared, 'u.v')} FROM unnest({value})"  # noqa: S608
    listed = f"{elements} WITH ORDINALITY AS u(v, o) ORDER BY u.o)"
    return f"CASE WHEN {value} IS NOT NULL THEN array_to_json({listed})::text END"


def framed(text: str) -> str:
    """Returns SQL that puts the length before a text, which separates texts in sequence."""
    return f"coalesce(length({text}) || ':' || ({text}), '-')"


def _canonical(source: PostgresColumn, compared: Compared, value: str) -> str:
    match compared.form:
        case Form.DIGEST:
            return f"encode(sha256(convert_to({_written(source, value)}, 'UTF8')), 'hex')"
        case Form.PADDED:
            return f"rtrim({value}::text, ' ')"
        case Form.NUMBER:
            return f"trim_scale({value})::text"
        case Form.FLOATING:
            return f"encode(float8send({value}::float8), 'hex')"
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


def _told(source: PostgresColumn, compared: Compared, value: str) -> str:
    match compared.form:
        case Form.PADDED:
            return _output(value)
        case Form.NUMBER if source.modifier >= 0:  # with the zeros of its scale, as it is sent
            return f"{value}::text"
        case Form.FLOATING:
            return f"{value}::text"
        case _:
            return _canonical(source, compared, value)


def _written(source: PostgresColumn, value: str) -> str:
    """Uses the type's output function; for some types a cast writes another text."""
    return _output(value) if source.type_name in {"inet", "char"} else f"{value}::text"


def _output(value: str) -> str:
    return f"CASE WHEN {value} IS NOT NULL THEN concat({value}) END"


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


# ── keys ──────────────────────────────────────────────────────────────────────────────────


def may_be_key(source: PostgresColumn, compared: Compared) -> bool:
    """Returns whether rows can be found by the column, and both sides order it alike."""
    if compared.is_list or source.type_name in {"time", "bit", "money"}:
        return False
    match compared.form:
        case Form.TEXT:
            return source.type_name in _ORDERED_TEXTS or source.kind == ENUM
        case Form.BOOLEAN | Form.INTEGER | Form.DECIMAL | Form.PADDED:
            return True
        case Form.BYTES | Form.DAYS | Form.MICROS:
            return True
        case _:
            return False


def ordered(source: PostgresColumn, value: str) -> str:
    """Returns a key's column in the form by which rows are ordered: text by its bytes."""
    match source.type_name:
        case "text" | "varchar":
            return f'{value} COLLATE "C"'
        case "bpchar":
            return f"rtrim({value}::text, ' ') COLLATE \"C\""
        case "oid":
            return f"{value}::bigint"
        case name if name in {"citext", "name"} or source.kind == ENUM:
            return f'{value}::text COLLATE "C"'
        case _:
            return value


def is_indexed(source: PostgresColumn) -> bool:
    """Returns whether an index on the column follows that order, whatever its collation is."""
    is_text = source.type_name in {"text", "varchar", "bpchar", "citext", "name", "oid"}
    return not is_text and source.kind != ENUM


def finds_keys(source: PostgresColumn) -> bool:
    """Returns whether an index on the column finds rows by `equal`."""
    return is_indexed(source) or source.type_name in _FOUND_TEXTS


def equal(source: PostgresColumn, form: Form, value: str, text: str) -> str:
    """Returns SQL by which an index finds the rows of a key's text; it may find others, too.

    Args:
        source: the column.
        form: of its values.
        value: SQL for it.
        text: likewise for the canonical text.
    """
    # By the column's own collation, which the index has. The same text is equal by any collation;
    # by one that is not deterministic others are, too.
    match source.type_name:
        case "text" | "varchar":
            return f"{value} = {text}::text"
        case "bpchar":
            return f"{value} = {text}::text::bpchar"
        case _:
            return f"{ordered(source, value)} = {of_text(source, form, text)}"


def of_text(source: PostgresColumn, form: Form, text: str) -> str:
    """Returns SQL that converts canonical text to the form of `ordered`."""
    match form:
        case Form.TEXT if source.type_name == "uuid":
            return f"{text}::text::uuid"
        case Form.TEXT | Form.PADDED:
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
                f"(timestamp{zone} '1970-01-01 00:00:00' + ({number} / 1000000) * interval '1 s'"
                f" + ({number} %% 1000000) * interval '1 microsecond')"
            )
        case _:
            msg = f"no key has the form {form}"
            raise ValueError(msg)
