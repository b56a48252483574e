"""Chooses the reader of a dialect.

Reads ``cloudevents`` on Spark: assembles attributes and data into an envelope.

Reads ``mongodb`` on Spark: documents as text, identified by the record's key.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from cdc_assets.decode import compared, read_key
from cdc_assets.formats.debezium import envelope as common
from cdc_assets.formats.debezium.added_fields import AddedFields
from cdc_assets.formats.debezium.dialects import CloudEvents, Documents, Enveloped, Flat
from cdc_assets.formats.debezium.dialects.cloudevents import attribute
from cdc_assets.formats.debezium.dialects.documents import DOCUMENT, ID
from cdc_assets.formats.debezium.records.enveloped import EnvelopedRecords
from cdc_assets.formats.debezium.records.flat import FlatRecords
from cdc_assets.formats.debezium.records.records import DialectRecords, rejection
from cdc_assets.formats.debezium.records.schemas import AroundValue, InData
from cdc_assets.formats.envelope import Envelope, Image, no_names, nothing_left_out
from cdc_assets.formats.order import Order
from cdc_assets.formats.record_json import PAYLOAD, is_nothing
from cdc_assets.formats.spec import TOMBSTONE, ReadSpec, wire_struct


def records_of(dialect: str, placeholder: str, added: AddedFields) -> DialectRecords:
    """Returns the reader for records of a table's dialect.

    Args:
        dialect: its name.
        placeholder: the connector's ``unavailable.value.placeholder``.
        added: the names of fields that flattening adds.

    Raises:
        ValueError: if no dialect has the name.
    """
    match dialect:
        case Enveloped.bare:
            return EnvelopedRecords(placeholder, None)
        case Enveloped.inline:
            return EnvelopedRecords(placeholder, AroundValue())
        case Flat.bare:
            return FlatRecords(placeholder, None, added)
        case Flat.inline:
            return FlatRecords(placeholder, AroundValue(), added)
        case CloudEvents.bare:
            return CloudEventRecords(placeholder, None)
        case CloudEvents.inline:
            return CloudEventRecords(placeholder, InData())
        case Documents.bare:
            return DocumentRecords(placeholder, None)
        case Documents.inline:
            return DocumentRecords(placeholder, AroundValue())
        case _:
            msg = f"debezium-json has no dialect {dialect}"
            raise ValueError(msg)


_OP: Final = attribute("op")
_ORDER: Final = attribute("txtotal_order")
_WHOLE: Final = r"^-?[0-9]{1,19}\z"


class CloudEventRecords(EnvelopedRecords):
    """``{…, "iodebeziumop": …, …, "data": {"before": {…}, "after": {…}}}``."""

    def document(self, spec: ReadSpec) -> Expression:
        """Parses all attributes as text: numbers of 64 bits arrive as text."""
        images = StructType(
            [
                StructField("before", compared(wire_struct(spec.before_columns))),
                StructField("after", compared(wire_struct(spec.schema.columns))),
            ]
        )
        data = StructType([StructField(PAYLOAD, images)]) if self.is_inline else images
        names = [_OP, _ORDER, *map(attribute, common.source_type(spec.order, spec).names)]
        attributes = [StructField(name, StringType()) for name in names]
        kind = StructType([*attributes, StructField("data", data)])
        return self.read(kind, spec)

    def envelope(self, document: Expression, spec: ReadSpec) -> Envelope:
        """Returns the envelope of the data, with values from the attributes."""
        event = document.getField(PAYLOAD)
        data = event.getField("data")
        images = data.getField(PAYLOAD) if self.is_inline else data
        fields = [
            images.getField("before").alias("before"),
            images.getField("after").alias("after"),
            _source(event, common.source_type(spec.order, spec)).alias("source"),
            event.getField(_OP).alias("op"),
        ]
        if spec.counts_rows:
            order = _as(LongType(), event.getField(_ORDER)).alias("total_order")
            fields.append(F.struct(order).alias("transaction"))
        return self.of_payload(document, F.struct(*fields), spec)

    def sources(self, raw: DataFrame, order: Order) -> DataFrame:
        """Reads the attributes alone."""
        names = map(attribute, common.source_type(order).names)
        kind = StructType([StructField(name, StringType()) for name in names])
        source = _source(self.part(kind), common.source_type(order))
        return raw.select("partition", "offset", "timestamp", source.alias("source"))

    def origin(self) -> Expression:
        """Reads the attributes alone."""
        names = (_OP, *map(attribute, common.NAMES.names))
        kind = StructType([StructField(name, StringType()) for name in names])
        found = self.part(kind)
        return F.struct(
            found.getField(_OP).alias("op"), _source(found, common.NAMES).alias("source")
        )


def _source(event: Expression, fields: StructType) -> Expression:
    return F.struct(
        *(
            _as(each.dataType, event.getField(attribute(each.name))).alias(each.name)
            for each in fields
        )
    )


def _as(kind: DataType, text: Expression) -> Expression:
    if not isinstance(kind, LongType):
        return text
    return F.when(text.rlike(_WHOLE), text.try_cast("bigint"))


_NO_OP: Final = "not an envelope of MongoDB's connector: it has no op"
_NO_DOCUMENT: Final = (
    "an update without the document after it: set the connector's capture.mode to "
    "change_streams_update_full or change_streams_update_full_with_pre_image"
)
_TEXTS: Final = ("before", "after", "op")


class DocumentRecords(EnvelopedRecords):
    """``{"before": "{…}", "after": "{…}", "source": {…}, "op": …}``."""

    def document(self, spec: ReadSpec) -> Expression:
        """Parses the envelope."""
        texts = [StructField(name, StringType()) for name in _TEXTS]
        kind = StructType([*texts, StructField("source", common.source_type(spec.order, spec))])
        return self.read(kind, spec)

    def envelope(self, document: Expression, spec: ReadSpec) -> Envelope:
        """Returns the envelope of documents whose ``_id`` is the record's key."""
        payload = document.getField(PAYLOAD)
        source = payload.getField("source")
        op = F.when(is_nothing(document), TOMBSTONE).otherwise(payload.getField("op"))
        kind = StructType([StructField("id", StringType())])
        id_ = read_key(F.col("key"), kind).getField("id")
        is_partial = (op == "u") & payload.getField("after").isNull()
        return Envelope(
            op=op,
            is_read=common.is_read(payload),
            before=_image(payload.getField("before"), id_),
            after=_image(payload.getField("after"), id_),
            unchanged=no_names(),
            left_out=nothing_left_out(),
            record_key=Image(F.struct(id_.alias(ID))),
            source=source,
            ordinal=F.lit(None).cast("bigint"),
            reject=rejection(document, spec),
            no_op=_NO_OP,
            odd=F.coalesce(common.misnamed(op, source, spec), F.when(is_partial, _NO_DOCUMENT)),
            other_table=common.other_table(source, spec),
            unknown=no_names(),
            absent=no_names(),
        )


def _image(text: Expression, id_: Expression) -> Image:
    return Image(F.when(text.isNotNull(), F.struct(id_.alias(ID), text.alias(DOCUMENT))))
