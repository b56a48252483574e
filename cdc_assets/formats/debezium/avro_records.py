"""Reads Debezium's Avro on Spark: bytes to envelope, each record by the schema that it names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, StringType, StructType, VariantType

from cdc_assets.decode import NOT_UTF8, UTF8, called, read_avro
from cdc_assets.formats.debezium import envelope as common
from cdc_assets.formats.debezium.records.keys import record_key as json_key
from cdc_assets.formats.envelope import Envelope, Image, image_of, no_image, no_names
from cdc_assets.formats.flat import first_of
from cdc_assets.formats.lacking import lacks
from cdc_assets.formats.order import Order
from cdc_assets.formats.record_json import found_here
from cdc_assets.formats.spec import ROW_OPS, TOMBSTONE, ReadSpec
from cdc_assets.formats.values import wire_type
from cdc_assets.formats.wire_id import Framing
from cdc_assets.schema.types import Column, Wire

_LONGEST: Final = 2**31 - 1
_KEY_BITS: Final = 31
_CONTENT: Final = 1 << 62
_ID_TYPES: Final = ("bigint", "binary")
_NOT_OF_GLUE: Final = "it does not begin as Glue's serializer writes: is it Avro of that registry?"
_UNFRAMED: Final = "it does not begin with 0x00 and a schema id: is it Avro of a registry?"
_NO_OP: Final = "it cannot be read by the schema that it names, or has no op"
Schema = Mapping[str, Any]


# ── which schema ──────────────────────────────────────────────────────────────────────────


def writer(framing: str, *, has_key: bool) -> Expression:
    """Returns the ids of value and key in one number; NULL where there is neither.

    Args:
        framing: the way in which records refer to their schemas (`Framing`).
        has_key: whether keys may name a schema; else they are of another form.
    """
    value = _id("value", framing)
    key = _id("key", framing) if has_key else F.lit(None).cast(_ID_TYPES[framing == Framing.GLUE])
    if framing == Framing.GLUE:
        number = F.xxhash64(*(F.coalesce(each, F.lit(b"")) for each in (value, key)))
        has_id = value.isNotNull() | (F.col("value").isNull() & key.isNotNull())
        return F.when(has_id, number)
    none = F.lit(0).cast("bigint")
    number = F.shiftleft(value, _KEY_BITS) + F.coalesce(key, none)
    if framing == Framing.HEADERS:
        is_content = _header("value", "contentId").isNotNull()
        number = number + F.when(is_content, F.lit(_CONTENT)).otherwise(none)
    # NULL without an id of the value. Each id appears here once, so that none is computed twice.
    return F.coalesce(number, F.when(F.col("value").isNull(), key))


def shown_id(framing: str) -> Expression:
    """Returns the id of a value's schema where the writer's number does not hold it, else NULL."""
    return _id("value", framing) if framing == Framing.GLUE else F.lit(None).cast("binary")


def _id(side: str, framing: str) -> Expression:
    """Applies the rules of `cdc_assets.formats.wire_id`; NULL if there is no id below 2³¹.

    With Glue's framing the 16 bytes of a UUID.
    """
    if framing == Framing.GLUE:
        bytes_ = F.col(side)
        is_compressed = F.substring(bytes_, 2, 1).isin(F.lit(b"\0"), F.lit(b"\5"))
        starts = (F.substring(bytes_, 1, 1) == F.lit(b"\3")) & is_compressed
        return F.when(starts & (F.octet_length(bytes_) >= 18), F.substring(bytes_, 3, 16))
    before = called("schema_id", F.col(side))
    if framing != Framing.HEADERS:
        return before
    named = _in_header(side)
    number = F.conv(F.hex(named), 16, 10).try_cast("bigint")
    return F.when(named.isNotNull(), F.when(number.between(1, _LONGEST), number)).otherwise(before)


def _in_header(side: str) -> Expression:
    """Returns the id that a header names; NULL without one."""
    return F.coalesce(_header(side, "contentId"), _header(side, "globalId"))


def _header(side: str, name: str) -> Expression:
    """Returns the last header of this name; empty ones do not count."""
    wanted = f"apicurio.{side}.{name}"
    found = F.filter(
        "headers",
        lambda each: (each.getField("key") == wanted) & (F.octet_length(each["value"]) > 0),
    )
    return F.try_element_at(found, F.lit(-1)).getField("value")


def _is_bare(side: str, framing: str) -> Expression:
    """Returns whether a header names the schema, and no id comes before the data."""
    if framing != Framing.HEADERS:
        return F.lit(False)
    return _in_header(side).isNotNull()


# ── the shape of a schema ─────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Shape:
    """A record type, with the schemas of its fields; empty if the schema is no record."""

    fields: Mapping[str, Any]
    named: Mapping[str, Schema]

    @classmethod
    def of(cls, text: str | None) -> Shape:
        """Parses a schema's text."""
        schema = json.loads(text) if text else None
        named = {each["name"]: each for each in _named(schema)}
        return cls({}, named).inner(schema)

    def inner(self, schema: Any) -> Shape:
        """Returns the record that a schema is, refers to, or has in a union."""
        if isinstance(schema, list):
            records = (self.inner(each) for each in schema)
            return next((each for each in records if each.fields), Shape({}, self.named))
        found = self.named.get(schema) if isinstance(schema, str) else schema
        if not isinstance(found, Mapping) or found.get("type") != "record":
            return Shape({}, self.named)
        return Shape({each["name"]: each["type"] for each in found["fields"]}, self.named)

    def field(self, name: str) -> Shape:
        """Returns the record that a field holds."""
        return self.inner(self.fields.get(name))


def _named(schema: Any) -> Iterator[Schema]:
    """Yields the named types in a schema."""
    if isinstance(schema, list):
        for each in schema:
            yield from _named(each)
    elif isinstance(schema, Mapping):
        if "name" in schema:
            yield schema
        for each in schema.get("fields", ()):
            yield from _named(each["type"])
        for inner in ("items", "values", "type"):
            yield from _named(schema.get(inner))


# ── envelopes ─────────────────────────────────────────────────────────────────────────────


def document(spec: ReadSpec) -> Expression:
    """Decodes the value by its schema; NULL if it is unreadable, or has none."""
    text = _text(spec.writers, "value")
    if text is None:
        return F.lit(None).cast(StructType().add("op", StringType()))
    names = {
        "op": {},
        "source": _each(common.source_type(spec.order, spec).names),
        "before": _image(spec.before_columns),
        "after": _image(spec.schema.columns),
        **({"transaction": {"total_order": {}}} if spec.counts_rows else {}),
    }
    bare = _is_bare("value", spec.layout.dialect)
    return read_avro(text, found_here(F.col("value"), spec), fields=names, bare=bare)


def _image(columns: Sequence[Column]) -> dict[str, object]:
    structures = _structures(columns)
    looked = {UTF8: structures} if structures else {}
    return {**_each(column.name for column in columns), **looked}


def _structures(columns: Sequence[Column]) -> list[str]:
    """Returns the columns whose values become JSON, in which other texts would be replaced."""
    return [column.name for column in columns if column.wire is Wire.JSON]


def _each(names: Iterable[str]) -> dict[str, object]:
    return {name: {} for name in names}


def envelope(document: Expression, spec: ReadSpec, placeholder: str) -> Envelope:
    """Returns the envelope of a record."""
    shape = Shape.of(_text(spec.writers, "value"))
    source = _source(document, shape, common.source_type(spec.order, spec))
    op = _field(document, shape, "op", StringType())
    kind = F.when(F.col("value").isNull(), TOMBSTONE).otherwise(op)
    before = _row(document, shape, "before", spec.before_columns)
    after = _row(document, shape, "after", spec.schema.columns)
    key = _record_key(spec)
    unframed = _NOT_OF_GLUE if spec.layout.dialect == Framing.GLUE else _UNFRAMED
    snapshot = F.coalesce(source.getField("snapshot"), F.lit("false")) != "false"
    return Envelope(
        op=kind,
        is_read=(kind == "r") | snapshot,
        before=before.image,
        after=after.image,
        # The schema of ``before`` is that of the row: columns that were not logged are NULL in it.
        unchanged=no_names(),
        left_out=common.left_out(spec, placeholder),
        record_key=json_key(spec) if key is None else key.image,
        source=source,
        ordinal=_ordinal(document, shape, spec),
        reject=F.when(F.col("value").isNotNull() & F.col("writer").isNull(), unframed),
        no_op=_NO_OP,
        odd=F.coalesce(common.misnamed(kind, source, spec), *_broken(document, shape, spec)),
        other_table=common.other_table(source, spec),
        unknown=no_names(),
        absent=F.when(kind.isin(*ROW_OPS), lacks(spec)),
        checks_texts=True,
    )


def sources(
    raw: DataFrame,
    order: Order,
    writers: Mapping[int, str],
    framing: str,
    *,
    has_key: bool,
) -> DataFrame:
    """Returns ``partition offset timestamp source`` of the records of these schemas."""
    numbered = raw.withColumn("writer", writer(framing, has_key=has_key))
    order_type = common.source_type(order)
    texts = {number: json.loads(each)["value"] for number, each in writers.items()}
    found = {
        number: _source(_source_alone(text, order_type.names, framing), Shape.of(text), order_type)
        for number, text in texts.items()
        if text is not None
    }
    source = _by_writer(found, order_type)
    return numbered.select("partition", "offset", "timestamp", source.alias("source"))


def origin(texts: Mapping[int, str], framing: str) -> Expression:
    """Returns `ORIGIN` of raw records with the column ``writer``; NULL where it cannot be read.

    Args:
        texts: the schemas of values by that number.
        framing: the way in which records refer to their schemas (`Framing`).
    """

    def found(text: str) -> Expression:
        parsed, shape = _source_alone(text, common.NAMES.names, framing), Shape.of(text)
        op = _field(parsed, shape, "op", StringType())
        source = _source(parsed, shape, common.NAMES)
        return F.when(parsed.isNotNull(), F.struct(op.alias("op"), source.alias("source")))

    return _by_writer({number: found(text) for number, text in texts.items()}, common.ORIGIN)


def _by_writer(values: Mapping[int, Expression], kind: StructType) -> Expression:
    """Returns the value for a record's schema; NULL for records of other schemas."""
    none = F.lit(None).cast(kind)
    found = ((F.col("writer") == number, value) for number, value in values.items())
    return first_of([(F.lit(False), none), *found])


def _source_alone(text: str, names: Iterable[str], framing: str) -> Expression:
    """Reads ``op`` and these fields of ``source``."""
    fields = {"op": {}, "source": _each(names)}
    bare = _is_bare("value", framing)
    return read_avro(text, F.col("value"), fields=fields, bare=bare)


def _text(writers: Mapping[int, str], side: str) -> str | None:
    """Returns the schema of the one writer; None for records without."""
    texts = [json.loads(text)[side] for text in writers.values()]
    return texts[0] if texts else None


@dataclass(frozen=True, slots=True)
class _Fields:
    """The columns of a row, or of a key, in a record.

    Attributes:
        record: that has them as fields; None if there is none.
        shape: of it.
        columns: that are read.
    """

    record: Expression | None
    shape: Shape
    columns: Sequence[Column]

    @property
    def image(self) -> Image:
        """All of them."""
        if self.record is None:
            return no_image()
        return image_of(self.record.isNotNull(), self.columns, self.value)

    def value(self, column: Column) -> Expression:
        """One of them, as it arrives."""
        if self.record is None:
            return F.lit(None).cast(wire_type(column))
        return _field(self.record, self.shape, column.name, wire_type(column))


def _row(document: Expression, shape: Shape, name: str, columns: Sequence[Column]) -> _Fields:
    inner = shape.field(name)
    return _Fields(document.getField(name) if inner.fields else None, inner, columns)


def _field(record: Expression, shape: Shape, name: str, kind: DataType) -> Expression:
    """Returns a field in the wanted type; NULL if its record has no field of this name."""
    if name not in shape.fields:
        return F.lit(None).cast(kind)
    value = record.getField(name)
    match kind:
        case VariantType():
            return F.to_variant_object(value)
        case StructType():
            return _struct(value, shape.field(name), kind)
        case _:
            return value.cast(kind)


def _struct(value: Expression, shape: Shape, kind: StructType) -> Expression:
    """Returns the wanted fields by their names: a record may have more, and in another order."""
    fields = (_field(value, shape, each.name, each.dataType).alias(each.name) for each in kind)
    return F.when(value.isNotNull(), F.struct(*fields))


def _source(document: Expression, shape: Shape, wanted: StructType) -> Expression:
    inner = shape.field("source")
    if not inner.fields:
        return F.lit(None).cast(wanted)
    source = document.getField("source")
    return F.struct(
        *(_field(source, inner, each.name, each.dataType).alias(each.name) for each in wanted)
    )


def _ordinal(document: Expression, shape: Shape, spec: ReadSpec) -> Expression:
    inner = shape.field("transaction")
    if not spec.counts_rows or not inner.fields:
        return F.lit(None).cast("bigint")
    return _field(document.getField("transaction"), inner, "total_order", LongType())


def _record_key(spec: ReadSpec) -> _Fields | None:
    """Reads Avro; None if the key's bytes name no schema: then they are JSON."""
    text = _text(spec.writers, "key")
    if text is None:
        return None
    fields = _each(column.name for column in spec.key_columns)
    bare = _is_bare("key", spec.layout.dialect)
    key = read_avro(text, F.col("key"), fields=fields, bare=bare)
    return _Fields(key, Shape.of(text), spec.key_columns)


def _broken(document: Expression, shape: Shape, spec: ReadSpec) -> Iterator[Expression]:
    """Yields rejections of structures with a text that is not UTF-8, before they become JSON."""
    for image, columns in (("after", spec.schema.columns), ("before", spec.before_columns)):
        if shape.field(image).fields and _structures(columns):
            name = document.getField(image).getField(NOT_UTF8)
            reason = F.concat(F.lit("column '"), name, F.lit("': it is not UTF-8"))
            yield F.when(name.isNotNull(), reason)
