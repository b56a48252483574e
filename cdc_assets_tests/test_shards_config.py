"""``merge_into``: which tables are one, and what tells their rows apart."""

from __future__ import annotations

from urllib.parse import quote_plus

import pytest
from pydantic import ValidationError

from cdc_assets.changes.names import LakeName, Shard, TableName
from cdc_assets.config import SourceConfig

pytestmark = pytest.mark.unit

RULE = {"tables": r"shop_(?P<number>\d*)\.o.*", "namespace": "shop", "shard": "{number}"}


def source(*rules: dict[str, str]) -> SourceConfig:
    topics = {"include": [".*"]}
    said = {"format": "debezium-json", "topics": topics, "merge_into": list(rules)}
    return SourceConfig.model_validate(said)


def table(schema: str, name: str) -> TableName:
    return TableName("s", schema, name)


@pytest.mark.parametrize(
    ("rules", "mine", "lake", "shard"),
    [
        ((RULE,), ("shop_7", "orders"), ("shop", "orders"), ("shard", "7")),
        ((RULE,), ("shop_7", "items"), ("s_shop_7", "items"), None),
        ((RULE,), ("other_shop_7", "orders"), ("s_other_shop_7", "orders"), None),
        (({"tables": r".*\.orders_\d+", "namespace": "{source}", "table": "orders"},),
         ("public", "orders_12"), ("s", "orders"), ("shard", "s.public.orders_12")),
        (({**RULE, "tables": "no", "shard": "{table}"},
          {**RULE, "shard_column": "of", "table": "all {table}"}, RULE),
         ("shop_7", "orders"), ("shop", "all_orders_1f9567eb22b1"), ("of", "7")),
    ],
    ids=["matches", "another", "whole names only", "whole name as value", "first rule, odd name"],
)  # fmt: skip
def test_a_rule_says_where_a_table_goes(
    rules: tuple[dict[str, str], ...],
    mine: tuple[str, str],
    lake: tuple[str, str],
    shard: tuple[str, str] | None,
) -> None:
    assert source(*rules).lake_name(table(*mine)) == LakeName(*lake)
    assert source(*rules).shard(table(*mine)) == (Shard(*shard) if shard else None)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"tables": "("}, "not a regular expression"),
        ({"shard": "{numbr}"}, r"merge_into.shard: unknown field \{numbr\}"),
        ({"namespace": "{"}, "merge_into.namespace: is not a template"),
        ({"table": "{0}"}, "merge_into.table: unknown field"),
        ({"shard": "{table.__class__}"}, "unknown field"),
        ({"shard": ""}, "at least 1 character"),
        ({"into": "x"}, "unknown"),
    ],
    ids=["pattern", "misspelt", "template", "position", "attribute", "empty", "key"],
)
def test_a_rule_that_cannot_be_followed_is_refused(rule: dict[str, str], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        source({**RULE, **rule})


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("it's `7`/=%", "it's `7`/=%"),
        ("", "_e3b0c44298fc"),
        ("订" * 100, f"{'订' * 18}_f1defd624010"),
        ("x" * 100_000, f"{'x' * 167}_"),
    ],
    ids=["hostile", "nothing", "many bytes", "long"],
)
def test_a_value_that_is_no_name_of_a_folder_has_a_substitute(schema: str, value: str) -> None:
    rule = {"tables": r".*\.orders", "namespace": "shop", "shard": "{schema}"}
    shard = source(rule).shard(table(schema, "orders"))
    assert shard is not None
    assert shard.value.startswith(value)
    assert len(quote_plus(shard.value)) <= 180
    assert shard != source(rule).shard(table(schema + "y", "orders"))
