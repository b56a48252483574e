"""Iceberg: the catalog, the state in a table's newest snapshot, names of our own tables."""

from cdc_assets.lake.catalog import Lake
from cdc_assets.lake.spark_conf import spark_conf
from cdc_assets.lake.state import Published, TableState
from cdc_assets.lake.states import Looked

__all__ = ["Lake", "Looked", "Published", "TableState", "spark_conf"]
