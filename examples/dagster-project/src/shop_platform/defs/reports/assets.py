"""What is made of replicated tables."""

from pathlib import Path

import dagster as dg
from pyiceberg.catalog import load_catalog

import cdc_assets
from cdc_assets.config import load_config

EAST = Path(__file__).parents[1] / "east" / "replication.yaml"


@dg.asset(
    deps=[["lake", "east", "public", "orders"]],
    group_name="reports",
    automation_condition=cdc_assets.when_changed(),
)
def orders_report() -> dg.MaterializeResult:
    """Counts the orders whenever they have changed."""
    lake = load_config(EAST).lake
    where = {"type": lake.catalog.type, "warehouse": lake.warehouse, **lake.catalog.resolved()}
    table = load_catalog(lake.catalog.name, **where).load_table("east_public.orders")
    return dg.MaterializeResult(metadata={"orders": table.scan().count()})
