"""Finds an order by the name of its scheme."""

from __future__ import annotations

from typing import Final

from cdc_assets.changes.position import Scheme
from cdc_assets.formats.order.binlog import BinlogOrder, MariaDbOrder
from cdc_assets.formats.order.offset import OffsetOrder
from cdc_assets.formats.order.oracle import OracleOrder
from cdc_assets.formats.order.order import Order
from cdc_assets.formats.order.postgres import PostgresOrder
from cdc_assets.formats.order.sqlserver import SqlServerOrder
from cdc_assets.formats.order.tidb import TidbOrder
from cdc_assets.formats.order.trail import TrailOrder
from cdc_assets.formats.order.yugabyte import YugabyteOrder

_ORDERS: Final[dict[Scheme, Order]] = {
    order.scheme: order
    for order in (
        PostgresOrder(),
        BinlogOrder(),
        MariaDbOrder(),
        SqlServerOrder(),
        OracleOrder(),
        YugabyteOrder(),
        TidbOrder(),
        TrailOrder(),
        OffsetOrder(),
    )
}


def order_of(scheme: Scheme) -> Order:
    """Returns the order that a table's scheme names."""
    return _ORDERS[scheme]
