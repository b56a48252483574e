"""The contract of a dialect on Spark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from cdc_assets.decode import read_json
from cdc_assets.formats.debezium.records.schemas import AroundValue, Schemas, unwrapped
from cdc_assets.formats.envelope import Envelope, if_any, no_names, no_text
from cdc_assets.formats.lacking import lacks, named_now, texts
from cdc_assets.formats.order import Order
from cdc_assets.formats.record_json import PAYLOAD, is_readable, parsed, unlike
from cdc_assets.formats.spec import ROW_OPS, ReadSpec

_NO_SCHEMA: Final = "it has no schema, and other columns than the table"


class Records(ABC):
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
        """Whether they carry their schema."""
        return self._schemas is not None

    @abstractmethod
    def document(self, spec: ReadSpec) -> Expression:
        """Returns the parsed part of a record."""

    @abstractmethod
    def envelope(self, document: Expression, spec: ReadSpec) -> Envelope:
        """Returns its envelope."""

    @abstractmethod
    def sources(self, raw: DataFrame, order: Order) -> DataFrame:
        """Returns ``partition offset timestamp source`` of records."""

    @abstractmethod
    def origin(self) -> Expression:
        """Returns `ORIGIN` of a raw record; NULL where it cannot be read."""

    def writer(self) -> Expression | None:
        """Returns the number of the schema; None in a dialect without schemas."""
        return None if self._schemas is None else self._schemas.writer()

    def numbered(self, raw: DataFrame, writers: Mapping[int, str]) -> DataFrame:
        """Adds the number of the records' schema, and makes values `plain`."""
        return self.plain(raw) if self._schemas is None else self._schemas.numbered(raw, writers)

    def plain(self, raw: DataFrame) -> DataFrame:
        """Takes a schema that is null from around values, as this dialect has them."""
        return raw.withColumn("value", unwrapped(is_inline=self.is_inline))

    def is_nothing(self, document: Expression) -> Expression:
        """Returns whether a record's value says that it has none: ``null``, after any schema.

        Args:
            document: from `read`.
        """
        return is_readable(document) & document.getField(PAYLOAD).isNull()

    def read(self, kind: StructType, spec: ReadSpec) -> Expression:
        """Parses a record, or what is beside its schema; see `cdc_assets.decode.read_json`."""
        return parsed(kind, spec, wrapped=self._is_wrapped)

    def part(self, kind: StructType) -> Expression:
        """Returns some fields of a raw record; NULL where it cannot be read."""
        return read_json(F.col("value"), kind, wrapped=self._is_wrapped).getField(PAYLOAD)

    @property
    def _is_wrapped(self) -> bool:
        return isinstance(self._schemas, AroundValue)

    def unlike(self, names: Expression, is_row: Expression, spec: ReadSpec) -> Expression:
        """Returns why a record without a schema, among others with one, is none of the table.

        It is read by the table's own schema, which shows neither columns that the record lacks nor
        columns that the table lacks.

        Args:
            names: of the row's fields.
            is_row: whether it has one.
            spec: of the table.
        """
        if not self.is_inline:
            return no_text()
        must = texts((*spec.expected, *spec.schema.key))
        known = texts((*spec.schema.names, *spec.target.left_out, *self.beside))
        lacks = F.array_except(must, named_now(names, spec))
        is_other = (F.size(lacks) > 0) | (F.size(F.array_except(names, known)) > 0)
        return F.when(F.col("writer").isNull() & is_row & is_other, _NO_SCHEMA)

    def differences(
        self, row: Expression, names: Expression, op: Expression, spec: ReadSpec
    ) -> tuple[Expression, Expression]:
        """Returns ``unknown`` and ``absent``: how a row's fields differ from the table's columns.

        With a schema in the record, only the schema is compared. Without one, the names of the
        fields are the only sign.

        Args:
            row: read as `compared`.
            names: of its fields.
            op: of the record.
            spec: of the table.
        """
        is_row = op.isin(*ROW_OPS)
        if self.is_inline:
            return no_names(), F.when(is_row, lacks(spec))
        is_odd = unlike(row).isNotNull()
        known = texts((*spec.schema.names, *spec.target.left_out, *self.beside))
        missing = F.array_except(texts(spec.expected), named_now(names, spec))
        strange = if_any(F.array_except(names, known))
        return F.when(is_odd, strange), F.when(is_odd & is_row & (F.size(missing) > 0), missing)

    @property
    def beside(self) -> tuple[str, ...]:
        """Fields of a row that are no columns."""
        return ()

    def schema_alone(self) -> Expression:
        """Returns the part of a value that identifies its schema."""
        return F.col("value") if self._schemas is None else self._schemas.alone()
