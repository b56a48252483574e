"""The contract of a dialect on Spark.

Rejects records of Debezium's JSON that cannot be read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from cdc_assets.decode import read_json
from cdc_assets.formats.debezium.records.schemas import AroundValue, Schemas
from cdc_assets.formats.envelope import Envelope, no_names, no_text
from cdc_assets.formats.key_form import NUMBER_BYTES
from cdc_assets.formats.lacking import lacks
from cdc_assets.formats.order import Order
from cdc_assets.formats.record_json import PAYLOAD, compared_with, key_text, misfits, parsed, unread
from cdc_assets.formats.spec import ROW_OPS, ReadSpec

_NO_SCHEMA: Final = "it has no schema, and other columns than the table"


class DialectRecords(ABC):
    """The records of one dialect.

    Args:
        placeholder: the connector's ``unavailable.value.placeholder``.
        schemas: the reader of their schemas; None if they have none.
    """

    def __init__(self, placeholder: str, schemas: Schemas | None) -> None:
        self._placeholder = placeholder
        self._schemas = schemas

    @property
    def is_inline(self) -> bool:
        """Whether the records carry their schema."""
        return self._schemas is not None

    @abstractmethod
    def document(self, spec: ReadSpec) -> Expression:
        """Returns the parsed part of a record."""

    @abstractmethod
    def envelope(self, document: Expression, spec: ReadSpec) -> Envelope:
        """Returns the envelope of a document."""

    @abstractmethod
    def sources(self, raw: DataFrame, order: Order) -> DataFrame:
        """Returns ``partition offset timestamp source`` of records."""

    @abstractmethod
    def origin(self) -> Expression:
        """Returns `ORIGIN` of a raw record; NULL if the record is unreadable."""

    def writer(self) -> Expression | None:
        """Returns the number of the schema; None in a dialect without schemas."""
        return None if self._schemas is None else self._schemas.writer()

    def numbered(self, raw: DataFrame, writers: Mapping[int, str]) -> DataFrame:
        """Adds the number of the records' schema, and removes the text of a known schema."""
        return raw if self._schemas is None else self._schemas.numbered(raw, writers)

    def read(self, kind: StructType, spec: ReadSpec) -> Expression:
        """Parses a record, or its payload next to a schema; see `cdc_assets.decode.read_json`."""
        return parsed(kind, spec, wrapped=self._is_wrapped)

    def part(self, kind: StructType) -> Expression:
        """Returns some fields of a raw record; NULL if the record is unreadable."""
        return read_json(F.col("value"), kind, wrapped=self._is_wrapped).getField(PAYLOAD)

    @property
    def _is_wrapped(self) -> bool:
        return isinstance(self._schemas, AroundValue)

    def compared(self, fields: Iterable[StructField], spec: ReadSpec) -> StructType:
        """Returns the struct of a row, with its differences from the table's columns."""
        return compared_with(
            fields, spec, self.other_fields, spec.schema.key if self.is_inline else ()
        )

    def mismatch(self, row: Expression, op: Expression) -> Expression:
        """Returns why a record without a schema, among others with one, is none of the table.

        It is read by the table's own schema, which shows neither columns that the record lacks nor
        columns that the table lacks.

        Args:
            row: read as `compared`.
            op: of the record.
        """
        if not self.is_inline:
            return no_text()
        odd = misfits(row)
        is_other = odd.getField("absent").isNotNull() | odd.getField("unknown").isNotNull()
        return F.when(F.col("writer").isNull() & op.isin(*ROW_OPS) & is_other, _NO_SCHEMA)

    def differences(
        self, row: Expression, op: Expression, spec: ReadSpec
    ) -> tuple[Expression, Expression]:
        """Returns ``unknown`` and ``absent``: how a row's fields differ from the table's columns.

        With a schema in the record, only the schema is compared. Without one, the names of the
        fields are the only sign.

        Args:
            row: read as `compared`.
            op: of the record.
            spec: of the table.
        """
        is_row = op.isin(*ROW_OPS)
        if self.is_inline:
            return no_names(), F.when(is_row, lacks(spec))
        return misfits(row).getField("unknown"), F.when(is_row, misfits(row).getField("absent"))

    @property
    def other_fields(self) -> tuple[str, ...]:
        """Fields of a row that are no columns."""
        return ()

    def schema_alone(self) -> Expression:
        """Returns the part of a value that identifies its schema."""
        return F.col("value") if self._schemas is None else self._schemas.alone()


_NO_KEY_TEXT: Final = "its key is not UTF-8"


def rejection(document: Expression, spec: ReadSpec) -> Expression:
    """Returns the reason why key or value cannot be read; NULL if they can.

    Args:
        document: from `cdc_assets.formats.record_json.parsed`.
        spec: of the table.
    """
    if spec.layout.key_form in NUMBER_BYTES:
        return unread(document)
    key = key_text()
    is_no_text = key.isNotNull() & ~F.is_valid_utf8(key)
    return F.coalesce(F.when(is_no_text, _NO_KEY_TEXT), unread(document))
