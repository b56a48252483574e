"""The readers of a lake choose a format that all of them read, by what each applies."""

from __future__ import annotations

from itertools import chain, combinations
from typing import Any

import pytest
import yaml

from cdc_assets.config import ReplicationConfig
from cdc_assets.schema.file_layout import DeleteMode
from cdc_assets.schema.readers import READERS, VERSIONS, faults, mode_for, version_for
from cdc_assets_tests.test_config import MINIMAL, SHOP, error_of

pytestmark = pytest.mark.unit

MARKED, COPIED = DeleteMode.MERGE_ON_READ, DeleteMode.COPY_ON_WRITE


@pytest.mark.parametrize(
    ("readers", "version", "mode"),
    [
        ([], 3, None),
        (["spark", "duckdb"], 3, MARKED),
        (["spark", "athena"], 2, MARKED),
        (["duckdb", "clickhouse"], 2, MARKED),
        (["without_deletes"], 2, COPIED),
        (["athena", "clickhouse", "without_deletes"], 2, COPIED),
    ],
    ids=str,
)
def test_readers_choose(readers: list[str], version: int, mode: DeleteMode | None) -> None:
    assert (version_for(readers), mode_for(readers, version)) == (version, mode)


def test_whoever_reads_the_choice_suits_all_of_them() -> None:
    """And the naive choice, what Iceberg is best at, does not."""
    some = chain.from_iterable(combinations(READERS, n) for n in (1, 2, 3))
    naive = 0
    for readers in some:
        version = version_for(readers)
        for each in VERSIONS:
            mode = mode_for(readers, each)
            assert mode is not None
            left = list(faults(readers, each, mode))
            assert not left or any("does not read format version" in fault for fault in left)
        chosen = mode_for(readers, version)
        assert chosen is not None
        assert not list(faults(readers, version, chosen))
        naive += bool(list(faults(readers, 3, MARKED)))
    assert naive


def test_a_fault_says_what_the_reader_does() -> None:
    assert list(faults(["athena"], 3, COPIED)) == ["Athena does not read format version 3"]
    (found,) = faults(["clickhouse"], 3, MARKED)
    assert "deletion vectors: it fails, or shows deleted rows" in found
    assert not list(faults(["clickhouse"], 3, COPIED))


def document(readers: list[str], layout: dict[str, object]) -> dict[str, Any]:
    shop = {**SHOP, "tables": {"public.o": {"layout": layout}}}
    return {**MINIMAL, "lake": {**MINIMAL["lake"], "readers": readers}, "sources": {"shop": shop}}


def config(readers: list[str], **layout: object) -> ReplicationConfig:
    return ReplicationConfig.model_validate(document(readers, layout))


def test_the_configuration_has_the_version_that_all_readers_read() -> None:
    assert config([]).lake.format_version == 3
    assert config(["trino", "athena"]).lake.format_version == 2
    assert config(["spark"], format_version=2).lake.format_version == 3


@pytest.mark.parametrize(
    ("reader", "layout", "said"),
    [
        ("athena", {"format_version": 3}, "Athena does not read format version 3"),
        (
            "clickhouse",
            {"format_version": 3, "delete_mode": "merge-on-read"},
            "ClickHouse does not apply deletion vectors",
        ),
        ("without_deletes", {"delete_mode": "merge-on-read"}, "does not apply position deletes"),
    ],
    ids=str,
)
def test_a_layout_that_contradicts_a_reader_is_refused(
    reader: str, layout: dict[str, object], said: str
) -> None:
    message = str(error_of(yaml.safe_dump(document([reader], layout))))
    assert "shop.public.o" in message
    assert said in message
