"""Which tables a connector captures, by the lists in its configuration."""

from __future__ import annotations

import pytest

from cdc_assets.log.connect import captures

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("settings", "is_captured"),
    [
        ({}, True),
        ({"table.include.list": r"public\.orders,public\.items"}, True),
        ({"table.include.list": "PUBLIC.ORD.*"}, True),
        ({"table.include.list": "public.order"}, False),
        ({"table.exclude.list": r"public\.(orders|items)"}, False),
        ({"schema.include.list": "sales"}, False),
        ({"schema.exclude.list": "public"}, False),
        ({"database.include.list": "public"}, True),
        ({"database.include.list": "other"}, False),
        ({"table.include.list": "public.orders{1\\,2}"}, True),
        ({"table.include.list": "(*"}, True),
        ({"table.exclude.list": "(*"}, True),
    ],
)
def test_lists_are_those_of_debezium(settings: dict[str, str], is_captured: bool) -> None:
    assert captures(settings, "public", "orders") is is_captured
