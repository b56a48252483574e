"""Reads the record's own key on Spark.

Nothing here raises on any bytes; a key in another form than the table's is NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from cdc_assets.decode import ALONE, read_key
from cdc_assets.formats.debezium.envelope import RowType
from cdc_assets.formats.envelope import Image, image_of
from cdc_assets.formats.key_form import NUMBER_BYTES, KeyForm
from cdc_assets.formats.record_json import key_text
from cdc_assets.formats.spec import ReadSpec, wire_struct
from cdc_assets.formats.values import wire_type
from cdc_assets.schema.types import Column, Wire

_WHOLE: Final = r"^(?:0|-?[1-9][0-9]{0,18})\z"


def record_key(spec: ReadSpec, row: RowType = wire_struct) -> Image:
    """Returns the Kafka key, with or without a schema around it."""
    match spec.layout.key_form:
        case KeyForm.JSON if len(spec.target.key) != 1 or row is not wire_struct:
            return Image(read_key(F.col("key"), row(spec.key_columns)))
        case KeyForm.JSON:
            return _image(spec, _json)
        case KeyForm.TEXT:
            return _image(spec, _text)
        case KeyForm.LONG | KeyForm.INTEGER as form:
            return _image(spec, lambda column: _number(column, form))


def _image(spec: ReadSpec, value: Callable[[Column], Expression]) -> Image:
    return image_of(F.col("key").isNotNull(), spec.key_columns, value)


def _json(column: Column) -> Expression:
    """Returns a field of an object, or the scalar that the key is.

    Each column is asked by itself: a renamed one may arrive under either name, or under none.
    """
    alone = {ALONE: "text" if column.wire is Wire.STRING else "any"}
    kind = StructType([StructField(column.name, wire_type(column), metadata=alone)])
    return read_key(F.col("key"), kind).getField(column.name)


def _text(column: Column) -> Expression:
    match column.wire:
        case Wire.STRING:
            return F.when(F.is_valid_utf8(key_text()), key_text())
        case Wire.INT | Wire.LONG:
            kind = wire_type(column)
            return F.when(key_text().rlike(_WHOLE), key_text().try_cast(kind))
        case _:
            return F.lit(None).cast(wire_type(column))


def _number(column: Column, form: KeyForm) -> Expression:
    """Decodes big-endian two's complement."""
    if column.wire not in (Wire.INT, Wire.LONG):
        return F.lit(None).cast(wire_type(column))
    digits = F.hex("key")
    sign = F.when(F.substring(digits, 1, 1) >= "8", "F").otherwise("0")
    number = F.conv(F.lpad(digits, 16, sign), 16, -10).try_cast(wire_type(column))
    return F.when(F.octet_length("key") == NUMBER_BYTES[form], number)
