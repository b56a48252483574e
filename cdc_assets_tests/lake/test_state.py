"""The state of a table to which other programs write, too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, update_snapshot_summaries

from cdc_assets.changes.names import LakeName
from cdc_assets.lake import Lake, TableState
from cdc_assets.lake.carried import Carried, SideMark
from cdc_assets.lake.side import read_side
from cdc_assets_tests.configuration import NOWHERE
from cdc_assets_tests.lake_view import open_catalog
from cdc_assets_tests.world import World

pytestmark = pytest.mark.unit

ORDERS = LakeName("shop_public", "orders")
SUMMARIES = "pyiceberg.table.update.snapshot.update_snapshot_summaries"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A table of two publishes."""
    made = World(tmp_path, NOWHERE)
    made.publish(ORDERS, {0: 0}, {0: 1})
    made.publish(ORDERS, {0: 1}, {0: 2})
    return made


def table(world: World) -> Table:
    return open_catalog(world.config).load_table((ORDERS.namespace, ORDERS.name))


def state(world: World) -> TableState:
    found = Lake(world.config).state(ORDERS)
    assert found is not None
    return found


def test_a_table_is_not_empty_because_another_writer_counts_wrongly(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As PyIceberg up to 0.9.0 did after it had removed files: none was left by its count."""
    count = update_snapshot_summaries

    def wrongly(*args: Any, **more: Any) -> Any:
        counted = count(*args, **more)
        counted["total-data-files"] = counted["total-records"] = "0"
        return counted

    monkeypatch.setattr(SUMMARIES, wrongly)
    rows = table(world)
    rows.append(rows.scan().to_arrow())
    assert state(world).files == 0
    assert not state(world).is_empty


def test_a_table_is_empty_whose_files_another_writer_has_removed(world: World) -> None:
    assert not state(world).is_empty
    table(world).delete()
    assert state(world).is_empty


def test_columns_that_another_program_has_renamed_or_dropped_are_told(world: World) -> None:
    assert state(world).published_columns == {"id": "id", "name": "name"}
    with table(world).update_schema() as change:
        change.rename_column("id", "number").delete_column("name")
    assert state(world).published_columns == {"id": "number", "name": None}
    table(world).append(table(world).scan().to_arrow())
    assert state(world).published_columns == {"id": "number", "name": None}


def test_the_side_tables_snapshot_of_an_expired_publish_is_kept(world: World) -> None:
    """It is the newest publish, and the table's next batch needs it."""
    last, mark = state(world).published, SideMark(7)
    assert last is not None
    said = replace(last, carried=Carried(side=mark)).to_properties()
    rows = table(world).scan().to_arrow()
    table(world).append(rows, snapshot_properties=said)
    table(world).append(rows)
    *ours, _ = (each.snapshot_id for each in table(world).snapshots())
    table(world).maintenance.expire_snapshots().by_ids(ours).commit()
    assert len(table(world).snapshots()) == 1
    assert Lake(world.config).side_marks(ORDERS, "") == {mark}


def test_a_publish_that_pyiceberg_has_expired_is_found(world: World) -> None:
    """It takes the parents that are gone from the snapshots that stay."""
    last = state(world).published
    rows = table(world)
    rows.append(rows.scan().to_arrow())
    *ours, head = table(world).snapshots()
    table(world).maintenance.expire_snapshots().by_ids([s.snapshot_id for s in ours]).commit()
    assert [each.parent_snapshot_id for each in table(world).snapshots()] == [None]
    assert last is not None
    assert state(world).published == last
    assert state(world).snapshot_id == head.snapshot_id
    assert Lake(world.config).find_states([(ORDERS, "")]) == [state(world)]


def test_a_side_table_that_was_compacted_has_the_entries_that_pyiceberg_has_expired(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = update_snapshot_summaries

    def compacted(*args: Any, **more: Any) -> Any:
        return count(*args, **more).model_copy(update={"operation": Operation.REPLACE})

    monkeypatch.setattr(SUMMARIES, compacted)
    side, rows = table(world), table(world).scan().to_arrow()
    before = side.snapshots()[-1].snapshot_id
    side.append(rows)
    side.append(rows)
    gone = [each.snapshot_id for each in side.snapshots()[:-1]]
    side.maintenance.expire_snapshots().by_ids(gone).commit()
    found = read_side(ORDERS, table(world))
    assert found.kept == {found.head}
    assert found.stands_at(SideMark(before))
    assert not found.stands_at(SideMark(1))
