"""Reads the records of each dialect of ``debezium-json`` on Spark."""

from cdc_assets.formats.debezium.records.dialects import records_of
from cdc_assets.formats.debezium.records.records import Records

__all__ = ["Records", "records_of"]
