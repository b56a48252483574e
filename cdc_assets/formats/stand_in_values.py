"""Decoding of what the lake has no type of its own for: see `cdc_assets.schema.stand_ins`.

As in `cdc_assets.formats.values`, NULL stands for every value that cannot be represented exactly.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.schema.types import Column, Decimal, Primitive, StructOf, Wire, WireDetail

STAND_IN_WIRES: Final = frozenset({
    Wire.VARIABLE_SCALE_DECIMAL, Wire.POINT, Wire.GEOMETRY,
    Wire.ISO_DATE, Wire.ISO_TIME, Wire.ISO_TIMESTAMP, Wire.NANOS_OF_DAY,
})  # fmt: skip
MOST_BYTES: Final = 1_024
"""Of a decimal without precision: some 2,460 digits. More take ever longer."""

MOST_SCALE: Final = 20_000
"""Digits after the point, or zeros before it: PostgreSQL has up to 16,383."""

_LONG: Final = """
conv(lpad(hex(r.value), 16, if(hex(r.value) >= '8', 'F', '0')), 16, -10)
"""
_MANY: Final = """
concat(
  if(hex(r.value) >= '8', '-', ''),
  coalesce(nullif(ltrim('0', array_join(reverse(transform(
    aggregate(
      transform(
        transform(
          array(if(hex(r.value) >= '8',
            translate(hex(r.value), '0123456789ABCDEF', 'FEDCBA9876543210'), hex(r.value))),
          bits -> lpad(bits, cast(ceil(length(bits) / 6) as int) * 6, '0')
        ),
        bits -> transform(
          sequence(1, length(bits), 6),
          place -> cast(conv(substring(bits, place, 6), 16, 10) as bigint)
            + if(hex(r.value) >= '8' and place = length(bits) - 5, 1, 0)
        )
      )[0],
      array(0L),
      (limbs, chunk) -> aggregate(
        limbs,
        named_struct('carry', chunk, 'limbs', cast(array() as array<bigint>)),
        (done, limb) -> named_struct(
          'carry', (limb * 16777216 + done.carry) div 1000000000,
          'limbs', array_append(done.limbs, (limb * 16777216 + done.carry) % 1000000000)
        ),
        done -> if(done.carry > 0, array_append(done.limbs, done.carry), done.limbs)
      )
    ),
    limb -> lpad(cast(limb as string), 9, '0')
  )), '')), ''), '0')
)
"""
"""By long multiplication: limbs of nine digits, the lowest first, of chunks of six hexadecimal
digits, with which they fit into 64 bits. A negative number is the complement of its bits, and one
more."""

_DIGITS: Final = f"""
r -> named_struct('scale', r.scale, 'digits', case
  when length(r.value) between 1 and 8 then {_LONG}
  when length(r.value) between 9 and {MOST_BYTES} then {_MANY}
end)
"""
_SIZE: Final = "ltrim('-', r.digits)"
_SIGN: Final = "if(startswith(r.digits, '-'), '-', '')"
_PADDED: Final = f"lpad({_SIZE}, greatest(length({_SIZE}), r.scale + 1), '0')"
_PLAIN: Final = f"""
r -> case
  when r.scale = 0 then r.digits
  when r.scale between 1 and {MOST_SCALE} then concat({_SIGN},
    left({_PADDED}, length({_PADDED}) - r.scale), '.', right({_PADDED}, r.scale))
  when r.scale between -{MOST_SCALE} and -1 then
    if(r.digits = '0', '0', concat(r.digits, repeat('0', -r.scale)))
end
"""
_DATE: Final = r"^(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}Z?$"
_TIME: Final = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6})0*)?"


def from_stand_in(value: Expression, column: Column) -> Expression | None:
    """The lake's value; None if nothing decodes this encoding to this type."""
    match column.wire, column.type:
        case Wire.VARIABLE_SCALE_DECIMAL, Primitive.STRING:
            return _variable(value)
        case Wire.VARIABLE_SCALE_DECIMAL, Decimal(_, scale):
            fraction = rf"(\.[0-9]{{1,{scale}}}0*)?" if scale else r"(\.0*)?"
            text = _variable(value)
            return F.when(text.rlike(rf"^-?[0-9]+{fraction}$"), text.try_cast(str(column.type)))
        case Wire.DECIMAL_BYTES, Primitive.STRING:
            scale = (column.detail or WireDetail()).scale
            return _plain(value, F.lit(scale))
        case (Wire.POINT, StructOf()) | (Wire.GEOMETRY, StructOf()):
            return _structure(value, column.type)
        case Wire.ISO_DATE, Primitive.DATE:
            return F.when(value.rlike(_DATE), F.substring(value, 1, 10).try_cast("date"))
        case Wire.NANOS_OF_DAY, Primitive.LONG:
            whole = F.pmod(value, F.lit(1000)) == 0
            return F.when(whole, F.call_function("div", value, F.lit(1000)))
        case Wire.ISO_TIME, Primitive.LONG:
            return _micros_of_day(value)
        case Wire.ISO_TIMESTAMP, Primitive.TIMESTAMP:
            whole = value.rlike(rf"^(?!0000)[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}T{_TIME}Z$")
            return F.when(whole, value.try_cast("timestamp")).cast("timestamp_ntz")
        case _:
            return None


def _variable(value: Expression) -> Expression:
    return _plain(value.getField("value"), value.getField("scale"))


def _plain(value: Expression, scale: Expression) -> Expression:
    """``-12.50`` of the bytes of -1250 and the scale 2; of a scale below 0 zeros follow.

    As SQL text: as a tree of calls it would be too deep, see `cdc_assets.formats.flat`.
    """
    given = F.array(F.struct(value.alias("value"), scale.alias("scale")))
    digits = F.call_function("transform", given, F.expr(_DIGITS))
    return F.get(F.call_function("transform", digits, F.expr(_PLAIN)), F.lit(0))


def _structure(value: Expression, type_: StructOf) -> Expression:
    """All but the reference system has to be there."""
    fields = [(name, value.getField(name)) for name, _ in type_.fields]
    struct = F.struct(*(field.alias(name) for name, field in fields))
    there = [field.isNotNull() for name, field in fields if name != "srid"]
    whole = there[0]
    for each in there[1:]:
        whole = whole & each
    return F.when(whole, struct)


def _micros_of_day(value: Expression) -> Expression:
    shape = rf"^{_TIME}Z?$"

    def part(number: int) -> Expression:
        return F.regexp_extract(value, shape, number)

    hours, minutes, seconds = (part(number).cast("bigint") for number in (1, 2, 3))
    fraction = F.rpad(part(4), 6, "0").cast("bigint")
    micros = (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + fraction
    return F.when(value.rlike(shape), micros)
