"""A source that is named beside a table says of which source the table is."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import ConfigError, TerminalError
from cdc_assets.operate.known_tables import selected
from cdc_assets.registry import Registry, TableEntry
from cdc_assets_tests.configuration import platform, source, write

pytestmark = pytest.mark.unit


@pytest.fixture
def config(tmp_path: Path) -> ReplicationConfig:
    """Two sources."""
    sources = {name: source(name) for name in ("shop", "crm")}
    return write(tmp_path / "replication.yaml", platform(sources=sources))


def registry(config: ReplicationConfig) -> Registry:
    """Orders in both of them, items in one."""
    tables = [TableName(*each) for each in (
        ("shop", "public", "orders"), ("shop", "public", "items"), ("crm", "public", "orders"),
    )]  # fmt: skip
    now = datetime(2026, 3, 4, tzinfo=UTC)
    return Registry.of(
        TableEntry(t, f"{t}", config.source(t.source).lake_name(t), now) for t in tables
    )


@pytest.mark.parametrize(
    ("of_source", "table", "names"),
    [
        (None, None, ["crm.public.orders", "shop.public.items", "shop.public.orders"]),
        ("crm", None, ["crm.public.orders"]),
        ("crm", "orders", ["crm.public.orders"]),
        (None, "items", ["shop.public.items"]),
    ],
)
def test_what_is_selected(
    config: ReplicationConfig, of_source: str | None, table: str | None, names: list[str]
) -> None:
    found = selected(config, registry(config), of_source, table)
    assert [str(each.table) for each in found] == names


def test_a_table_of_another_source_is_not(config: ReplicationConfig) -> None:
    with pytest.raises(TerminalError, match="'items' names no replicated table"):
        selected(config, registry(config), "crm", "items")
    with pytest.raises(ConfigError, match="no source is named 'csm'"):
        selected(config, registry(config), "csm", "orders")
    with pytest.raises(TerminalError, match="more than one table"):
        selected(config, registry(config), None, "orders")
