"""The lake as PyIceberg reads it: not the way that the replication takes."""

from __future__ import annotations

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from cdc_assets.changes.names import LakeName
from cdc_assets.config import ReplicationConfig

OWN = "_cdc"
"""How the names of our own columns begin."""


def open_catalog(config: ReplicationConfig) -> Catalog:
    """The catalog of a configuration."""
    lake = config.lake
    properties = {"type": lake.catalog.type, "warehouse": lake.warehouse}
    return load_catalog(lake.catalog.name, **properties, **lake.catalog.resolved())


def read_table(config: ReplicationConfig, target: LakeName) -> Table | None:
    """A table as it is now, if it is there."""
    catalog, name = open_catalog(config), (target.namespace, target.name)
    return catalog.load_table(name) if catalog.table_exists(name) else None


def read_rows(config: ReplicationConfig, target: LakeName) -> list[dict[str, object]]:
    """All rows of a table without our own columns; [] if there is no table."""
    table = read_table(config, target)
    rows = table.scan().to_arrow().to_pylist() if table else []
    return [{k: v for k, v in row.items() if not k.startswith(OWN)} for row in rows]
