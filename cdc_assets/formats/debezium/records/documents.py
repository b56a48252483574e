"""Reads ``mongodb`` on Spark: documents as text, identified by the record's key."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from cdc_assets.decode import read_key
from cdc_assets.formats.debezium import envelope as common
from cdc_assets.formats.debezium.dialects.documents import DOCUMENT, ID
from cdc_assets.formats.debezium.records.enveloped import EnvelopedRecords
from cdc_assets.formats.debezium.records.rejection import rejection
from cdc_assets.formats.envelope import Envelope, Image, no_names, nothing_left_out
from cdc_assets.formats.record_json import PAYLOAD, is_nothing
from cdc_assets.formats.spec import TOMBSTONE, ReadSpec

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
