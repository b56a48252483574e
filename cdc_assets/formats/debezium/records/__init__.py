"""Reads the records of each dialect of ``debezium-json`` on Spark."""

from cdc_assets.formats.debezium.records.dialects import records_of
from cdc_assets.formats.debezium.records.records import DialectRecords

__all__ = ["DialectRecords", "records_of"]
