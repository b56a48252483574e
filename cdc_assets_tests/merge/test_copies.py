"""A table whose readers apply no deletes: files with removed rows are copied without these."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise

import pytest
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table

from cdc_assets.effects import hooked
from cdc_assets.errors import TerminalError
from cdc_assets.merge.intake import read
from cdc_assets.schema.readers import version_for
from cdc_assets_tests.faults import Anywhere, Death, Fault, How, faults
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.merge.events import PLACEHOLDER, truncate
from cdc_assets_tests.merge.one_table import TABLE, Make, names, start
from cdc_assets_tests.merge.test_layouts import (
    change,
    compacted,
    configured,
    laid_out_anew,
)
from cdc_assets_tests.pipeline import Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

COPIES = {"delete_mode": "copy-on-write"}


def now(made: Pipeline) -> Table:
    found = read_table(made.config, made.entry(TABLE).target)
    assert found is not None
    return found


def paths(made: Pipeline, content: DataFileContent = DataFileContent.DATA) -> set[str]:
    """The files of the head; of deletes with another content."""
    table = now(made)
    head = table.current_snapshot()
    assert head is not None
    found = (e for m in head.manifests(table.io) for e in m.fetch_manifest_entry(table.io))
    return {each.data_file.file_path for each in found if each.data_file.content is content}


def marks(made: Pipeline) -> set[str]:
    return paths(made, DataFileContent.POSITION_DELETES)


def identities(made: Pipeline) -> dict[int, tuple[int, int]]:
    """Of each row what format version 3 knows it by, and the commit that last changed it."""
    own = ("_row_id", "_last_updated_sequence_number")
    rows = made.spark().table(f"lake.{made.entry(TABLE).target}").select("id", *own)
    return {row["id"]: (row[own[0]], row[own[1]]) for row in rows.collect()}


@pytest.mark.parametrize("in_one_task", [True, False], ids=["one task", "several"])
@pytest.mark.parametrize("version", [2, 3])
def test_only_files_with_removed_rows_are_replaced_by_one_commit(
    pipeline: Make, monkeypatch: pytest.MonkeyPatch, version: int, *, in_one_task: bool
) -> None:
    if not in_one_task:
        monkeypatch.setattr(read, "ONE_TASK", 0)
    said = {**COPIES, "partition_by": ["day(day)"], "format_version": version}
    columns = {"id": "int", "day": "date", "n": "int", "name": "string"}
    made = pipeline(tables={TABLE: {"columns": columns, "primary_key": ["id"], "layout": said}})
    made.create_topic(TABLE)
    made.produce(TABLE, [change("c", n, n % 3, 10 * n) for n in range(1, 10)])
    made.merge(TABLE)
    before, table = paths(made), now(made)
    known = identities(made) if version == 3 else {}
    made.produce(TABLE, [change("u", 3, 0, 1000, "y"), change("d", 6, 0, 1010)])
    made.produce(TABLE, [change("c", 10, 1, 1020)])
    made.merge(TABLE)
    found = {row["id"]: row["name"] for row in made.rows(TABLE)}
    assert found == {**dict.fromkeys((1, 2, 4, 5, 7, 8, 9, 10), "x"), 3: "y"}
    assert not marks(made)
    assert len(before - paths(made)) == 1, "two of the three files stay"
    after = now(made)
    assert len(after.snapshots()) == len(table.snapshots()) + 1
    assert set(after.metadata.refs) == {"main"}
    if version == 3:
        stays = {*known} - {3, 6}
        assert {n: identities(made)[n] for n in stays} == {n: known[n] for n in stays}


def test_all_rows_of_a_table_may_go(pipeline: Make) -> None:
    made = start(pipeline, *(change("c", n, 0, 10 * n) for n in (1, 2)), **configured(COPIES))
    made.produce(TABLE, [change("d", n, 0, 100 * n) for n in (1, 2)])
    made.merge(TABLE)
    assert (made.rows(TABLE), paths(made), marks(made)) == ([], set(), set())
    made.produce(TABLE, [change("u", 1, 0, 50, "late"), change("c", 3, 0, 1000)])
    made.merge(TABLE)
    assert names(made) == {3: "x"}


def test_a_batch_of_several_writes_copies_on_its_branch(pipeline: Make) -> None:
    made = start(pipeline, *(change("c", n, 0, 10 * n) for n in (1, 2, 3)), **configured(COPIES))
    made.produce(TABLE, [change("u", 1, 0, 90, "y"), truncate(100, commit=99)])
    made.produce(TABLE, [change("c", n, 0, 100 + n) for n in (2, 7)])
    made.produce(TABLE, [change("u", 7, 0, 120, PLACEHOLDER), truncate(103, commit=102)])
    made.produce(TABLE, [change("c", 8, 0, 130)])
    made.merge(TABLE)
    assert names(made) == {7: "x", 8: "x"}
    assert not marks(made)


def publishes(made: Pipeline) -> list[tuple[int, int]]:
    """Where each begins and ends, the newest first."""
    found = made.lake.history(made.entry(TABLE).target, 1000)
    return [(each.start.get(0), each.offsets.get(0)) for each in found]


def cut_off_anywhere(made: Pipeline, how: How, places: Iterable[int], *, several: bool) -> int:
    """Merges a batch for each of these effects of it, which fails, and once more; stops after the
    last effect. The number of effects that failed."""
    merged = dict(names(made))
    for place in places:
        lsn, new = 1_000 * place, 100 + place
        if several:
            made.produce(TABLE, [truncate(lsn + 1, commit=lsn)])
            merged = {}
        made.produce(TABLE, [change("c" if several else "u", 1, 0, lsn + 10, f"n{place}")])
        made.produce(TABLE, [change("d", new - 1, 0, lsn + 20), change("c", new, 0, lsn + 30)])
        fails = Anywhere(place=place, how=how)
        with hooked(fails), suppress(Exception, Death):
            made.merge(TABLE)
        made.merge(TABLE)
        merged |= {1: f"n{place}", new: "x"}
        merged.pop(new - 1, None)
        assert names(made) == merged, f"{[str(each) for each in fails.happened]}"
        assert not marks(made)
        if not fails.happened:
            return place - 1
    return len(list(places))


def require_each_once(made: Pipeline) -> None:
    line = publishes(made)
    assert all(older[1] == newer[0] for newer, older in pairwise(line)), line
    assert line[-1][0] == 0


@profiles.in_soak
@pytest.mark.parametrize("several", [False, True], ids=["one write", "several"])
@pytest.mark.parametrize("how", How)
def test_a_batch_that_fails_at_any_effect_is_merged_once(
    pipeline: Make, how: How, *, several: bool
) -> None:
    rows = (change("c", n, 0, n) for n in (1, 2, 100))
    made = start(pipeline, *rows, **configured(COPIES))
    assert cut_off_anywhere(made, how, range(1, 60), several=several) > 3
    require_each_once(made)


@pytest.mark.parametrize("how", How)
def test_a_batch_that_fails_as_it_is_published_is_merged_once(pipeline: Make, how: How) -> None:
    made = start(pipeline, *(change("c", n, 0, n) for n in (1, 2)), **configured(COPIES))
    made.produce(TABLE, [change("u", 1, 0, 10, "y"), change("d", 2, 0, 20)])
    with faults(Fault("spark: publish rows", how)) as failed, suppress(Exception, Death):
        made.merge(TABLE)
    assert failed.happened
    made.merge(TABLE)
    assert names(made) == {1: "y"}
    assert not marks(made)
    require_each_once(made)


@pytest.mark.parametrize("version", [2, 3])
def test_a_table_of_marks_is_rid_of_them_by_a_rewrite(pipeline: Make, version: int) -> None:
    said: dict[str, object] = {"format_version": version}
    made = start(pipeline, *(change("c", n, 0, 10 * n) for n in range(1, 9)), **configured(said))
    made.produce(TABLE, [change("d", 1, 0, 100), change("u", 2, 0, 110, "y")])
    made.merge(TABLE)
    assert marks(made)
    made = laid_out_anew(made, {**said, **COPIES})
    made.produce(TABLE, [change("c", 9, 0, 200)])
    made.merge(TABLE)
    assert marks(made), "files that nothing was removed from since stay as they are"
    expected = {**dict.fromkeys(range(3, 10), "x"), 2: "y"}
    assert names(made) == expected
    compacted(made, rewrite=True)
    assert not marks(made)
    made.produce(TABLE, [change("d", 3, 0, 300)])
    made.merge(TABLE)
    del expected[3]
    assert names(made) == expected
    assert not marks(made)
    made = laid_out_anew(made, {**said, "delete_mode": "merge-on-read"})
    made.produce(TABLE, [change("d", 4, 0, 400)])
    made.merge(TABLE)
    del expected[4]
    assert names(made) == expected
    assert marks(made)


@pytest.mark.parametrize("version", [2, 3])
def test_a_file_with_marks_is_copied_without_the_rows_that_they_remove(
    pipeline: Make, version: int
) -> None:
    said: dict[str, object] = {"format_version": version}
    made = start(pipeline, *(change("c", n, 0, 10 * n) for n in range(1, 6)), **configured(said))
    made.produce(TABLE, [change("d", 1, 0, 100)])
    made.merge(TABLE)
    made = laid_out_anew(made, {**said, **COPIES})
    made.produce(TABLE, [change("d", 2, 0, 200)])
    made.merge(TABLE)
    assert names(made) == dict.fromkeys((3, 4, 5), "x")
    if version == 3:
        assert not marks(made)


def read_by(made: Pipeline, *readers: str) -> Pipeline:
    """The same pipeline, with these readers of the lake."""
    lake = made.config.lake.model_copy(
        update={"readers": readers, "format_version": version_for(readers)}
    )
    made.config = made.config.model_copy(update={"lake": lake})
    return made


def test_readers_choose_for_new_tables_and_for_those_that_are_there(pipeline: Make) -> None:
    made = read_by(pipeline(), "spark", "without_deletes")
    made.create_topic(TABLE)
    made.produce(TABLE, [change("c", n, 0, 10 * n) for n in (1, 2, 3)])
    made.merge(TABLE)
    made.produce(TABLE, [change("d", 1, 0, 100)])
    made.merge(TABLE)
    assert now(made).format_version == 2
    assert not marks(made)
    read_by(made, "spark")
    made.produce(TABLE, [change("d", 2, 0, 200)])
    made.merge(TABLE)
    assert now(made).format_version == 2, "the version of new tables is another one"
    assert marks(made)
    assert names(made) == {3: "x"}


def test_a_version_that_a_reader_does_not_read_is_not_rewritten(pipeline: Make) -> None:
    made = start(pipeline, *(change("c", n, 0, 10 * n) for n in (1, 2)), **configured({}))
    read_by(made, "athena")
    with pytest.raises(TerminalError, match="Athena does not read format version 3"):
        compacted(made, rewrite=True)
    read_by(made, "clickhouse")
    made.produce(TABLE, [change("d", 1, 0, 100)])
    made.merge(TABLE)
    assert now(made).format_version == 3
    assert (names(made), marks(made)) == ({2: "x"}, set())
    compacted(made, rewrite=True)
