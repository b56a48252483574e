"""What statements make of a table: numbers of columns, and breaks."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.databases.catalog import ColumnFacts, numbered
from cdc_assets.formats.ddl import read_statement
from cdc_assets.formats.foreign_keys import UNNAMED
from cdc_assets.schema.ddl import Ddl, Given, Relation
from cdc_assets.schema.history import Break, StatementHistory
from cdc_assets.schema.silent import SilentKind
from cdc_assets.schema.types import Column, Identity, Primitive, TableSchema, Wire
from cdc_assets_tests.toy.profiles import examples

TABLE, OTHER = Relation("shop", "people"), Relation("shop", "orders")


def event(
    text: str,
    *names: str,
    offset: int = 0,
    of: Relation = TABLE,
    place: tuple[int, int] | None = None,
    is_of_snapshot: bool = False,
    position: str = "",
) -> Ddl:
    """One that tells the columns of a table afterwards, if any are given."""
    return Ddl(
        text,
        read_statement(text, "mysql", "shop"),
        position,
        None,
        Coordinate("shop", 0, offset),
        tells_tables=True,
        after={of: names} if names else {},
        place=place,
        is_of_snapshot=is_of_snapshot,
    )


def told(*events: Ddl, history: StatementHistory | None = None) -> StatementHistory:
    found = history or StatementHistory(topic="t")
    for each in events:
        found = found.after(each, TABLE)
    return found


MADE = event("", "id", "name", "age", is_of_snapshot=True)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("statement", "names", "numbers", "former"),
    [
        ("ALTER TABLE people ADD x int", "id name age x", [1, 2, 3, 4], {}),
        ("ALTER TABLE people ADD x int FIRST", "x id name age", [4, 1, 2, 3], {}),
        ("ALTER TABLE people DROP age", "id name", [1, 2], {"age": 3}),
        ("ALTER TABLE people CHANGE name called int", "id called age", [1, 2, 3], {"name": 2}),
        ("ALTER TABLE people RENAME COLUMN AGE TO x", "id name x", [1, 2, 3], {"age": 3}),
        (
            "ALTER TABLE people RENAME COLUMN name TO a, RENAME COLUMN age TO name",
            "id a name", [1, 2, 3], {"age": 3},
        ),
        ("ALTER TABLE people DROP age, ADD age text", "id name age", [1, 2, 4], {}),
        ("ALTER TABLE people CHANGE name NAME int", "id NAME age", [1, 2, 3], {"name": 2}),
        ("ALTER TABLE people ADD (a int, b int)", "id name age a b", [1, 2, 3, 4, 5], {}),
        ("ALTER TABLE people (( DROP age", "id name", [1, 2], {"age": 3}),
        ("ALTER TABLE orders DROP name", "", [1, 2, 3], {}),
        ("CREATE TRIGGER a BEFORE INSERT ON people FOR EACH ROW SET @a = 1", "", [1, 2, 3], {}),
        ("TRUNCATE TABLE people", "", [1, 2, 3], {}),
        ("CREATE TABLE IF NOT EXISTS people (x int)", "", [1, 2, 3], {}),
        ("DROP TABLE people", "", [1, 2, 3], {}),
    ],
)  # fmt: skip
def test_a_column_keeps_its_number(
    statement: str, names: str, numbers: list[int], former: dict[str, int]
) -> None:
    found = told(MADE, event(statement, *names.split()))
    order = names.split() or [*found.numbers]
    assert [found.numbers[each] for each in order] == numbers
    assert found.former == former
    assert found.broken is None


@pytest.mark.unit
@pytest.mark.parametrize(
    ("statements", "why", "place"),
    [
        (["DROP TABLE people", "CREATE TABLE people (id int)"], "recreated", (3, 9)),
        (["CREATE OR REPLACE TABLE people (id int)"], "recreated", (3, 9)),
        (["DROP TABLE people", "CREATE TABLE IF NOT EXISTS people (id int)"], "recreated", (3, 9)),
        (["RENAME TABLE people TO a, b TO people"], "was given its name: shop.b before", None),
        (["ALTER TABLE b RENAME TO people"], "was given its name", None),
        (
            ["ALTER TABLE people CHANGE name age int, CHANGE age Name int"],
            "exchanged their names",
            None,
        ),
    ],
)
def test_statements_that_no_change_tells_of_are_breaks(
    statements: list[str], why: str, place: tuple[int, int] | None
) -> None:
    events = [event(each, offset=n, place=(3, 9)) for n, each in enumerate(statements)]
    found = told(MADE, *events).broken
    assert found is not None
    assert why in found.why
    assert found.place == place
    assert found.at == f"t:0:{len(statements) - 1}"
    assert found.page == ("column-confused" if "exchanged" in why else "")


@pytest.mark.unit
def test_a_statement_that_leaves_a_table_alone_does_not_recreate_it() -> None:
    """Also where the statement that made it has expired: the event would list its columns."""
    again = event("CREATE TABLE IF NOT EXISTS people (x int)", place=(3, 9))
    assert told(again).broken is None
    made = event("CREATE TABLE IF NOT EXISTS people (x int)", "x", place=(3, 9))
    assert told(made).broken is not None
    untold = replace(again, tells_tables=False)
    assert told(untold).broken is not None


@pytest.mark.unit
def test_columns_that_change_with_the_tables_name_keep_their_numbers() -> None:
    text = "ALTER TABLE people RENAME TO persons, CHANGE name called char(3), ADD x int DEFAULT 5"
    names = ("id", "called", "age", "x")
    found = told(MADE, event(text, *names, of=Relation("shop", "persons")))
    assert found.became == Relation("shop", "persons")
    assert found.numbers == {"id": 1, "called": 2, "age": 3, "x": 4}
    assert found.former == {"name": 2}
    assert found.given == {4: Given("5")}
    assert [each.name for each in found.retyped] == ["called"]


@pytest.mark.unit
def test_a_column_that_is_gone_is_not_dropped_again() -> None:
    renamed = event("ALTER TABLE people CHANGE name called int", "id", "called", "age")
    again = event("ALTER TABLE people DROP COLUMN IF EXISTS name", "id", "called", "age", offset=1)
    found = told(MADE, renamed, again)
    assert found.numbers == {"id": 1, "called": 2, "age": 3}
    assert found.former == {"name": 2}


@pytest.mark.unit
@pytest.mark.parametrize(
    ("statements", "columns", "numbers", "later"),
    [
        (["DROP age", "ADD age int"], "id name age", [1, 2, 3], {"age": 4}),
        (["CHANGE name a int", "ADD name int"], "id name age", [1, 2, 3], {"a": 2, "name": 4}),
        (["ADD x int"], "id name age", [1, 2, 3], {"x": 4}),
        (["CHANGE name a int"], "id name age a", [1, 2, 3, 4], {"a": 2}),
        (["DROP age"], "id name age __op", [1, 2, 3, 0], {}),
    ],
)
def test_columns_of_the_lake_are_older_than_the_statements_that_name_them(
    statements: list[str], columns: str, numbers: list[int], later: dict[str, int]
) -> None:
    """The statements that made them have expired."""
    source = {"id": 0, "name": 0, "age": 0}
    events: list[Ddl] = []
    for offset, each in enumerate(statements):
        verb, name, *to = each.split()
        if verb != "ADD":
            source.pop(name)
        if verb != "DROP":
            source[name if verb == "ADD" else to[0]] = 0
        events.append(event(f"ALTER TABLE people {each}", *source, offset=offset))
    table = TableSchema(
        tuple(Column(name, Primitive.INT, Wire.LONG) for name in columns.split()), ("id",)
    )
    stored = StatementHistory(topic="t")
    before = stored.before(told(*events, history=stored), table)
    taught = before.taught(table)
    assert [each.identity.number for each in taught.columns] == numbers
    after = told(*events, history=before)
    assert {name: after.numbers[name] for name in later} == later


@pytest.mark.unit
@pytest.mark.parametrize("copy", ["_people_gho", "_people_new", "`_People_new`"])
def test_a_copy_that_a_tool_has_made_is_the_table(copy: str) -> None:
    swap = event(f"RENAME TABLE people TO _people_old, {copy} TO people", "id", "name", "age", "x")
    found = told(MADE, swap)
    assert found.broken is None
    assert found.is_there
    assert found.numbers == {"id": 1, "name": 2, "age": 3, "x": 4}


@pytest.mark.unit
def test_rows_have_the_values_that_they_have_in_the_copy() -> None:
    altered = "ALTER TABLE shop._people_gho MODIFY name varchar(3), ADD x int DEFAULT 5"
    found = told(MADE, event(altered, "id", "name", "age", "x", of=Relation("shop", "_people_gho")))
    assert found.numbers == {"id": 1, "name": 2, "age": 3}
    assert [(each.name, each.definition) for each in found.retyped] == [("name", "VARCHAR(3)")]
    another = event("ALTER TABLE other._people_gho MODIFY name varchar(3)")
    assert told(MADE, another).retyped == ()


@pytest.mark.unit
def test_what_may_be_a_rename_gets_no_number() -> None:
    unread = event("ALTER TABLE people ((", "id", "called", "age")
    found = told(MADE, unread)
    assert found.numbers == {"id": 1, "age": 3}
    assert found.broken is not None
    assert "cannot be read" in found.broken.why
    assert found.broken.page == "statement-unreadable"
    again = event("", "id", "other", "age", is_of_snapshot=True)
    assert told(MADE, again).numbers == {"id": 1, "age": 3}
    assert told(MADE, again).broken is None


MOVED = [
    event("ALTER TABLE people CHANGE name a int", "id", "a", "age", offset=1, position="1"),
    event("ALTER TABLE people ADD name int", "id", "a", "age", "name", offset=2, position="2"),
    event("ALTER TABLE orders ADD x int", offset=3, position="3"),
]


@pytest.mark.unit
def test_a_statement_that_is_sent_again_changes_nothing() -> None:
    once = told(MADE, *MOVED)
    assert once.numbers == {"id": 1, "a": 2, "age": 3, "name": 4}
    again = [replace(each, coordinate=Coordinate("shop", 0, 9)) for each in MOVED]
    assert told(*again, history=once) == once
    assert len(once.seen or ()) == 2, "not of another table"
    # Without a position, it may have been executed again.
    unplaced = [replace(each, position="") for each in MOVED]
    assert told(*unplaced, history=told(MADE, *unplaced)).numbers["a"] == 4
    many = [replace(MOVED[0], position=f"{n}") for n in range(100)]
    assert len(told(*many).seen or ()) == 32


@pytest.mark.unit
def test_a_topic_that_was_cut_back_goes_on_after_the_newest_known_statement() -> None:
    known = replace(told(MADE, *MOVED), next={0: 4}, ends={0: (3, MOVED[2].identity)})
    found = known.found_in("t", [MADE, MOVED[0]])
    assert found == replace(known, next={0: 2}, ends={})
    lost = known.found_in("t", [MADE])
    assert lost.next == {0: 1}
    assert lost.broken is not None
    assert "cut back" in lost.broken.why
    assert lost.broken.page == "statements-cut-back"
    assert known.found_in("t", [MADE, MOVED[2]]).broken == lost.broken, "until it is accepted"
    # A topic made anew is read whole, as nothing of it is known.
    anew = known.found_in("u", [MADE])
    assert anew == replace(known, topic="u", next={}, ends={})
    # A table without statements may begin anew anywhere; one of an older version may not.
    untold = replace(known, seen=())
    assert untold.found_in("t", [MADE]) == replace(untold, next={}, ends={})
    assert replace(known, seen=None).found_in("t", [MADE]).broken is not None


@pytest.mark.unit
def test_a_history_is_read_as_it_was_written() -> None:
    full = StatementHistory(
        "t", {0: 7, 2: 1}, {"a": 1}, {"b": 2}, 2, is_there=False, broken=Break("x", "y")
    )
    placed = StatementHistory("t", broken=Break("x", "y", (3, 9), page="statement-unreadable"))
    given = StatementHistory(
        "t", numbers={"a": 1}, last=1, given={1: Given("5"), 2: Given(is_implied=True)}
    )
    seen = StatementHistory("t", ends={0: (3, "ab")}, seen=("cd", "ab"))
    for each in (StatementHistory(), full, placed, given, seen):
        assert StatementHistory.from_json(each.to_json()) == each
    older = json.loads(full.to_json())
    del older["given"], older["seen"], older["ends"], older["broken"]["page"]
    assert StatementHistory.from_json(json.dumps(older)) == replace(full, seen=None)


@pytest.mark.unit
def test_older_rows_have_what_the_statement_gave_not_the_present_default() -> None:
    names = ("id", "name", "age", "score", "note")
    added = event("ALTER TABLE people ADD score int DEFAULT 5, ADD note text", *names)
    renamed = event("ALTER TABLE people RENAME COLUMN score TO points")
    history = told(MADE, added, renamed)
    now = {name: ColumnFacts(existing="7") for name in ("points", "note", "name")}
    found = numbered(now, history)
    assert (found["points"].existing, found["note"].existing) == ("5", None)
    assert found["score"].existing == "5", "by its former name, too"
    assert found["name"].existing == "7"
    assert numbered({}, history)["name"].tells_rows is False


@pytest.mark.unit
def test_the_lakes_columns_are_taught_their_numbers_and_names() -> None:
    history = told(
        MADE,
        event("ALTER TABLE people CHANGE name called int", "id", "called", "age"),
        event("ALTER TABLE people CHANGE called named int", "id", "named", "age"),
    )
    table = TableSchema(
        (
            Column("id", Primitive.INT, Wire.LONG, required=True),
            Column("label", Primitive.INT, Wire.LONG, identity=Identity(name="name")),
            Column("strange", Primitive.INT, Wire.LONG),
        ),
        ("id",),
    )
    found = history.taught(table)
    assert [each.identity.number for each in found.columns] == [1, 2, 0]
    assert found.columns[1].identity.formerly == ("called",)
    assert history.taught(found) == found


# ── any chain of statements ──────────────────────────────────────────────────────────────


@dataclass
class Source:
    """A table whose columns have true identities; names are few, so that they are used again."""

    columns: dict[str, int] = field(default_factory=lambda: {"id": 1, "a": 2})
    count: int = 2
    names: dict[int, set[str]] = field(default_factory=lambda: {1: {"id"}, 2: {"a"}})

    def execute(self, kind: str, first: str, second: str) -> str:
        """The statement; empty if the database would refuse it."""
        match kind:
            case "add" if first not in self.columns:
                self.count += 1
                self.columns[first] = self.count
                self.names[self.count] = {first}
                return f"ALTER TABLE people ADD COLUMN {first} int"
            case "drop" if first in self.columns and len(self.columns) > 1:
                del self.columns[first]
                return f"ALTER TABLE people DROP COLUMN {first}"
            case "rename" if first in self.columns and second not in self.columns:
                number = self.columns.pop(first)
                self.columns[second] = number
                self.names[number].add(second)
                return f"ALTER TABLE people RENAME COLUMN {first} TO {second}"
            case _:
                return ""


NAMES = st.sampled_from(["a", "b", "c", "d"])
STATEMENTS = st.lists(st.tuples(st.sampled_from(["add", "drop", "rename"]), NAMES, NAMES))


@pytest.mark.property
@examples(300)
@given(STATEMENTS, st.booleans(), st.integers(0, 5))
def test_numbers_are_those_of_the_columns_whatever_is_altered(
    statements: list[tuple[str, str, str]], tells: bool, begun: int
) -> None:
    source = Source()
    history, known = StatementHistory(topic="t"), dict[int, int]()
    for place, (kind, first, second) in enumerate(statements):
        if place == begun % (len(statements) + 1):
            start = event("", *source.columns, is_of_snapshot=True)
            history = history.after(start, TABLE)
        if not (text := source.execute(kind, first, second)):
            continue
        names = tuple(source.columns) if tells else ()
        history = StatementHistory.from_json(history.after(event(text, *names), TABLE).to_json())
        if not history.numbers or not tells:
            continue
        assert {*history.numbers} == {*source.columns}
        for name, number in history.numbers.items():
            assert known.setdefault(number, source.columns[name]) == source.columns[name]
        assert len({*history.numbers.values()}) == len(history.numbers)
        for name, number in history.former.items():
            assert number not in known or name in source.names[known[number]]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("statements", "numbers", "why"),
    [
        (["CHANGE name called text"], {"id": 1, "called": 2, "age": 3}, None),
        (["CHANGE name called text"] * 2, {"id": 1, "called": 2, "age": 3}, None),
        (["CHANGE born age date"], {"id": 1, "name": 2, "age": 3}, None),
        (["DROP name, RENAME COLUMN age TO name"], {"id": 1, "name": 3}, None),
        (["DROP name", "RENAME COLUMN age TO name"], {"id": 1, "name": 3}, None),
        (["DROP age", "ADD age date"], {"id": 1, "name": 2, "age": 4}, None),
        (["RENAME COLUMN name TO age"], None, "the name of another one"),
        (["RENAME COLUMN name TO age, RENAME COLUMN age TO x"], None, "the name of another one"),
        (["RENAME COLUMN name TO age, RENAME COLUMN age TO name"], None, "name"),
    ],
)
def test_columns_of_the_lake_have_numbers_before_statements_among_rows(
    statements: list[str], numbers: dict[str, int] | None, why: str | None
) -> None:
    columns = (Column(name, Primitive.STRING, Wire.STRING) for name in ("id", "name", "age"))
    history = StatementHistory(topic="t").with_numbers(TableSchema(tuple(columns), ("id",)))
    for offset, each in enumerate(statements):
        ddl = event(f"ALTER TABLE people {each}", offset=offset)
        history = history.among_rows(ddl, TABLE, is_empty=False)
    if why is None:
        assert history.broken is None
        assert history.numbers == numbers
    else:
        assert history.broken is not None
        assert why in history.broken.why


@pytest.mark.unit
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE people TRUNCATE PARTITION p",
        "ALTER TABLE orders EXCHANGE PARTITION p WITH TABLE people",
    ],
)
def test_rows_that_go_or_come_with_a_partition_are_a_silent_change(statement: str) -> None:
    found = told(MADE, event(statement, offset=7))
    (change,) = found.without_events(lambda _: True, with_keys=True)
    assert (change.kind, change.id) == (SilentKind.PARTITIONS, "t:0:7")
    assert "whole partitions" in change.why
    assert found.broken is None
    assert StatementHistory.from_json(found.to_json()).silent == (), "the table remembers it, once"


@pytest.mark.unit
def test_rows_that_a_unique_key_deletes_are_a_silent_change() -> None:
    found = told(MADE, event("ALTER IGNORE TABLE people ADD UNIQUE (name)", offset=7))
    (change,) = found.without_events(lambda _: True, with_keys=True)
    assert (change.kind, change.columns) == (SilentKind.REWRITTEN, ())
    assert found.broken is None


KEY = "ADD CONSTRAINT `f k` FOREIGN KEY (age) REFERENCES far.parents (id)"


@pytest.mark.unit
@pytest.mark.parametrize(
    ("statements", "keys"),
    [
        ([f"ALTER TABLE people {KEY} ON DELETE CASCADE"], ("f k",)),
        ([f"ALTER TABLE people {KEY} ON UPDATE\nSET  NULL, ADD x int"], ("f k",)),
        ([f"ALTER TABLE people {KEY}", f"ALTER TABLE people {KEY} ON DELETE RESTRICT"], ()),
        (["ALTER TABLE people ADD FOREIGN KEY (age) REFERENCES p (id) ON DELETE SET NULL"],
         (UNNAMED,)),
        (["CREATE OR REPLACE TABLE people (id int, age int REFERENCES p (id) ON DELETE CASCADE)"],
         (UNNAMED,)),
        ([f"ALTER TABLE people {KEY} ON DELETE CASCADE",
          "ALTER TABLE people DROP FOREIGN KEY `f k`"], ()),
        ([f"ALTER TABLE people {KEY} ON DELETE CASCADE",
          "ALTER TABLE people DROP CONSTRAINT IF EXISTS `f k`"], ()),
        ([f"ALTER TABLE people {KEY} ON DELETE CASCADE", "CREATE OR REPLACE TABLE people (a int)"],
         ()),
        ([f"ALTER TABLE orders {KEY} ON DELETE CASCADE"], ()),
        (["ALTER TABLE people MODIFY at timestamp ON UPDATE CURRENT_TIMESTAMP"], ()),
        ([f"ALTER TABLE people ((( {KEY} ON DELETE CASCADE"], ("f k",)),
    ],
)  # fmt: skip
def test_foreign_keys_that_change_rows_are_known_until_they_are_dropped(
    statements: list[str], keys: tuple[str, ...]
) -> None:
    found = told(MADE, *(event(each, offset=n) for n, each in enumerate(statements)))
    assert found.cascades == keys
    assert StatementHistory.from_json(found.to_json()).cascades == keys
    standing = found.without_events(lambda _: True, with_keys=True)
    assert [each.kind for each in standing] == [SilentKind.CASCADES] * len(keys)
    assert found.without_events(lambda _: True, with_keys=False) == ()


@pytest.mark.unit
def test_a_history_of_an_older_version_does_not_know_foreign_keys() -> None:
    said = json.loads(told(MADE).to_json())
    del said["cascades"]
    assert StatementHistory.from_json(json.dumps(said)).cascades is None


@pytest.mark.unit
def test_columns_that_are_retyped_are_told_with_their_types() -> None:
    statement = "ALTER TABLE people MODIFY name varchar(3) NOT NULL, CHANGE age years datetime(0)"
    found = told(MADE, event(statement, offset=7))
    assert [(each.name, each.definition) for each in found.retyped] == [
        ("name", "VARCHAR(3)"), ("years", "DATETIME(0)"),
    ]  # fmt: skip
    computed = "ALTER TABLE people MODIFY age int AS (id + 2) STORED"
    (generated,) = told(MADE, event(computed)).retyped
    assert generated.definition == "", "its values change with its expression"
    added = "ALTER TABLE people ADD x int, ADD y int DEFAULT 5, ADD z char(36) DEFAULT (uuid())"
    (new,) = told(MADE, event(added)).without_events(lambda _: True, with_keys=False)
    assert new.columns == ("z",)
    silent = found.without_events(lambda each: each.name == "years", with_keys=False)
    assert [(each.columns, each.id) for each in silent] == [(("name",), "t:0:7:name")]
