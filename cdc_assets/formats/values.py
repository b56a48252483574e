"""Decodes one column: from the event's value to the value that the lake stores.

Every decoder gives NULL for a value that it cannot represent exactly, never an approximation: a
value on the wire that is NULL after decoding is to be rejected.
"""

from __future__ import annotations

from typing import Final, assert_never

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from cdc_assets.errors import TerminalError
from cdc_assets.formats.instants import (
    FIRST_DAY,
    FIRST_MICRO,
    LAST_DAY,
    LAST_MICRO,
    is_representable,
)
from cdc_assets.formats.scalar_values import SCALAR_WIRES, from_scalar, json_text
from cdc_assets.formats.stand_in_values import STAND_IN_WIRES, from_stand_in
from cdc_assets.formats.text_values import TEXT_WIRES, from_text
from cdc_assets.formats.unsigned_values import from_unsigned
from cdc_assets.schema.types import (
    Column,
    Decimal,
    ListOf,
    Primitive,
    StructOf,
    Wire,
    WireDetail,
)

_WIRE_TYPES: Final[dict[Wire, DataType]] = {
    Wire.BOOLEAN: BooleanType(),
    Wire.INT: IntegerType(),
    Wire.LONG: LongType(),
    Wire.FLOAT: FloatType(),
    Wire.DOUBLE: DoubleType(),
    Wire.STRING: StringType(),
    Wire.BYTES_BASE64: BinaryType(),
    Wire.BYTES_HEX: StringType(),
    Wire.DECIMAL_BYTES: BinaryType(),
    Wire.DECIMAL_TEXT: StringType(),
    Wire.VARIABLE_SCALE_DECIMAL: StructType(
        [StructField("scale", IntegerType()), StructField("value", BinaryType())]
    ),
    Wire.POINT: StructType(
        [
            StructField("x", DoubleType()),
            StructField("y", DoubleType()),
            StructField("srid", IntegerType()),
        ]
    ),
    Wire.GEOMETRY: StructType(
        [StructField("wkb", BinaryType()), StructField("srid", IntegerType())]
    ),
    Wire.EPOCH_DAYS: IntegerType(),
    Wire.EPOCH_MILLIS: LongType(),
    Wire.EPOCH_MICROS: LongType(),
    Wire.EPOCH_NANOS: LongType(),
    Wire.NANOS_OF_DAY: LongType(),
    **dict.fromkeys(
        (Wire.ISO_ZONED, Wire.ISO_DATE, Wire.ISO_TIME, Wire.ISO_TIMESTAMP), StringType()
    ),
    Wire.MILLIS_OF_DAY: IntegerType(),
    Wire.UNSIGNED_LONG: LongType(),
    Wire.BITS: BinaryType(),
    **dict.fromkeys((*TEXT_WIRES, *SCALAR_WIRES), StringType()),
    Wire.JSON: VariantType(),
}
_BYTES_IN_LONG = 8
_NUMBER: Final = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?\z"
_WORDS: Final = {
    "NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity",
}  # fmt: skip
"""Debezium's words for a ``numeric`` that is no number, and PostgreSQL's."""

_MOST_SCALE = 1_000
"""The limit of PostgreSQL's ``numeric(p,s)``."""


def wire_type(column: Column) -> DataType:
    """Returns the type with which the column's JSON is read."""
    if column.wire is Wire.LIST:
        if column.element_wire is None:
            raise _unsupported(column)
        return ArrayType(_WIRE_TYPES[column.element_wire])
    return _WIRE_TYPES[column.wire]


def decoded(value: Expression, column: Column) -> Expression:
    """Returns the lake's value of a wire value; NULL where it cannot be represented exactly.

    Numbers of any size arrive as their digits, see `arrives_in_digits`.
    """
    if _is_masked(column):
        return _digest(value, column)
    if column.wire in TEXT_WIRES:
        return _supported(from_text(value, column), column)
    if column.wire in SCALAR_WIRES or column.wire is Wire.JSON:
        return _supported(from_scalar(value, column), column)
    if column.wire in {Wire.UNSIGNED_LONG, Wire.BITS}:
        return _supported(from_unsigned(value, column), column)
    if column.wire in STAND_IN_WIRES:
        return _supported(from_stand_in(value, column), column)
    if _is_special(column):
        return _special(value, column.detail or WireDetail())
    match column.type:
        case ListOf() as list_:
            inner = element_of(column, list_)
            if is_identity(inner):
                return value
            return F.transform(value, lambda item: decoded(item, inner))
        case StructOf():
            raise _unsupported(column)
        case Decimal():
            return _decimal(value, column, column.type)
        case Primitive():
            return _primitive(value, column, column.type)
        case _:
            assert_never(column.type)


def unfit(value: Expression, column: Column) -> Expression | None:
    """Returns whether a wire value exists but cannot be stored; None if that cannot happen."""
    if is_identity(column) or _is_masked(column) or column.wire is Wire.JSON:
        return None
    if isinstance(column.type, ListOf):
        inner = element_of(column, column.type)
        if is_identity(inner):
            return None
        return F.exists(value, lambda item: item.isNotNull() & decoded(item, inner).isNull())
    return value.isNotNull() & decoded(value, column).isNull()


def is_identity(column: Column) -> bool:
    """Returns whether the JSON reader already gives the value that is stored."""
    if isinstance(column.type, ListOf):
        return is_identity(element_of(column, column.type))
    same = {
        Primitive.BOOLEAN: (Wire.BOOLEAN,),
        Primitive.INT: (Wire.INT,),
        Primitive.LONG: (Wire.LONG,),
        Primitive.FLOAT: (Wire.FLOAT,),
        Primitive.DOUBLE: (Wire.DOUBLE,),
        Primitive.STRING: (Wire.STRING, Wire.SCALAR),
        Primitive.BINARY: (Wire.BYTES_BASE64,),
    }
    if not isinstance(column.type, Primitive) or _is_masked(column) or _is_special(column):
        return False
    return column.wire in same.get(column.type, ())


def arrives_in_digits(column: Column) -> bool:
    """Returns whether `decoded` takes text instead of bytes: see `cdc_assets.formats.digits`.

    The text is empty for bytes that give no number.
    """
    if _is_masked(column):
        return False
    if isinstance(column.type, ListOf):
        return arrives_in_digits(element_of(column, column.type))
    if column.wire is Wire.DECIMAL_BYTES:
        is_as_sent = isinstance(column.type, Decimal) and column.type.scale == column.wire_scale
        return not is_as_sent
    return column.wire is Wire.VARIABLE_SCALE_DECIMAL


def element_of(column: Column, type_: ListOf) -> Column:
    """Returns the elements of a list, as a column."""
    wire = column.element_wire or Wire.STRING
    return Column("element", type_.element, wire, detail=column.detail)


def _is_masked(column: Column) -> bool:
    return column.detail is not None and column.detail.mask


def _is_special(column: Column) -> bool:
    """Returns whether not any text is a value of the column."""
    told = column.detail or WireDetail()
    return column.wire is Wire.STRING and bool(told.labels or told.number)


def _special(value: Expression, detail: WireDetail) -> Expression:
    """Returns a text of the column's own list, or a number; NULL for any other."""
    if not detail.number:
        return _labelled(value, detail)
    found = F.when(value.rlike(_NUMBER), value)
    for word, text in _WORDS.items():
        found = found.when(value == word, text)
    return found


def _labelled(value: Expression, detail: WireDetail) -> Expression:
    """Returns a text that is a label, or labels of a set, of its record's own schema.

    The schema has the labels with commas between them, and an enumeration's may hold commas. MySQL
    has the empty text in place of an invalid value.
    """
    among = F.lit(f",{','.join(detail.labels)},")
    is_one = among.contains(F.concat(F.lit(","), value, F.lit(",")))
    if detail.many:
        others = F.array_except(F.split(value, ","), F.array(*map(F.lit, detail.labels)))
        is_one = F.size(others) == 0
    if not detail.is_closed:
        is_one = is_one | ~value.rlike(r"^[0-9]+\z")
    return F.when((value == "") | is_one, value)


def _digest(value: Expression, column: Column) -> Expression:
    """Returns SHA-256 of the bytes or text that a value arrives as: 64 hexadecimal digits."""
    arriving = wire_type(column)
    if column.wire is Wire.TEXT_LATIN1:
        value = F.coalesce(_supported(from_text(value, column), column), value)
    if isinstance(arriving, BinaryType):
        return F.sha2(value, 256)
    is_nested = isinstance(arriving, ArrayType | StructType | VariantType)
    return F.sha2(json_text(value) if is_nested else value.cast("string"), 256)


def _primitive(value: Expression, column: Column, type_: Primitive) -> Expression:
    match type_, column.wire:
        case _ if is_identity(column):
            return value
        case (Primitive.STRING, _) if arrives_in_digits(column):
            return _from_digits(value, column.wire_scale)
        case (Primitive.LONG, Wire.INT) | (Primitive.DOUBLE, Wire.FLOAT | Wire.INT):
            return value.cast(str(type_))
        case (Primitive.LONG, Wire.MILLIS_OF_DAY):
            return value.cast("bigint") * 1000
        case (Primitive.LONG, Wire.EPOCH_MICROS):
            return value
        case (Primitive.BINARY, Wire.BYTES_HEX):
            return F.when(F.length(value) % 2 == 0, F.unhex(value))
        case (Primitive.DATE, Wire.EPOCH_DAYS):
            return F.when(value.between(FIRST_DAY, LAST_DAY), F.date_from_unix_date(value))
        case (Primitive.TIMESTAMP, _):
            return _instant(value, column).cast("timestamp_ntz")
        case (Primitive.TIMESTAMPTZ, Wire.ISO_ZONED):
            return _iso_instant(value)
        case (Primitive.TIMESTAMPTZ, _):
            return _instant(value, column)
        case _:
            raise _unsupported(column)


def _instant(value: Expression, column: Column) -> Expression:
    """Returns a timestamp from a number; the session's time zone is UTC, so casts shift nothing."""
    match column.wire:
        case Wire.EPOCH_MILLIS:
            fits = value.between(FIRST_MICRO // 1000, LAST_MICRO // 1000)
            return F.when(fits, F.timestamp_millis(value))
        case Wire.EPOCH_MICROS:
            return F.when(value.between(FIRST_MICRO, LAST_MICRO), F.timestamp_micros(value))
        case Wire.EPOCH_NANOS:
            whole = F.pmod(value, F.lit(1000)) == 0
            micros = (value.cast("decimal(20,0)") / 1000).cast("bigint")  # exact, unlike a double
            return F.when(whole, F.timestamp_micros(micros))
        case _:
            raise _unsupported(column)


def _iso_instant(value: Expression) -> Expression:
    """Decodes ``yyyy-MM-ddTHH:mm:ss[.f]±…``, with only zeros beyond microseconds.

    Spark alone would also accept 'now' and bare years, and truncate to microseconds.
    """
    date, time = "[0-9]{4}-[0-9]{2}-[0-9]{2}", r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6}0*)?"
    shaped = value.rlike(rf"^{date}T{time}(Z|[+-][0-9]{{2}}:[0-9]{{2}})\z")
    instant = value.try_cast("timestamp")
    return F.when(shaped & is_representable(instant), instant)


def _decimal(value: Expression, column: Column, type_: Decimal) -> Expression:
    match column.wire:
        case _ if arrives_in_digits(column):
            return _from_text(value, type_)
        case Wire.DECIMAL_BYTES if type_.precision <= 18:
            return _from_long_bytes(value, type_)
        case Wire.DECIMAL_BYTES:
            return _from_bytes(value, type_)
        case Wire.DECIMAL_TEXT:
            return _from_text(value, type_)
        case _:
            raise _unsupported(column)


def _from_long_bytes(value: Expression, type_: Decimal) -> Expression:
    """Decodes up to 8 bytes of two's complement: sign-extended, read as hexadecimal, scaled."""
    digits = F.hex(value)
    sign = F.when(F.substring(digits, 1, 1) >= "8", "F").otherwise("0")
    number = F.conv(F.lpad(digits, 2 * _BYTES_IN_LONG, sign), 16, -10)
    scaled = F.concat(number, F.lit(f"E-{type_.scale}")).try_cast(str(type_))
    return F.when(F.length(value).between(1, _BYTES_IN_LONG), scaled)


def _from_bytes(value: Expression, type_: Decimal) -> Expression:
    """Decodes the bytes as Avro's decimal, behind a length; Avro's reader checks the precision."""
    schema = (
        f'{{"type":"bytes","logicalType":"decimal",'
        f'"precision":{type_.precision},"scale":{type_.scale}}}'
    )
    length = F.unhex(F.lpad(F.hex(F.length(value) * 2), 2, "0"))
    read = from_avro(F.concat(length, value), schema, {"mode": "PERMISSIVE"})
    return F.when(F.length(value).between(1, 16), read).try_cast(str(type_))


def _from_digits(value: Expression, scale: int) -> Expression:
    """Returns the text, without the zeros after the point that come from a scale below 0.

    PostgreSQL keeps a scale in 11 bits, whose sign Debezium ignores: -2 becomes 2,046.
    """
    text = F.nullif(value, F.lit(""))
    return F.regexp_replace(text, r"\.0+\z", "") if scale > _MOST_SCALE else text


def _from_text(value: Expression, type_: Decimal) -> Expression:
    """Decodes plain digits, with no more after the point than the scale; nothing is rounded."""
    fraction = rf"(\.[0-9]{{1,{type_.scale}}}0*)?" if type_.scale else r"(\.0*)?"
    return F.when(value.rlike(rf"^[+-]?[0-9]+{fraction}\z"), value.try_cast(str(type_)))


def _supported(value: Expression | None, column: Column) -> Expression:
    if value is None:
        raise _unsupported(column)
    return value


def _unsupported(column: Column) -> TerminalError:
    what = f"column {column.name!r}: no exact decoding from {column.wire} to {column.type}"
    return TerminalError(what, remedy="give the column's type in the configuration, or exclude it")
