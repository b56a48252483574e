"""Interprets the records of each dialect of ``debezium-json``, in Python, for a few records."""

from cdc_assets.formats.debezium.dialects.cloudevents import CloudEvents
from cdc_assets.formats.debezium.dialects.dialect import EnvelopeDialect
from cdc_assets.formats.debezium.dialects.documents import Documents
from cdc_assets.formats.debezium.dialects.enveloped import Enveloped
from cdc_assets.formats.debezium.dialects.flat import Flat

__all__ = ["CloudEvents", "Documents", "EnvelopeDialect", "Enveloped", "Flat"]
