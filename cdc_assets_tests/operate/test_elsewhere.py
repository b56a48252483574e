"""Changes of a table in a shared topic that is not its own are named, as nothing merges them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.operate.by_record import elsewhere
from cdc_assets.registry import Registry, TableEntry

pytestmark = pytest.mark.unit

ORDERS, ITEMS = (TableName("shop", "db", name) for name in ("orders", "items"))
KNOWN = Registry.of(
    [TableEntry(ORDERS, "canal", LakeName("shop_db", "orders"), datetime(2026, 3, 4, tzinfo=UTC))]
)


def test_a_known_table_in_another_topic_is_named_with_both() -> None:
    (found,) = elsewhere(KNOWN, {"canal": {ORDERS, ITEMS}, "canal_orders": {ORDERS}})
    assert found.what == f"two topics hold changes of {ORDERS}: canal and canal_orders"


def test_tables_in_their_own_topic_and_unknown_ones_are_not() -> None:
    assert elsewhere(KNOWN, {"canal": {ORDERS, ITEMS}, "other": {ITEMS}}) == ()
