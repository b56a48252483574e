"""What is known of a table is read again only once its catalog points elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from cdc_assets.changes.names import LakeName
from cdc_assets.lake import Lake
from cdc_assets.lake.pointers import NewestFiles, Recent
from cdc_assets_tests.configuration import platform, write

pytestmark = pytest.mark.unit

ORDERS: Final = LakeName("shop", "orders")
ITEMS: Final = LakeName("shop", "items")


@pytest.fixture
def lake(tmp_path: Path) -> tuple[Lake, Catalog]:
    config = write(tmp_path / "replication.yaml", platform(sources={}))
    (tmp_path / "lake").mkdir()
    made = config.lake.catalog
    catalog = load_catalog(
        made.name, type="sql", uri=str(made.uri), warehouse=config.lake.warehouse,
        **{"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"},
    )  # fmt: skip
    catalog.create_namespace("shop")
    for name in (ORDERS, ITEMS):
        catalog.create_table((name.namespace, name.name), Schema(NestedField(1, "id", LongType())))
    return Lake(config), catalog


def metadata(catalog: Catalog, name: LakeName) -> Path:
    location = catalog.load_table((name.namespace, name.name)).metadata_location
    return Path(location.removeprefix("file://"))


def test_a_table_that_did_not_change_is_not_read_again(lake: tuple[Lake, Catalog]) -> None:
    known, catalog = lake
    first = known.state(ORDERS)
    metadata(catalog, ORDERS).unlink()
    assert known.state(ORDERS) == first


def test_every_commit_is_seen_at_once(lake: tuple[Lake, Catalog]) -> None:
    known, catalog = lake
    before = known.state(ORDERS), known.state(ITEMS)
    with catalog.load_table(("shop", "orders")).transaction() as change:
        change.set_properties(told="so")
    after = known.state(ORDERS), known.state(ITEMS)
    assert all(before)
    assert after[0] is not None
    assert after[0].properties["told"] == "so"
    assert after[1] == before[1]


def test_a_table_that_is_gone_and_made_again_is_another_one(lake: tuple[Lake, Catalog]) -> None:
    known, catalog = lake
    first = known.state(ORDERS)
    catalog.drop_table(("shop", "orders"))
    assert known.state(ORDERS) is None
    catalog.create_table(("shop", "orders"), Schema(NestedField(1, "number", LongType())))
    second = known.state(ORDERS)
    assert first is not None
    assert second is not None
    assert [each.name for each in first.columns] == ["id"]
    assert [each.name for each in second.columns] == ["number"]


def test_what_was_asked_for_longest_ago_is_forgotten_first() -> None:
    recent, read = Recent[str](most=2), list[str]()
    for at in ("a", "b", "a", "c", "a", "b"):
        if recent.of(at) is None:
            read.append(recent.keep(at, at))
    assert read == ["a", "b", "c", "b"]


def test_of_a_table_only_what_its_last_file_said_is_kept() -> None:
    newest = NewestFiles[str](most=2)
    for number in range(10):
        newest.keep("orders", f"a/orders/{number}", f"orders {number}")
        newest.keep("items", f"a/items/{number}", f"items {number}")
    assert newest.of("orders", "a/orders/9") == "orders 9"
    assert newest.of("items", "a/items/9") == "items 9"
    assert newest.of("orders", "a/orders/8") is None
    assert newest.of("orders", None) is None
    newest.keep("orders", "b/orders/9", "of another catalog")
    assert newest.of("orders", "a/orders/9") == "orders 9"
    assert newest.of("orders", "b/orders/9") == "of another catalog"
    assert newest.of("items", "a/items/9") is None
