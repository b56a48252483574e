"""Reads ``cloudevents`` on Spark: assembles attributes and data into an envelope."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from cdc_assets.decode import compared
from cdc_assets.formats.debezium import envelope as common
from cdc_assets.formats.debezium.dialects.cloudevents import attribute
from cdc_assets.formats.debezium.records.enveloped import EnvelopedRecords
from cdc_assets.formats.envelope import Envelope
from cdc_assets.formats.order import Order
from cdc_assets.formats.record_json import PAYLOAD
from cdc_assets.formats.spec import ReadSpec, wire_struct

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
