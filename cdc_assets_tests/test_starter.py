from __future__ import annotations

import pytest

from cdc_assets.config.load import parse_config
from cdc_assets.config.starter import Starter, StarterSource

ODD = ["a: b", "- x", "{x}", "'", '"', "#", "ä", "{env: X}"]


@pytest.mark.unit
def test_what_is_written_without_any_source_loads() -> None:
    assert parse_config(Starter().text()).sources == {}


@pytest.mark.unit
@pytest.mark.parametrize("odd", ODD)
def test_whatever_names_hold_what_is_written_loads_and_says_so(odd: str) -> None:
    tables = (f"public.{odd}\n  evil: true", "public.orders")
    source = StarterSource(
        "shop", "debezium-json", (f"{odd}x",), tables, "postgres", "SHOP_DSN",
        keyless=tables, uncaptured=tables, gone=tables,
    )  # fmt: skip
    properties = (("client.id", odd), ("sasl.password", {"env": "KAFKA_PASSWORD"}))
    text = Starter(kafka="broker:9092", properties=properties, sources=(source,)).text()

    read = parse_config(text).sources["shop"]
    assert read.topics.include == (f"{odd}x",)
    assert read.database is not None
    assert read.database.kind == "postgres"


@pytest.mark.unit
def test_the_example_of_a_source_in_the_comment_loads() -> None:
    lines = Starter().text().splitlines()
    begin = lines.index("# sources:")
    shown = [line[2:] for line in lines[begin:] if line.startswith("# ")]
    head = "\n".join(lines[: begin - 2])
    assert set(parse_config("\n".join([head, *shown])).sources) == {"shop"}
