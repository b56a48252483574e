"""How rows are written, with what is said of them in the snapshot that this makes."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql.readwriter import DataFrameWriterV2


def snapshot_writer(
    rows: DataFrame, table: str, properties: Mapping[str, str]
) -> DataFrameWriterV2:
    """A writer of rows into a table for SQL; the properties go into the snapshot."""
    writer = rows.writeTo(table)
    for name, value in properties.items():
        writer = writer.option(f"snapshot-property.{name}", value)
    return writer
