"""The files of a table are laid out as configured, whatever is done to the table."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any

import pytest
from pyiceberg.manifest import DataFile, DataFileContent

from cdc_assets.errors import TerminalError
from cdc_assets.merge.intake import read
from cdc_assets.operate.services import Services
from cdc_assets.operations.compact import COMPACT, CompactOptions
from cdc_assets.operations.operation import Progress
from cdc_assets.operations.running import Runner
from cdc_assets.operations.session import Host
from cdc_assets.registry import RegistryFile
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


def ids(made: Pipeline) -> list[int]:
    return sorted(key for key in made.by_key(TABLE) if isinstance(key, int))


def day_of(row: dict[str, object]) -> int:
    day = row["day"]
    assert isinstance(day, date)
    return (day - date(1970, 1, 1)).days


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
        keys = [(r["n"] is None, -(r["n"] or 0), r["name"] or "") for r in rows]
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
    assert (len(rows), day_of(rows[3]), 4 in rows) == (29, 7, False)
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
    assert sorted(map(int, map(str, rows))) == [1, *range(3, 13), 50]
    assert rows[1]["name"] == "other"
    assert len(spec(made)) == len(terms)
    made.produce(TABLE, [truncate(600, commit=599), change("c", 1, 1, 610)])
    made.merge(TABLE)
    assert ids(made) == [1]


def laid_out_anew(made: Pipeline, layout: dict[str, Any], **table: Any) -> Pipeline:
    """The same table with another layout in its configuration."""
    said = configured(layout, **table)
    return Pipeline(made.base, made.spark, made.folder, said, prefix=made.prefix)


def compacted(made: Pipeline, *, rewrite: bool = False) -> list[str]:
    RegistryFile(made.config.registry).add([made.entry(TABLE)])
    options = CompactOptions(table=str(made.entry(TABLE).table), rewrite=rewrite)
    said = list[Progress]()
    results = Runner(Services(made.config), Host("a-run", made.spark), said.append).run(
        COMPACT, options
    )
    assert not results.is_bad, results.failed
    return [each.words for each in said]


def test_compaction_stays_within_partitions_and_keeps_the_order(pipeline: Make) -> None:
    made = start(pipeline, *first(9), **configured(BY_DAY))
    for n in range(3):
        made.produce(TABLE, [change("c", 100 + 3 * n + d, d, 1000 + 30 * n + d) for d in range(3)])
        made.merge(TABLE)
    before = made.by_key(TABLE)
    assert len(files(made)) == 12
    compacted(made)
    assert len(files(made)) == 3
    assert days(made) == {0: 6, 1: 6, 2: 6}
    require_sorted(made)
    assert made.by_key(TABLE) == before


def test_a_changed_layout_is_of_new_files_until_a_rewrite(pipeline: Make) -> None:
    made = start(pipeline, *first(9), **configured({}))
    assert days(made) == {None: 9}
    made = laid_out_anew(made, BY_DAY)
    made.produce(TABLE, [change("u", 1, 8, 1000), change("c", 10, 1, 1010)])
    made.merge(TABLE)
    assert days(made) == {None: 9, 8: 1, 1: 1}
    rows = made.by_key(TABLE)
    compacted(made, rewrite=True)
    assert days(made) == {0: 3, 1: 3, 2: 3, 8: 1}
    require_sorted(made)
    assert made.by_key(TABLE) == rows
    made = laid_out_anew(made, {"partition_by": ["bucket(2, id)"], "sort_by": []})
    compacted(made, rewrite=True)
    assert spec(made) == ["bucket[2]"]
    assert sum(days(made).values()) == 10
    made.produce(TABLE, [change("u", 1, 1, 1020), change("d", 2, 1, 1030)])
    made.merge(TABLE)
    made = laid_out_anew(made, {"partition_by": []})
    made.produce(TABLE, [change("u", 1, 2, 1040), change("d", 3, 1, 1050)])
    made.merge(TABLE)
    assert ids(made) == [1, *range(4, 11)]
    assert spec(made) == []


def test_a_rebuild_keeps_the_layout(pipeline: Make) -> None:
    made = start(pipeline, *first(9), **configured({}))
    made = laid_out_anew(made, BY_DAY)
    RegistryFile(made.config.registry).add([made.entry(TABLE)])
    rows = made.by_key(TABLE)
    assert run_rebuild(made.config, str(made.entry(TABLE).table)).is_done
    assert days(made) == {0: 3, 1: 3, 2: 3}
    require_sorted(made)
    assert made.by_key(TABLE) == rows


def test_a_rebuild_that_replaces_the_columns_keeps_the_layout(pipeline: Make) -> None:
    said = {**BY_DAY, "partition_by": ["day(day)", "truncate(1, name)"]}
    made = start(pipeline, *first(9), **configured(said))
    columns = {**COLUMNS, "n": "bigint"}
    made = laid_out_anew(made, said, columns=columns)
    RegistryFile(made.config.registry).add([made.entry(TABLE)])
    rows = made.by_key(TABLE)
    assert run_rebuild(made.config, str(made.entry(TABLE).table)).is_done
    assert days(made) == {0: 3, 1: 3, 2: 3}
    require_sorted(made)
    assert made.by_key(TABLE) == rows
    made.produce(TABLE, [change("u", 1, 8, 1000), change("d", 2, 2, 1010)])
    made.merge(TABLE)
    assert spec(made) == ["day", "truncate[1]"]
    assert ids(made) == [1, *range(3, 10)]
    require_sorted(made)


def test_a_layout_by_hand_is_left_alone(pipeline: Make) -> None:
    made = start(pipeline, *first(9), **configured({}))
    table = f"lake.{made.entry(TABLE).target}"
    made.spark().sql(f"ALTER TABLE {table} ADD PARTITION FIELD day")
    made.spark().sql(f"ALTER TABLE {table} WRITE LOCALLY ORDERED BY n DESC, name")
    made.produce(TABLE, [change("u", 1, 8, 1000), change("c", 11, 1, 1010), change("d", 2, 2, 5)])
    made.merge(TABLE)
    assert days(made) == {None: 9, 8: 1, 1: 1}
    assert spec(made) == ["identity"]
    made.produce(TABLE, [change("u", 1, 1, 1040), change("d", 3, 1, 1050)])
    made.merge(TABLE)
    assert day_of(made.by_key(TABLE)[1]) == 1


def test_a_new_column_with_the_name_of_a_partition_can_have_another_name(pipeline: Make) -> None:
    made = start(pipeline, *first(9), **configured(BY_DAY))
    columns: dict[str, Any] = {**COLUMNS, "day_day": "string"}
    made = laid_out_anew(made, BY_DAY, columns=columns)
    row = {"id": 1, "day": 5, "n": 1, "name": "y", "day_day": "z"}
    made.produce(TABLE, [event("u", row, 1000, commit=999)])
    with pytest.raises(TerminalError, match="names of partition fields of the lake table: day_day"):
        made.merge(TABLE)
    columns["day_day"] = {"type": "string", "rename": "day_of_day"}
    made = laid_out_anew(made, BY_DAY, columns=columns)
    made.merge(TABLE)
    assert made.by_key(TABLE)[1]["day_of_day"] == "z"
    assert spec(made) == ["day"]


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ({"partition_by": ["day(nothing)"]}, "names a column nothing"),
        ({"partition_by": ["hour(day)"]}, r"hour\(day\): day is of type date"),
        ({"sort_by": ["truncate(3, day)"]}, "day is of type date"),
    ],
)
def test_a_layout_that_does_not_fit_stops_the_table_at_its_start(
    pipeline: Make, layout: dict[str, Any], said: str
) -> None:
    made = pipeline(**configured(layout))
    made.create_topic(TABLE)
    made.produce(TABLE, first(3))
    with pytest.raises(TerminalError, match=said):
        made.merge(TABLE)
    assert made.rows(TABLE) == []


@pytest.mark.parametrize("key", [("id",), ("day", "id")], ids=["id", "day and id"])
def test_large_batches_look_for_rows_where_they_may_be(
    pipeline: Make, monkeypatch: pytest.MonkeyPatch, key: tuple[str, ...]
) -> None:
    """And find them elsewhere, too: moved, deleted, completed, late, new."""
    monkeypatch.setattr(read, "ONE_TASK", 0)
    said = {"columns": {**COLUMNS, "id": "int"}, "primary_key": list(key), "layout": BY_DAY}
    made = pipeline(tables={TABLE: said})
    made.create_topic(TABLE)

    def sent(op: str, id_: int, day: int, lsn: int, name: str = "x", **more: Any) -> Message:
        row = {"id": id_, "day": day, "n": (id_ * 7) % 5, "name": name}
        return event(op, row, lsn, commit=lsn - 1, key=key, **more)

    made.produce(TABLE, [sent("c", n, n % 7, 10 * n) for n in range(1, 70)])
    made.merge(TABLE)
    expected = {n: ("x", n % 7) for n in range(1, 70)}
    moved = {"before": {"id": 2, "day": 2, "n": 4, "name": "x"}}
    made.produce(
        TABLE,
        [
            sent("u", 1, 1, 1000, "u"), sent("u", 2, 6, 1010, "moved", **moved),
            sent("d", 3, 3, 1020), sent("c", 100, 3, 1030), sent("u", 8, 1, 1040, PLACEHOLDER),
            sent("c", 101, 9, 1050), sent("u", 101, 9, 1060, "twice"),
        ],
    )  # fmt: skip
    made.merge(TABLE)
    del expected[3]
    expected |= {1: ("u", 1), 2: ("moved", 6), 100: ("x", 3), 101: ("twice", 9)}

    def found() -> dict[object, tuple[object, int]]:
        return {row["id"]: (row["name"], day_of(row)) for row in made.rows(TABLE)}

    assert found() == expected
    made.produce(TABLE, [sent("u", 1, 1, 900, "late"), sent("u", 4, 4, 1100, "new")])
    made.merge(TABLE)
    assert found() == {**expected, 4: ("new", 4)}
    assert len(made.rows(TABLE)) == len(expected)


@pytest.mark.parametrize(
    ("mode", "terms", "fields"),
    [
        ("changelog", ["day(_cdc_ts)", "bucket(2, id)"], ["day", "bucket[2]"]),
        ("history", ["bucket(2, id)"], ["identity", "bucket[2]"]),
    ],
)
def test_tables_of_every_mode_have_a_layout(
    pipeline: Make, monkeypatch: pytest.MonkeyPatch, mode: str, terms: list[str], fields: list[str]
) -> None:
    monkeypatch.setattr(read, "ONE_TASK", 0)
    said = {"columns": {**COLUMNS, "id": "int"}, "mode": mode, "primary_key": ["id"]}
    layout = {"partition_by": terms, "sort_by": ["n desc", "name"]}
    made = start(pipeline, *first(9), tables={TABLE: {**said, "layout": layout}})
    made.produce(
        TABLE, [change("u", 1, 5, 1000), change("d", 2, 2, 1010), change("c", 10, 1, 1020)]
    )
    made.merge(TABLE)
    made.produce(TABLE, [change("u", 1, 6, 1030), change("u", 3, 3, 500, "late")])
    made.merge(TABLE)
    assert spec(made) == fields
    require_sorted(made)
    count = Counter(row["id"] for row in made.rows(TABLE))
    assert (count[1], count[2], count[3]) == ((3, 2, 2) if mode == "changelog" else (3, 1, 2))
