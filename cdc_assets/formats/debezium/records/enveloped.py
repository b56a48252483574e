"""Reads ``bare`` and ``inline`` on Spark: Debezium's own envelope."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from cdc_assets.formats.debezium import envelope as common
from cdc_assets.formats.debezium.records.keys import record_key
from cdc_assets.formats.debezium.records.records import Records
from cdc_assets.formats.debezium.records.rejection import rejection
from cdc_assets.formats.debezium.records.schemas import Schemas
from cdc_assets.formats.debezium.usual_layout import usual_layout
from cdc_assets.formats.envelope import Envelope, fields_of, if_any, no_names
from cdc_assets.formats.lacking import lacks, named_now, texts
from cdc_assets.formats.order import Order
from cdc_assets.formats.record_json import PAYLOAD, parsed, value_text, within_object
from cdc_assets.formats.spec import ROW_OPS, TOMBSTONE, ReadSpec, wire_struct

_NO_OP = "not a Debezium envelope: it has no op"


@dataclass(frozen=True, slots=True)
class Paths:
    """The paths of the images in a record's JSON."""

    before: str
    after: str


class EnvelopedRecords(Records):
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
        """Parses ``{"payload": envelope}``."""
        text = within_object(value_text()) if self._schemas is None else self._schemas.rest()
        return parsed(text, common.envelope_type(spec, self._row_type), spec)

    def envelope(self, document: Expression, spec: ReadSpec) -> Envelope:
        """Reads the envelope's fields."""
        before = "$.payload.before" if self.is_inline else "$.before"
        payload, paths = document.getField(PAYLOAD), Paths(before, "$.after")
        return self.of_payload(document, payload, paths, spec)

    def of_payload(
        self, document: Expression, payload: Expression, paths: Paths, spec: ReadSpec
    ) -> Envelope:
        """Returns the envelope of a record.

        Args:
            document: the parsed document.
            payload: the envelope in it, as from `common.envelope_type`.
            paths: of its images; ``after`` only of records without a schema.
            spec: of the table.
        """
        is_nothing = F.col("value").isNull() | self.is_nothing(document)
        op = F.when(is_nothing, TOMBSTONE).otherwise(payload.getField("op"))
        after, before = payload.getField("after"), payload.getField("before")
        source = payload.getField("source")
        logged = F.json_object_keys(F.get_json_object(value_text(), paths.before))
        unlike = self._unlike(after, op, paths, spec)
        return Envelope(
            op=op,
            is_read=common.is_read(payload),
            before=fields_of(before),
            after=fields_of(after),
            unchanged=lambda column: before.isNotNull() & ~F.array_contains(logged, column.name),
            left_out=lambda column: common.left_out(
                after.getField(column.name), column, spec, self._placeholder
            ),
            record_key=record_key(spec),
            source=source,
            ordinal=common.ordinal(payload, spec),
            reject=F.coalesce(
                rejection(document, op, spec, _NO_OP),
                common.misnamed(op, source, spec),
                self.unlike(paths.before.replace("before", "after"), op.isin(*ROW_OPS), spec),
            ),
            other_table=common.other_table(source, spec),
            unknown=unlike[0],
            absent=unlike[1],
        )

    def sources(self, raw: DataFrame, order: Order) -> DataFrame:
        """Parses ``source`` alone."""
        kind = StructType([StructField("source", common.source_type(order))])
        source = self._part(kind).getField("source")
        return raw.select("partition", "offset", "timestamp", source.alias("source"))

    def origin(self) -> Expression:
        """Parses ``op`` and ``source`` alone."""
        return self._part(common.ORIGIN)

    def _part(self, kind: StructType) -> Expression:
        if self._schemas is None:
            return F.from_json(value_text(), kind)
        found = F.from_json(self._schemas.rest(), StructType([StructField(PAYLOAD, kind)]))
        return found.getField(PAYLOAD)

    def _unlike(
        self, after: Expression, op: Expression, paths: Paths, spec: ReadSpec
    ) -> tuple[Expression, Expression]:
        """Returns ``unknown`` and ``absent``: how a row's fields differ from the table's columns.

        With a schema in the record, only the schema is compared. Without one, the field names are
        the only sign, and extracting them from each record would cost as much as parsing it. Nearly
        all records match `usual_layout`, which is cheap to test and admits neither an unknown name
        nor a missing one.
        """
        is_row = op.isin(*ROW_OPS)
        if self.is_inline:
            return no_names(), F.when(is_row, lacks(spec))
        must = (*spec.expected, *spec.schema.key)
        unusual = after.isNotNull() & ~value_text().rlike(self._usual(spec.schema.names, must))
        fields = F.json_object_keys(F.get_json_object(value_text(), paths.after))
        known = texts((*spec.schema.names, *spec.target.left_out))
        missing = F.array_except(texts(spec.expected), named_now(fields, spec))
        strange = if_any(F.array_except(fields, known))
        absent = F.when(unusual & is_row & (F.size(missing) > 0), missing)
        return F.when(unusual, strange), absent

    def _usual(self, names: tuple[str, ...], must: tuple[str, ...]) -> str:
        """Returns the pattern that nearly all records match."""
        return usual_layout(names, must)
