"""Cuts in a catalog in a database: one row each, which names a snapshot of every table."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from cdc_assets.changes.names import LakeName, cuts_name
from cdc_assets.effects import Moment, hooked
from cdc_assets.errors import ConfigError, ConflictError
from cdc_assets.lake.cuts import (
    TAG,
    CutLake,
    CutSnapshot,
    StoredCut,
    consistent,
    snapshots_in_cuts,
)
from cdc_assets.lake.moving_back import set_tag
from cdc_assets.operate.consistent_command import statements
from cdc_assets_tests.configuration import NOWHERE
from cdc_assets_tests.lake_view import open_catalog
from cdc_assets_tests.world import NOW, World

pytestmark = pytest.mark.slow

TABLES = (LakeName("shop_public", "orders"), LakeName("shop_public", "lines"))
DAY = timedelta(days=1)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two tables of one publish."""
    made = World(tmp_path, NOWHERE)
    for name in TABLES:
        made.publish(name, {0: 0}, {0: 1})
    return made


def cut_of(world: World, number: int) -> StoredCut:
    """The present heads."""
    catalog, tables = open_catalog(world.config), list[CutSnapshot]()
    for name in TABLES:
        table = catalog.load_table((name.namespace, name.name))
        head = table.current_snapshot()
        assert head is not None
        tables.append(
            CutSnapshot(
                "public", name.name, name.namespace, name.name,
                str(table.metadata.table_uuid), head.snapshot_id,
            )
        )  # fmt: skip
    at = NOW + timedelta(minutes=number)
    return StoredCut(number, "shop.transaction", f"7{number}", number, at, at, at, tuple(tables))


def tags(world: World) -> list[int | None]:
    catalog = open_catalog(world.config)
    loaded = (catalog.load_table((name.namespace, name.name)) for name in TABLES)
    refs = (table.metadata.refs.get(TAG) for table in loaded)
    return [ref.snapshot_id if ref else None for ref in refs]


def test_tables_are_read_as_of_a_cut(world: World) -> None:
    lake, catalog = CutLake(world.config), open_catalog(world.config)
    with pytest.raises(ConfigError, match="no consistent cut"):
        consistent(catalog, "shop")
    first = cut_of(world, 1)
    assert lake.add_cut("shop", first, DAY)
    for name in TABLES:
        world.publish(name, {0: 1}, {0: 5})
    second = cut_of(world, 2)
    assert lake.add_cut("shop", second, DAY)
    world.publish(TABLES[0], {0: 5}, {0: 7})
    assert lake.cuts("shop") == (second, first)

    now, then = consistent(catalog, "shop"), consistent(catalog, "shop", first.committed_at)
    assert (now.cut, then.cut) == (second, first)
    ids = {name: each.scan().to_arrow()["id"].to_pylist() for name, each in now.items()}
    assert ids == {"public.orders": [4, 1], "public.lines": [4, 1]}
    assert [each.scan().to_arrow().num_rows for each in then.values()] == [1, 1]
    with pytest.raises(ConfigError, match="up to"):
        consistent(catalog, "shop", first.committed_at - timedelta(seconds=1))
    with pytest.raises(NotImplementedError):
        now["public.orders"].append(now["public.orders"].scan().to_arrow())

    head, orders, _ = statements(now, "lake", "trino", None)
    assert head.startswith("-- cut 2: transaction 72, committed ")
    snapshot = second.tables[0].snapshot
    assert orders == f'SELECT * FROM "lake"."shop_public"."orders" FOR VERSION AS OF {snapshot};'
    _, view, _ = statements(now, "la`ke", "spark", "at")
    table = f"`la``ke`.`shop_public`.`orders` VERSION AS OF {snapshot}"
    assert view == f"CREATE OR REPLACE VIEW `la``ke`.`at`.`orders` AS SELECT * FROM {table};"


def test_a_number_is_given_once(world: World) -> None:
    lake, cut = CutLake(world.config), cut_of(world, 1)
    assert lake.add_cut("shop", cut, DAY)
    other = replace(cut, transaction="another process was first")
    assert not lake.add_cut("shop", other, DAY)
    assert lake.cuts("shop") == (cut,)


def test_logs_of_one_source_take_the_next_numbers(world: World) -> None:
    """Both have begun a cut at once; the tables of one hold none of the other up."""
    lake, cut = CutLake(world.config), cut_of(world, 1)
    other = replace(cut, log="second.transaction")
    assert lake.add_cut("shop", cut, DAY) == cut
    assert lake.add_cut("shop", other, DAY) == replace(other, number=2)
    assert lake.add_cut("shop", other, DAY) is None
    catalog = open_catalog(world.config)
    assert consistent(catalog, "shop", log=other.log).cut == replace(other, number=2)
    again = replace(cut, end_offset=0, end_sent_at=NOW + DAY)
    assert lake.add_cut("shop", again, 2 * DAY) == replace(again, number=3), "of a new topic"
    earlier = replace(cut, end_offset=0, end_sent_at=NOW)
    assert lake.add_cut("shop", earlier, DAY) is None


def test_of_two_processes_one_adds_its_cut_and_the_other_tries_again(world: World) -> None:
    lake, other = CutLake(world.config), CutLake(world.config)
    cuts = [cut_of(world, number) for number in range(5)]
    with open_catalog(world.config).load_table(made(lake, world)).transaction() as change:
        change.remove_properties("commit.retry.num-retries")  # as older releases made it
    assert lake.add_cut("shop", cuts[2], DAY)
    rivals = [cuts[3]]

    def intrude(point: str, moment: Moment) -> None:
        if (point, moment) == ("lake: add cut", Moment.BEFORE) and rivals:
            assert other.add_cut("shop", rivals.pop(), DAY)

    with hooked(intrude), pytest.raises(ConflictError, match="has changed the cuts"):
        lake.add_cut("shop", replace(cuts[3], transaction="of the slower one"), DAY)
    assert lake.cuts("shop") == (cuts[3], cuts[2], cuts[1])
    rivals.append(cuts[4])
    with hooked(intrude), pytest.raises(ConflictError, match="has changed the cuts"):
        lake.add_cut("shop", cut_of(world, 5), timedelta(0))
    assert lake.cuts("shop")[0] == cuts[4], "a rewrite of the table has not removed it"


def made(lake: CutLake, world: World) -> tuple[str, str]:
    """The name of the table, with a first cut."""
    assert lake.add_cut("shop", cut_of(world, 1), DAY)
    name = cuts_name("shop")
    return name.namespace, name.name


def test_cuts_are_kept_for_a_time_and_keep_their_snapshots(world: World) -> None:
    lake = CutLake(world.config)
    cuts = [cut_of(world, 1)]
    world.publish(TABLES[0], {0: 1}, {0: 2})
    cuts += [cut_of(world, 40), cut_of(world, 80)]
    for each in cuts:
        lake.add_cut("shop", each, timedelta(hours=1))
    assert [each.number for each in lake.cuts("shop")] == [80, 40]
    kept = snapshots_in_cuts(world.config, ["shop"], TABLES[0])
    assert set(kept) == {cuts[1].tables[0].snapshot}
    assert snapshots_in_cuts(world.config, [], TABLES[0]) == ()


def test_a_cut_of_a_clock_that_was_ahead_is_not_kept_until_that_time(world: World) -> None:
    lake, keep = CutLake(world.config), timedelta(hours=1)
    ahead = replace(cut_of(world, 1), added_at=NOW + 365 * DAY)
    for each in (ahead, cut_of(world, 40), cut_of(world, 80), cut_of(world, 120)):
        lake.add_cut("shop", each, keep)
    assert [each.number for each in lake.cuts("shop")] == [120, 80]


def test_a_cut_of_which_a_table_is_gone_is_withdrawn(world: World) -> None:
    lake, catalog = CutLake(world.config), open_catalog(world.config)
    first = cut_of(world, 1)
    lake.add_cut("shop", first, DAY)
    name = TABLES[1]
    catalog.drop_table((name.namespace, name.name))
    world.publish(name, {0: 0}, {0: 3})
    second = cut_of(world, 2)
    lake.add_cut("shop", second, DAY)
    with pytest.raises(ConfigError):
        consistent(catalog, "shop", first.committed_at)
    assert lake.settle("shop", second)
    assert lake.cuts("shop") == (second,)


def test_the_tag_is_never_moved_to_a_snapshot_that_is_gone(world: World) -> None:
    """A process died before it moved the tag; then one of the tables was rebuilt."""
    lake, catalog = CutLake(world.config), open_catalog(world.config)
    cut = cut_of(world, 1)
    lake.add_cut("shop", cut, DAY)
    name = TABLES[1]
    catalog.drop_table((name.namespace, name.name))
    world.publish(name, {0: 0}, {0: 3})
    assert not lake.settle("shop", cut)
    assert lake.cuts("shop") == ()
    assert tags(world) == [None, None]


def test_the_tags_of_all_tables_move_in_one_commit_or_none_does(world: World) -> None:
    lake, catalog = CutLake(world.config), open_catalog(world.config)
    first = cut_of(world, 1)
    assert lake.settle("shop", first)
    assert tags(world) == [each.snapshot for each in first.tables]
    for name in TABLES:
        world.publish(name, {0: 1}, {0: 2})
    second = cut_of(world, 2)
    looked = [(catalog.load_table((n.namespace, n.name)), t.snapshot)
              for n, t in zip(TABLES, second.tables, strict=True)]  # fmt: skip
    world.publish(TABLES[1], {0: 2}, {0: 3})
    with pytest.raises(ConflictError):
        set_tag(looked, TAG)
    assert tags(world) == [each.snapshot for each in first.tables]
    assert lake.settle("shop", second)
    assert tags(world) == [each.snapshot for each in second.tables]


def test_files_of_replaced_cuts_are_removed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_assets.lake.cuts._READ_FOR", timedelta(0))
    monkeypatch.setattr("cdc_assets.lake.cuts._MOST_FILES", 5)
    lake, most = CutLake(world.config), 0
    for number in range(1, 40):
        assert lake.add_cut("shop", cut_of(world, number), DAY)
        files = [each for each in tmp_path.rglob("cdc_assets_consistent/**/*") if each.is_file()]
        most = max(most, len([each for each in files if ".metadata.json" not in each.name]))
    assert [each.number for each in lake.cuts("shop")] == [*range(39, 0, -1)]
    assert most < 30, "each commit adds a data file, a manifest and a list"
