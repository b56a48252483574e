"""Another process fills the table beside in the very moment in which it takes the old one's place.

The swap records the offsets of the snapshot that it has looked at, and takes the rows of no other:
rows ahead of these offsets would be merged once more, and a table without a key counts them twice.
"""

from __future__ import annotations

import pytest

from cdc_assets.changes.names import LakeName
from cdc_assets.effects import Moment, hooked
from cdc_assets.merge.statements import sql
from cdc_assets.operate.contiguity import gaps
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE, Make, start
from cdc_assets_tests.operated import rebuild_of
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

OLD_ONE_IS = {"overwritten": "", "replaced": "of_a_person string"}
BESIDE_GETS = {"a row": "", "a column, too": "later string"}


def added(row: dict[str, object], lsn: int) -> Message:
    return event("c", row, lsn, commit=lsn - 1, order=1, key=())


@pytest.mark.parametrize(
    ("beside_gets", "old_one_is"),
    [
        ("a column, too", "replaced"),
        pytest.param("a column, too", "overwritten", marks=profiles.in_soak),
        pytest.param("a row", "replaced", marks=profiles.in_soak),
        pytest.param("a row", "overwritten", marks=profiles.in_soak),
    ],
)
def test_it_takes_the_rows_that_its_offsets_say(
    pipeline: Make, old_one_is: str, beside_gets: str
) -> None:
    table = start(pipeline, added({"n": 1}, 10))
    target = table.entry(TABLE).target
    add(table, target, OLD_ONE_IS[old_one_is])
    first, second = (
        rebuild_of(table.config, table.spark, table.entry(TABLE), name) for name in ("a", "b")
    )
    standing = first.tables.standing()
    first.begin(standing, from_now=False)
    assert list(first.fill(standing))
    filled = 0

    def others(point: str, moment: Moment) -> None:
        nonlocal filled
        if (point, moment) == ("spark: tag old table", Moment.BEFORE):
            with hooked(lambda *_: None):
                table.produce(TABLE, [added({"n": 2}, 20)])
                add(table, first.tables.shadow_entry(1).target, BESIDE_GETS[beside_gets])
                filled = len(list(second.fill(standing)))

    with hooked(others):
        assert first.swap(standing)
    assert filled, "nobody came between"
    assert numbers(table) == [1]
    assert table.merge(TABLE)
    assert numbers(table) == [1, 2]
    assert gaps(table.lake.history(target, 100)) == []


def add(table: Pipeline, name: LakeName, column: str) -> None:
    if column:
        table.spark().sql(f"ALTER TABLE lake.{name} ADD COLUMNS ({column})")


def numbers(table: Pipeline) -> list[int]:
    return sorted(int(str(row["n"])) for row in table.rows(TABLE))


@profiles.in_soak
def test_columns_that_came_after_the_last_rows_are_read_under_their_present_names(
    pipeline: Make,
) -> None:
    """A process that died between a batch's steps and its rows leaves such a table beside."""
    table = start(pipeline, added({"n": 1, "name": "a"}, 10))
    rebuild = rebuild_of(table.config, table.spark, table.entry(TABLE), "test")
    standing = rebuild.tables.standing()
    rebuild.begin(standing, from_now=False)
    assert list(rebuild.fill(standing))
    name = sql.table("lake", rebuild.tables.shadow_entry(1).target)
    for statement in ("RENAME COLUMN name TO label", "ADD COLUMNS (later string)"):
        table.spark().sql(f"ALTER TABLE {name} {statement}")
    assert rebuild.swap(standing)
    (row,) = table.rows(TABLE)
    assert (row["label"], row["later"]) == ("a", None)
