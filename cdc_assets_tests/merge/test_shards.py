"""Several source tables in one lake table: what one of them does leaves the others as they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cdc_assets.errors import TerminalError
from cdc_assets.lake.side import side_name
from cdc_assets.operate.contiguity import gaps
from cdc_assets.operate.discovery import discover
from cdc_assets.operate.services import Services
from cdc_assets.operate.survey import survey
from cdc_assets.orchestration.keys import op_name, pool_name
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.merge.at_once import merge_at_once
from cdc_assets_tests.merge.events import PLACEHOLDER, event, tombstone, truncate
from cdc_assets_tests.operated import run_rebuild
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

ONE, TWO = "shop_1.items", "shop_2.items"
RULE = {"tables": r"shop_(?P<number>\d+)\..*", "namespace": "{source}_all", "shard": "{number}"}
Rows = dict[tuple[object, ...], object]


@pytest.fixture
def shards(pipeline: Callable[..., Pipeline]) -> Callable[..., Pipeline]:
    """Both tables, merged once with these messages."""

    def start(one: list[Message], two: list[Message], **source: object) -> Pipeline:
        made = pipeline(merge_into=[RULE], **source)
        for table, messages in ((ONE, one), (TWO, two)):
            made.create_topic(table)
            made.produce(table, messages)
            made.merge(table)
        return made

    return start


def created(id_: int, name: str, lsn: int, table: str = "public.t") -> Message:
    return event("c", {"id": id_, "name": name}, lsn, commit=lsn - 1, table=table)


def deleted(id_: int, lsn: int) -> list[Message]:
    return [event("d", {"id": id_, "name": None}, lsn, commit=lsn - 1), tombstone(id_)]


def names(made: Pipeline) -> Rows:
    """By shard and id."""
    return {key: row["name"] for key, row in made.by_key(ONE, ("shard", "id")).items()}


@profiles.in_soak
def test_rows_of_equal_keys_lie_side_by_side_and_change_by_themselves(
    shards: Callable[..., Pipeline],
) -> None:
    made = shards([created(1, "a", 10), created(2, "b", 20)], [created(1, "A", 1000)])
    assert names(made) == {("1", 1): "a", ("1", 2): "b", ("2", 1): "A"}
    assert made.entry(ONE).target == made.entry(TWO).target
    moved = event("u", {"id": 3, "name": PLACEHOLDER}, 30, commit=29, before={"id": 2, "name": "b"})
    made.produce(ONE, [*deleted(1, 25), moved])
    made.produce(TWO, [event("u", {"id": 1, "name": "B"}, 1010, commit=1009)])
    made.merge(ONE)
    made.merge(TWO)
    assert names(made) == {("1", 3): "b", ("2", 1): "B"}
    made.produce(ONE, [event("u", {"id": 1, "name": "late"}, 22, commit=21)])
    made.produce(TWO, [created(2, "C", 21)])
    (late,) = made.merge(ONE)
    (older,) = made.merge(TWO)
    assert (late.stale, older.stale) == (1, 0), "each has positions and deletes of its own"
    assert names(made) == {("1", 3): "b", ("2", 1): "B", ("2", 2): "C"}
    for table in (ONE, TWO):
        made.replay(table)
        entry = made.entry(table)
        history = made.lake.history(entry.target, 100, entry.shard_value)
        assert len(history) == 3, "a replay that finds nothing to do publishes nothing"
        assert gaps(history) == []
    assert names(made) == {("1", 3): "b", ("2", 1): "B", ("2", 2): "C"}


def test_each_is_found_as_a_table_by_itself_and_takes_its_turn(
    shards: Callable[..., Pipeline],
) -> None:
    made = shards([created(1, "a", 10, ONE)], [created(1, "A", 10, TWO)])
    both = [made.entry(ONE), made.entry(TWO)]
    entries = discover(Services(made.config)).registry
    found = [each for each in entries if each.table.source == made.prefix]
    assert [(e.table, e.target, e.shard) for e in found] == [
        (e.table, e.target, e.shard) for e in both
    ]
    assert [each.shard_value for each in found] == ["1", "2"]
    assert len({pool_name(made.config, each) for each in found}) == 1
    assert len({op_name(made.config, each.table) for each in found}) == 2
    seen = survey(Services(made.config), both)
    assert [each.lag_changes for each in seen.tables] == [0, 0]
    made.produce(TWO, [created(2, "B", 20)])
    assert [each.lag_changes for each in survey(Services(made.config), both).tables] == [0, 1]


@profiles.in_soak
def test_a_hostile_value_is_one_like_others(pipeline: Callable[..., Pipeline]) -> None:
    odd = "it's `{number}`/../=% 订; DROP\\"
    made = pipeline(merge_into=[{**RULE, "shard": odd}])
    for table in (ONE, TWO):
        made.create_topic(table)
        made.produce(table, [created(1, "a", 10), created(2, "b", 11)])
        made.merge(table)
    made.produce(ONE, [*deleted(1, 20), event("u", {"id": 2, "name": "c"}, 21, commit=19)])
    made.merge(ONE)
    made.produce(TWO, [truncate(30, commit=29), created(3, "d", 40)])
    made.merge(TWO)
    one, two = (odd.replace("{number}", each) for each in "12")
    assert names(made) == {(one, 2): "c", (two, 3): "d"}


@pytest.mark.parametrize("deletes", ["hard", pytest.param("soft", marks=profiles.in_soak)])
def test_a_truncate_empties_its_own_shard(shards: Callable[..., Pipeline], deletes: str) -> None:
    said = {"tables": {table: {"deletes": deletes} for table in (ONE, TWO)}}
    made = shards([created(1, "a", 10)], [created(1, "A", 10), created(2, "B", 11)], **said)
    made.produce(ONE, [truncate(20, commit=19), created(2, "b", 30)])
    made.merge(ONE)
    table = made.spark().table(f"lake.{made.entry(ONE).target}")
    there = table if deletes == "hard" else table.where("NOT _cdc_deleted")
    found = {(row["shard"], row["id"]) for row in there.collect()}
    assert found == {("1", 2), ("2", 1), ("2", 2)}
    made.produce(TWO, [event("u", {"id": 1, "name": "older than that"}, 15, commit=14)])
    (merged,) = made.merge(TWO)
    assert merged.stale == 0


def test_what_is_known_of_a_shard_outlives_the_snapshots_that_said_it(
    shards: Callable[..., Pipeline],
) -> None:
    made = shards([created(1, "a", 10), *deleted(1, 20)], [created(1, "A", 10)])
    for lsn in (30, 40):
        made.produce(TWO, [event("u", {"id": 1, "name": str(lsn)}, lsn, commit=lsn - 1)])
        made.merge(TWO)
    entry = made.entry(ONE)
    before = made.lake.state(entry.target, entry.shard_value)
    expire = f"CALL lake.system.expire_snapshots(table => '{entry.target}', "
    made.spark().sql(f"{expire} older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)")
    assert before is not None
    after = made.lake.state(entry.target, entry.shard_value)
    assert after is not None
    assert after.published == before.published
    made.produce(ONE, [event("u", {"id": 1, "name": "late"}, 15, commit=14), created(2, "b", 30)])
    (merged,) = made.merge(ONE)
    assert merged.stale == 1
    assert names(made) == {("1", 2): "b", ("2", 1): "40"}


def test_a_shard_that_joins_later_brings_its_columns(shards: Callable[..., Pipeline]) -> None:
    said = {table: {"columns": {"born": "date"}} for table in (ONE, TWO)}
    made = shards([created(1, "a", 10)], [], tables=said)
    made.produce(TWO, [event("c", {"id": 1, "name": "A", "born": 19000}, 5, commit=4)])
    made.merge(TWO)
    rows = made.by_key(ONE, ("shard", "id"))
    assert [str(rows[key]["born"]) for key in (("1", 1), ("2", 1))] == ["None", "2022-01-08"]
    made.produce(ONE, [event("u", {"id": 1, "name": "b", "born": None}, 20, commit=19)])
    made.merge(ONE)
    assert names(made) == {("1", 1): "b", ("2", 1): "A"}
    table = read_table(made.config, made.entry(ONE).target)
    assert table is not None
    assert [each.name for each in table.spec().fields] == ["shard"]
    assert sorted(table.schema().identifier_field_names()) == ["id", "shard"]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (created(1, "a", 10), "columns name arrive in another way"),
        (event("c", {"no": 1, "name": 1}, 10, commit=9, key=("no",)), "its key is shard, no"),
        *(
            pytest.param(*each, marks=profiles.in_soak)
            for each in (
                (event("c", {"id": 1, "name": 1}, 10, commit=9, key=()), "has no key"),
                (event("c", {"id": 1, "shard": 1}, 10, commit=9), "has a column 'shard'"),
                (
                    Message(b'{"id":1}', b'{"id":1,"name":1,"__op":"c","__lsn":7}'),
                    "of another kind",
                ),
            )
        ),
    ],
    ids=["types", "key", "keyless", "name", "dialect"],
)
def test_a_table_that_is_unlike_the_others_does_not_join_them(
    shards: Callable[..., Pipeline], message: Message, reason: str
) -> None:
    made = shards([event("c", {"id": 1, "name": 1}, 10, commit=9)], [])
    made.produce(TWO, [message])
    with pytest.raises(TerminalError, match=reason):
        made.merge(TWO)
    made.produce(ONE, [event("c", {"id": 2, "name": 2}, 20, commit=19)])
    made.merge(ONE)
    assert names(made) == {("1", 1): 1, ("1", 2): 2}


def test_a_table_that_was_made_for_one_takes_no_others(pipeline: Callable[..., Pipeline]) -> None:
    into = {"namespace": "{source}_all", "table": "{table}"}
    alone = pipeline(target=into)
    alone.create_topic(ONE)
    alone.produce(ONE, [created(1, "a", 10)])
    alone.merge(ONE)
    made = Pipeline(alone.base, alone.spark, alone.folder, {"merge_into": [RULE]}, alone.prefix)
    with pytest.raises(TerminalError, match="was not made by cdc_assets, or"):
        made.merge(ONE)
    assert alone.by_key(ONE) == {1: {"id": 1, "name": "a"}}


def test_one_is_built_anew_while_the_others_go_on(shards: Callable[..., Pipeline]) -> None:
    made = shards(
        [created(1, "a", 10), created(2, "b", 20), *deleted(2, 30)], [created(1, "A", 10)]
    )
    registry = RegistryFile(made.config.registry)
    registry.add([made.entry(ONE), made.entry(TWO)])
    target = made.entry(ONE).target
    made.spark().sql(f"DELETE FROM lake.{target} WHERE id = 1")
    assert names(made) == {}
    assert run_rebuild(made.config, str(made.entry(ONE).table)).is_done
    assert names(made) == {("1", 1): "a"}
    made.produce(TWO, [created(3, "C", 40)])
    made.merge(TWO)
    made.produce(ONE, [event("u", {"id": 2, "name": "late"}, 25, commit=24), created(3, "c", 40)])
    (merged,) = made.merge(ONE)
    assert merged.stale == 1, "what was deleted before is remembered"
    assert run_rebuild(made.config, str(made.entry(TWO).table)).is_done
    expected = {("1", 1): "a", ("1", 3): "c", ("2", 1): "A", ("2", 3): "C"}
    assert names(made) == expected
    tags = set(made.lake.branches(target)) - {"main"}
    assert len(tags) == 2, "each has kept what it replaced"
    assert made.lake.side(side_name(made.entry(ONE).stem)) is not None
    for table in (ONE, TWO):
        made.produce(table, [created(4, "d", 50)])
        made.merge(table)
        assert run_rebuild(made.config, str(made.entry(table).table), forget=True).is_done
    assert names(made) == {**expected, ("1", 4): "d", ("2", 4): "d"}
    assert set(made.lake.branches(target)) == {"main"}


@profiles.in_soak
def test_two_at_once_do_not_lose_what_the_other_has_published(
    shards: Callable[..., Pipeline],
) -> None:
    made = shards([created(0, "0", 10)], [created(0, "0", 10)], batch={"max_records": 20})
    for table in (ONE, TWO):
        made.produce(table, [created(n % 30, str(n), 20 + n) for n in range(100)])
    merged = merge_at_once(made, ONE, TWO)
    for place, table in enumerate((ONE, TWO)):
        merged[place] += sum(result.records for result in made.merge(table))
        entry = made.entry(table)
        assert gaps(made.lake.history(entry.target, 1000, entry.shard_value)) == []
    assert merged == [100, 100]
    last = {n % 30: str(n) for n in range(100)}
    assert names(made) == {(shard, n): last[n] for shard in "12" for n in last}
