"""Writes rows, with properties for the snapshot that the write creates."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql.readwriter import DataFrameWriterV2


def snapshot_writer(
    rows: DataFrame, table: str, properties: Mapping[str, str]
) -> DataFrameWriterV2:
    """Returns a writer of rows into a table for SQL; the properties go into the snapshot."""
    writer = rows.writeTo(table)
    for name, value in properties.items():
        writer = writer.option(f"snapshot-property.{name}", value)
    return writer
