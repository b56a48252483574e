from __future__ import annotations

import pytest

from cdc_assets.config import Secret
from cdc_assets.config.load import parse_config
from cdc_assets.config.starter import Starter, StarterSource
from cdc_assets.operate.init import placed

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
    properties = (
        ("client.id", odd), ("security.protocol", "SASL_SSL"), ("sasl.mechanism", "PLAIN"),
        ("sasl.username", "u"), ("sasl.password", {"env": "KAFKA_PASSWORD"}),
    )  # fmt: skip
    text = Starter(kafka="broker:9092", properties=properties, sources=(source,)).text()

    read = parse_config(text).sources["shop"]
    assert read.topics.include == (f"{odd}x",)
    assert read.database is not None
    assert read.database.kind == "postgres"


@pytest.mark.unit
@pytest.mark.parametrize(
    ("said", "kind", "uri"),
    [
        ({}, "sql", "sqlite:///.cdc/lake/catalog.db"),
        ({"catalog_uri": "https://catalog/api"}, "rest", "https://catalog/api"),
        ({"catalog_uri": "thrift://hive:9083"}, "hive", "thrift://hive:9083"),
        ({"catalog_uri": "env:URI", "catalog_type": "rest"}, "rest", Secret(env="URI")),
        ({"catalog_uri": "env:URI"}, "sql", Secret(env="URI")),
        ({"catalog_type": "glue"}, "glue", None),
    ],
)
def test_what_options_say_of_lake_and_spark_is_what_the_file_says(
    said: dict[str, str | None], kind: str, uri: object
) -> None:
    elsewhere = {"warehouse": "s3://lake/warehouse", "spark": "sc://spark:15002"}
    read = parse_config(placed({**said, **elsewhere}, is_asking=False).text())
    assert read.lake.catalog.type == kind
    assert isinstance(read.lake.catalog.uri, type(uri))
    assert uri is None or str(uri).removeprefix("sqlite:///") in str(read.lake.catalog.uri)
    assert (read.lake.warehouse, read.spark.remote) == tuple(elsewhere.values())


@pytest.mark.unit
def test_the_example_of_a_source_in_the_comment_loads() -> None:
    lines = Starter().text().splitlines()
    begin = lines.index("# sources:")
    shown = [line[2:] for line in lines[begin:] if line.startswith("# ")]
    head = "\n".join(lines[: begin - 2])
    assert set(parse_config("\n".join([head, *shown])).sources) == {"shop"}
