"""A table that a reader would not read is refused, and a catalog that maintains tables is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.config.platform import LakeConfig
from cdc_assets.lake import TableState
from cdc_assets.operate.assess.finding import Subject
from cdc_assets.operate.assess.lake import judge_catalog, judge_readers

pytestmark = pytest.mark.unit

AT = Subject("shop", TableName("shop", "public", "orders"))
STATE = replace(TableState.absent(LakeName("shop_public", "orders")), format_version=3)


@pytest.mark.parametrize(
    ("readers", "version", "deletes", "names"),
    [
        ((), 3, 4, []),
        (("spark", "duckdb"), 3, 4, []),
        (("spark", "athena"), 3, 4, ["reader_version"]),
        (("spark", "athena"), 2, 4, []),
        (("clickhouse",), 3, 4, ["reader_deletes"]),
        (("clickhouse",), 3, 0, []),
        (("clickhouse",), 3, None, []),
        (("clickhouse",), 2, 4, []),
        (("athena", "without_deletes"), 2, 4, ["reader_deletes"]),
        (("athena", "clickhouse"), 3, 4, ["reader_version", "reader_deletes"]),
    ],
    ids=str,
)
def test_what_a_reader_would_read_wrongly_is_told(
    readers: tuple[str, ...], version: int, deletes: int | None, names: list[str]
) -> None:
    state = replace(STATE, format_version=version, delete_files=deletes)
    found = list(judge_readers(AT, readers, state))
    assert [each.name for each in found] == names
    assert all("shop.public.orders" in each.remedy for each in found)
    assert not list(judge_readers(AT, readers, None))


@pytest.mark.parametrize(
    ("catalog", "warehouse", "is_one"),
    [
        (
            {
                "type": "rest", "uri": "https://s3tables.eu-west-1.amazonaws.com/iceberg",
                "properties": {"warehouse": "arn:aws:s3tables:eu-west-1:1:bucket/b"},
            },
            "s3://b",
            True,
        ),
        ({"type": "rest", "uri": "https://c"}, "arn:aws-cn:s3tables:cn-north-1:1:bucket/b", True),
        (
            {
                "type": "rest", "uri": "https://glue.eu-west-1.amazonaws.com/iceberg",
                "properties": {"warehouse": "1:s3tablescatalog/b"},
            },
            "s3://b",
            True,
        ),
        ({"type": "glue", "properties": {"glue.id": "1:s3tablescatalog/b"}}, "s3://b", True),
        ({"type": "glue"}, "s3://my-s3tables", False),
        ({"type": "rest", "uri": {"env": "URI"}}, "s3://b", False),
    ],
)  # fmt: skip
def test_s3_tables_are_recognised_by_the_configuration(
    catalog: dict[str, object], warehouse: str, *, is_one: bool
) -> None:
    lake = LakeConfig.model_validate({"catalog": catalog, "warehouse": warehouse})
    assert [each.name for each in judge_catalog(AT, lake)] == ["s3_tables"] * is_one
