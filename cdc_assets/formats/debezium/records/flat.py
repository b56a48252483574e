"""Reads ``flat`` on Spark: a row, and the fields that were added to it."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from cdc_assets.decode import read_key
from cdc_assets.formats.debezium import envelope as common
from cdc_assets.formats.debezium.added_fields import DELETED, NEEDED, AddedFields
from cdc_assets.formats.debezium.dialects.flat import DOCUMENT_ID, is_document
from cdc_assets.formats.debezium.named import FIELDS
from cdc_assets.formats.debezium.records.keys import record_key
from cdc_assets.formats.debezium.records.records import DialectRecords, rejection
from cdc_assets.formats.debezium.records.schemas import Schemas
from cdc_assets.formats.envelope import Envelope, Image, no_names, no_text
from cdc_assets.formats.order import Order
from cdc_assets.formats.record_json import PAYLOAD, is_nothing
from cdc_assets.formats.spec import TOMBSTONE, ReadSpec, wire_struct
from cdc_assets.formats.values import wire_type

_ALWAYS: Final = frozenset({"ts_ms", "ts_us", "snapshot", *FIELDS})
_NO_OP: Final = "not a row, or one of which __deleted says neither true nor false"


class FlatRecords(DialectRecords):
    """``{"id": 1, …, "__deleted": "false", "__op": "c", "__source_lsn": 7, …}``.

    Args:
        added: names of the fields that are no columns.
    """

    def __init__(self, placeholder: str, schemas: Schemas | None, added: AddedFields) -> None:
        super().__init__(placeholder, schemas)
        self._added = added

    def document(self, spec: ReadSpec) -> Expression:
        """Parses the row."""
        return self.read(self.compared(self._all(spec), spec), spec)

    def _all(self, spec: ReadSpec) -> StructType:
        return StructType([*wire_struct(spec.schema.columns), *self._fields(spec)])

    def envelope(self, document: Expression, spec: ReadSpec) -> Envelope:
        """Reads the added fields; the row is the row after the change, or the deleted row."""
        row = document.getField(PAYLOAD)
        op = self._op(document, spec)
        is_read = (op == "r") | (F.coalesce(self._of_source(row, "snapshot", spec), F.lit("false"))
                                 != "false")  # fmt: skip
        source = self._source(row, is_read, spec)
        differs = self.differences(row, op, spec)
        return Envelope(
            op=op,
            is_read=is_read,
            before=Image(F.when(op == "d", row)),
            after=Image(F.when(op != "d", row)),
            unchanged=no_names(),
            left_out=common.left_out(spec, self._placeholder),
            record_key=_record_key(spec),
            source=source,
            ordinal=F.lit(None).cast("bigint"),
            reject=rejection(document, spec),
            no_op=_NO_OP,
            odd=F.coalesce(common.misnamed(op, source, spec), self.mismatch(row, op)),
            other_table=common.other_table(source, spec),
            unknown=differs[0],
            absent=differs[1],
            is_made=True,
        )

    def sources(self, raw: DataFrame, order: Order) -> DataFrame:
        """Reads the added fields alone."""
        source = self._part(common.source_type(order), ()).getField("source")
        return raw.select("partition", "offset", "timestamp", source.alias("source"))

    def origin(self) -> Expression:
        """Reads the added fields alone."""
        found = self._part(common.NAMES, (self._added.op, DELETED))
        op, deleted = found.getField(self._added.op), found.getField(DELETED)
        return F.struct(
            F.coalesce(op, F.when(deleted == "true", "d")).alias("op"), found.getField("source")
        )

    def _part(self, fields: StructType, others: tuple[str, ...]) -> Expression:
        """Returns a struct of added fields: a struct ``source``, and these other fields."""
        names = {each.name: self._added.of_source(each.name) for each in fields}
        added = [StructField(n, each.dataType) for each in fields for n in names[each.name]]
        texts = [StructField(name, StringType()) for name in others]
        row = self.part(StructType([*added, *texts]))
        found = {
            name: F.coalesce(*(row.getField(each) for each in mine)) for name, mine in names.items()
        }
        source = F.struct(*(value.alias(name) for name, value in found.items()))
        return F.struct(source.alias("source"), *(row.getField(n).alias(n) for n in others))

    @property
    def other_fields(self) -> tuple[str, ...]:
        """The added fields."""
        return tuple(sorted(self._added.names))

    # ── added fields ─────────────────────────────────────────────────────────────────────

    def _fields(self, spec: ReadSpec) -> list[StructField]:
        """Returns the added fields to read; a column of the same name takes precedence."""
        taken = set(spec.schema.names)
        wanted = [StructField(name, StringType()) for name in (self._added.op, DELETED)]
        for each in common.source_type(spec.order, spec):
            wanted += [StructField(n, each.dataType) for n in self._added.of_source(each.name)]
        return [each for each in wanted if each.name not in taken]

    def _field(self, row: Expression, name: str, spec: ReadSpec) -> Expression:
        is_read = any(each.name == name for each in self._fields(spec))
        return row.getField(name) if is_read else F.lit(None)

    def _of_source(self, row: Expression, field: str, spec: ReadSpec) -> Expression:
        return F.coalesce(*(self._field(row, n, spec) for n in self._added.of_source(field)))

    def _op(self, document: Expression, spec: ReadSpec) -> Expression:
        """Returns the operation; an upsert if none is given.

        Where the transformation turns records without a value into deletes, the converter has a
        schema for them, and writes ``null``. The transformation never passes a truncate.
        """
        row = document.getField(PAYLOAD)
        op, deleted = self._field(row, self._added.op, spec), self._field(row, DELETED, spec)
        return (
            F.when(is_nothing(document), TOMBSTONE)
            .when(row.isNull(), no_text())
            .when(op == "t", "no operation of a row")
            .when(op.isNotNull(), op)
            .when(deleted == "true", "d")
            .when(deleted.isNull() | (deleted == "false"), "u")
        )

    def _source(self, row: Expression, is_read: Expression, spec: ReadSpec) -> Expression:
        """Returns the source; without its position if a part of the position is missing."""
        names = [each.name for each in common.source_type(spec.order, spec)]
        found = {name: self._of_source(row, name, spec) for name in names}
        op = self._field(row, self._added.op, spec)
        is_complete = found["ts_ms"].isNotNull() & F.coalesce(op, found["snapshot"]).isNotNull()
        for name in NEEDED.get(spec.layout.scheme, ()):
            is_complete = is_complete & (is_read | found[name].isNotNull())
        types = {each.name: each.dataType for each in common.source_type(spec.order, spec)}
        return F.struct(
            *(
                (value if name in _ALWAYS else F.when(is_complete, value))
                .cast(types[name])
                .alias(name)
                for name, value in found.items()
            )
        )


def _record_key(spec: ReadSpec) -> Image:
    """Returns the key; for a document of MongoDB, its ``id``."""
    if spec.schema.key != (DOCUMENT_ID,) or not is_document(spec.schema.names):
        return record_key(spec)
    mine = StructType([StructField("id", wire_type(spec.schema.column(DOCUMENT_ID)))])
    id_ = read_key(F.col("key"), mine).getField("id")
    return Image(F.struct(id_.alias(DOCUMENT_ID)))
