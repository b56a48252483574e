"""Reads ``bare`` and ``inline`` on Spark: Debezium's own envelope."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from cdc_assets.formats.debezium import envelope as common
from cdc_assets.formats.debezium.records.keys import record_key
from cdc_assets.formats.debezium.records.records import DialectRecords, rejection
from cdc_assets.formats.debezium.records.schemas import Schemas
from cdc_assets.formats.envelope import Envelope, Image
from cdc_assets.formats.order import Order
from cdc_assets.formats.record_json import PAYLOAD, is_nothing, misfits
from cdc_assets.formats.spec import TOMBSTONE, ReadSpec, wire_struct

_NO_OP = "not a Debezium envelope: it has no op"


class EnvelopedRecords(DialectRecords):
    """``{"before": {…}, "after": {…}, "source": {…}, "op": …}``.

    Args:
        placeholder: the connector's ``unavailable.value.placeholder``.
        schemas: the reader of their schemas; None if they have none.
        row_type: the struct type of a row's columns in a record.
    """

    def __init__(
        self, placeholder: str, schemas: Schemas | None, row_type: common.RowType = wire_struct
    ) -> None:
        super().__init__(placeholder, schemas)
        self._row_type = row_type

    def document(self, spec: ReadSpec) -> Expression:
        """Parses the envelope."""
        return self.read(common.envelope_type(spec, self._compared(spec)), spec)

    def _compared(self, spec: ReadSpec) -> common.RowType:
        return lambda columns: self.compared(self._row_type(columns), spec)

    def envelope(self, document: Expression, spec: ReadSpec) -> Envelope:
        """Reads the envelope's fields."""
        return self.of_payload(document, document.getField(PAYLOAD), spec)

    def of_payload(self, document: Expression, payload: Expression, spec: ReadSpec) -> Envelope:
        """Returns the envelope of a record.

        Args:
            document: the parsed document.
            payload: the envelope in it, as from `common.envelope_type`.
            spec: of the table.
        """
        op = F.when(is_nothing(document), TOMBSTONE).otherwise(payload.getField("op"))
        after, before = payload.getField("after"), payload.getField("before")
        source = payload.getField("source")
        differs = self.differences(after, op, spec)
        return Envelope(
            op=op,
            is_read=common.is_read(payload),
            before=Image(before),
            after=Image(after),
            unchanged=misfits(before).getField("missing"),
            left_out=common.left_out(spec, self._placeholder),
            record_key=record_key(spec),
            source=source,
            ordinal=common.ordinal(payload, spec),
            reject=rejection(document, spec),
            no_op=_NO_OP,
            odd=F.coalesce(common.misnamed(op, source, spec), self.mismatch(after, op)),
            other_table=common.other_table(source, spec),
            unknown=differs[0],
            absent=differs[1],
        )

    def sources(self, raw: DataFrame, order: Order) -> DataFrame:
        """Parses ``source`` alone."""
        kind = StructType([StructField("source", common.source_type(order))])
        source = self.part(kind).getField("source")
        return raw.select("partition", "offset", "timestamp", source.alias("source"))

    def origin(self) -> Expression:
        """Parses ``op`` and ``source`` alone."""
        return self.part(common.ORIGIN)
