"""The contract of a dialect on Spark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.formats.debezium.records.schemas import Schemas
from cdc_assets.formats.envelope import Envelope
from cdc_assets.formats.order import Order
from cdc_assets.formats.spec import ReadSpec


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

    def writer(self) -> Expression | None:
        """Returns the number of the schema; None in a dialect without schemas."""
        return None if self._schemas is None else self._schemas.writer()

    def numbered(self, raw: DataFrame, writers: Mapping[int, str]) -> DataFrame:
        """Adds the number of the records' schema; in a dialect without, returns them unchanged."""
        return raw if self._schemas is None else self._schemas.numbered(raw, writers)

    def schema_alone(self) -> Expression:
        """Returns the part of a value that identifies its schema."""
        return F.col("value") if self._schemas is None else self._schemas.alone()
