"""The files of a table are laid out as configured, whatever is done to the table."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyiceberg.manifest import DataFile, DataFileContent

from cdc_assets.errors import TerminalError
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.merge.events import PLACEHOLDER, event, truncate
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.operated import run_rebuild
from cdc_assets_tests.pipeline import Message, Pipeline

pytestmark = pytest.mark.stack

COLUMNS = {"day": "date", "n": "int", "name": "string"}
BY_DAY = {"partition_by": ["day(day)"], "sort_by": ["n desc", "name"]}


def configured(layout: dict[str, Any], **table: Any) -> dict[str, Any]:
    return {"tables": {TABLE: {"columns": COLUMNS, "layout": layout, **table}}}


def change(op: str, id_: int, day: int, lsn: int, name: str = "x") -> Message:
    row = {"id": id_, "day": day, "n": (id_ * 7) % 5, "name": name}
    return event(op, row, lsn, commit=lsn - 1)


def files(made: Pipeline) -> list[DataFile]:
    table = read_table(made.config, made.entry(TABLE).target)
    assert table is not None
    head = table.current_snapshot()
    assert head is not None
    found = (e for m in head.manifests(table.io) for e in m.fetch_manifest_entry(table.io))
    return [e.data_file for e in found if e.data_file.content is DataFileContent.DATA]


def days(made: Pipeline) -> Counter[object]:
    """Rows of data files by the first value of their partition, deleted rows included."""
    found = Counter[object]()
    for each in files(made):
        found[each.partition[0] if len(each.partition) else None] += each.record_count
    return found


def spec(made: Pipeline) -> list[str]:
    table = read_table(made.config, made.entry(TABLE).target)
    assert table is not None
    return [str(each.transform) for each in table.spec().fields]


def in_files(made: Pipeline) -> dict[str, list[dict[str, Any]]]:
    """The rows of each file in their order there."""
    rows = made.spark().table(f"lake.{made.entry(TABLE).target}")
    found = dict[str, list[dict[str, Any]]]()
    for row in rows.select("*", "_file", "_pos").orderBy("_file", "_pos").collect():
        found.setdefault(row["_file"], []).append(row.asDict())
    return found


def require_sorted(made: Pipeline) -> None:
    for rows in in_files(made).values():
        keys = [(-row["n"], row["name"]) for row in rows]
        assert keys == sorted(keys)


def first(count: int = 30) -> list[Message]:
    return [change("c", n, n % 3, 10 * n) for n in range(1, count + 1)]


@pytest.mark.parametrize("version", [2, 3])
def test_a_row_whose_partition_value_changes_moves(pipeline: Make, version: int) -> None:
    made = start(pipeline, *first(), **configured({**BY_DAY, "format_version": version}))
    assert days(made) == {0: 10, 1: 10, 2: 10}
    require_sorted(made)
    made.produce(TABLE, [change("u", 3, 7, 1000), change("d", 4, 1, 1010), change("u", 5, 2, 1020)])
    made.merge(TABLE)
    rows = made.by_key(TABLE)
    assert (len(rows), rows[3]["day"].toordinal() - 719163, 4 in rows) == (29, 7, False)
    assert days(made)[7] == 1
    require_sorted(made)
    table = read_table(made.config, made.entry(TABLE).target)
    assert table is not None
    assert table.metadata.format_version == version


TERMS = [
    ["n"], ["bucket(4, id)"], ["truncate(2, name)"], ["year(day)"], ["months(day)"],
    ["bucket(3, name)", "day(day)", "truncate(2, n)"],
]  # fmt: skip


@pytest.mark.parametrize("terms", TERMS, ids=str)
def test_every_transform_takes_changes_of_each_kind(pipeline: Make, terms: list[str]) -> None:
    said = configured({"partition_by": terms, "sort_by": ["bucket(2, id)", "day(day) desc"]})
    made = start(pipeline, *first(12), **said)
    made.produce(TABLE, [change("u", 1, 400, 500, "other"), change("d", 2, 2, 510)])
    made.merge(TABLE)
    made.produce(TABLE, [change("u", 3, 3, 520, PLACEHOLDER), change("u", 1, 1, 400, "late")])
    made.merge(TABLE)
    made.produce(TABLE, [change("c", 50, 1, 530)])
    made.merge(TABLE)
    rows = made.by_key(TABLE)
    assert sorted(rows) == [1, *range(3, 13), 50]
    assert rows[1]["name"] == "other"
    assert len(spec(made)) == len(terms)
    made.produce(TABLE, [truncate(600, commit=599), change("c", 1, 1, 610)])
    made.merge(TABLE)
    assert sorted(made.by_key(TABLE)) == [1]
