"""Converts numbers that arrive as bytes of any length to digits: -1250 with scale 2 to ``-12.50``.

It does long multiplication, as SQL text: a tree of calls would be too deep, see
`cdc_assets.formats.flat`. Spark takes far longer to plan it than to run it, so it appears in a plan
once: in a column of its own, for all such columns of all images of a record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.formats.envelope import Envelope, Image
from cdc_assets.formats.record_json import found_here
from cdc_assets.formats.spec import ReadSpec
from cdc_assets.formats.values import arrives_in_digits, element_of
from cdc_assets.schema.types import Column, ListOf, Wire

Held = tuple[Expression, Column]
"""A value as it arrives, and its column."""

_Place = tuple[str, str]
"""An image and one of its columns."""

MOST_BYTES: Final = 1_024
"""Limit for a decimal without precision: some 2,460 digits. Longer ones take ever more time."""

MOST_SCALE: Final = 20_000
"""Digits after the point, or zeros before it: PostgreSQL has up to 16,383."""

_LONG: Final = """
conv(lpad(hex(r.value), 16, if(hex(r.value) >= '8', 'F', '0')), 16, -10)
"""
_MANY: Final = """
concat(
  if(hex(r.value) >= '8', '-', ''),
  regexp_replace(array_join(reverse(transform(
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
  )), ''), '^0+(?=.)', '')
)
"""
"""Long multiplication: limbs of nine digits, the lowest first, and chunks of six hexadecimal
digits, which together fit into 64 bits. A negative number is the complement of its bits, plus one.
"""

_DIGITS: Final = f"""
r -> if(r is null, null, named_struct('scale', r.scale, 'digits', case
  when length(r.value) between 1 and 8 then {_LONG}
  when length(r.value) between 9 and {MOST_BYTES} then {_MANY}
end))
"""
_SIZE: Final = "ltrim('-', r.digits)"
_SIGN: Final = "if(startswith(r.digits, '-'), '-', '')"
_PADDED: Final = f"lpad({_SIZE}, greatest(length({_SIZE}), r.scale + 1), '0')"
_PLAIN: Final = f"""
r -> if(r is null, null, coalesce(case
  when r.scale = 0 then r.digits
  when r.scale between 1 and {MOST_SCALE} then concat({_SIGN},
    left({_PADDED}, length({_PADDED}) - r.scale), '.', right({_PADDED}, r.scale))
  when r.scale between -{MOST_SCALE} and -1 then
    if(r.digits = '0', '0', concat(r.digits, repeat('0', -r.scale)))
end, ''))
"""
_ALL: Final = f"numbers -> transform(transform(numbers, {_DIGITS}), {_PLAIN})"


def with_digits(
    records: DataFrame, envelopes: Sequence[Envelope], specs: Sequence[ReadSpec]
) -> tuple[DataFrame, list[Envelope]]:
    """Gives such columns the values that `cdc_assets.formats.values.decoded` expects of them.

    Returns:
        The records with digits beside them, and envelopes whose images look there.
    """
    found: list[Expression] = []
    kept: list[Envelope] = []
    for i, (envelope, spec) in enumerate(zip(envelopes, specs, strict=True)):
        numbers = _numbers(envelope, spec)
        if not numbers:
            kept.append(envelope)
            continue
        name = f"digits{i}"
        found.append(found_here(digits([*numbers.values()]), spec).alias(name))
        texts = picked(F.col(name), [column for _, column in numbers.values()])
        kept.append(_with(envelope, dict(zip(numbers, texts, strict=True))))
    return (records.select("*", *found) if found else records), kept


def digits(numbers: Sequence[Held]) -> Expression:
    """Returns the digits of each value, for `picked`: empty text for bytes that give no number."""
    return F.call_function("transform", F.array(*(_group(*n) for n in numbers)), F.expr(_ALL))


def picked(found: Expression, columns: Sequence[Column]) -> list[Expression]:
    """Returns the digits that `digits` found for each of these columns."""
    groups = [F.get(found, F.lit(place)) for place in range(len(columns))]
    return [
        group if isinstance(column.type, ListOf) else F.get(group, F.lit(0))
        for group, column in zip(groups, columns, strict=True)
    ]


def _numbers(envelope: Envelope, spec: ReadSpec) -> dict[_Place, Held]:
    images = (
        ("after", envelope.after, spec.schema.columns if spec.has_rows else spec.key_columns),
        ("before", envelope.before, spec.before_columns),
        ("record_key", envelope.record_key, spec.key_columns),
    )
    return {
        (name, column.name): (image.value(column), column)
        for name, image, columns in images
        for column in columns
        if arrives_in_digits(column)
    }


def _with(envelope: Envelope, texts: Mapping[_Place, Expression]) -> Envelope:
    def looking(name: str, image: Image) -> Image:
        def value(column: Column) -> Expression:
            place = (name, column.name)
            return texts[place] if place in texts else image.value(column)

        return replace(image, value=value)

    return replace(
        envelope,
        after=looking("after", envelope.after),
        before=looking("before", envelope.before),
        record_key=looking("record_key", envelope.record_key),
    )


def _group(value: Expression, column: Column) -> Expression:
    """Returns an array of ``struct<scale, value>``: all elements of a list, else the one value."""
    if not isinstance(column.type, ListOf):
        return F.array(_number(value, column))
    element = element_of(column, column.type)
    if element.wire is Wire.VARIABLE_SCALE_DECIMAL:
        return value
    return F.transform(value, lambda item: _number(item, element))


def _number(value: Expression, column: Column) -> Expression:
    if column.wire is Wire.VARIABLE_SCALE_DECIMAL:
        return value
    scale = F.lit(column.wire_scale).alias("scale")
    return F.when(value.isNotNull(), F.struct(scale, value.alias("value")))
