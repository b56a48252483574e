from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import click
import pytest
from rich.console import Console

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.errors import ConfigError, TerminalError
from cdc_assets.lake.quarantined import QuarantineLake
from cdc_assets.merge.plan.result import QuarantineReplay
from cdc_assets.operate.quarantine import Listing, QuarantineScope, list_quarantined
from cdc_assets.operate.render import render_quarantine, render_status
from cdc_assets.operate.status import read_status
from cdc_assets.operations.quarantine import RecordPlace, Replayed, entries_in_quarantine
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.command import run_command
from cdc_assets_tests.quarantine_world import CANARY, REASON, QuarantineWorld
from cdc_assets_tests.world import NOW, registry_of

ALL = QuarantineScope()
T = TypeVar("T")


@pytest.fixture
def world(tmp_path: Path, kafka_bootstrap: str) -> Iterator[QuarantineWorld]:
    made = QuarantineWorld(tmp_path, kafka_bootstrap)
    yield made
    made.close()


@pytest.fixture
def lake(tmp_path: Path) -> QuarantineWorld:
    """A catalog and a registry of two tables, and no Kafka."""
    made = QuarantineWorld(tmp_path, "127.0.0.1:1")
    RegistryFile(made.config.registry).add(registry_of(made.config, "items", "orders"))
    return made


def places(listing: Listing) -> list[tuple[str, int, int]]:
    found = (each.coordinate for each in listing.records)
    return [(each.topic.rpartition(".")[2], each.partition, each.offset) for each in found]


def command(world: QuarantineWorld, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command(world.folder, "quarantine", *arguments)


def printed(shown: T, render: Callable[[T, Console], None]) -> str:
    out = io.StringIO()
    render(shown, Console(file=out, width=250))
    return out.getvalue()


@pytest.mark.unit
def test_records_are_listed_by_coordinate(lake: QuarantineWorld) -> None:
    lake.set_aside("orders", [(1, 2), (0, 10), (0, 9)])
    lake.set_aside("items", [(0, 50)])

    listing = list_quarantined(lake.services, ALL, 100)
    assert places(listing) == [
        ("items", 0, 50), ("orders", 0, 9), ("orders", 0, 10), ("orders", 1, 2)
    ]  # fmt: skip
    assert listing.more == 0
    first = listing.records[0]
    assert (first.source, first.table, first.reason) == ("shop", "public.items", REASON)
    assert (first.timestamp, first.quarantined_at) == (NOW - timedelta(seconds=90), NOW)


@pytest.mark.unit
def test_a_record_that_two_writers_set_aside_is_listed_once(lake: QuarantineWorld) -> None:
    lake.set_aside("orders", [(0, 9)], run_id="one")
    lake.set_aside("orders", [(0, 9)], run_id="other")
    listing = list_quarantined(lake.services, ALL, 100)
    assert (places(listing), listing.total) == ([("orders", 0, 9)], 1)


@pytest.mark.unit
def test_records_of_topics_of_one_name_are_all_listed(lake: QuarantineWorld) -> None:
    lake.set_aside("orders", [(0, 9)])
    lake.set_aside("orders", [(0, 9)], topic_id="former")
    lake.set_aside("orders", [(0, 9)], topic_id="present")
    listing = list_quarantined(lake.services, ALL, 100)
    assert [each.topic_id for each in listing.records] == ["", "former", "present"]
    known = QuarantineLake(lake.config).coordinates("shop", "public.orders")
    assert len(known) == listing.total == 3


@pytest.mark.unit
@pytest.mark.parametrize(
    "wanted",
    [
        QuarantineScope(table="orders"),
        QuarantineScope(table="public.orders"),
        QuarantineScope("shop", "shop.public.orders"),
    ],
    ids=str,
)
def test_one_table_can_be_listed(lake: QuarantineWorld, wanted: QuarantineScope) -> None:
    lake.set_aside("orders", [(0, 9)])
    lake.set_aside("items", [(0, 50)])
    assert places(list_quarantined(lake.services, wanted, 100)) == [("orders", 0, 9)]


@pytest.mark.unit
def test_a_table_or_source_that_is_not_there_is_named_with_those_that_are(
    lake: QuarantineWorld,
) -> None:
    with pytest.raises(TerminalError, match=r"shop\.public\.orders"):
        list_quarantined(lake.services, QuarantineScope(table="order"), 100)
    with pytest.raises(ConfigError, match="did you mean 'shop'"):
        list_quarantined(lake.services, QuarantineScope(source="shpo"), 100)


@pytest.mark.unit
def test_a_table_that_nobody_replicates_now_is_listed_but_not_replayed(
    lake: QuarantineWorld,
) -> None:
    lake.set_aside("orders", [(0, 9)])
    lake.set_aside("gone", [(0, 1)])
    assert places(list_quarantined(lake.services, ALL, 100)) == [("gone", 0, 1), ("orders", 0, 9)]
    (entry,) = entries_in_quarantine(lake.services, ALL)
    assert entry.table.name == "orders"


@pytest.mark.unit
def test_a_table_whose_records_were_deleted_in_sql_is_to_be_counted_again(
    lake: QuarantineWorld,
) -> None:
    targets = {each.table.name: each.target for each in lake.services.registry.load()}
    lake.publish_quarantined(targets["orders"], 2, NOW)
    lake.publish_quarantined(targets["items"], 0, NOW)
    (entry,) = entries_in_quarantine(lake.services, ALL)
    assert entry.table.name == "orders"
    assert list_quarantined(lake.services, ALL, 100).total == 0


@pytest.mark.unit
def test_a_long_list_is_cut_and_says_how_much_is_left(lake: QuarantineWorld) -> None:
    lake.set_aside("orders", [(0, n) for n in range(30)])
    listing = list_quarantined(lake.services, ALL, 7)
    assert places(listing) == [("orders", 0, n) for n in range(7)]
    assert listing.more == 23
    assert "23 more" in printed(listing, render_quarantine)


@pytest.mark.unit
def test_the_command_prints_where_and_why_and_never_what(lake: QuarantineWorld) -> None:
    lake.set_aside("orders", [(3, 41)], run_id="run-77")

    text = command(lake, "list", "--table", "public.orders")
    assert text.returncode == 0, text.stderr
    for word in ("shop", "public.orders", "41", REASON, "run-77", "2026-03-04T12:28:30Z"):
        assert word in text.stdout
    document = command(lake, "list", "--json", "--limit", "1")
    (record,) = json.loads(document.stdout)["records"]
    assert record == {
        "source": "shop",
        "table": "public.orders",
        "topic": f"{lake.prefix}.public.orders",
        "topic_id": None,
        "partition": 3,
        "offset": 41,
        "timestamp": "2026-03-04T12:28:30+00:00",
        "reason": REASON,
        "run_id": "run-77",
        "quarantined_at": "2026-03-04T12:30:00+00:00",
    }
    for done in (text, document):
        assert CANARY not in done.stdout + done.stderr


@pytest.mark.unit
@pytest.mark.parametrize("action", ["list", "replay"])
def test_an_empty_quarantine_says_so_and_needs_no_spark(lake: QuarantineWorld, action: str) -> None:
    done = command(lake, action)
    assert (done.returncode, done.stdout) == (0, "Nothing is in quarantine.\n"), done.stderr
    done = command(lake, action, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == {
        "list": {"records": [], "more": 0}, "replay": {"tables": [], "failed": {}}
    }[action]  # fmt: skip


@pytest.mark.unit
@pytest.mark.parametrize(
    "arguments", [("--offset", "0:1"), ("--table", "orders", "--offset", "0-1")], ids=str
)
def test_offsets_without_a_table_or_a_form_are_bad_usage(
    lake: QuarantineWorld, arguments: tuple[str, ...]
) -> None:
    lake.set_aside("orders", [(0, 1)])
    done = command(lake, "replay", *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.unit
def test_a_place_is_read_as_it_is_written() -> None:
    assert RecordPlace.parse("3:41") == RecordPlace(3, 41)
    for text in ("3", "3:", ":41", "-1:4", "3:4:1", "3:٤", f"3:{2**63}0"):
        with pytest.raises(ConfigError, match="not a partition"):
            RecordPlace.parse(text)


@pytest.mark.unit
def test_a_replay_prints_what_became_of_each_record() -> None:
    def at(offset: int) -> Coordinate:
        return Coordinate("shop.public.orders", 0, offset)

    table = TableName("shop", "public", "orders")
    done = Replayed(table, 2, 1, ((at(4), REASON),), (at(5),), (at(6),), (at(7),), (at(8),))
    assert [click.unstyle(each) for each in done.lines()] == [
        "shop.public.orders: 2 merged, 1 overtaken by newer changes, 1 rejected again",
        f"  topic=shop.public.orders partition=0 offset=4: {REASON}",
        "  topic=shop.public.orders partition=0 offset=6: "
        "not passed yet by the table's offsets; the next run reads it",
        "  topic=shop.public.orders partition=0 offset=7: "
        "of a topic that the table no longer has; it stays",
        "  topic=shop.public.orders partition=0 offset=8: from before the table's beginning, "
        "so that its rows have it or it is another's; it was removed",
        "  topic=shop.public.orders partition=0 offset=5: not in quarantine",
    ]

    document = done.to_dict()
    assert (document["table"], document["merged"], document["overtaken"]) == (str(table), 2, 1)
    place = {"topic": "shop.public.orders", "partition": 0}
    assert document["rejected"] == [{**place, "offset": 4, "reason": REASON}]
    for name, offset in (("absent", 5), ("unread", 6), ("foreign", 7), ("before", 8)):
        assert document[name] == [{**place, "offset": offset}]


@pytest.mark.unit
def test_records_that_were_asked_for_and_are_not_there_are_absent() -> None:
    table, wanted = TableName("shop", "public", "orders"), Coordinate("t", 0, 1)
    assert Replayed.of(table, [wanted], None).absent == (wanted,)
    assert Replayed.of(table, None, None).absent == ()
    left = replace(wanted, offset=2), replace(wanted, offset=3)
    done = QuarantineReplay(table, "id", unread=left[:1], foreign=left[1:])
    assert Replayed.of(table, [wanted, *left], done) == Replayed(
        table, absent=(wanted,), unread=left[:1], foreign=left[1:]
    )


@pytest.mark.stack
def test_status_tells_the_number_while_it_is_not_zero(world: QuarantineWorld) -> None:
    for table in ("clean", "dirty"):
        world.produce(world.topic(table), [NOW])
    targets = {entry.table.name: entry.target for entry in world.discover()}
    world.publish_quarantined(targets["clean"], 3, NOW - timedelta(hours=1))
    world.publish_quarantined(targets["clean"], 0, NOW)
    world.publish_quarantined(targets["dirty"], 2, NOW - timedelta(days=60))

    status = read_status(world.services)
    tables = json.loads(status.to_json())["tables"]
    numbers = {each["table"]: each["quarantined"] for each in tables}
    assert numbers == {"shop.public.clean": 0, "shop.public.dirty": 2}
    shown = printed(status, render_status)
    assert "cdc-assets quarantine list --table shop.public.dirty" in shown
    assert "quarantine list --table shop.public.clean" not in shown
