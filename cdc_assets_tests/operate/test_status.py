from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from cdc_assets.desired import Directive, DirectiveNote, TableDirectives
from cdc_assets.operate.failures import FailureKind
from cdc_assets.operate.render import render_status
from cdc_assets.operate.services import Services
from cdc_assets.operate.status import Status, read_status
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.operate.statuses import LATE, PAUSED, renamed, status_of, table_status
from cdc_assets_tests.world import NOW, World, registry_of, write_config


def states(status: Status) -> dict[str, str]:
    return {each.table.name: each.condition.value for each in status.tables}


@pytest.mark.stack
def test_each_table_has_its_state(world: World) -> None:
    for table in ("current", "failing", "late", "new", "paused", "waiting"):
        world.topic(table)
    entries = {entry.table.name: entry for entry in world.discover()}
    world.produce(entries["current"].topic, [NOW])
    world.publish(entries["current"].target, {0: 0}, {0: 1})
    world.produce(entries["late"].topic, [NOW - timedelta(hours=1)] * 3)
    world.publish(entries["late"].target, {0: 0}, {0: 1})
    world.produce(entries["waiting"].topic, [NOW - timedelta(seconds=2)] * 3)
    world.publish(entries["waiting"].target, {0: 0}, {0: 2})
    world.services.failures.record(entries["failing"].table, FailureKind.TERMINAL, "no key", NOW)
    world.produce(entries["paused"].topic, [NOW - timedelta(hours=1)] * 3)
    world.publish(entries["paused"].target, {0: 0}, {0: 1})
    wanted = DirectiveNote(NOW, "cdc-assets pause")
    world.services.desired.put(entries["paused"].table, Directive.PAUSED, wanted)

    status = read_status(world.services)
    assert states(status) == {
        "current": "REPLICATING",
        "failing": "FAILING",
        "late": "LAGGING",
        "new": "NEW",
        "paused": "PAUSED",
        "waiting": "REPLICATING",
    }
    assert [each.table.name for each in status.failing] == ["failing"]
    document = {each["table"]: each for each in json.loads(status.to_json())["tables"]}
    words = {table.rpartition(".")[2]: each["state"] for table, each in document.items()}
    assert words == states(status) | {"current": "CURRENT", "waiting": "CURRENT"}
    paused = document["shop.public.paused"]
    assert paused["condition"]["state"] == "PAUSED"
    assert paused["condition"]["since"] == NOW.isoformat()
    assert "cdc-assets resume --table shop.public.paused" in paused["condition"]["why"]
    assert paused["desired"]["paused"]["by"] == "cdc-assets pause"
    assert document["shop.public.late"]["desired"]["paused"] is None
    text = shown(status)
    assert "shop.public.paused (2 changes wait): paused since 2026-03-04 12:30:00Z" in text


@pytest.mark.stack
def test_the_json_document_says_all_there_is(world: World) -> None:
    world.produce(world.topic("orders"), [NOW - timedelta(minutes=10)] * 4)
    (entry,) = world.discover()
    world.publish(entry.target, {0: 0}, {0: 3})
    world.services.failures.record(entry.table, FailureKind.TRANSIENT, "Spark is away", NOW)

    document = json.loads(read_status(world.services).to_json())
    (table,) = document["tables"]
    assert table["table"] == "shop.public.orders"
    assert table["target"] == "shop_public.orders"
    assert table["offsets"] == {"0": 3}
    assert table["lag"] == {
        "changes": 1, "seconds": 600.0, "kafka_to_lake_seconds": 600.0,
        "source_to_kafka_seconds": None, "end_to_end_seconds": None, "valid_through": None,
    }  # fmt: skip
    assert table["slo"]["late"] == 1
    assert table["slo"]["percent_within"] == 75.0
    assert table["last_error"]["message"] == "Spark is away"
    assert table["last_error"]["needs_person"] is False
    assert document["problems"] == []


def shown(status: Status) -> str:
    console = Console(record=True, width=250, file=io.StringIO())
    render_status(status, console)
    return console.export_text()


@pytest.mark.unit
def test_a_table_that_people_hold_is_not_said_to_miss_its_slo(tmp_path: Path) -> None:
    late = table_status(tmp_path, latencies=LATE)
    held = table_status(tmp_path, latencies=LATE, desired=PAUSED)
    assert "80.00 % (error)" in shown(status_of(late))
    assert "80.00 % (held)" in shown(status_of(held))
    assert late.to_dict()["slo"]["state"] == "error"
    assert held.to_dict()["slo"]["state"] == "held"


@pytest.mark.unit
@pytest.mark.parametrize("width", [60, 80, 100, 250])
def test_a_narrow_terminal_has_a_line_for_each_table(tmp_path: Path, width: int) -> None:
    status = status_of(*(table_status(tmp_path, name) for name in ("orders", "order_items")))
    console = Console(
        record=True, width=width, file=io.StringIO(), force_terminal=True, color_system=None
    )
    render_status(status, console)
    header, *lines = console.export_text().splitlines()
    rows, rest = lines[:2], " ".join(lines[2:])
    assert header.split()[:2] == ["table", "state"]
    assert "behind" in header
    assert [row.split()[:2] for row in rows] == [
        [f"shop.public.{name}", "REPLICATING"] for name in ("orders", "order_items")
    ]
    assert all("…" not in line for line in (header, *rows))
    assert rest.startswith("(a wider terminal shows lake table") is (width < 250)


@pytest.mark.unit
def test_the_text_says_why_a_table_is_not_up_to_date(tmp_path: Path) -> None:
    rebuilt = TableDirectives(rebuild=DirectiveNote(NOW, "cdc-assets rebuild", "types were wrong"))
    late = table_status(tmp_path, "late")
    late = replace(late, survey=replace(late.survey, oldest_unread=NOW - timedelta(hours=1)))
    new = replace(late.survey, state=None)
    text = shown(
        status_of(
            table_status(tmp_path, "well"),
            late,
            table_status(tmp_path, "rebuilt", desired=rebuilt),
            table_status(tmp_path, "paused", desired=PAUSED),
            *(renamed(replace(late, survey=new), f"new{n}") for n in range(7)),
        )
    )
    _, *lines = (line.rstrip() for line in text.splitlines() if ".public." in line)
    assert lines[10:] == [
        "shop.public.paused (5 changes wait): paused since 2026-03-04 12:30:00Z by cdc-assets "
        "pause: the warehouse is moved → cdc-assets resume --table shop.public.paused",
        "shop.public.late the oldest of 5 unread records is older than 300 s",
        "shop.public.rebuilt it is being rebuilt since 2026-03-04 12:30:00Z by cdc-assets rebuild: "
        "types were wrong → cdc-assets rebuild shop.public.rebuilt",
        "shop.public.new0, shop.public.new1, shop.public.new2, shop.public.new3, "
        "shop.public.new4 and 2 more nothing of it was merged yet",
    ]


@pytest.mark.unit
@pytest.mark.usefixtures("impatient")
def test_without_kafka_the_rest_is_still_told(tmp_path: Path) -> None:
    config = write_config(tmp_path, kafka="127.0.0.1:1")
    RegistryFile(config.registry).add(registry_of(config, "orders"))

    status = read_status(Services(config))
    assert states(status) == {"orders": "UNKNOWN"}
    (problem,) = status.problems
    assert "Kafka" in str(problem)
    assert "127.0.0.1:1" in str(problem)


@pytest.mark.stack
def test_the_command_answers_for_twenty_tables_and_prints_what_it_took(world: World) -> None:
    world.now = datetime.now(UTC)
    for n in range(20):
        topic = world.topic(f"t{n:02}")
        world.produce(topic, [world.now - timedelta(minutes=1)] * 2)
    for entry in world.discover():
        world.publish(entry.target, {0: 0}, {0: 1})

    processor, wall = min(_run_status(world) for _ in range(3))
    print(f"status of 20 tables: {processor:.2f} s of processor time, {wall:.2f} s in all")


def _run_status(world: World) -> tuple[float, float]:
    """Seconds of processor time, which do not depend on what else the machine does, and in all."""
    started = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "cdc_assets.cli", "status", "--json"],
        env={**os.environ, "CDC_ASSETS_CONFIG": str(world.config.path)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["tables"]) == 20
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return processor, time.monotonic() - started


@pytest.mark.unit
@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_wraps_long_names_and_cuts_none(tmp_path: Path, width: int) -> None:
    name = "a_table_whose_name_is_" + "_".join(["long"] * 15)
    console = Console(
        record=True, width=width, file=io.StringIO(), force_terminal=True, color_system=None
    )
    render_status(status_of(table_status(tmp_path, name)), console)
    lines = console.export_text().splitlines()
    assert "…" not in "".join(lines)
    first_column = "".join(line.split(" ")[0] for line in lines[1:])
    assert first_column.startswith(f"shop.public.{name}")


@pytest.mark.unit
def test_a_pipe_has_a_line_for_each_table_however_long_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "a_table_whose_name_is_" + "_".join(["long"] * 40)
    render_status(status_of(table_status(tmp_path, name)))
    header, row, *_ = capsys.readouterr().out.splitlines()
    assert header.split()[0] == "table"
    assert row.split()[:2] == [f"shop.public.{name}", "REPLICATING"]
    assert "…" not in row
