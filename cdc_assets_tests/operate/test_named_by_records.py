"""Whose changes a topic holds is told by its records; what is registered goes on."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.operate.discovery import Discovery, add_seen, discover
from cdc_assets.operate.known_tables import not_tables
from cdc_assets.operate.services import Services
from cdc_assets.registry import TableEntry, Taken
from cdc_assets.registry.document import from_document, to_document
from cdc_assets_tests.configuration import platform, source, write
from cdc_assets_tests.operate.test_discovery_of_others import Topics

pytestmark = pytest.mark.unit

THEN = datetime(2026, 3, 1, tzinfo=UTC)


def change(schema: str, table: str, **more: str) -> bytes:
    origin = {"schema": schema, "table": table, **more}
    return json.dumps({"before": None, "after": {"id": 1}, "source": origin, "op": "c"}).encode()


@dataclass
class Lake:
    """Tables that have rows."""

    tables: set[str]

    def find_states(self, tables: list[tuple[LakeName, str]]) -> list[object]:
        return [object() if str(name) in self.tables else None for name, _ in tables]


@dataclass
class World:
    """A source of all topics that begin with ``p``, and what it was told."""

    services: Services

    def look(self, topics: dict[str, list[bytes]]) -> Discovery:
        self.services.log = Topics(topics)  # type: ignore[assignment]
        return discover(self.services)

    def tables(self) -> dict[str, TableEntry]:
        return {each.table.qualified: each for each in self.services.registry.load()}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return made(tmp_path)


def made(folder: Path, *rows: str, **keys: object) -> World:
    every = {**source("p"), **keys}
    config = write(folder / "replication.yaml", platform(sources={"shop": every}))
    services = Services(config)
    services.lake = Lake({*rows})  # type: ignore[assignment]
    return World(services)


@pytest.mark.parametrize(
    ("topic", "origin", "table"),
    [
        ("p.crm.Order_Lines", {"schema": "crm", "table": "Order Lines"}, "crm.Order Lines"),
        ("p.contacts", {"schema": "crm", "table": "contacts"}, "crm.contacts"),
        ("p.prod-contacts", {"schema": "crm", "table": "contacts"}, "crm.contacts"),
        ("p.shop.items", {"db": "shop", "table": "Items"}, "shop.Items"),
        ("p.erp.dbo.t", {"db": "erp", "schema": "dbo", "table": "t"}, "dbo.t"),
        ("p.db.a.b", {"db": "db", "collection": "a.b"}, "db.a.b"),
        ("p.x.t", {"schema": "", "db": "x", "table": "t"}, "x.t"),
        ("p.a.b", {"db": "ks", "keyspace": "ks", "table": "b"}, "ks.b"),
        ("p.\u00fc_", {"schema": "\u00fc", "table": "\u65e5.\u672c"}, "\u00fc.\u65e5.\u672c"),
    ],
)
def test_a_record_names_its_table_whatever_the_topic_is_called(
    world: World, topic: str, origin: dict[str, str], table: str
) -> None:
    value = {"before": None, "after": {"id": 1}, "source": origin, "op": "c"}
    looked = world.look({topic: [json.dumps(value).encode()]})
    (entry,) = looked.added
    assert entry.table.qualified == table
    assert (entry.topic, entry.taken, entry.is_shared) == (topic, Taken.NAMED, False)
    assert world.look({topic: [json.dumps(value).encode()]}).added == ()


def test_a_source_that_is_renamed_has_its_topics_tables(tmp_path: Path) -> None:
    """What is registered under the former name is not replicated, and takes no topic."""
    topics = {"p.crm.contacts": [change("crm", "contacts")], "p.x.y": []}
    before = made(tmp_path)
    assert {each.table.source for each in before.look(topics).added} == {"shop"}
    config = write(tmp_path / "replication.yaml", platform(sources={"store": source("p")}))
    after = World(Services(config))
    after.services.lake = Lake(set())  # type: ignore[assignment]
    looked = after.look(topics)
    assert {str(each.table) for each in looked.added} == {"store.crm.contacts", "store.x.y"}
    assert looked.refused == ()
    assert len(looked.registry) == 4
    assert after.look(topics).added == ()


def test_a_renamed_sources_tables_go_on_once_the_registry_has_the_new_name(tmp_path: Path) -> None:
    topics = {"p.crm.contacts": [change("crm", "contacts")]}
    named = {"target": {"namespace": "{schema}"}}
    before = made(tmp_path, **named)
    before.look(topics)
    sources = {"store": {**source("p"), **named}}
    config = write(tmp_path / "replication.yaml", platform(sources=sources))
    after = World(Services(config))
    after.services.lake = Lake(set())  # type: ignore[assignment]
    (refused,) = after.look(topics).refused
    assert "write the new name as `source`" in str(refused)
    file = Path(config.registry.removeprefix("file://"))
    file.write_text(file.read_text().replace('"source": "shop"', '"source": "store"'))
    looked = after.look(topics)
    assert (looked.added, looked.refused) == ((), ())


def test_two_tables_in_one_topic_are_two(world: World) -> None:
    looked = world.look({"p.app": [change("crm", "contacts"), change("crm", "bills")]})
    assert {each.table.name for each in looked.added} == {"contacts", "bills"}
    assert all(each.is_shared and each.topic == "p.app" for each in looked.added)


def test_a_guess_gives_way_to_the_first_records(world: World) -> None:
    world.look({"p.crm.Order_Lines": []})
    (guess,) = world.tables().values()
    assert (guess.table.name, guess.taken) == ("Order_Lines", Taken.UNLESS_NAMED)
    looked = world.look({"p.crm.Order_Lines": [change("crm", "Order Lines")]})
    assert list(world.tables()) == ["crm.Order Lines"]
    assert [each.table.name for each in looked.added] == ["Order Lines"]


def test_a_right_guess_is_confirmed(world: World) -> None:
    world.look({"p.crm.contacts": []})
    world.look({"p.crm.contacts": [change("crm", "contacts")]})
    (entry,) = world.tables().values()
    assert entry.is_confirmed
    assert entry.taken is Taken.NAMED


def test_rows_that_name_no_table_are_those_of_the_topics_name(world: World) -> None:
    world.look({"p.crm.contacts": [b'{"id": 1, "__deleted": "false"}']})
    (entry,) = world.tables().values()
    assert (entry.table.qualified, entry.taken) == ("crm.contacts", Taken.UNLESS_NAMED)


def test_changes_that_name_no_table_in_a_topic_that_names_none_are_shown(world: World) -> None:
    looked = world.look({"p.contacts": [b'{"id": 1, "__deleted": "false"}']})
    assert looked.added == ()
    (other,) = looked.registry.others
    assert (other.topic, other.holds) == (
        "p.contacts",
        "changes that no table takes: they name none, and the topic's name tells none",
    )  # fmt: skip


def test_a_table_that_has_rows_goes_on_as_an_earlier_build_registered_it(tmp_path: Path) -> None:
    """Its document knows nothing of records that name tables."""
    name = TableName("shop", "crm", "Order_Lines")
    old = TableEntry(name, "p.crm.Order_Lines", LakeName("shop_crm", "order_lines"), THEN)
    document = json.loads(to_document(from_document('{"version": 1, "tables": []}')))
    document["tables"].append({
        "source": "shop", "schema": "crm", "name": "Order_Lines", "topic": old.topic,
        "namespace": "shop_crm", "target": "order_lines", "confirmed": True,
        "discovered_at": THEN.isoformat(),
    })  # fmt: skip
    world = made(tmp_path, "shop_crm.order_lines")
    (tmp_path / "registry.json").write_text(json.dumps(document))
    topics = {old.topic: [change("crm", "Order Lines"), change("crm", "Order Lines p2")]}
    assert world.look(topics).refused == ()
    assert world.tables() == {"crm.Order_Lines": old}


def test_one_without_rows_is_called_as_its_records_call_it(tmp_path: Path) -> None:
    world = made(tmp_path)
    old = TableEntry(
        TableName("shop", "crm", "Order_Lines"), "p.crm.Order_Lines", LakeName("l", "t"), THEN
    )
    world.services.registry.add([old])
    world.look({old.topic: [change("crm", "Order Lines")]})
    assert list(world.tables()) == ["crm.Order Lines"]


def test_a_table_that_is_listed_by_its_true_name_is_found(tmp_path: Path) -> None:
    world = made(tmp_path, tables={"crm.Order Lines": {"primary_key": ["id"]}})
    world.look({"p.crm.Order_Lines": [change("crm", "Order Lines")]})
    assert list(world.tables()) == ["crm.Order Lines"]


def test_a_table_of_two_topics_is_merged_from_the_first(world: World) -> None:
    users = [change("crm", "users")]
    looked = world.look({"p.a": users, "p.b": users, "p.crm.other": []})
    assert {each.topic for each in world.tables().values()} == {"p.a", "p.crm.other"}
    (refused,) = looked.refused
    assert "two topics hold changes of shop.crm.users: p.a and p.b" in str(refused)


def test_a_table_met_in_a_batch_shares_its_topic_from_then_on(world: World) -> None:
    world.look({"p.app": [change("crm", "contacts")]})
    (entry,) = world.tables().values()
    found = add_seen(world.services, entry, ["crm.bills"])
    assert [each.table.name for each in found.added] == ["bills"]
    assert all(each.is_shared for each in world.tables().values())


@pytest.mark.parametrize(
    ("fmt", "there", "name", "found"),
    [
        ("debezium-json", change("crm", "a"), "crm.bills", ("crm", "bills")),
        ("debezium-json", change("crm", "a"), "crm.a.b", ("crm", "a.b")),
        ("debezium-json", change("my.crm", "a"), "my.crm.bills", ("my.crm", "bills")),
        ("debezium-json", change("my.crm", "a"), "my.x", ("my", "x")),
        ("ogg-json", b'{"table":"PDB.HR.A","op_type":"I","after":{"ID":1}}', "PDB.OE.B",
         ("PDB.OE", "B")),
    ],
)  # fmt: skip
def test_a_name_with_dots_that_is_met_in_a_batch_is_split_as_records_have_it(
    tmp_path: Path, fmt: str, there: bytes, name: str, found: tuple[str, str]
) -> None:
    world = made(tmp_path, format=fmt)
    topics = Shared({"p.app": [there]})
    world.services.log = topics  # type: ignore[assignment]
    (entry,) = discover(world.services).added
    (added,) = add_seen(world.services, entry, [name]).added
    assert (added.table.schema, added.table.name) == found


def test_a_table_met_in_a_batch_that_has_another_topic_is_shown_once(world: World) -> None:
    world.look({"p.app": [change("crm", "contacts")], "p.b": [change("crm", "bills")]})
    entry = world.tables()["crm.contacts"]
    for _ in range(2):
        (refused,) = add_seen(world.services, entry, ["crm.bills"], 7).refused
        assert "two topics hold changes of shop.crm.bills: p.b and p.app" in str(refused)
    registry = world.services.registry.load()
    (shown,) = not_tables(world.services.config, registry)
    assert shown.topic == "p.app"
    assert shown.holds.startswith("changes that no table takes, among 7 of other tables")
    assert "shop.crm.bills" in shown.holds
    topics = {"p.app": [change("crm", "contacts")], "p.b": [change("crm", "bills")]}
    assert set(world.look(topics).registry.tables) == set(registry.tables)


def test_what_no_table_takes_is_counted_and_named(tmp_path: Path) -> None:
    """GoldenGate's template may leave the schema out; others' topics are merged all the same."""
    world = made(tmp_path, format="ogg-json")
    nameless = json.dumps({"table": "ZB", "op_type": "I", "after": {"ID": 1}}).encode()
    named = json.dumps({"table": "OGG.STOCK", "op_type": "I", "after": {"ID": 1}}).encode()
    topics = {"p.zb": [nameless, nameless], "p.stock": [named], "p.odd": [b"{"]}
    topics_ = Shared(topics)
    world.services.log = topics_  # type: ignore[assignment]
    looked = discover(world.services)
    assert [str(each.table) for each in looked.added] == ["shop.OGG.STOCK"]
    assert {each.topic: each.holds for each in looked.registry.others} == {
        "p.zb": "changes that no table takes: 2 of the 2 records looked at name no table ('ZB' is "
        "no schema and table)",
        "p.odd": "no JSON objects (is the source's format the connector's?)",
    }
    before = world.services.registry.load()
    assert discover(world.services).registry == before, "it is not written at each tick"


class Shared(Topics):
    """Topics whose ends are read."""

    def edges_within(self, marks: dict[str, object]) -> dict[str, tuple[object, ...]]:
        from cdc_assets.changes.offsets import Coordinate
        from cdc_assets.log.values import RawRecord

        return {
            topic: tuple(
                RawRecord(Coordinate(topic, 0, n), THEN, None, each)
                for n, each in enumerate(self.values[topic])
            )
            for topic in marks
        }


def test_how_records_are_taken_is_kept_in_the_document() -> None:
    entry = TableEntry(TableName("s", "a", "b"), "t", LakeName("n", "b"), THEN)
    for each in (entry, replace(entry, taken=Taken.NAMED, is_shared=True)):
        registry = from_document('{"version": 1, "tables": []}').with_entries([each])
        assert from_document(to_document(registry)).entries == (each,)
