"""What an attempt that was not published has written beside the table counts for nobody."""

from __future__ import annotations

import pytest

from cdc_assets.lake.carried import SideMark
from cdc_assets.lake.side import SideState, side_name
from cdc_assets_tests.faults import Death, Fault, How, faults
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE, Make, names, start
from cdc_assets_tests.pipeline import Message, Pipeline

pytestmark = pytest.mark.stack


def made(id_: int, name: str | None, lsn: int, **more: object) -> Message:
    return event("c", {"id": id_, "name": name}, lsn, commit=lsn - 1, **more)  # type: ignore[arg-type]


def beside_an_old_change(pipeline: Make) -> Pipeline:
    """A delete in a batch that has to look up what the lake knows, remembered and not published."""
    table = start(pipeline, made(1, "a", 10), made(2, "b", 20),
                  event("d", {"id": 3, "name": None}, 50, commit=49))  # fmt: skip
    late = event("u", {"id": 1, "name": "late"}, 5, commit=4)
    table.produce(TABLE, [late, event("d", {"id": 2, "name": None}, 40, commit=39)])
    with faults(Fault("spark: append to side table", How.DEATH)), pytest.raises(Death):
        table.merge(TABLE)
    return table


def test_a_delete_of_an_attempt_that_died_is_carried_out_by_the_next(pipeline: Make) -> None:
    table = beside_an_old_change(pipeline)
    assert names(table) == {1: "a", 2: "b"}
    table.merge(TABLE)
    assert names(table) == {1: "a"}


def test_counting_what_was_not_published_would_keep_the_row(
    pipeline: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The naive rule, which the test above must catch."""
    monkeypatch.setattr(SideState, "readable", lambda self, mark: self.head)
    monkeypatch.setattr(SideState, "stands_at", lambda self, mark: True)
    table = beside_an_old_change(pipeline)
    table.merge(TABLE)
    assert names(table) == {1: "a", 2: "b"}


def test_a_table_that_is_rolled_back_forgets_what_it_remembered_since(pipeline: Make) -> None:
    table = start(pipeline, made(1, "a", 10), made(2, "b", 20),
                  event("d", {"id": 3, "name": None}, 30, commit=29))  # fmt: skip
    target = table.entry(TABLE).target
    before = table.lake.state(target)
    assert before is not None
    gone = event("d", {"id": 2, "name": None}, 40, commit=39)
    late = event("u", {"id": 1, "name": "late"}, 5, commit=4)
    table.produce(TABLE, [late, gone])
    table.merge(TABLE)
    assert names(table) == {1: "a"}
    table.spark().sql(f"CALL lake.system.rollback_to_snapshot('{target}', {before.snapshot_id})")
    assert names(table) == {1: "a", 2: "b"}
    table.merge(TABLE)
    assert names(table) == {1: "a"}
    after = table.lake.history(target, 1)[0].carried.side
    side = table.lake.side(side_name(target))
    assert side is not None
    assert isinstance(after, SideMark)
    assert side.stands_at(after)


def test_remembered_deletes_that_were_compacted_still_count(pipeline: Make) -> None:
    table = start(pipeline, made(1, "a", 10), made(2, "b", 20))
    for n in (1, 2):
        gone = event("d", {"id": n, "name": None}, 30 + n, commit=29)
        table.produce(TABLE, [gone])
        table.merge(TABLE)
    side = side_name(table.entry(TABLE).target)
    table.spark().sql(
        f"CALL lake.system.rewrite_data_files(table => '{side}', options => map('min-input-files','1', 'rewrite-all', 'true'))"  # noqa: E501
    )
    table.spark().sql(
        f"CALL lake.system.expire_snapshots(table => '{side}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"  # noqa: E501
    )
    state = table.lake.side(side_name(table.entry(TABLE).target))
    assert state is not None
    assert len(state.kept) == 1
    late = event("u", {"id": 1, "name": "late"}, 9, commit=8)
    table.produce(
        TABLE, [late, made(3, "c", 50), event("d", {"id": 3, "name": None}, 60, commit=59)]
    )
    table.merge(TABLE)
    assert names(table) == {}
