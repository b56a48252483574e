"""Tables that were made or altered in part, or by two writers at once, are completed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from cdc_assets.errors import CdcError, LogReplacedError
from cdc_assets.merge.intake.planning import Planner
from cdc_assets_tests.faults import Death, Fault, How, faults
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.pipeline import Pipeline
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.waiting import until

pytestmark = pytest.mark.stack

COLUMNS = {"columns": {"c1": "text", "c2": "text"}}


def row(lsn: int, **values: Any) -> Any:
    return event("c", values, lsn, commit=lsn - 1)


@profiles.in_soak
@pytest.mark.parametrize("step", ["DescribeColumns", "AddColumns"])
def test_a_column_that_was_half_added_is_there_after_the_next_try(
    pipeline: Make, step: str
) -> None:
    table = start(pipeline, row(10, id=1), tables={TABLE: COLUMNS})
    table.produce(TABLE, [row(20, id=2, c1="x")])
    with faults(Fault(f"spark: {step}", How.DEATH)), pytest.raises(Death):
        table.merge(TABLE)
    table.merge(TABLE)
    table.produce(TABLE, [row(30, id=3, c1="y")])
    table.merge(TABLE)
    assert [each["c1"] for _, each in sorted(table.by_key(TABLE).items())] == [None, "x", "y"]


def test_two_writers_add_different_columns_at_once(pipeline: Make) -> None:
    """They begin together; one that loses may fail once, but not twice."""
    table = start(pipeline, row(10, id=1), tables={TABLE: COLUMNS})
    begun = Barrier(2)
    table.produce(TABLE, [row(20, id=2, c1="x"), row(30, id=3, c1="x", c2="y")])
    writers = [
        Pipeline(table.base, table.spark, table.folder,
                 {**table.source, "batch": {"max_records": most}}, table.prefix)
        for most in (1, 2)
    ]  # fmt: skip

    def write(mine: Pipeline) -> None:
        begun.wait(60)
        try:
            mine.merge(TABLE)
        except CdcError:
            mine.merge(TABLE)

    with ThreadPoolExecutor(2) as both:
        list(both.map(write, writers))
    table.merge(TABLE)
    assert table.by_key(TABLE) == {
        1: {"id": 1, "c1": None, "c2": None},
        2: {"id": 2, "c1": "x", "c2": None},
        3: {"id": 3, "c1": "x", "c2": "y"},
    }
    table.produce(TABLE, [row(40, id=4, c1="z", c2="z")])
    table.merge(TABLE)
    assert table.by_key(TABLE)[4] == {"id": 4, "c1": "z", "c2": "z"}


def test_a_key_that_iceberg_takes_for_no_identifier_is_a_key_all_the_same(pipeline: Make) -> None:
    table = start(pipeline, row(10, id=1.5, name="a"), row(20, id=2.5, name="b"))
    state = table.lake.state(table.entry(TABLE).target)
    assert state is not None
    assert state.key == ()
    table.produce(
        TABLE,
        [
            event("d", {"id": 1.5, "name": None}, 30, commit=29),
            event("u", {"id": 2.5, "name": "B"}, 40, commit=39),
        ],
    )
    table.merge(TABLE)
    assert table.rows(TABLE) == [{"id": 2.5, "name": "B"}]


def test_a_topic_that_is_recreated_while_it_is_read_publishes_nothing(
    pipeline: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = start(pipeline, row(10, id=1, name="a"))
    table.produce(TABLE, [row(20, id=2, name="b")])
    recreated = []
    check = Planner.require_same_topic

    def recreate(self: Planner, plan: Any) -> None:
        for future in table.admin.delete_topics([table.topic(TABLE)]).values():
            future.result(30)
        until(lambda: table.topic(TABLE) not in table.admin.list_topics(timeout=30).topics, "gone")
        table.create_topic(TABLE)
        recreated.append(plan)
        check(self, plan)

    monkeypatch.setattr(Planner, "require_same_topic", recreate)
    with pytest.raises(LogReplacedError, match="recreated while it was read"):
        table.merge(TABLE)
    assert recreated
    assert set(table.by_key(TABLE)) == {1}


def test_rows_of_a_compacted_table_of_format_2_are_not_counted_away(pipeline: Make) -> None:
    """Deletes may outlive the files that they belong to; a table must not look empty by them."""
    table = pipeline()
    lake = table.config.lake.model_copy(update={"format_version": 2})
    table.config = table.config.model_copy(update={"lake": lake})
    table.create_topic(TABLE)
    table.produce(TABLE, [row(10, id=1, name="a")])
    table.merge(TABLE)
    table.produce(TABLE, [event("u", {"id": 1, "name": "b"}, 20, commit=19)])
    table.merge(TABLE)
    target = table.entry(TABLE).target
    table.spark().sql(
        f"CALL lake.system.rewrite_data_files(table => '{target}', options => map('min-input-files','1', 'rewrite-all', 'true'))"  # noqa: E501
    )
    state = table.lake.state(target)
    assert state is not None
    assert not state.is_empty
    assert state.total_records in (None, 1)
    table.produce(TABLE, [event("u", {"id": 1, "name": "c"}, 30, commit=29)])
    table.merge(TABLE)
    assert table.rows(TABLE) == [{"id": 1, "name": "c"}]
