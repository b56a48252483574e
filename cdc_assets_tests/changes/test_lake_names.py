"""Names of source tables in the lake and in Dagster: harmless, and apart."""

from __future__ import annotations

import os.path
import re
from datetime import UTC, datetime

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.names import MOST_BYTES, TableName, stored_as, stored_lake_name
from cdc_assets.config import ReplicationConfig, SourceConfig
from cdc_assets.errors import TerminalError
from cdc_assets.lake.side import side_name
from cdc_assets.merge.statements import sql
from cdc_assets.orchestration.keys import op_name, pool_name, table_key
from cdc_assets.registry import Registry, TableEntry
from cdc_assets_tests.toy import profiles

NOW = datetime(2026, 3, 4, tzinfo=UTC)
SOURCE = SourceConfig.model_validate(
    {"format": "debezium-json", "topics": {"include": [r"shop\..*"]}}
)
CONFIG = ReplicationConfig.model_validate(
    {
        "kafka": {"bootstrap_servers": "127.0.0.1:1"},
        "lake": {"catalog": {"type": "sql", "uri": "sqlite:///:memory:"}, "warehouse": "lake"},
    }
)
KEPT = ["orders", "Orders", "order_items", "order-items", "_old", "2024", "select", "branch_main",
        "history", "Größe", "заказы", "订单", "a" * MOST_BYTES]  # fmt: skip
ODD = ["", " ", "a b", "a.b", "a`b", 'a"b', "a'b", "a/b", "a\\b", "..", "../x", ".", "-", "--x",
       "; DROP TABLE x", "a\nb", "a\x00b", "a\tb", "a$b", "a#b", "*", "%", "{schema}", "💥",
       "\ud800", "a" * (MOST_BYTES + 1), "订" * 300, "cafe\u0301", "\u202eabc",
       "cdc_assets_quarantine", "CDC_ASSETS_tombstones", "orders__rebuild1"]  # fmt: skip
SAFE = re.compile(r"\w[\w-]*")


def entry(schema: str, name: str, topic: str = "t") -> TableEntry:
    table = TableName("shop", schema, name)
    return TableEntry(table, topic, SOURCE.lake_name(table), NOW)


@pytest.mark.unit
@pytest.mark.parametrize("name", KEPT)
def test_an_ordinary_name_is_kept(name: str) -> None:
    assert stored_as(name) == name
    assert entry("public", name).target.name == name


@pytest.mark.unit
@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_any_other_has_a_substitute_that_says_what_it_was(name: str) -> None:
    found = stored_as(name)
    assert found != name
    assert SAFE.fullmatch(found)
    assert re.search(r"_[0-9a-f]{12}\Z", found)
    assert len(found.encode()) <= MOST_BYTES
    assert stored_as(found) == found


@pytest.mark.unit
def test_a_substitute_is_the_same_in_every_version() -> None:
    """Tables are found by it: this may never change."""
    assert stored_as("../Größe; x") == "___Größe__x_59467a4c75dc"


@pytest.mark.unit
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("public", "orders"), ("public", "ORDERS")),
        (("public", "stra\u00dfe"), ("public", "STRASSE")),
        (("public", "a b"), ("public", stored_as("a b"))),
        (("a.b", "c"), ("a", "b.c")),
        (("x y", "t"), (stored_as("x y"), "t")),
    ],
    ids=ascii,
)
def test_names_that_fall_together_are_refused(one: tuple[str, str], other: tuple[str, str]) -> None:
    with pytest.raises(TerminalError) as refused:
        Registry.of([entry(*one, "first"), entry(*other, "second")])
    assert "first" in refused.value.where
    assert "second" in refused.value.where


PIECES = st.sampled_from(["a", "A", "b", "_", "__", ".", " ", "-", "/", "`", "'", "ß", "ss", "é",
                          "e\u0301", "cdc_assets_", "__rebuild1"])  # fmt: skip
NAMES = st.lists(PIECES, min_size=1, max_size=5).map("".join) | st.text(min_size=1, max_size=300)


@pytest.mark.property
@profiles.examples(200)
@given(st.lists(st.tuples(NAMES, NAMES), min_size=2, max_size=4, unique=True))
def test_no_two_tables_ever_share_anything_silently(names: list[tuple[str, str]]) -> None:
    entries = [entry(*each) for each in names]
    try:
        Registry.of(entries)
    except TerminalError:
        return
    tables = [each.table for each in entries]
    for shared in (
        {str(each.target).casefold() for each in entries},
        {side_name(each.target).name.casefold() for each in entries},
        {table_key(CONFIG, each).to_user_string() for each in entries},
        {op_name(CONFIG, table) for table in tables},
        {pool_name(CONFIG, each) for each in entries},
    ):
        assert len(shared) == len(names), shared


@pytest.mark.property
@profiles.examples(200)
@given(NAMES, NAMES)
def test_no_name_leads_out_of_its_place(schema: str, name: str) -> None:
    mine = entry(schema, name)
    for part in (mine.target.namespace, mine.target.name, side_name(mine.target).name):
        assert SAFE.fullmatch(part)
        assert len(f"{part}__rebuild99".encode()) <= 255
    place = os.path.normpath(os.path.join("/warehouse", mine.target.namespace, mine.target.name))
    assert place.startswith("/warehouse/")
    assert place.count("/") == 3
    quoted = sql.table("lake", mine.target)
    assert quoted == f"`lake`.`{mine.target.namespace}`.`{mine.target.name}`"
    key = table_key(CONFIG, mine)
    assert dg.AssetKey.from_user_string(key.to_user_string()) == key
    assert re.fullmatch(r"[A-Za-z0-9_]+", op_name(CONFIG, mine.table))


@pytest.mark.unit
def test_the_templates_of_the_configuration_are_names_too() -> None:
    assert stored_lake_name("lake.shop", "t").namespace.startswith("lake_shop_")
