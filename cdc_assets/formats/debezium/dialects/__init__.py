"""What the records of each dialect of ``debezium-json`` say, in Python: few records are read so."""

from cdc_assets.formats.debezium.dialects.cloudevents import CloudEvents
from cdc_assets.formats.debezium.dialects.dialect import Dialect, Opened
from cdc_assets.formats.debezium.dialects.documents import Documents
from cdc_assets.formats.debezium.dialects.enveloped import Enveloped
from cdc_assets.formats.debezium.dialects.flat import Flat

__all__ = ["CloudEvents", "Dialect", "Documents", "Enveloped", "Flat", "Opened"]
