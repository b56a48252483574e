"""Stores the discovered tables in a small document, so that loading definitions touches no network.

Discovery rebuilds it from Kafka and the configuration, but for what only it knows: tables that were
renamed at their sources, and the places where changes begin of tables that were removed from the
lake.
"""

from cdc_assets.registry.entries import (
    HOURS_START,
    UNTAKEN,
    Beginning,
    Dropped,
    OtherTopic,
    TableEntry,
    Taken,
)
from cdc_assets.registry.file import RegistryFile
from cdc_assets.registry.tables import Registry

__all__ = [
    "HOURS_START",
    "UNTAKEN",
    "Beginning",
    "Dropped",
    "OtherTopic",
    "Registry",
    "RegistryFile",
    "TableEntry",
    "Taken",
]
