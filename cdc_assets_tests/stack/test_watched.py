"""Real Debezium under load: valid-through is never too late; a dead connector is told of once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import psycopg
import pytest
import requests
from cdc_assets_devstack.shop.connector import connector_config
from cdc_assets_devstack.stack import LocalStack
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from cdc_assets.cli import cli
from cdc_assets.config import ReplicationConfig
from cdc_assets.lake.properties import PREFIX
from cdc_assets.operate.services import Services
from cdc_assets.operate.status import TableStatus, read_status
from cdc_assets.orchestration.checks import CheckVerdict, verdicts_of
from cdc_assets.orchestration.keys import CHECK_SLO
from cdc_assets.orchestration.sensors.watch import watch_sensor
from cdc_assets.registry import Registry
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.operate.test_dashboard import expressions, labels_of, unknown
from cdc_assets_tests.receiver import Receiver, receiving
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.stack.test_dead_connector import MODE, restarted
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until

pytestmark = pytest.mark.stack

NAME = "watched"
CREATE = (
    "CREATE TABLE busy (id bigint PRIMARY KEY, price numeric(10,2))",
    "CREATE TABLE idle (id bigint PRIMARY KEY)",
    "INSERT INTO idle VALUES (1)",
)
VALID_THROUGH = f"{PREFIX}valid-through"
QUERY = """
SELECT max_by(s.summary['cdc-assets.valid-through'], h.made_current_at)
FROM {table}.history h JOIN {table}.snapshots s ON s.snapshot_id = h.snapshot_id
WHERE h.is_current_ancestor AND s.summary['cdc-assets.valid-through'] IS NOT NULL
"""


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


@pytest.fixture(scope="module")
def database(
    stack: LocalStack, stack_config: ReplicationConfig, receiver: Receiver
) -> Iterator[Replicated]:
    dsn = new_database(stack, NAME, *CREATE)
    document = {"alerts": {"webhook": {"env": "WATCHED_WEBHOOK"}}}
    connect = {"url": f"http://{stack.connect.address}"}
    with (
        pytest.MonkeyPatch.context() as patch,
        replicated(stack, stack_config, NAME, dsn, document, {MODE: "fail"}, connect=connect) as it,
    ):
        patch.setenv("WATCHED_WEBHOOK", receiver.url)
        it.wait_until_delivered()
        yield it


@dataclass
class Load:
    """Inserts in several sessions; of each row, when its commit was complete."""

    dsn: str
    done: dict[int, datetime] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, session: int) -> None:
        number = session
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            while not self.stop.is_set():
                connection.execute("INSERT INTO busy VALUES (%s, 1)", (number,))
                self.done[number] = datetime.now(UTC)
                number += 10
                time.sleep(0.05)  # a pace, not a condition


@contextmanager
def loading(dsn: str) -> Iterator[Load]:
    load = Load(dsn)
    threads = [threading.Thread(target=load.run, args=(n,)) for n in range(1, 5)]
    for each in threads:
        each.start()
    try:
        yield load
    finally:
        load.stop.set()
        for each in threads:
            each.join()


def status_of(database: Replicated, table: str) -> TableStatus:
    found = read_status(Services(database.config), [database.entry(table)])
    return found.tables[0]


def true_claims(database: Replicated, done: Mapping[int, datetime]) -> list[datetime]:
    """What the publishes of ``busy`` claim, once it is known to be true.

    Args:
        database: with the table.
        done: of each row, when its commit was complete.
    """
    table = read_table(database.config, database.entry("busy").target)
    assert table is not None
    claims: list[datetime] = []
    for snapshot in table.snapshots():
        said = snapshot.summary.additional_properties if snapshot.summary else {}
        if VALID_THROUGH not in said:
            continue
        through = datetime.fromisoformat(said[VALID_THROUGH])
        rows = table.scan(selected_fields=("id",), snapshot_id=snapshot.snapshot_id).to_arrow()
        there = set(rows["id"].to_pylist())
        lacking = [each for each, at in done.items() if at < through and each not in there]
        assert lacking == [], f"{len(lacking)} rows from before {through}"
        claims.append(through)
    begun = min(done.values())
    assert len({each for each in claims if each > begun}) >= 2, "it proves something under load"
    assert claims == sorted(claims)
    return claims


def test_every_publish_holds_what_was_committed_before_its_valid_through(
    database: Replicated, spark: Any
) -> None:
    with loading(database.dsn) as load:
        until(lambda: len(load.done) > 20, "the load has begun")
        for _ in range(3):
            database.replicate()
    database.wait_until_delivered()
    database.replicate()
    claims = true_claims(database, load.done)
    table = f"lake.{database.entry('busy').target}"
    (found,) = spark().sql(QUERY.format(table=table)).collect()
    assert datetime.fromisoformat(found[0]) == claims[-1]


def test_an_idle_table_stays_valid_without_a_publish(database: Replicated) -> None:
    database.replicate()
    before = status_of(database, "idle")
    published = before.survey.published
    assert published is not None
    now = datetime.now(UTC)

    def moves() -> bool:
        number = int(time.time() * 1000) * 10  # no other load's
        database.execute(f"INSERT INTO busy VALUES ({number}, 1)")
        found = status_of(database, "idle")
        return found.valid_through is not None and found.valid_through > now

    until(moves, "what the source does elsewhere shows that the idle table is complete")
    after = status_of(database, "idle")
    assert after.survey.published == published
    document = after.to_dict()["lag"]
    assert document["valid_through"] is not None
    assert 0 <= document["source_to_kafka_seconds"] < 60
    assert 0 <= document["end_to_end_seconds"] < 120


class Watch:
    """The sensor, in a process of its own each time, as after a restart of the daemon."""

    def __init__(self, database: Replicated, receiver: Receiver) -> None:
        self._database, self._receiver = database, receiver
        self.later = timedelta()

    def _clock(self) -> datetime:
        return datetime.now(UTC) + self.later

    def tick(self) -> list[tuple[str, str]]:
        """What is received: kind and change of each message."""
        before = len(self._receiver.received)
        sensor = watch_sensor(self._database.config, Registry.of([]), self._clock)
        with dg.DagsterInstance.ephemeral() as instance:
            sensor(dg.build_sensor_context(instance=instance))
        return [(each["kind"], each["change"]) for each in self._receiver.received[before:]]


def slo_verdict(database: Replicated) -> CheckVerdict:
    services = Services(database.config)
    found = read_status(services, [database.entry("busy")]).tables[0]
    (verdict,) = (v for v in verdicts_of(services, found.survey) if v.check == CHECK_SLO)
    return verdict


def connector_up(database: Replicated, monkeypatch: pytest.MonkeyPatch) -> float:
    monkeypatch.setenv("CDC_ASSETS_CONFIG", str(database.config.path))
    printed = CliRunner().invoke(cli, ["metrics", "--once"]).stdout
    (found,) = (
        sample.value
        for family in text_string_to_metric_families(printed)
        for sample in family.samples
        if sample.name == "cdc_assets_connector_up"
    )
    return found


def test_a_scrape_has_every_metric_that_the_dashboard_and_the_rules_name(
    database: Replicated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDC_ASSETS_CONFIG", str(database.config.path))
    printed = CliRunner().invoke(cli, ["metrics", "--once"]).stdout
    assert unknown(labels_of(text_string_to_metric_families(printed)), expressions()) == []


@in_soak
def test_a_dead_task_is_told_everywhere_and_by_an_alert_once_and_its_recovery_too(
    database: Replicated, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.replicate()
    watch = Watch(database, receiver)
    down = ("connector_down", "firing")
    assert down not in watch.tick()
    assert connector_up(database, monkeypatch) == 1
    database.execute("INSERT INTO busy VALUES (0, 'NaN')")
    until(lambda: status_of(database, "busy").connector.working == "down", "the task fails")

    assert "task 0 is FAILED" in status_of(database, "busy").connector.words
    verdict = slo_verdict(database)
    assert not verdict.passed
    assert verdict.severity is dg.AssetCheckSeverity.ERROR
    assert "task 0 is FAILED" in verdict.description
    assert connector_up(database, monkeypatch) == 0
    receiver.is_down = True
    assert watch.tick() == []
    receiver.is_down = False
    assert down in watch.tick()
    assert down not in watch.tick()
    watch.later = timedelta(hours=1)
    assert down not in watch.tick()
    assert "NaN" not in json.dumps(receiver.received)

    database.execute("UPDATE busy SET price = 5 WHERE id = 0")
    layout, settings = database.stack.layout, {MODE: "warn"}
    connector = connector_config(layout, database=NAME, prefix=NAME) | settings
    url = f"http://{database.stack.connect.address}/connectors/{NAME}"
    requests.put(f"{url}/config", json=connector, timeout=30).raise_for_status()
    until(lambda: restarted(url), "Connect has rebalanced, and restarts the connector")
    until(lambda: status_of(database, "busy").connector.working == "up", "the task runs again")
    assert ("connector_down", "resolved") in watch.tick()
    assert all(kind != "connector_down" for kind, _ in watch.tick())
    assert slo_verdict(database).passed
