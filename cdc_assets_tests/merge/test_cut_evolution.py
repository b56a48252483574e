"""A change of a table's columns that is cut anywhere is completed by the next plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc_assets.merge.plan.table_steps import DropColumns
from cdc_assets.schema.policy import Policy
from cdc_assets.schema.types import Column, Decimal, Identity, Primitive, TableSchema, Wire
from cdc_assets_tests.merge.simulated_table import SimulatedTable

pytestmark = pytest.mark.unit

KEY = ("id", Primitive.INT, 1)
NAME = ("name", Primitive.STRING, 2)
AGE = ("age", Primitive.INT, 3)
PRICE = ("price", Decimal(8, 2), 4)


def record(*columns: tuple[str, object, int], key: tuple[str, ...] = ("id",)) -> TableSchema:
    return TableSchema(tuple(column(*each) for each in columns), key)


def column(name, type_, number) -> Column:
    required = number == 1
    return Column(name, type_, Wire.STRING, required, identity=Identity(number=number))


def renamed(column_: tuple[str, object, int], name: str) -> tuple[str, object, int]:
    return (name, *column_[1:])


FIRST = record(KEY, NAME, AGE, PRICE)
WIDE_AGE = ("age", Primitive.LONG, 3)
BORN = ("born", Primitive.DATE, 5)
CHAINS = {
    "add": [record(KEY, NAME, AGE, PRICE, BORN)],
    "add two, one after the other": [
        record(KEY, NAME, AGE, PRICE, BORN),
        record(KEY, NAME, AGE, PRICE, BORN, ("more", Primitive.LONG, 6)),
    ],
    "widen": [record(KEY, NAME, WIDE_AGE, ("price", Decimal(12, 2), 4))],
    "rename": [record(KEY, renamed(NAME, "called"), AGE, PRICE)],
    "rename and widen": [record(KEY, NAME, renamed(WIDE_AGE, "years"), PRICE)],
    "rename, add and widen": [record(KEY, renamed(NAME, "called"), WIDE_AGE, PRICE, BORN)],
    "rename twice": [
        record(KEY, renamed(NAME, "called"), AGE, PRICE),
        record(KEY, renamed(NAME, "title"), AGE, PRICE),
    ],
    "rename back": [
        record(KEY, renamed(NAME, "called"), AGE, PRICE),
        record(KEY, NAME, AGE, PRICE),
    ],
    "rename back and again": [
        record(KEY, renamed(NAME, "called"), AGE, PRICE),
        record(KEY, NAME, AGE, PRICE),
        record(KEY, renamed(NAME, "called"), AGE, PRICE),
    ],
    "rename the key": [record(renamed(KEY, "number"), NAME, AGE, PRICE, key=("number",))],
    "rename the key, and back": [
        record(renamed(KEY, "number"), NAME, AGE, PRICE, key=("number",)),
        FIRST,
    ],
    "rename the key and widen it": [
        record(("number", Primitive.LONG, 1), NAME, AGE, PRICE, key=("number",)),
    ],
    "rename two at once": [record(KEY, renamed(NAME, "called"), renamed(AGE, "years"), PRICE)],
}
LAST = {
    name: tuple((c[0], c[1], c[2]) for c in found)
    for name, found in {
        "add": (KEY, NAME, AGE, PRICE, BORN),
        "add two, one after the other": (
            KEY, NAME, AGE, PRICE, BORN, ("more", Primitive.LONG, 6),
        ),
        "widen": (KEY, NAME, WIDE_AGE, ("price", Decimal(12, 2), 4)),
        "rename": (KEY, renamed(NAME, "called"), AGE, PRICE),
        "rename and widen": (KEY, NAME, renamed(WIDE_AGE, "years"), PRICE),
        "rename, add and widen": (KEY, renamed(NAME, "called"), WIDE_AGE, PRICE, BORN),
        "rename twice": (KEY, renamed(NAME, "title"), AGE, PRICE),
        "rename back": (KEY, NAME, AGE, PRICE),
        "rename back and again": (KEY, renamed(NAME, "called"), AGE, PRICE),
        "rename the key": (renamed(KEY, "number"), NAME, AGE, PRICE),
        "rename the key, and back": (KEY, NAME, AGE, PRICE),
        "rename the key and widen it": (("number", Primitive.LONG, 1), NAME, AGE, PRICE),
        "rename two at once": (KEY, renamed(NAME, "called"), renamed(AGE, "years"), PRICE),
    }.items()
}  # fmt: skip


def run(table: SimulatedTable, chain: list[TableSchema], policy: Policy | None = None) -> None:
    for each in chain:
        _, steps = table.plan([each], policy)
        for effect in table.effects(steps):
            effect()


def require_settled(table: SimulatedTable, chain: list[TableSchema]) -> None:
    """The table lacks nothing, neither for the newest records nor without any."""
    assert table.plan([])[1] == ()
    assert table.plan(chain[-1:])[1] == ()


def shown(table: SimulatedTable) -> tuple[object, ...]:
    """By field id: its name, type, number, and whether it is of the key."""
    known = {each.name: each for each in table.schema.columns}
    fields = {f.id: (f.name, f.type, known[f.name].identity.number) for f in table.fields}
    return fields, table.key, table.schema.key, table.state.key


@pytest.mark.parametrize("name", CHAINS)
def test_the_columns_are_the_sources_and_the_key_is_the_key(name: str) -> None:
    table, chain = SimulatedTable(FIRST), CHAINS[name]
    run(table, chain)
    require_settled(table, chain)
    assert shown(table) == (
        dict(enumerate(LAST[name], 1)), (1,), chain[-1].key, chain[-1].key,
    )  # fmt: skip
    assert [each.sent_as for each in table.schema.columns] == [each[0] for each in LAST[name]]


@pytest.mark.parametrize("after", ["the same records", "none", "older records", "the newest"])
@pytest.mark.parametrize("name", CHAINS)
def test_a_run_that_is_cut_anywhere_is_completed_by_the_next(name: str, after: str) -> None:
    chain, whole = CHAINS[name], SimulatedTable(FIRST)
    run(whole, chain)
    for stage, each in enumerate(chain):
        begun = SimulatedTable(FIRST)
        run(begun, chain[:stage])
        statements = len(list(begun.effects(begun.plan([each])[1])))
        for done in range(statements + 1):
            table = begun.copy()
            for effect in list(table.effects(table.plan([each])[1]))[:done]:
                effect()
            between = {
                "the same records": [each], "none": [], "older records": [FIRST],
                "the newest": chain[-1:],
            }[after]  # fmt: skip
            if between == [FIRST] and chain[-1] != FIRST:
                numbers = [replace(c, identity=Identity()) for c in FIRST.columns]
                between = [replace(FIRST, columns=tuple(numbers))]
            found, steps = table.plan(between)
            assert not any(plan.refused for plan in found.changes)
            for effect in table.effects(steps):
                effect()
            run(table, chain[stage:])
            require_settled(table, chain)
            fields = {f.id: f.name for f in table.fields}
            assert (len(fields), table.key) == (len(whole.fields), (1,)), (stage, done)
            assert {shown(table)[0][i] for i in fields} == {shown(whole)[0][i] for i in fields}
            assert table.schema.key == table.state.key == whole.schema.key


@pytest.mark.parametrize("done", range(3))
def test_a_column_that_was_renamed_and_dropped_does_not_come_back_by_either_name(done) -> None:
    table = SimulatedTable(FIRST)
    called = record(KEY, renamed(NAME, "called"), AGE, PRICE)
    run(table, [called])
    column_ = table.schema.column("called")
    names = tuple(dict.fromkeys((column_.name, *column_.identity.was)))
    for effect in list(table.effects([DropColumns(names)]))[:done]:
        effect()
    rest = record(KEY, AGE, PRICE)
    run(table, [rest])
    gone = done > 0
    assert [each.name for each in table.fields] == [
        "id",
        *([] if gone else ["called"]),
        "age",
        "price",
    ]
    assert table.schema.names == tuple(each.name for each in table.fields)


def test_of_a_dropped_column_all_names_must_be_said() -> None:
    table = SimulatedTable(FIRST)
    run(table, [record(KEY, renamed(NAME, "called"), AGE, PRICE)])
    for effect in table.effects([DropColumns(("called",))]):
        effect()
    assert "name" in table.schema.names


@pytest.mark.parametrize("first", [1, 2], ids=["marked", "dropped"])
@pytest.mark.parametrize("second", range(5))
def test_a_dropped_column_and_a_new_one_of_its_name_are_two(first: int, second: int) -> None:
    table = SimulatedTable(FIRST)
    for effect in list(table.effects([DropColumns(("age",))]))[:first]:
        effect()
    again = record(KEY, NAME, PRICE, ("age", Primitive.STRING, 9))
    for effect in list(table.effects(table.plan([again])[1]))[:second]:
        effect()
    run(table, [again])
    require_settled(table, [again])
    age = table.of("age")
    assert (age.id, age.type, table.schema.column("age").identity.number) == (
        5,
        Primitive.STRING,
        9,
    )
    assert len(table.fields) == 4


def test_a_dropped_column_of_two_names_and_a_new_one_of_the_first_are_two() -> None:
    table = SimulatedTable(FIRST)
    run(table, [record(KEY, renamed(NAME, "called"), AGE, PRICE)])
    for effect in table.effects([DropColumns(("called", "name"))]):
        effect()
    again = record(KEY, AGE, PRICE, ("name", Primitive.LONG, 9))
    run(table, [again])
    require_settled(table, [again])
    assert (table.of("name").id, table.of("name").type) == (5, Primitive.LONG)
    assert table.schema.column("name").identity.number == 9


def test_columns_that_have_taken_each_others_names_are_refused() -> None:
    table = SimulatedTable(FIRST)
    found, _ = table.plan([record(KEY, ("name", Primitive.INT, 3), ("age", Primitive.STRING, 2))])
    assert len(found.changes[0].refused) == 2


def test_a_name_that_a_column_had_in_the_lake_is_given_to_no_other() -> None:
    table = SimulatedTable(FIRST)
    policy = Policy(names={"born": "name"})
    called = renamed(NAME, "called")
    run(table, [record(KEY, called, AGE, PRICE)])
    run(table, [record(KEY, called, AGE, PRICE, BORN)], policy)
    last = record(KEY, renamed(NAME, "title"), AGE, PRICE, BORN)
    run(table, [last], policy)
    found = {each.sent_as: each.name for each in table.schema.columns}
    assert found == {
        "id": "id", "title": "title", "age": "age", "price": "price", "born": "name__2",
    }  # fmt: skip
    assert sorted(each.name for each in table.fields) == sorted(found.values())
    assert table.plan([last], policy)[1] == ()


def test_somebody_elses_column_is_in_nobodys_way() -> None:
    table = SimulatedTable(FIRST)
    table.fields.append(replace(table.fields[-1], id=99, name="theirs"))
    more = record(KEY, NAME, AGE, PRICE, BORN)
    run(table, [more])
    assert table.schema.names == more.names
    assert [each.name for each in table.fields] == [*FIRST.names, "theirs", "born"]
