"""Evolution plans: lossless or refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc_assets.schema.evolution import lacking, plan_evolution
from cdc_assets.schema.homes import homes
from cdc_assets.schema.policy import Policy, Reaction
from cdc_assets.schema.stored import from_json, to_json
from cdc_assets.schema.table_changes import EvolutionPlan, KeptType, evolved
from cdc_assets.schema.types import (
    Column,
    Decimal,
    Existing,
    Identity,
    ListOf,
    Primitive,
    TableSchema,
    Wire,
    WireDetail,
)

pytestmark = pytest.mark.unit


def schema(**types):
    return TableSchema(tuple(Column(n, t, Wire.STRING) for n, t in types.items()), ("id",))


def evolution(lake: TableSchema, seen: TableSchema) -> EvolutionPlan:
    return plan_evolution(lake, seen, Policy())


TABLE = schema(id=Primitive.INT, price=Decimal(10, 2))


def described(plan: EvolutionPlan) -> str:
    return "; ".join(plan.lines()).replace("refused: ", "")


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({"id": Primitive.INT, "price": Decimal(10, 2)}, ""),
        (
            {"id": Primitive.LONG, "price": Decimal(12, 2)},
            "widen id to bigint; widen price to decimal(12,2)",
        ),
        ({"id": Primitive.INT}, ""),
        ({"id": Primitive.INT, "new": Primitive.DATE}, "add new date"),
        (
            {"id": Primitive.INT, "price": Decimal(10, 1)},
            "column price: decimal(10,2) cannot become decimal(10,1) without loss",
        ),
        ({"id": Primitive.STRING}, "column id: int cannot become string without loss"),
    ],
    ids=["same", "wider", "dropped", "added", "other scale", "other type"],
)
def test_a_plan_says_what_will_change(record, text):
    assert described(evolution(TABLE, schema(**record))) == text


def test_what_the_source_does_not_publish_stays_out():
    table = replace(TABLE, left_out=("made",))
    assert evolution(table, schema(id=Primitive.INT, made=Primitive.LONG)).is_empty


def test_a_record_lacks_columns_that_are_not_known_to_be_gone():
    record = schema(other=Primitive.INT)
    assert lacking(TABLE, record) == ("price",)
    assert lacking(TABLE, TABLE) == ()
    assert lacking(TABLE.with_absent(["price", "unknown"]), record) == ()


def test_a_narrower_record_needs_nothing():
    wide = schema(id=Primitive.LONG)
    assert evolution(wide, schema(id=Primitive.INT)).is_empty


def test_the_evolved_schema_holds_the_record():
    record = schema(id=Primitive.LONG, new=Primitive.DATE)
    after = evolved(TABLE, evolution(TABLE, record).changes)
    assert evolution(after, record).is_empty
    assert after.names == ("id", "price", "new")


def test_a_stored_schema_reads_back_the_same():
    columns = (
        Column("id", Primitive.LONG, Wire.LONG, required=True),
        Column("at", Primitive.TIMESTAMP, Wire.EPOCH_MICROS),
        Column("tz", Primitive.TIMESTAMPTZ, Wire.ISO_ZONED),
        Column(
            "tags",
            ListOf(Primitive.STRING),
            Wire.LIST,
            unchanged_marker=True,
            element_wire=Wire.STRING,
        ),
        Column("price", Decimal(12, 2), Wire.DECIMAL_BYTES),
    )
    whole = TableSchema(columns, ("id",), origin="database")
    assert from_json(to_json(whole)) == whole


def test_what_is_absent_and_left_out_is_kept_with_the_table():
    table = replace(TABLE.with_absent(["price"]), left_out=("made",))
    assert from_json(to_json(table)) == table
    assert from_json(to_json(TABLE)) == TABLE


# ── each kind of change, each reaction ────────────────────────────────────────────────────


def numbered(*columns: tuple[object, ...], key: tuple[str, ...] = ("id",)) -> TableSchema:
    """Of ``(name, type, number)``."""
    found = (Column(n, t, Wire.STRING, identity=Identity(number=i)) for n, t, i in columns)
    return TableSchema(tuple(found), key)


ID, AGE, TEXT = ("id", Primitive.INT, 1), ("age", Primitive.INT, 2), ("text", Primitive.STRING, 3)
PEOPLE = numbered(ID, AGE, TEXT)
EVOLVE, STRICT, IGNORE = (Policy.of(each) for each in Reaction)
NEW_COLUMN = Policy(new_column=True)
NAMES = ["evolve", "strict", "ignore", "new column"]
POLICIES = dict(zip(NAMES, (EVOLVE, STRICT, IGNORE, NEW_COLUMN), strict=True))
CHANGED = {
    "add": numbered(ID, AGE, TEXT, ("born", Primitive.DATE, 4)),
    "widen": numbered(ID, ("age", Primitive.LONG, 2), TEXT),
    "rename": numbered(ID, ("years", Primitive.INT, 2), TEXT),
    "rename and widen": numbered(ID, ("years", Primitive.LONG, 2), TEXT),
    "rename the key": numbered(("number", Primitive.INT, 1), AGE, TEXT, key=("number",)),
    "drop": numbered(ID, TEXT),
    "reorder": numbered(TEXT, AGE, ID),
    "number to text": numbered(ID, ("age", Primitive.STRING, 2), TEXT),
    "text to number": numbered(ID, AGE, ("text", Primitive.INT, 3)),
    "key to text": numbered(("id", Primitive.STRING, 1), AGE, TEXT),
    "another of the name": numbered(ID, ("age", Primitive.INT, 9), TEXT),
    "names exchanged": numbered(ID, ("text", Primitive.INT, 2), ("age", Primitive.STRING, 3)),
    "other case": numbered(ID, AGE, TEXT, ("Age", Primitive.INT, 4)),
}
ANEW = (
    "column age was dropped and added again: it is unknown which of the two columns the lake's "
    "values and the records' values belong to"
)
SWAPPED = f"{ANEW.replace('age', 'text')}; {ANEW}"
SAID = {
    "add": ("add born date", "column born is new", "leave out born", "add born date"),
    "widen": (
        "widen age to bigint", "column age: int has become bigint",
        "keep age int, though values are bigint", "widen age to bigint",
    ),
    "rename": (
        "rename age to years", "column age is called years now", "rename age to age",
        "rename age to years",
    ),
    "rename and widen": (
        "rename age to years; widen years to bigint", "column age is called years now",
        "rename age to age; keep age int, though values are bigint",
        "rename age to years; widen years to bigint",
    ),
    "rename the key": (
        "rename id to number", "column id is called number now", "rename id to id",
        "rename id to number",
    ),
    "drop": ("", "", "", ""),
    "reorder": ("", "", "", ""),
    "number to text": (*["column age: int cannot become string without loss"] * 3,
                       "add age__v2 string for what does not fit into age"),
    "text to number": (
        *["column text: string cannot become int without loss"] * 2,
        "keep text string, though values are int",
        "add text__v2 int for what does not fit into text",
    ),
    "key to text": ("column id: int cannot become string without loss",) * 4,
    "another of the name": (ANEW,) * 4,
    "names exchanged": (SWAPPED,) * 4,
    "other case": ("add Age__2 int", "column Age is new", "leave out Age", "add Age__2 int"),
}  # fmt: skip
REFUSING = ("column",)


@pytest.mark.parametrize("policy", NAMES)
@pytest.mark.parametrize("change", CHANGED)
def test_each_change_is_answered_as_the_policy_has_it(change: str, policy: str) -> None:
    plan = plan_evolution(PEOPLE, CHANGED[change], POLICIES[policy])
    said = SAID[change][NAMES.index(policy)]
    assert described(plan) == said
    assert bool(plan.refused) == said.startswith(REFUSING)


@pytest.mark.parametrize("policy", NAMES)
@pytest.mark.parametrize("change", CHANGED)
def test_what_was_done_is_not_done_again_and_older_records_change_nothing(change, policy) -> None:
    plan = plan_evolution(PEOPLE, CHANGED[change], POLICIES[policy])
    if plan.refused:
        return
    after = evolved(PEOPLE, plan.changes)
    again = plan_evolution(after, CHANGED[change], POLICIES[policy])
    assert {type(each) for each in again.changes} <= {KeptType}
    told = {each.name: each.identity.number for each in CHANGED[change].columns}
    older = (replace(c, identity=Identity(number=told.get(c.name, 0))) for c in PEOPLE.columns)
    found = plan_evolution(after, replace(PEOPLE, columns=tuple(older)), POLICIES[policy])
    assert found.is_empty
    assert {*homes(after, PEOPLE)} == {*PEOPLE.names}
    assert from_json(to_json(after)) == after


def test_a_renamed_key_is_still_the_key() -> None:
    after = evolved(PEOPLE, plan_evolution(PEOPLE, CHANGED["rename the key"], EVOLVE).changes)
    assert after.key == ("number",)
    ignored = evolved(PEOPLE, plan_evolution(PEOPLE, CHANGED["rename the key"], IGNORE).changes)
    assert (ignored.key, ignored.as_sent.key) == (("id",), ("number",))


def test_a_column_that_is_renamed_back_has_its_name_again() -> None:
    there = evolved(PEOPLE, plan_evolution(PEOPLE, CHANGED["rename"], EVOLVE).changes)
    plan = plan_evolution(there, PEOPLE, EVOLVE)
    back = evolved(there, plan.changes)
    assert described(plan) == "rename years to age"
    assert back.column("age").identity == Identity("", ("years",), ("years", "age"), 2, turn=2)
    assert homes(back, CHANGED["rename"]) == {"id": "id", "years": "age", "text": "text"}


@pytest.mark.parametrize(
    "record",
    [
        numbered(ID, ("years", Primitive.INT, 2), TEXT, ("age", Primitive.INT, 9)),
        numbered(ID, TEXT, ("age", Primitive.INT, 9)),
        numbered(ID, ("years", Primitive.INT, 2), ("age", Primitive.STRING, 3)),
    ],
    ids=["beside the renamed one", "after the renamed one was dropped", "by another rename"],
)
def test_a_name_that_another_column_had_before_is_refused(record: TableSchema) -> None:
    there = evolved(PEOPLE, plan_evolution(PEOPLE, CHANGED["rename"], EVOLVE).changes)
    (refused,) = plan_evolution(there, record, EVOLVE).refused
    assert refused.page == "column-confused"


def test_a_column_called_as_one_that_is_dropped_was_is_refused() -> None:
    record = numbered(ID, ("text", Primitive.INT, 2))
    assert plan_evolution(PEOPLE, record, EVOLVE).refused


def test_a_number_that_an_other_column_of_the_record_has_in_the_lake_is_refused() -> None:
    record = numbered(ID, ("age", Primitive.INT, 0), TEXT, ("years", Primitive.INT, 2))
    assert plan_evolution(PEOPLE, record, EVOLVE).refused


@pytest.mark.parametrize(
    ("lake", "number"),
    [(PEOPLE, 0), (numbered(ID, ("age", Primitive.INT, 0), TEXT), 2)],
    ids=["renamed again since", "a former name alone was seen"],
)
def test_a_new_column_that_may_be_the_one_that_is_lacking_is_refused(lake, number) -> None:
    record = numbered(ID, TEXT, ("years", Primitive.INT, number))
    (refused,) = plan_evolution(lake, record, EVOLVE).refused
    assert "whether that is what it was called" in refused.why
    assert refused.page == "columns-in-doubt"
    gone = lake.with_absent(["age"])
    assert described(plan_evolution(gone, record, EVOLVE)) == "add years int"
    without = numbered(*((n, t, 0) for n, t, _ in (ID, AGE, TEXT)))
    unknown = numbered(*((n, t, 0) for n, t, _ in (ID, TEXT, ("years", Primitive.INT, 0))))
    assert described(plan_evolution(without, unknown, EVOLVE)) == "add years int"


def test_values_of_each_type_that_a_column_has_had_find_a_column() -> None:
    text = CHANGED["number to text"]
    date = numbered(ID, ("age", Primitive.DATE, 2), TEXT)
    after = evolved(PEOPLE, plan_evolution(PEOPLE, text, NEW_COLUMN).changes)
    plan = plan_evolution(after, date, NEW_COLUMN)
    assert described(plan) == "add age__v3 date for what does not fit into age__v2"
    after = evolved(after, plan.changes)
    found = [homes(after, each)["age"] for each in (PEOPLE, text, date)]
    assert found == ["age", "age__v2", "age__v3"]
    assert all(plan_evolution(after, each, NEW_COLUMN).is_empty for each in (PEOPLE, text, date))
    assert all(lacking(after, each) == () for each in (PEOPLE, text, date))
    assert lacking(after, numbered(ID, TEXT)) == ("age", "age__v2", "age__v3")


def test_all_columns_that_hold_a_renamed_one_are_renamed_and_back() -> None:
    text = CHANGED["number to text"]
    split = evolved(PEOPLE, plan_evolution(PEOPLE, text, NEW_COLUMN).changes)
    years = numbered(ID, ("years", Primitive.STRING, 2), TEXT)
    there = evolved(split, plan_evolution(split, years, NEW_COLUMN).changes)
    assert there.names == ("id", "years", "text", "years__2")
    assert [homes(there, each) for each in (PEOPLE, text, years)] == [
        {"id": "id", "age": "years", "text": "text"},
        {"id": "id", "age": "years__2", "text": "text"},
        {"id": "id", "years": "years__2", "text": "text"},
    ]
    assert plan_evolution(there, years, NEW_COLUMN).is_empty
    plan = plan_evolution(there, text, NEW_COLUMN)
    assert not plan.refused
    assert {each.sent_as for each in evolved(there, plan.changes).columns} == {*text.names}


def test_a_column_whose_older_rows_have_a_value_that_nothing_tells_is_refused() -> None:
    told, untold = (
        replace(CHANGED["add"].column("born"), existing=Existing(text))
        for text in ("2020-01-01", None)
    )
    record = replace(PEOPLE, columns=(*PEOPLE.columns, told))
    plan = plan_evolution(PEOPLE, record, EVOLVE)
    assert evolved(PEOPLE, plan.changes).column("born").existing == Existing("2020-01-01")
    record = replace(PEOPLE, columns=(*PEOPLE.columns, untold))
    (refused,) = plan_evolution(PEOPLE, record, EVOLVE).refused
    assert "existing: …" in refused.why
    assert refused.page == "older-rows-unknown"
    assert described(plan_evolution(PEOPLE, record, IGNORE)) == "leave out born"


def test_configured_names_are_those_of_the_lake() -> None:
    policy = Policy(names={"born": "birthday", "years": "age", "called": "ID"})
    born = evolved(PEOPLE, plan_evolution(PEOPLE, CHANGED["add"], policy).changes)
    assert born.column("birthday").sent_as == "born"
    kept = evolved(PEOPLE, plan_evolution(PEOPLE, CHANGED["rename"], policy).changes)
    assert (kept.column("age").sent_as, kept.column("age").identity.was) == ("years", ())
    record = numbered(ID, AGE, ("called", Primitive.STRING, 3))
    apart = evolved(PEOPLE, plan_evolution(PEOPLE, record, policy).changes)
    assert apart.column("ID__2").sent_as == "called"


@pytest.mark.parametrize("type_", [Primitive.STRING, Primitive.INT])
@pytest.mark.parametrize("name", ["shard", "Shard"])
def test_a_column_called_as_the_one_of_the_shards_is_refused(name: str, type_: Primitive) -> None:
    lake = numbered(ID).with_shard("shard")
    plan = evolution(lake, numbered(ID, (name, type_, 2)))
    assert not plan.changes
    assert f"column {name} is called as the one that tells shards apart" in plan.refused[0].why


def test_a_column_that_becomes_called_as_the_one_of_the_shards_is_refused() -> None:
    lake = numbered(ID, AGE).with_shard("shard")
    plan = evolution(lake, numbered(ID, ("shard", Primitive.INT, 2)))
    assert not plan.changes
    assert "column shard is called as the one that tells shards apart" in plan.refused[0].why


def test_it_may_have_another_name_in_the_lake() -> None:
    lake = numbered(ID).with_shard("shard")
    seen = numbered(ID, ("shard", Primitive.STRING, 2))
    plan = plan_evolution(lake, seen, Policy(names={"shard": "region"}))
    assert not plan.refused
    (home,) = (c for c in evolved(lake, plan.changes).columns if c.sent_as == "shard"
               and c.wire is not Wire.SHARD)  # fmt: skip
    assert home.name == "region"
    assert plan_evolution(evolved(lake, plan.changes), seen, Policy()).is_empty


def test_an_added_column_may_be_null_and_the_rest_of_it_is_kept() -> None:
    born = replace(CHANGED["add"].column("born"), required=True, unchanged_marker=True)
    record = replace(PEOPLE, columns=(*PEOPLE.columns, born))
    after = evolved(PEOPLE, plan_evolution(PEOPLE, record, EVOLVE).changes)
    assert after.columns[-1] == replace(born, required=False)


def by_catalog(home: Column, column: Column) -> EvolutionPlan:
    lake, seen = TableSchema((home,)), TableSchema((column,))
    return plan_evolution(lake, seen, EVOLVE, by_catalog=True)


def test_an_enumeration_that_has_more_labels_is_described_by_all_of_them() -> None:
    few, more, other = (
        Column("e", Primitive.STRING, Wire.ENUM_ORDINAL, detail=WireDetail(labels=labels))
        for labels in (("a",), ("a", "b"), ("b", "a"))
    )
    after = evolved(TableSchema((few,)), by_catalog(few, more).changes)
    assert after.columns == (more,)
    assert by_catalog(more, more).is_empty
    assert "nothing tells which records" in by_catalog(few, other).refused[0].why
    assert "nothing tells which records" in by_catalog(more, few).refused[0].why


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ((Primitive.INT, Wire.INT), (Primitive.LONG, Wire.LONG), "widen c to bigint"),
        ((Primitive.FLOAT, Wire.FLOAT), (Primitive.DOUBLE, Wire.DOUBLE), "refused"),
        ((Primitive.TIMESTAMP, Wire.EPOCH_MILLIS), (Primitive.TIMESTAMP, Wire.EPOCH_MICROS),
         "refused"),
        ((Decimal(9, 2), Wire.DECIMAL_BYTES), (Decimal(12, 2), Wire.DECIMAL_BYTES),
         "widen c to decimal(12,2)"),
        ((Decimal(9, 2), Wire.DECIMAL_BYTES), (Decimal(9, 3), Wire.DECIMAL_BYTES), "refused"),
    ],
    ids=["int to bigint", "real to double", "timestamp(3) to (6)", "more digits", "other scale"],
)  # fmt: skip
def test_of_records_without_a_schema_no_value_may_mean_another(was, now, said) -> None:
    plan = by_catalog(Column("c", *was), Column("c", *now))
    assert described(plan) == said or (said == "refused" and len(plan.refused) == 1)
