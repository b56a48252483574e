"""Other engines read what batches have written, in each format: the same rows, or they refuse."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cdc_assets_tests.engines import ENGINES, run
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.merge.test_layouts import change, configured
from cdc_assets_tests.pipeline import Pipeline

pytestmark = pytest.mark.stack

FORMATS = {
    "v2, position deletes": {"format_version": 2, "delete_mode": "merge-on-read"},
    "v3, deletion vectors": {"format_version": 3, "delete_mode": "merge-on-read"},
    "v2, copies": {"format_version": 2, "delete_mode": "copy-on-write"},
    "v3, copies": {"format_version": 3, "delete_mode": "copy-on-write"},
}


def changed(pipeline: Make, said: dict[str, object]) -> Pipeline:
    """A table in three partitions with updates, deletes and moved rows, by several batches."""
    rows = [change("c", n, n % 3, 10 * n) for n in range(1, 31)]
    made = start(pipeline, *rows, **configured({"partition_by": ["day(day)"], **said}))
    made.produce(TABLE, [change("u", n, n % 3, 1000 + n, f"u{n}") for n in range(1, 31, 4)])
    made.merge(TABLE)
    made.produce(TABLE, [change("d", n, n % 3, 2000 + n) for n in range(2, 31, 5)])
    made.produce(TABLE, [change("u", 3, 7, 2100, "moved"), change("c", 99, 1, 2200)])
    made.merge(TABLE)
    return made


@pytest.mark.parametrize("format_", FORMATS)
def test_engines_read_the_rows_or_refuse(
    pipeline: Make, format_: str, record_property: Callable[[str, object], None]
) -> None:
    made = changed(pipeline, FORMATS[format_])
    table = read_table(made.config, made.entry(TABLE).target)
    assert table is not None
    expected = sorted([row["id"], row["name"]] for row in made.rows(TABLE))
    for engine in ENGINES:
        found = run(engine, table.metadata_location)
        if found is None:
            continue
        refused = found.get("error")
        record_property(f"{engine} {found.get('versions')}", refused or "right")
        print(f"{format_} | {engine} {found.get('versions')} | {refused or 'right'}")
        assert refused or found["rows"] == expected, engine
        assert not refused or engine != "pyiceberg"
