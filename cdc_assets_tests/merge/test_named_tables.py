"""Tables that their records name, whatever their topics are called: discovered and merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cdc_assets.errors import RejectedRecordError, UnreachableError
from cdc_assets.lake import Lake
from cdc_assets.merge import BatchResult, Replicator, Waiting
from cdc_assets.merge.attempt import Connections
from cdc_assets.operate.discovery import add_seen
from cdc_assets.operate.services import Services
from cdc_assets.registry import TableEntry, Taken
from cdc_assets_tests.merge.events import event, tombstone
from cdc_assets_tests.merge.inline import in_schema
from cdc_assets_tests.merge.one_table import Make
from cdc_assets_tests.pipeline import Message, Pipeline

pytestmark = pytest.mark.stack

ORDER_LINES, BILLS = "crm.Order Lines", "crm.bills"
FIELDS = {"id": "int64", "name": "string", "total": "int64"}


def put(table: str, row: dict[str, Any], lsn: int, op: str = "c", **more: Any) -> Message:
    return event(op, row, lsn, commit=lsn - 5, table=table, **more)


def delivered(pipeline: Make, topic: str, *messages: Message, **source: Any) -> Pipeline:
    """With the tables that are discovered by then."""
    made = pipeline(**source)
    made.create_topic(topic)
    made.produce(topic, messages)
    looked = made.discovered()
    assert not looked.refused
    return made


def learn(made: Pipeline, table: str) -> None:
    """Merge a table, and register those that its batches have met, as a run does."""
    for batch in made.merge(table):
        add_seen(Services(made.config), made.entry(table), batch.other_tables)
    made.discovered()


def with_schema(message: Message, row: dict[str, Any]) -> Message:
    """With a schema as Connect writes it."""
    if message.value is None:
        return message
    fields = [{"field": n, "type": FIELDS[n], "optional": n != "id"} for n in row]
    after = {"field": "after", "type": "struct", "optional": True, "fields": fields}
    return in_schema(message, {"type": "struct", "fields": [after]})


def test_a_name_that_a_topic_cannot_have_is_read_from_the_records(pipeline: Make) -> None:
    made = delivered(
        pipeline,
        "crm.Order_Lines",
        put(ORDER_LINES, {"id": 1, "name": "a"}, 100),
        put(ORDER_LINES, {"id": 1, "name": "b"}, 200, "u"),
    )
    assert set(made.found) == {ORDER_LINES}
    assert made.entry(ORDER_LINES).taken is Taken.NAMED
    made.merge(ORDER_LINES)
    assert made.by_key(ORDER_LINES) == {1: {"id": 1, "name": "b"}}


@pytest.mark.parametrize("inline", [False, True], ids=["bare", "with schemas"])
def test_two_tables_in_a_topic_of_one_part_each_get_their_own(pipeline: Make, inline: bool) -> None:
    """The first batch reads as one table's, meets the other, and reads its own alone."""
    contact, bill = {"id": 1, "name": "Ada"}, {"id": 1, "total": 12}
    messages = [
        (put("crm.contacts", contact, 100), contact),
        (put("crm.contacts", {"id": 2, "name": "Bob"}, 110), contact),
        *[(put("crm.contacts", {"id": 9, "name": "x"}, 111 + n, "u"), contact) for n in range(30)],
        (put(BILLS, bill, 200), bill),
        (put("crm.contacts", contact, 300, "d"), contact),
        (tombstone(1), contact),
        (put(BILLS, {"id": 1, "total": 13}, 400, "u"), bill),
        *[(put("crm.contacts", {"id": 9, "name": "y"}, 500 + n, "u"), contact) for n in range(30)],
    ]
    sent = [with_schema(m, row) if inline else m for m, row in messages]
    made = delivered(pipeline, "app_changes", *sent)
    assert set(made.found) == {"crm.contacts"}, "the ends of the topic show no other"
    learn(made, "crm.contacts")
    assert set(made.found) == {"crm.contacts", BILLS}
    assert all(each.is_shared and each.taken is Taken.NAMED for each in made.found.values())
    made.merge(BILLS)
    assert set(made.by_key("crm.contacts")) == {2, 9}
    assert made.by_key(BILLS) == {1: {"id": 1, "total": 13}}

    more = [(put(BILLS, bill, 600, "d"), bill), (tombstone(1), bill),
            (put("crm.contacts", contact, 700), contact)]  # fmt: skip
    made.produce("app_changes", [with_schema(m, row) if inline else m for m, row in more])
    for table in ("crm.contacts", BILLS):
        made.merge(table)
    assert set(made.by_key("crm.contacts")) == {1, 2, 9}
    assert made.by_key(BILLS) == {}


def test_a_table_is_registered_before_the_only_batch_that_names_it_is_published(
    pipeline: Make,
) -> None:
    """Where it cannot be, the batch is not published: no later one would name the table."""
    rows = [put("crm.contacts", {"id": n, "name": "Ada"}, 100 + n) for n in range(60)]
    bill = put(BILLS, {"id": 1, "total": 12}, 130)
    before, after = rows[:30], rows[30:]
    made = delivered(pipeline, "app", *before, bill, *after)
    entry, lake = made.entry("crm.contacts"), Lake(made.config)
    named: list[tuple[str, ...]] = []

    def register(of: TableEntry, names: Sequence[str], changes: int) -> None:
        state = lake.state(of.target)
        if state is not None and state.published is not None:
            assert state.published.offsets.get(0) <= len(before)
        named.append(tuple(names))
        assert changes == 1
        if len(named) == 1:
            what = "the registry does not answer"
            raise UnreachableError(what)

    connections = replace(Connections.of(made.config), register=register)
    replicator = Replicator(made.config, made.spark, connections=connections)

    def drain() -> list[BatchResult | Waiting]:
        return list(replicator.drain(entry, window=None, run_id="test", budget_seconds=300))

    with pytest.raises(UnreachableError, match="the registry"):
        drain()
    assert BILLS in {name for done in drain() if isinstance(done, BatchResult)
                     for name in done.other_tables}  # fmt: skip
    assert set(named) == {(BILLS,)}
    assert len(made.by_key("crm.contacts")) == 60


def test_a_delete_and_its_record_without_a_value_may_be_in_two_batches(pipeline: Make) -> None:
    contact, bill = {"id": 1, "name": "Ada"}, {"id": 1, "total": 12}
    made = delivered(pipeline, "app", put("crm.contacts", contact, 100), put(BILLS, bill, 200))
    assert set(made.found) == {"crm.contacts", BILLS}
    made.produce("app", [put(BILLS, bill, 300, "d")])
    for table in made.found:
        made.merge(table)
    made.produce("app", [tombstone(1)])
    for table in made.found:
        made.merge(table)
    assert set(made.by_key("crm.contacts")) == {1}
    assert made.by_key(BILLS) == {}

    made.produce("app", [tombstone(1)])
    with pytest.raises(RejectedRecordError, match="nothing says whose row it deletes"):
        made.merge("crm.contacts")


def test_a_record_that_names_no_table_stops_a_table_that_records_name(pipeline: Make) -> None:
    made = delivered(pipeline, "app", put("crm.contacts", {"id": 1, "name": "Ada"}, 100))
    made.produce("app", [put("", {"id": 2, "name": "Bob"}, 200)])
    with pytest.raises(RejectedRecordError, match="its source names no table"):
        made.merge("crm.contacts")


def test_tables_of_one_name_in_two_databases_are_not_one(pipeline: Make) -> None:
    row = {"id": 1, "name": "Ada"}
    made = delivered(pipeline, "app", put("dbo.users", row, 100, database="north"))
    made.merge("dbo.users")
    made.produce("app", [put("dbo.users", {**row, "name": "Bo"}, 200, database="south")])
    with pytest.raises(RejectedRecordError, match="of this name in another database"):
        made.merge("dbo.users")


def test_a_table_that_an_earlier_build_registered_goes_on(pipeline: Make) -> None:
    """Its topic's name is its own, and all of the topic's records are."""
    made = delivered(pipeline, "crm.Order_Lines", put(ORDER_LINES, {"id": 1, "name": "a"}, 100))
    made.found.clear()
    old = made.entry("crm.Order_Lines")
    services = Services(made.config)
    services.registry.remove([e.table for e in services.registry.load() if e.topic == old.topic])
    services.registry.add([replace(old, is_confirmed=True)])
    made.merge("crm.Order_Lines")
    made.produce(
        "crm.Order_Lines",
        [put("crm.Order Lines p2", {"id": 2, "name": "b"}, 200),
         put(ORDER_LINES, {"id": 1, "name": "c"}, 300, "u")],
    )  # fmt: skip
    assert not made.discovered().refused
    assert set(made.found) == {"crm.Order_Lines"}
    assert made.entry("crm.Order_Lines").taken is Taken.ALL
    made.merge("crm.Order_Lines")
    rows = made.by_key("crm.Order_Lines")
    assert {key: row["name"] for key, row in rows.items()} == {1: "c", 2: "b"}
