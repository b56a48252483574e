"""Built anew beside the old table and swapped in at once, however often it is interrupted."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cdc_assets.changes.names import LakeName
from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.desired import NOTHING, DesiredBook
from cdc_assets.effects import Moment, hooked
from cdc_assets.errors import CdcError, ConflictError, TerminalError
from cdc_assets.lake.at_source import AtSource
from cdc_assets.lake.side import side_name
from cdc_assets.merge.statements import sql
from cdc_assets.operate.contiguity import gaps
from cdc_assets.operate.services import Services
from cdc_assets.operations.drop.operation import RESET, ResetOptions
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.faults import Death, Fault, How, faults
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.merge.one_table import TABLE, Make, names, start
from cdc_assets_tests.operated import rebuild_of, run_rebuild, session_of, steered
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack


def made(id_: int, name: str | None, lsn: int, op: str = "c") -> Message:
    return event(op, {"id": id_, "name": name}, lsn, commit=lsn - 1)


def three(pipeline: Make, **source: object) -> Pipeline:
    """Rows 1 and 3; row 2 was deleted."""
    rows = [made(1, "a", 10), made(2, "b", 20), made(3, "c", 30)]
    table = start(pipeline, *rows, **source)
    table.produce(TABLE, [made(2, None, 40, "d")])
    table.merge(TABLE)
    return table


@profiles.in_soak
def test_what_a_table_has_learned_since_the_swap_stays(pipeline: Make) -> None:
    """The process that has swapped dies, others go on merging, and tidy hours later."""
    table = three(pipeline)
    entry = table.entry(TABLE)
    know(table, entry.target, AtSource("old"))
    rebuild = rebuild_of(table.config, table.spark, entry, "test")
    standing = rebuild.tables.standing()
    rebuild.begin(standing, from_now=False)
    assert list(rebuild.fill(standing))
    know(table, rebuild.tables.shadow_entry(1).target, AtSource("built"))
    assert rebuild.swap(standing)
    known = AtSource.of(table.lake.state(entry.target), "")
    assert known.identity == "built", "from the commit of the swap on"

    know(table, entry.target, replace(known, identity="learned"))
    for lsn in (50, 60):
        table.produce(TABLE, [made(4, "d", lsn, "u")])
        table.merge(TABLE)
    (newest,) = table.lake.history(entry.target, 1)
    assert not newest.carried.at_source, "it is carried until it is stored"
    rebuild.tidy()
    assert AtSource.of(table.lake.state(entry.target), "").identity == "learned"


def know(table: Pipeline, name: LakeName, said: AtSource) -> None:
    """Has a table remember its source's table."""
    table.spark().sql(sql.set_properties("lake", name, said.to_properties("")))


def spoil(table: Pipeline) -> None:
    """Somebody has changed the lake's rows, or we have."""
    target = table.entry(TABLE).target
    table.spark().sql(f"DELETE FROM lake.{target} WHERE id = 1")


def rebuilt(table: Pipeline, **wishes: bool) -> bool:
    registry = RegistryFile(table.config.registry)
    if registry.load().get(table.entry(TABLE).table) is None:
        registry.add([table.entry(TABLE)])
    name = str(table.entry(TABLE).table)
    return run_rebuild(table.config, name, **wishes).is_done


def test_a_table_equals_its_log_again_and_goes_on(pipeline: Make) -> None:
    table = three(pipeline)
    spoil(table)
    assert rebuilt(table, dry_run=True)
    assert names(table) == {3: "c"}
    assert rebuilt(table)
    assert names(table) == {1: "a", 3: "c"}
    table.produce(TABLE, [made(2, "late", 35, "u"), made(4, "d", 50)])
    (result,) = table.merge(TABLE)
    assert result.stale == 1, "what was deleted before the rebuild is remembered after it"
    assert names(table) == {1: "a", 3: "c", 4: "d"}
    entry = table.entry(TABLE)
    history = table.lake.history(entry.target, 100)
    assert gaps(history) == []
    assert "before_rebuild_1" in table.lake.branches(entry.target)
    kept = table.spark().sql(f"SELECT id FROM lake.{entry.target}.tag_before_rebuild_1").collect()
    assert [row["id"] for row in kept] == [3]

    table.produce(TABLE, [made(1, None, 60, "d")])
    assert rebuilt(table), "a second time, with the changes that wait"
    assert names(table) == {3: "c", 4: "d"}
    assert table.lake.history(entry.target, 1)[0].carried.generation == 2
    table.produce(TABLE, [made(1, "late", 55, "u"), made(5, "e", 70)])
    table.merge(TABLE)
    assert names(table) == {3: "c", 4: "d", 5: "e"}
    assert rebuilt(table, forget=True, dry_run=True)
    assert "before_rebuild_2" in table.lake.branches(entry.target)
    assert rebuilt(table, forget=True)
    assert set(table.lake.branches(entry.target)) == {"main"}


@profiles.in_soak
def test_a_table_that_is_to_have_other_columns_is_replaced_with_its_rows(pipeline: Make) -> None:
    table = three(pipeline)
    spark, target = table.spark(), table.entry(TABLE).target
    spark.sql(f"ALTER TABLE lake.{target} SET TBLPROPERTIES ('mine' = 'kept')")
    changed = {**table.source, "tables": {TABLE: {"deletes": "soft"}}}
    soft = Pipeline(table.base, table.spark, table.folder, changed, table.prefix)
    assert rebuilt(soft)
    soft.produce(TABLE, [made(3, None, 50, "d"), made(4, "d", 60)])
    soft.merge(TABLE)
    rows = spark.table(f"lake.{target}").select("id", "name", "_cdc_deleted").collect()
    assert sorted(tuple(row) for row in rows) == [
        (1, "a", False), (2, "b", True), (3, "c", True), (4, "d", False),
    ]  # fmt: skip
    state = soft.lake.state(target)
    assert state is not None
    assert state.properties["mine"] == "kept"
    kept = spark.sql(f"SELECT id FROM lake.{target}.tag_before_rebuild_1").collect()
    assert sorted(row["id"] for row in kept) == [1, 3]


@profiles.in_soak
def test_rows_without_a_key_are_counted_anew(pipeline: Make) -> None:
    rows = [event("c", {"n": n // 2}, 10 + n, commit=9, order=n + 1, key=()) for n in range(4)]
    table = start(pipeline, *rows)
    table.produce(TABLE, [event("d", {"n": 1}, 20, commit=19, order=1, key=())])
    table.merge(TABLE)
    target = table.entry(TABLE).target
    table.spark().sql(f"DELETE FROM lake.{target} WHERE n = 0")
    assert rebuilt(table)
    assert sorted(row["n"] for row in table.rows(TABLE)) == [0, 0, 1]
    again = event("d", {"n": 1}, 20, commit=19, order=1, key=())
    table.produce(TABLE, [again, event("c", {"n": 5}, 30, commit=29, order=1, key=())])
    table.merge(TABLE)
    assert sorted(row["n"] for row in table.rows(TABLE)) == [0, 0, 1, 5]


def test_a_log_that_lost_its_beginning_waits_for_a_snapshot(pipeline: Make) -> None:
    """What the log holds from before is never merged again: here a row that nobody deletes."""
    table = three(pipeline)
    spoil(table)
    table.produce(TABLE, [made(9, "another table's", 45)])
    table.merge(TABLE)
    assert not rebuilt(table, from_snapshot=True)
    desired, name = DesiredBook.of_registry(table.config.registry), table.entry(TABLE).table
    wanted = desired.of(name).rebuild
    assert wanted is not None, "it is known to be built anew while nobody works at it"
    table.produce(TABLE, [made(3, "C", 50, "u")])
    assert not rebuilt(table)
    table.merge(TABLE)
    old = {3: "C", 9: "another table's"}
    assert names(table) == old, "readers see the old table as long as it takes"
    table.produce(TABLE, [snapshot_row(3, "C", "last")])
    assert not rebuilt(table), "a snapshot that was under way before has rows from before"
    table.produce(TABLE, [snapshot_row(1, "a", "first")])
    assert not rebuilt(table), "the next one has only begun"
    table.produce(TABLE, [snapshot_row(3, "C", "last")])
    assert desired.of(name).rebuild == wanted
    assert rebuilt(table)
    assert desired.of(name) == NOTHING
    assert names(table) == {1: "a", 3: "C"}

    (before,) = table.lake.history(table.entry(TABLE).target, 1)
    begun = before.carried.read_from
    assert begun is not None
    again = OffsetRange(0, 0, begun.get(0))
    assert table.replay_offsets(TABLE, again) == [], "nothing of it is the table's"
    assert names(table) == {1: "a", 3: "C"}, "a replay"
    assert rebuilt(table), "a second time, from its log"
    assert names(table) == {1: "a", 3: "C"}
    of, entry = Services(table.config), table.entry(TABLE)
    of.registry.add([entry])
    assert steered(RESET, ResetOptions(), session_of(table.config, entry, table.spark)).done
    assert of.lake.state(entry.target) is None
    entry = of.registry.load().get(entry.table)
    assert entry is not None
    drained = table.replicator().drain(entry, window=None, run_id="reset", budget_seconds=300)
    assert list(drained)
    assert names(table) == {1: "a", 3: "C"}, "a reset"


@profiles.in_soak
def test_a_rebuild_that_has_begun_goes_on_in_its_way(pipeline: Make) -> None:
    """What `--from-snapshot` says is part of the table from its creation on."""
    table = three(pipeline)
    rebuild = rebuild_of(table.config, table.spark, table.entry(TABLE), "test")
    with faults() as seen:
        rebuild.begin(rebuild.tables.standing(), from_now=True)
    assert rebuild.abandon()
    for point in seen.seen:
        with faults(Fault(point, How.DEATH)) as hook, pytest.raises(Death):
            rebuild.begin(rebuild.tables.standing(), from_now=True)
        assert hook.happened
        if rebuild.tables.standing().shadow is not None:
            assert rebuild.begin(rebuild.tables.standing(), from_now=False), point
            assert rebuild.abandon()
    assert rebuild.begin(rebuild.tables.standing(), from_now=False) is None
    with pytest.raises(TerminalError, match="has begun from its log"):
        rebuilt(table, from_snapshot=True)
    assert rebuilt(table)
    assert names(table) == {1: "a", 3: "c"}


@profiles.in_soak
@pytest.mark.parametrize("ends", ["swapped in", "abandoned"])
def test_a_second_process_conflicts_with_the_end_of_the_first(pipeline: Make, ends: str) -> None:
    table = three(pipeline)
    spoil(table)
    entry = table.entry(TABLE)
    first, second = (rebuild_of(table.config, table.spark, entry, name) for name in ("a", "b"))
    standing = first.tables.standing()
    first.begin(standing, from_now=False)
    assert list(first.fill(standing))
    seen = second.tables.standing()
    second.begin(seen, from_now=False)
    if ends == "swapped in":
        assert first.swap(standing)
        first.tidy()
    else:
        assert first.abandon()
    with pytest.raises(ConflictError):
        list(second.fill(seen))
    with pytest.raises(ConflictError):
        second.swap(seen)
    assert table.lake.state(second.tables.shadow_entry(seen.generation).target) is None, (
        "it is not made again"
    )
    assert names(table) == ({1: "a", 3: "c"} if ends == "swapped in" else {3: "c"})
    if ends == "swapped in":
        kept = table.spark().sql(f"SELECT id FROM lake.{entry.target}.tag_before_rebuild_1")
        assert [row["id"] for row in kept.collect()] == [3]


@profiles.in_soak
def test_abandoning_one_that_was_swapped_in_says_so(pipeline: Make) -> None:
    table = three(pipeline)
    spoil(table)
    rebuild = rebuild_of(table.config, table.spark, table.entry(TABLE), "test")
    standing = rebuild.tables.standing()
    rebuild.begin(standing, from_now=False)
    assert list(rebuild.fill(standing))
    assert rebuild.swap(standing)
    registry, said = RegistryFile(table.config.registry), list[str]()
    registry.add([table.entry(TABLE)])
    name = str(table.entry(TABLE).table)
    done = run_rebuild(table.config, name, said.append, abandon=True)
    assert (done.swapped, done.kept) == (True, "before_rebuild_1")
    (words,) = said
    assert "its rows stay" in words
    assert not rebuild.tables.standing().swapped, "it is tidied up"
    assert names(table) == {1: "a", 3: "c"}
    run_rebuild(table.config, name, said.append, abandon=True)
    assert said[-1] == "no rebuild was begun; the table is as it was"


@profiles.in_soak
def test_the_tag_of_an_earlier_rebuild_stays(pipeline: Make) -> None:
    """A table that was set back by other means counts its rebuilds again."""
    table = three(pipeline)
    spark, target = table.spark(), table.entry(TABLE).target
    was, *_, first = table.lake.parents(target)
    spark.sql(f"ALTER TABLE lake.{target} CREATE TAG before_rebuild_1 AS OF VERSION {was}")
    spark.sql(f"CALL lake.system.rollback_to_snapshot('{target}', {first})")
    spoil(table)
    head = table.lake.parents(target)[0]
    assert rebuilt(table)
    tags = table.lake.branches(target)
    assert (tags["before_rebuild_1"], tags["before_rebuild_2"]) == (was, head)


def snapshot_row(id_: int, name: str, mark: str) -> Message:
    message = event("r", {"id": id_, "name": name}, 60)
    value: dict[str, Any] = json.loads(message.value or b"")
    value["source"]["snapshot"] = mark
    return replace(message, value=json.dumps(value).encode())


@profiles.in_soak
def test_a_table_that_changes_all_the_time_is_swapped_in_all_the_same(pipeline: Make) -> None:
    """Its log has something new after each batch, and others go on merging until they are asked.

    Whoever merges was in the middle of a batch then, and publishes amid the first swap.
    """
    table = three(pipeline)
    spoil(table)
    desired, entry = DesiredBook.of_registry(table.config.registry), table.entry(TABLE)
    written, swaps, merges = 0, list[bool](), 0

    def others(point: str, moment: Moment) -> None:
        nonlocal written, merges
        if point == "spark: publish rows" and moment is Moment.AFTER:
            written += 1
            assert written < 20, "it follows the log for ever"
            table.produce(TABLE, [made(3, f"n{written}", 100 + 10 * written, "u")])
        if point == "spark: tag old table" and moment is Moment.BEFORE:
            swaps.append(desired.of(entry.table).yields is not None)
            if len(swaps) == 1:
                with hooked(lambda *_: None):
                    merges = len(table.merge(TABLE))

    with hooked(others):
        assert rebuilt(table)
    assert merges, "nobody came between"
    assert swaps == [True, True], "others are asked to wait, and it tries again"
    assert desired.of(entry.table) == NOTHING
    table.merge(TABLE)
    assert names(table) == {1: "a", 3: f"n{written}"}
    assert gaps(table.lake.history(entry.target, 100)) == []


@pytest.mark.timeout(1800)
def test_it_may_be_interrupted_at_each_effect_and_run_again(pipeline: Make) -> None:
    """`make soak` does so at each effect in both ways; here at the two of the swap."""
    table = three(pipeline)
    session = table.spark

    def run() -> None:
        rebuild = rebuild_of(table.config, session, table.entry(TABLE), "test")
        standing = rebuild.tables.standing()
        if not standing.swapped:
            rebuild.begin(standing, from_now=False)
            list(rebuild.fill(standing))
            assert rebuild.swap(standing)
        rebuild.tidy()

    with faults() as seen:
        run()
    points = [point for point in seen.seen if point.startswith("spark:")]
    own = {"spark: overwrite rows", "spark: tag old table", "spark: drop table"}
    assert own <= set(points)
    number = 1
    ways = (How.BEFORE, How.DEATH)
    for turn, point in enumerate(points if profiles.is_soak() else sorted(own)[1:]):
        for how in ways if profiles.is_soak() else [ways[turn % 2]]:
            spoil(table)
            number += 1
            table.produce(TABLE, [made(1, f"n{number}", 100 + 10 * number, "u")])
            with faults(Fault(point, how)) as hook:
                try:
                    run()
                except (CdcError, Death):
                    assert hook.happened
            assert set(names(table)) in ({3}, {1, 3}), "a whole table, the old or the new one"
            run()
            table.merge(TABLE)
            assert names(table) == {1: f"n{number}", 3: "c"}, f"{point} {how}"


@profiles.in_soak
def test_what_was_abandoned_leaves_nothing_to_the_next(pipeline: Make) -> None:
    table = three(pipeline)
    spoil(table)
    rebuild = rebuild_of(table.config, table.spark, table.entry(TABLE), "test")
    assert not rebuild.abandon()
    standing = rebuild.tables.standing()
    rebuild.begin(standing, from_now=False)
    list(rebuild.fill(standing))
    beside = rebuild.tables.standing().shadow
    assert beside is not None
    side = side_name(beside.name)
    assert table.lake.side(side) is not None
    assert rebuilt(table, abandon=True, dry_run=True)
    assert rebuild.tables.standing().shadow is not None, "a dry run drops nothing"
    with faults(Fault("spark: drop table", How.DEATH)), pytest.raises(Death):
        rebuild.abandon()
    assert table.lake.side(side) is None, "the side table is the first to go"
    with pytest.raises(TerminalError, match="rebuild --abandon"):
        rebuild.begin(rebuild.tables.standing(), from_now=False)
    assert rebuild.abandon()
    assert not rebuild.abandon()
    assert table.lake.state(beside.name) is None
    assert names(table) == {3: "c"}, "readers keep the old table"
    assert rebuilt(table)
    table.produce(TABLE, [made(2, "late", 35, "u"), made(4, "d", 50)])
    table.merge(TABLE)
    assert names(table) == {1: "a", 3: "c", 4: "d"}


def test_a_table_is_rebuilt_whose_side_table_is_gone(pipeline: Make) -> None:
    """It is what the table says that helps: the swap needs nothing of the old rows' side table."""
    table = three(pipeline)
    side = side_name(table.entry(TABLE).target)
    table.spark().sql(f"DROP TABLE lake.{side}")
    table.produce(TABLE, [made(1, "x", 50, "u")])
    with pytest.raises(TerminalError, match=r"the side table .* is gone"):
        table.merge(TABLE)
    assert rebuilt(table)
    table.produce(TABLE, [made(2, "late", 35, "u"), made(4, "d", 60)])
    table.merge(TABLE)
    assert names(table) == {1: "x", 3: "c", 4: "d"}


def test_a_table_that_is_dropped_during_the_swap_stays_dropped(pipeline: Make) -> None:
    table = three(pipeline)
    changed = {**table.source, "tables": {TABLE: {"deletes": "soft"}}}
    soft, target = Pipeline(table.base, table.spark, table.folder, changed, table.prefix), None

    def dropped(point: str, moment: Moment) -> None:
        nonlocal target
        if point == "spark: replace table" and moment is Moment.BEFORE and target is None:
            target = table.entry(TABLE).target
            table.lake.drop(target)

    with hooked(dropped), pytest.raises(CdcError):
        rebuilt(soft)
    assert target is not None
    assert table.lake.state(target) is None


def test_one_that_was_begun_with_another_configuration_says_how_to_begin_again(
    pipeline: Make,
) -> None:
    table = three(pipeline)
    rebuild = rebuild_of(table.config, table.spark, table.entry(TABLE), "test")
    rebuild.begin(rebuild.tables.standing(), from_now=False)
    changed = {**table.source, "tables": {TABLE: {"deletes": "soft"}}}
    soft = Pipeline(table.base, table.spark, table.folder, changed, table.prefix)
    for wishes in ({"dry_run": True}, {}):
        with pytest.raises(TerminalError, match=r"deletes: hard.*begin again, .*--abandon"):
            rebuilt(soft, **wishes)
    assert rebuilt(soft, abandon=True)
    assert rebuilt(soft)
    assert names(soft) == {1: "a", 2: "b", 3: "c"}


def test_a_log_without_the_rows_that_were_read_from_the_source_rebuilds_nothing(
    pipeline: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOWHERE", "postgresql://nobody@127.0.0.1:1/none")
    table = three(pipeline)
    database = {"kind": "postgres", "dsn": {"env": "NOWHERE"}}
    topics = {"include": [rf"{table.prefix}\..*"], "prefix": table.prefix}
    changed = {**table.source, "initial": "read", "database": database, "topics": topics}
    read = Pipeline(table.base, table.spark, table.folder, changed, table.prefix)
    rebuild = rebuild_of(read.config, table.spark, table.entry(TABLE), "test")
    standing = rebuild.tables.standing()
    published = standing.old.published
    assert published is not None
    first = replace(published, carried=replace(published.carried, read_at="00"))
    old = replace(standing.old, published=first)
    with pytest.raises(TerminalError, match=r"read from the source.*--from-source, or --from-snap"):
        rebuild.begin(replace(standing, old=old), from_now=False)
    said = rebuild_of(table.config, table.spark, table.entry(TABLE), "test")
    said.begin(replace(standing, old=old), from_now=False)  # initial: log says that it has all
    assert said.abandon()
