"""Entries of ``tables`` with patterns: what a table gets of all that match."""

from __future__ import annotations

from typing import Any

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig, SourceConfig, parse_config
from cdc_assets.config.table import TableOverrides, matches
from cdc_assets.errors import ConfigError
from cdc_assets_tests.test_config import edited

pytestmark = pytest.mark.unit


def source(tables: dict[str, Any]) -> SourceConfig:
    config: ReplicationConfig = parse_config(edited("sources/shop/tables", tables))
    return config.source("shop")


def of(tables: dict[str, Any], name: str) -> TableOverrides:
    return source(tables).overrides(TableName("shop", *name.split(".")))


def test_a_pattern_is_of_stars_and_question_marks_and_of_whole_names() -> None:
    for pattern, name, is_one in (
        ("shop.order_*", "shop.order_2024", True),
        ("shop.order_*", "shop.order_", True),
        ("shop.order_*", "other.shop.order_1", False),
        ("shop.order_??", "shop.order_1", False),
        ("*.orders", "eu.orders", True),
        ("shop.a+b[*", "shop.a+b[c", True),
        ("shop.*", "Shop.orders", False),
    ):
        schema, _, table = name.partition(".")
        assert matches(pattern, TableName("", schema, table)) is is_one, (pattern, name)


def test_a_table_has_the_settings_of_all_patterns_and_its_own_over_them() -> None:
    tables = {
        "shop.*": {"columns": {"email": {"mask": "sha256"}}, "maintenance": {"keep_minutes": 60}},
        "shop.order_*": {"layout": {"partition_by": ["day"], "sort_by": ["id"]}},
        "shop.order_eu": {
            "layout": {"partition_by": []}, "columns": {"id": "bigint"}, "where": "id > 1",
        },
    }  # fmt: skip
    found = of(tables, "shop.order_eu")
    assert found.layout.partition_by == ()
    assert found.layout.sort_by == ("id",)
    assert found.masked == {"email"}, "a pattern's mask is lifted by an entry that is silent on it"
    assert list(found.column_types) == ["id"]
    assert found.condition_text == '"id" > 1'
    assert found.maintenance is not None
    assert found.maintenance.model_fields_set == {"keep_minutes"}
    assert of(tables, "shop.order_us").layout.partition_by == ("day",)
    assert of(tables, "shop.customers").layout.partition_by is None
    assert of(tables, "other.customers") == TableOverrides()


def test_patterns_that_contradict_each_other_are_refused_unless_the_name_decides() -> None:
    tables: dict[str, Any] = {
        "shop.*": {"dropped_columns": "keep", "layout": {"sort_by": ["id"]}},
        "*.orders": {"dropped_columns": "drop", "layout": {"partition_by": ["day"]}},
    }
    with pytest.raises(ConfigError, match=r"shop\.\* and \*\.orders both match.*dropped_columns"):
        of(tables, "shop.orders")
    assert of(tables, "shop.customers").dropped_columns == "keep"
    tables["*.orders"]["layout"]["sort_by"] = ["id"]
    tables["shop.orders"] = {"dropped_columns": "drop"}
    found = of(tables, "shop.orders")
    assert (found.dropped_columns, found.layout.sort_by) == ("drop", ("id",))


def test_settings_that_only_fit_apart_are_refused_together() -> None:
    tables = {"shop.*": {"where": "id > 1"}, "shop.orders": {"deletes": "soft"}}
    with pytest.raises(ConfigError, match=r"do not fit together.*no longer matches"):
        of(tables, "shop.orders")
    keyed = {
        "shop.*": {"primary_key": ["id"]},
        "shop.orders": {"columns": {"id": {"exclude": True}}},
    }
    with pytest.raises(ConfigError, match="of the primary key is excluded"):
        of(keyed, "shop.orders")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"where": "id = now()"}, "compute differently"),
        ({"where": "id > 1", "mode": "history"}, "mode: mirror with deletes: hard"),
        ({"where": "id > 1", "deletes": "soft"}, "mode: mirror with deletes: hard"),
    ],
)
def test_a_condition_that_cannot_be_is_refused_at_the_start(
    said: dict[str, Any], words: str
) -> None:
    for name in ("shop.orders", "shop.*"):
        with pytest.raises(ConfigError, match=words):
            source({name: said})
