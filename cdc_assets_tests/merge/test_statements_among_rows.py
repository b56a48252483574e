"""Statements that come in the topic of the rows, as Canal and TiCDC send them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from cdc_assets.errors import TerminalError
from cdc_assets.lake.at_source import AtSource
from cdc_assets.merge import BatchResult
from cdc_assets.merge.accepting import RestartDesk
from cdc_assets.merge.intake.same_table import AnotherTableError
from cdc_assets.merge.replicate import utc_now
from cdc_assets_tests.faults import Death, Fault, How, faults
from cdc_assets_tests.formats.canal import as_json, as_packet, ddl, flat
from cdc_assets_tests.merge.one_table import Make
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

TABLE, OTHER = "shop.items", "shop.notes"
TYPES = {"id": "int", "name": "varchar(20)"}
RENAMED = {"id": "int", "called": "varchar(20)"}
MADE = ddl("CREATE", "CREATE TABLE items (id int PRIMARY KEY, name varchar(20))")
RENAME = ddl("ALTER", "ALTER TABLE items CHANGE name called varchar(20)")
WRITERS = {
    "canal-json": lambda said: [as_json(each) for each in said],
    "canal-protobuf": lambda said: [as_packet(said)],
}


def put(id_: int, name: str, types: dict[str, str] = TYPES, **more: object) -> dict:
    values = dict(zip(types, (str(id_), name), strict=True))
    return flat("INSERT", [values], table=TABLE, types=types, **more)


def begun(
    pipeline: Make, write: Callable[[Sequence[dict]], list[Message]], name: str, **more: object
) -> Pipeline:
    made = pipeline(format=name, **more)
    made.create_topic(TABLE)
    made.produce(TABLE, write([MADE, put(1, "a"), put(2, "b")]))
    made.merge(TABLE)
    return made


@pytest.fixture
def canal(pipeline: Make) -> Callable[..., Pipeline]:
    return lambda **more: begun(pipeline, WRITERS["canal-json"], "canal-json", **more)


def send(made: Pipeline, *said: dict) -> list[BatchResult]:
    made.produce(TABLE, WRITERS["canal-json"](said))
    return made.merge(TABLE)


def rows(made: Pipeline, column: str = "name") -> dict[object, object]:
    return {row["id"]: row[column] for row in made.rows(TABLE)}


@pytest.mark.parametrize(
    "name", ["canal-json", pytest.param("canal-protobuf", marks=profiles.in_soak)]
)
def test_a_column_that_is_renamed_amid_a_batch_keeps_its_values(pipeline: Make, name: str) -> None:
    write = WRITERS[name]
    made = begun(pipeline, write, name)
    assert rows(made) == {1: "a", 2: "b"}
    said = [put(3, "before"), RENAME, put(4, "after", RENAMED), ddl("CINDEX", "CREATE INDEX …")]
    made.produce(TABLE, write(said))
    (batch,) = made.merge(TABLE)
    assert [each.text for each in batch.statements] == [RENAME["sql"]]
    assert rows(made, "called") == {1: "a", 2: "b", 3: "before", 4: "after"}
    made.produce(
        TABLE, write([put(5, "later", RENAMED), ddl("ALTER", "ALTER TABLE x ADD y int", OTHER)])
    )
    (batch,) = made.merge(TABLE)
    assert batch.statements == ()
    assert [*made.rows(TABLE)[0]] == ["id", "called"]


def test_a_run_may_die_between_the_statement_and_the_rows(canal: Callable[..., Pipeline]) -> None:
    made = canal()
    made.produce(TABLE, WRITERS["canal-json"]([RENAME, put(1, "after", RENAMED)]))
    for point in ("spark: RememberSource", "spark: RenameColumn", "spark: fast-forward main"):
        with faults(Fault(point, How.DEATH)) as hook:
            try:
                made.merge(TABLE)
            except Death:
                assert hook.happened
    made.merge(TABLE)
    assert rows(made, "called") == {1: "after", 2: "b"}


def test_a_table_that_is_made_anew_stops_or_loses_its_older_rows(
    canal: Callable[..., Pipeline],
) -> None:
    anew = [ddl("ERASE", "DROP TABLE items"), MADE, put(7, "new")]
    stopping = canal()
    with pytest.raises(AnotherTableError, match="dropped and made anew"):
        send(stopping, *anew)
    assert rows(stopping) == {1: "a", 2: "b"}
    entry = stopping.entry(TABLE)
    desk = RestartDesk(stopping.config, stopping.spark, clock=utc_now)
    assert desk.another_table(entry) is not None
    desk.accept_table(entry)
    assert desk.another_table(entry) is None
    stopping.merge(TABLE)
    assert rows(stopping) == {1: "a", 2: "b", 7: "new"}
    emptied = canal(recreated_table="truncate")
    send(emptied, put(1, "last"), *anew)
    assert rows(emptied) == {7: "new"}
    send(emptied, put(8, "next"))
    assert rows(emptied) == {7: "new", 8: "next"}


def test_a_first_batch_takes_no_rows_of_a_table_before(canal: Callable[..., Pipeline]) -> None:
    made = canal()
    history = AtSource.of(made.lake.state(made.entry(TABLE).target), "").history
    assert history is not None
    assert history.broken is not None
    assert rows(made) == {1: "a", 2: "b"}


@profiles.in_soak
def test_a_copy_that_takes_the_name_is_the_table(canal: Callable[..., Pipeline]) -> None:
    made = canal()
    swap = "RENAME TABLE shop.items TO shop._items_del, shop._items_gho TO shop.items"
    send(made, ddl("RENAME", swap, "shop._items_del"), put(3, "c"))
    assert rows(made) == {1: "a", 2: "b", 3: "c"}
    with pytest.raises(AnotherTableError, match="another table was given its name"):
        send(made, ddl("RENAME", "RENAME TABLE x TO items"), put(4, "d"))


@pytest.mark.parametrize(
    "statement",
    [
        ddl("ALTER", "ALTER TABLE items (( name"),
        {**RENAME, "sql": None},
        {**RENAME, "sql": "ALTER " + "x" * 100_000 + " items"},
        ddl("ALTER", "ALTER TABLE items DROP PARTITION p"),
    ],
    ids=["not to be read", "no text", "long", "rows of a partition"],
)
def test_what_may_have_changed_anything_stops(
    canal: Callable[..., Pipeline], statement: dict
) -> None:
    made = canal()
    with pytest.raises(TerminalError, match=r"cannot be read|whole partitions"):
        send(made, put(3, "c"), statement)
    assert rows(made) == {1: "a", 2: "b"}
