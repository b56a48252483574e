"""`cdc-assets metrics`: what it exposes is read by the library's own parser."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import requests
from click.testing import CliRunner
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as read_text
from prometheus_client.registry import CollectorRegistry

from cdc_assets.cli import cli
from cdc_assets.databases.postgres.server import Slot
from cdc_assets.desired import DirectiveNote, TableDirectives
from cdc_assets.errors import ConfigError, UnreachableError
from cdc_assets.operate.completeness import Completeness
from cdc_assets.operate.exposition import NumbersCollector
from cdc_assets.operate.failures import Failure, FailureKind
from cdc_assets.operate.numbers import Numbers, NumbersCache, SourceNumbers, SourceSlots
from cdc_assets.operate.status import TableStatus
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.operate.statuses import (
    LATE,
    PAUSED,
    connector_of,
    renamed,
    status_of,
    table_status,
    view_of,
)
from cdc_assets_tests.waiting import until
from cdc_assets_tests.world import NOW, World, registry_of, write_config

ORDERS = {"source": "shop", "schema": "public", "table": "orders"}


def text_of(numbers: Numbers) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(NumbersCollector(lambda: numbers))
    return generate_latest(registry).decode()


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(text: str, name: str, labels: Mapping[str, str]) -> float | None:
    return samples(text).get((f"cdc_assets_{name}", frozenset(labels.items())))


@pytest.mark.unit
def test_what_is_known_of_a_table_is_exposed_in_base_units(tmp_path: Path) -> None:
    failure = Failure(NOW, FailureKind.TERMINAL, "no key", attempts=3)
    status = status_of(table_status(tmp_path, failure=failure))
    text = text_of(Numbers(status, (), 0.5))

    found = {
        name.removeprefix("cdc_assets_table_"): found
        for (name, labels), found in samples(text).items()
        if labels == frozenset(ORDERS.items())
    }
    assert found == {
        "lag_records": 5,
        "kafka_to_lake_lag_seconds": 10,
        "source_to_kafka_lag_seconds": 7,
        "valid_through_timestamp_seconds": NOW.timestamp() - 43,
        "valid_through_age_seconds": 30,
        "slo_within_ratio": 0.97,
        "slo_target_ratio": 0.95,
        "slo_budget_left_ratio": pytest.approx(0.4),
        "slo_burn_rate": pytest.approx(0.6),
        "slo_changes": 100,
        "slo_late_changes": 3,
        "latency_p95_seconds": pytest.approx(1.0, rel=0.12),
        "failed_attempts": 3,
        "quarantined_records": 0,
        "last_publish_timestamp_seconds": NOW.timestamp() - 60,
        "retention_headroom_records": 10,
        "rows": 1234,
        "data_files": 7,
    }
    state = {**ORDERS, "cdc_assets_table_state": "FAILING"}
    assert value(text, "table_state", state) == 1
    assert value(text, "table_state", {**state, "cdc_assets_table_state": "REPLICATING"}) == 0


@pytest.mark.unit
def test_a_table_that_people_hold_has_no_slo_until_it_is_resumed(tmp_path: Path) -> None:
    held = table_status(tmp_path, latencies=LATE, desired=PAUSED)
    text = text_of(Numbers(status_of(held), (), 0.5))
    assert value(text, "table_state", {**ORDERS, "cdc_assets_table_state": "PAUSED"}) == 1
    assert value(text, "table_kafka_to_lake_lag_seconds", ORDERS) == 10
    assert {name for name, _ in samples(text) if "_slo_" in name} == {
        "cdc_assets_table_slo_target_ratio"
    }
    late = text_of(Numbers(status_of(table_status(tmp_path, latencies=LATE)), (), 0.5))
    assert value(late, "table_slo_budget_left_ratio", ORDERS) == pytest.approx(-3)


def of_sources(*tables: TableStatus) -> dict[str, float]:
    """The numbers of the one source of these tables."""
    text = text_of(Numbers(status_of(*tables), (), 0.5))
    return {
        name.removeprefix("cdc_assets_source_"): found
        for (name, labels), found in samples(text).items()
        if labels == frozenset({("source", "shop")})
    }


def behind(table: TableStatus, seconds: float) -> TableStatus:
    """The table, so far behind both Kafka and its source."""
    at = NOW - timedelta(seconds=seconds)
    complete = replace(table.completeness, delivery=None, valid_through=at)
    return replace(table, survey=replace(table.survey, oldest_unread=at), completeness=complete)


@pytest.mark.unit
def test_a_source_is_as_far_behind_as_the_last_of_its_tables(tmp_path: Path) -> None:
    near, far = (table_status(tmp_path, name) for name in ("near", "far"))
    near, far = behind(near, 20), behind(far, 900)
    assert of_sources(near, far) == {
        "lag_records": 5,
        "kafka_to_lake_lag_seconds": 900,
        "valid_through_timestamp_seconds": NOW.timestamp() - 900,
        "valid_through_age_seconds": 900,
    }
    other = replace(far.survey.entry, table=replace(far.table, source="other"))
    away = replace(far, survey=replace(far.survey, entry=other))
    assert of_sources(near, away)["kafka_to_lake_lag_seconds"] == 20


@pytest.mark.unit
def test_what_people_hold_is_incomplete_but_no_lag_and_what_they_drop_is_neither(
    tmp_path: Path,
) -> None:
    near = behind(table_status(tmp_path, "near"), 20)
    paused = behind(table_status(tmp_path, "paused", desired=PAUSED), 900)
    dropped = table_status(tmp_path, "dropped", desired=TableDirectives(dropped=DirectiveNote(NOW)))
    found = of_sources(near, paused, behind(dropped, 9_000))
    assert found["kafka_to_lake_lag_seconds"] == 20
    assert found["valid_through_age_seconds"] == 900


@pytest.mark.unit
def test_a_source_is_valid_through_no_time_unless_all_its_tables_are(tmp_path: Path) -> None:
    near = behind(table_status(tmp_path, "near"), 20)
    unproven = replace(table_status(tmp_path, "unproven"), completeness=Completeness())
    assert of_sources(near, unproven) == {"lag_records": 5, "kafka_to_lake_lag_seconds": 20}
    unasked = replace(unproven.survey, marks=None, oldest_unread=None)
    silent = replace(unproven, survey=unasked)
    assert of_sources(silent) == {}
    (said,) = json.loads(status_of(near, unproven).to_json())["sources"]
    assert said == {
        "source": "shop",
        "tables": 2,
        "lag": {
            "changes": 5,
            "kafka_to_lake_seconds": 20,
            "end_to_end_seconds": None,
            "valid_through": None,
        },
    }


@pytest.mark.unit
def test_connectors_and_slots_are_exposed_of_their_source(tmp_path: Path) -> None:
    broken = connector_of("RUNNING", "RUNNING", "FAILED", "SOMETHING")
    slots = SourceSlots((Slot("cdc_shop", True, 10_000, 400, "reserved"),))
    status = status_of(table_status(tmp_path, connector=view_of(broken)))
    text = text_of(Numbers(status, (SourceNumbers("shop", (broken,), slots),), 0.5))

    mine = {"source": "shop", "connector": "shop"}
    assert value(text, "connector_up", mine) == 0
    states = {state: value(text, "connector_tasks", {**mine, "state": state})
              for state in ("RUNNING", "FAILED", "PAUSED", "OTHER")}  # fmt: skip
    assert states == {"RUNNING": 1, "FAILED": 1, "PAUSED": 0, "OTHER": 1}
    slot = {"source": "shop", "slot": "cdc_shop"}
    assert value(text, "slot_retained_wal_bytes", slot) == 10_000
    assert value(text, "slot_unconfirmed_wal_bytes", slot) == 400
    assert value(text, "slot_active", slot) == 1


@pytest.mark.unit
def test_what_is_unknown_has_no_sample(tmp_path: Path) -> None:
    table = table_status(tmp_path)
    blind = replace(table, slo=None, survey=replace(table.survey, marks=None, state=None))
    text = text_of(Numbers(status_of(blind), (), 0.5))
    assert value(text, "table_lag_records", ORDERS) is None
    assert value(text, "table_slo_within_ratio", ORDERS) is None
    assert value(text, "table_slo_target_ratio", ORDERS) == 0.95


@pytest.mark.unit
def test_a_look_that_fails_is_told_and_the_next_one_is_tried() -> None:
    def fail() -> Numbers:
        what = "the registry does not answer"
        raise UnreachableError(what)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(NumbersCollector(fail))
    assert samples(generate_latest(registry).decode()) == {
        ("cdc_assets_survey_success", frozenset()): 0
    }


@pytest.mark.unit
def test_a_look_is_taken_once_however_often_it_is_asked_for(tmp_path: Path) -> None:
    now, looks = [0.0], [0]

    def read() -> Numbers:
        looks[0] += 1
        return Numbers(status_of(table_status(tmp_path)), (), 0.5)

    remembered = NumbersCache(read, 15, monotonic=lambda: now[0])
    first = [remembered.get() for _ in range(10)]
    now[0] = 14.9
    assert remembered.get() is first[0]
    now[0] = 15
    remembered.get()
    assert looks[0] == 2


@pytest.mark.slow
def test_a_scrape_of_a_thousand_tables_costs_little(tmp_path: Path) -> None:
    one = table_status(tmp_path)
    status = status_of(*(renamed(one, f"t{n}") for n in range(1_000)))
    numbers = Numbers(status, (), 0.5)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(NumbersCollector(lambda: numbers))
    generate_latest(registry)  # what is made once
    begun = time.process_time()
    text = generate_latest(registry)
    seconds = time.process_time() - begun
    print(f"a scrape of 1,000 tables: {seconds:.2f} s of processor time, {len(text):,} bytes")
    assert seconds < 2.5, "half of what five seconds between scrapes leave"


@pytest.mark.unit
@pytest.mark.parametrize("listen", ["nowhere", ":9464", "127.0.0.1:99999", "127.0.0.1:x"])
def test_an_address_that_is_none_is_bad_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listen: str
) -> None:
    monkeypatch.setenv("CDC_ASSETS_CONFIG", str(write_config(tmp_path).path))
    done = CliRunner().invoke(cli, ["metrics", "--listen", listen])
    assert isinstance(done.exception, ConfigError)


def plain_value(text: str, name: str, labels: Mapping[str, str]) -> float | None:
    """Returns a sample of the text format, of which nothing but that format may be there."""
    lines = [line.split(" ") for line in text.splitlines() if line.startswith("#")]
    assert {line[1] for line in lines} == {"HELP", "TYPE"}, "neither EOF nor UNIT"
    types = {line[3] for line in lines if line[1] == "TYPE"}
    assert types <= {"counter", "gauge", "histogram", "summary", "untyped"}
    found = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in read_text(text)
        for sample in family.samples
    }
    return found.get((f"cdc_assets_{name}", frozenset(labels.items())))


@pytest.mark.unit
@pytest.mark.usefixtures("impatient")
def test_once_prints_the_text_format_that_gateways_and_collectors_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_config(tmp_path, kafka="127.0.0.1:1")
    RegistryFile(config.registry).add(registry_of(config, "orders"))
    monkeypatch.setenv("CDC_ASSETS_CONFIG", str(config.path))
    done = CliRunner().invoke(cli, ["metrics", "--once"])
    assert done.exit_code == 0, done.output
    state = {**ORDERS, "cdc_assets_table_state": "UNKNOWN"}
    assert plain_value(done.stdout, "table_state", state) == 1
    assert plain_value(done.stdout, "table_slo_target_ratio", ORDERS) == 0.95
    assert plain_value(done.stdout, "survey_success", {}) == 0


@pytest.fixture
def published(world: World) -> World:
    world.produce(world.topic("orders"), [NOW] * 3)
    (entry,) = world.discover()
    world.publish(entry.target, {0: 0}, {0: 2})
    return world


@pytest.mark.stack
def test_once_prints_what_the_parser_reads(
    published: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDC_ASSETS_CONFIG", str(published.config.path))
    done = CliRunner().invoke(cli, ["metrics", "--once"])
    assert done.exit_code == 0, done.output
    assert plain_value(done.stdout, "table_lag_records", ORDERS) == 1
    assert plain_value(done.stdout, "survey_success", {}) == 1


@pytest.fixture
def served(published: World) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen(
        [sys.executable, "-m", "cdc_assets.cli", "--config", str(published.config.path),
         "metrics", "--listen", address]
    )  # fmt: skip
    yield address
    process.terminate()
    assert process.wait(20) == 0, "it ends in good order when it is told to"


@pytest.mark.stack
def test_the_endpoint_serves_both_forms(served: str) -> None:
    def answer() -> requests.Response | None:
        try:
            return requests.get(f"http://{served}/metrics", timeout=30,
                                headers={"Accept": "application/openmetrics-text"})  # fmt: skip
        except requests.ConnectionError:
            return None

    until(lambda: answer() is not None, "it listens")
    found = answer()
    assert found is not None
    assert "openmetrics-text" in found.headers["Content-Type"]
    assert value(found.text, "table_lag_records", ORDERS) == 1
    plain = requests.get(f"http://{served}/metrics", timeout=30)
    assert plain.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert plain_value(plain.text, "table_lag_records", ORDERS) == 1
