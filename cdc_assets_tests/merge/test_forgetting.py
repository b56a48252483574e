"""Remembered deletes are forgotten once the log has lost them, and not before."""

from __future__ import annotations

import pytest

from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.errors import CdcError
from cdc_assets.lake.carried import SideMark
from cdc_assets.lake.side import side_name
from cdc_assets_tests.faults import Death, Fault, How, faults
from cdc_assets_tests.formats import canal
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.merge.events import event, tombstone
from cdc_assets_tests.merge.one_table import TABLE, Make
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

FEW = {"remembered_deletes": 3}
ROWS = 8


def create(id_: int) -> Message:
    return event("c", {"id": id_, "n": 0}, 10 * id_, commit=10 * id_)


def delete(id_: int) -> list[Message]:
    gone = event("d", {"id": id_, "n": 0}, 1000 + 10 * id_, commit=1000 + 10 * id_)
    return [gone, tombstone(id_, 0)]


def late(id_: int) -> Message:
    """From before its delete, sent after it."""
    return event("u", {"id": id_, "n": 1}, 500 + id_, commit=500 + id_)


def remembered(made: Pipeline, name: str = TABLE) -> set[object]:
    """The keys, by what the newest publish has named."""
    target = made.entry(name).target
    state = made.lake.state(target)
    assert state is not None
    assert state.published is not None
    mark = state.published.carried.side
    assert isinstance(mark, SideMark)
    side = read_table(made.config, side_name(target))
    assert side is not None
    if mark.snapshot is None:
        return set()
    return set(side.scan(snapshot_id=mark.snapshot).to_arrow()["id"].to_pylist())


def begun(pipeline: Make, **source: object) -> Pipeline:
    """Rows, of which the first three were deleted, at offsets 8, 10 and 12."""
    made = pipeline(**{"maintenance": FEW, **source})
    made.create_topic(TABLE)
    made.produce(TABLE, [create(n) for n in range(ROWS)])
    made.merge(TABLE)
    made.produce(TABLE, [message for n in range(3) for message in delete(n)])
    made.merge(TABLE)
    assert remembered(made) == {0, 1, 2}
    return made


def test_what_the_log_still_holds_is_remembered(pipeline: Make) -> None:
    made = begun(pipeline)
    made.expire(TABLE, ROWS + 3)  # the deletes of 0 and 1 are gone
    made.produce(TABLE, delete(3))
    made.merge(TABLE)
    assert remembered(made) == {2, 3}
    made.produce(TABLE, [late(2), late(3), late(7)])
    made.merge(TABLE)
    assert {key: row["n"] for key, row in made.by_key(TABLE).items()} == {4: 0, 5: 0, 6: 0, 7: 1}
    assert remembered(made) == {2, 3}
    made.replay_offsets(TABLE, OffsetRange(0, ROWS + 3, ROWS + 11))
    assert set(made.by_key(TABLE)) == {4, 5, 6, 7}


@profiles.in_soak
@pytest.mark.parametrize(
    "source", [{"maintenance": {"enabled": False}}, {"maintenance": {"remembered_deletes": 4}}]
)
def test_nothing_is_forgotten_where_that_is_not_wanted(
    pipeline: Make, source: dict[str, object]
) -> None:
    made = begun(pipeline, **source)
    made.expire(TABLE, ROWS + 3)
    made.produce(TABLE, delete(3))
    made.merge(TABLE)
    assert remembered(made) == {0, 1, 2, 3}


def test_nothing_is_forgotten_once_keys_may_have_moved(pipeline: Make) -> None:
    made = begun(pipeline)
    made.expire(TABLE, ROWS + 3)
    made.add_partitions(TABLE, 2)
    made.produce(TABLE, delete(3))
    made.merge(TABLE)
    assert remembered(made) == {0, 1, 2, 3}


@profiles.in_soak
def test_a_partition_that_was_never_used_holds_nothing_back(pipeline: Make) -> None:
    made = pipeline(maintenance=FEW)
    made.create_topic(TABLE, 2)
    made.produce(TABLE, [create(n) for n in range(ROWS)])
    made.merge(TABLE)
    made.produce(TABLE, [message for n in range(3) for message in delete(n)])
    made.merge(TABLE)
    made.expire(TABLE, ROWS + 3)
    made.produce(TABLE, delete(3))
    made.merge(TABLE)
    assert remembered(made) == {2, 3}


def test_deletes_of_records_with_several_rows_are_forgotten_too(pipeline: Make) -> None:
    made = pipeline(
        format="canal-json", maintenance=FEW, tables={canal.TABLE: {"primary_key": ["id"]}}
    )
    made.create_topic(canal.TABLE)

    def sent(kind: str, *ids: int) -> None:
        rows = [canal.row(id_, "a name") for id_ in ids]
        made.produce(canal.TABLE, [canal.as_json(canal.flat(kind, rows))])
        made.merge(canal.TABLE)

    sent("INSERT", *range(ROWS))
    for n in range(3):
        sent("DELETE", n)
    assert remembered(made, canal.TABLE) == {0, 1, 2}
    made.expire(canal.TABLE, 3)  # the deletes of 0 and 1 are gone
    sent("DELETE", 3)
    assert remembered(made, canal.TABLE) == {2, 3}


@pytest.mark.parametrize(
    "point",
    ["spark: forget deletes", pytest.param("spark: append to side table", marks=profiles.in_soak)],
)
def test_it_may_end_in_between(pipeline: Make, point: str) -> None:
    made = begun(pipeline)
    ways = list(How) if profiles.is_soak() else [How.DEATH]
    for turn, how in enumerate(ways, start=1):
        made.expire(TABLE, ROWS + 2 * turn)
        made.produce(TABLE, delete(2 + turn))
        with faults(Fault(point, how)) as seen:
            with pytest.raises((CdcError, Death)):
                made.merge(TABLE)
            assert seen.happened
        counted = {*range(turn - 1, 2 + turn)}
        assert remembered(made) == counted, "what was not published counts for nobody"
        made.merge(TABLE)
        assert remembered(made) == {*range(turn, 3 + turn)}
    assert set(made.by_key(TABLE)) == {*range(3 + len(ways), ROWS)}
