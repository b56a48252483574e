"""`cdc-assets dbt sources` prints the tables as dbt's sources, with the keys of their assets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
import yaml

from cdc_assets.changes.names import LakeName
from cdc_assets.errors import ConfigError
from cdc_assets.orchestration import build_definitions
from cdc_assets.orchestration.dbt import document
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.command import run_command
from cdc_assets_tests.world import registry_of, write_config

pytestmark = pytest.mark.unit

EXAMPLE = Path(__file__).parents[2] / "examples" / "dbt"


def test_they_are_those_of_the_example(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    refused = run_command(tmp_path, "dbt", "sources")
    assert refused.returncode == 1
    assert "no table is known yet" in refused.stderr
    RegistryFile(config.registry).add(registry_of(config, "orders", "customers"))
    printed = run_command(tmp_path, "dbt", "sources").stdout
    assert printed == (EXAMPLE / "dbt" / "models" / "sources.yml").read_text()


def test_a_translated_key_and_a_catalog_are_written_as_told(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    entries = registry_of(config, "orders").entries
    told = document(entries, "lake/{source}/{schema}.{table}/{namespace}/{name}", "iceberg")
    (source,) = told["sources"]
    assert (source["name"], source["database"], source["schema"]) == (
        "shop_public", "iceberg", "shop_public"
    )  # fmt: skip
    key = ["lake", "shop", "public.orders", "shop_public", "orders"]
    assert source["tables"] == [
        {"name": "orders", "config": {"meta": {"dagster": {"asset_key": key}}}}
    ]
    for wrong in ("lake/{tabel}", "{", "{}", "{source.path}"):
        with pytest.raises(ConfigError, match="--asset-key"):
            document(entries, wrong)


def test_each_of_several_tables_in_one_is_a_source_of_its_own(tmp_path: Path) -> None:
    one = LakeName("shop", "orders")
    entries = [
        replace(each, target=one) for each in registry_of(write_config(tmp_path), "a", "b").entries
    ]
    tables = yaml.safe_load(yaml.safe_dump(document(entries)))["sources"][0]["tables"]
    assert [(each["name"], each.get("identifier")) for each in tables] == [
        ("orders", None),
        ("orders__shop__public__b", "orders"),
    ]
    assert [each["config"]["meta"]["dagster"]["asset_key"][-1] for each in tables] == ["a", "b"]


def test_a_source_without_a_key_is_found_by_its_tables_name(tmp_path: Path) -> None:
    """As dagster-dbt names a dependency on ``lake.shop_public.orders``; no other asset has it."""
    config = write_config(tmp_path)
    dep = dg.AssetDep(
        ["shop_public", "orders"], metadata={"dagster/table_name": "lake.shop_public.orders"}
    )

    @dg.asset(deps=[dep])
    def model() -> None: ...

    made = dg.Definitions.merge(
        build_definitions(config, registry_of(config, "orders")), dg.Definitions(assets=[model])
    )
    assert made.resolve_asset_graph().get(model.key).parent_keys == {
        dg.AssetKey(["shop", "public", "orders"])
    }
