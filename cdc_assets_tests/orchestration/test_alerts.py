from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import dagster as dg
import pytest

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import LostRangeError, UnreachableError
from cdc_assets.operate.receivers import Receiver, formed, receivers_of
from cdc_assets.operate.unsent import ResendResult, UnsentAlerts
from cdc_assets.orchestration.failing import failure_of
from cdc_assets.orchestration.keys import MAINTENANCE
from cdc_assets.orchestration.sensors import alert_sensor, watch_sensor
from cdc_assets.registry import Registry
from cdc_assets_tests.world import NOW, entry_of, write_config

pytestmark = pytest.mark.slow

ALERTS = {"webhook": {"env": "ALERTS_WEBHOOK"}}
SECRET = "s3cret-row-value"


def webhook_of(config: ReplicationConfig) -> Receiver:
    (webhook,) = receivers_of(config.alerts)
    return webhook


class Hook(BaseHTTPRequestHandler):
    """Receives what is posted; answers with the next of ``answers``, then 200."""

    received: ClassVar[list[dict[str, Any]]] = []
    answers: ClassVar[list[int]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append(json.loads(body))
        self.send_response(self.answers.pop(0) if self.answers else 200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hook]]:
    Hook.received, Hook.answers = [], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("ALERTS_WEBHOOK", f"http://127.0.0.1:{server.server_port}/T0/{SECRET}")
    yield Hook
    server.shutdown()
    server.server_close()
    thread.join()


def failed_run(
    tmp_path: Path, instance: dg.DagsterInstance, error: Exception, **tags: str
) -> dg.RunStatusSensorContext:
    entry = entry_of("orders", write_config(tmp_path))

    @dg.asset(key=["shop", "public", "orders"])
    def orders() -> None:
        raise failure_of(entry, error) from None

    @dg.asset(key=["shop", "public", "users"])
    def users() -> None:
        raise ValueError(SECRET)

    result = dg.materialize(
        [orders, users], instance=instance, raise_on_error=False,
        tags={name.replace("__", "/"): value for name, value in tags.items()},
    )  # fmt: skip
    event = next(each for each in result.all_events if each.is_failure and not each.is_step_event)
    return dg.build_run_status_sensor_context(
        "alerts", event, instance, result.dagster_run
    ).for_run_failure()


def test_a_failed_run_is_posted_with_coordinates_and_without_values(
    tmp_path: Path, instance_in_memory: dg.DagsterInstance, hook: type[Hook]
) -> None:
    error = LostRangeError("offsets [10,20) are gone", where="topic=shop.public.orders partition=0")
    context = failed_run(tmp_path, instance_in_memory, error)

    alert_sensor(write_config(tmp_path, alerts=ALERTS), Registry.of([]))(context)
    (message,) = hook.received
    assert "offsets [10,20) are gone [topic=shop.public.orders partition=0]" in str(message["text"])
    assert message["run_id"] == context.dagster_run.run_id
    assert {
        "step": "shop__public__users",
        "what": "step shop__public__users failed (ValueError)",
    } in (message["failures"])
    assert SECRET not in json.dumps(message)


def test_a_run_that_failed_by_its_tables_alone_is_left_to_the_sensor_that_tells_of_tables(
    tmp_path: Path, instance_in_memory: dg.DagsterInstance, hook: type[Hook]
) -> None:
    entry = entry_of("orders", write_config(tmp_path))

    @dg.asset(key=["shop", "public", "orders"])
    def orders() -> None:
        raise failure_of(entry, UnreachableError("x")) from None

    result = dg.materialize([orders], instance=instance_in_memory, raise_on_error=False)
    event = next(each for each in result.all_events if each.is_failure and not each.is_step_event)
    context = dg.build_run_status_sensor_context(
        "alerts", event, instance_in_memory, result.dagster_run
    ).for_run_failure()
    alert_sensor(write_config(tmp_path, alerts=ALERTS), Registry.of([]))(context)
    assert hook.received == []


def test_slack_gets_its_own_form(
    tmp_path: Path, instance_in_memory: dg.DagsterInstance, hook: type[Hook]
) -> None:
    context = failed_run(tmp_path, instance_in_memory, UnreachableError("x"))
    alert_sensor(write_config(tmp_path, alerts={**ALERTS, "form": "slack"}), Registry.of([]))(
        context
    )
    assert set(hook.received[0]) == {"text", "blocks"}


def test_a_run_that_will_be_retried_is_not_posted(
    tmp_path: Path, instance_in_memory: dg.DagsterInstance, hook: type[Hook]
) -> None:
    context = failed_run(
        tmp_path, instance_in_memory, UnreachableError("x"), dagster__will_retry="true"
    )

    result = alert_sensor(write_config(tmp_path, alerts=ALERTS), Registry.of([]))(context)
    assert result is None, "a reason to skip would end the tick: one failed run in each"
    assert hook.received == []


def test_without_a_webhook_nothing_is_posted(
    tmp_path: Path, instance_in_memory: dg.DagsterInstance, hook: type[Hook]
) -> None:
    context = failed_run(tmp_path, instance_in_memory, UnreachableError("x"))

    assert alert_sensor(write_config(tmp_path), Registry.of([]))(context) is None
    assert hook.received == []


def test_a_webhook_that_stumbles_is_asked_again(
    tmp_path: Path, instance_in_memory: dg.DagsterInstance, hook: type[Hook]
) -> None:
    hook.answers.append(503)
    context = failed_run(tmp_path, instance_in_memory, UnreachableError("x"))

    alert_sensor(write_config(tmp_path, alerts=ALERTS), Registry.of([]))(context)
    assert len(hook.received) == 2


def test_a_run_whose_alert_is_refused_is_posted_once_the_webhook_takes_it(
    tmp_path: Path, instance_in_memory: dg.DagsterInstance, hook: type[Hook]
) -> None:
    hook.answers.extend([500] * 5)
    context = failed_run(tmp_path, instance_in_memory, UnreachableError("x"))
    config = write_config(tmp_path, alerts=ALERTS)

    alert_sensor(config, Registry.of([]))(context)
    again = UnsentAlerts.of_registry(config.registry)
    assert "500" in again.send(webhook_of(config), NOW).problem
    hook.received.clear()
    assert again.send(webhook_of(config), NOW) == ResendResult((context.dagster_run.run_id,))
    assert [each["run_id"] for each in hook.received] == [context.dagster_run.run_id]
    assert again.send(webhook_of(config), NOW) == ResendResult()


@pytest.mark.usefixtures("impatient")
def test_what_was_refused_is_posted_though_nothing_else_can_be_looked_at(
    tmp_path: Path, instance_in_memory: dg.DagsterInstance, hook: type[Hook]
) -> None:
    config = write_config(tmp_path, alerts=ALERTS)
    UnsentAlerts.of_registry(config.registry).keep("1", {"text": "a run failed"}, NOW)
    (tmp_path / ".cdc" / "registry.unsent" / "2.json").write_bytes(b"{")
    watch = watch_sensor(config, Registry(), lambda: NOW)
    watch(dg.build_sensor_context(instance=instance_in_memory))
    assert hook.received[0] == {"text": "a run failed"}
    assert not [*(tmp_path / ".cdc" / "registry.unsent").iterdir()]


def test_an_alert_that_is_refused_for_what_it_is_keeps_no_other_waiting(
    tmp_path: Path, hook: type[Hook]
) -> None:
    config = write_config(tmp_path, alerts=ALERTS)
    unsent = UnsentAlerts.of_registry(config.registry)
    for name in ("1", "2"):
        unsent.keep(name, {"text": f"run {name} failed"}, NOW)
    hook.answers.append(413)
    sent = unsent.send(webhook_of(config), NOW)
    assert sent.names == ("2",)
    assert ["413" in sent.problem, "1.json" in sent.problem] == [True, True]
    assert unsent.send(webhook_of(config), NOW) == ResendResult(("1",)), "it is tried again"


def test_alerts_that_are_always_refused_take_little_of_a_tick_and_keep_none_waiting(
    tmp_path: Path, hook: type[Hook]
) -> None:
    config = write_config(tmp_path, alerts=ALERTS)
    unsent = UnsentAlerts.of_registry(config.registry)
    for n in range(100):
        unsent.keep(f"run{n:03}", {"text": f"run {n} failed"}, NOW)
    hook.answers.extend([400] * 99)
    for tick in range(10):
        unsent.send(webhook_of(config), NOW)
        assert len(hook.received) == 10 * (tick + 1)
    assert len({str(each["text"]) for each in hook.received}) == 100, "each gets its turn"
    kept = [*(tmp_path / ".cdc" / "registry.unsent").iterdir()]
    assert len(kept) == 99, "the last was accepted"


def test_alerts_that_nobody_accepts_for_a_week_are_dropped_and_their_number_is_told(
    tmp_path: Path, hook: type[Hook]
) -> None:
    config = write_config(tmp_path, alerts=ALERTS)
    unsent = UnsentAlerts.of_registry(config.registry)
    for n in range(3):
        unsent.keep(f"run{n}", {"text": f"run {n} failed"}, NOW)
    hook.answers.extend([400] * 3)
    week = NOW + timedelta(days=7)
    assert unsent.send(webhook_of(config), week).dropped == 0
    assert unsent.send(webhook_of(config), week + timedelta(minutes=1)).dropped == 3
    hook.received.clear()
    assert unsent.send(webhook_of(config), week + timedelta(days=30)).names == ("dropped",)
    (message,) = hook.received
    assert "3 alerts of failed runs were dropped" in str(message["text"])
    assert unsent.send(webhook_of(config), week) == ResendResult()


def test_no_more_than_a_thousand_alerts_are_kept_and_the_oldest_are_dropped(
    tmp_path: Path, hook: type[Hook]
) -> None:
    config = write_config(tmp_path, alerts=ALERTS)
    unsent = UnsentAlerts.of_registry(config.registry)
    for n in range(1_003):
        unsent.keep(f"run{n:04}", {"text": f"run {n} failed"}, NOW - timedelta(minutes=n))
    hook.answers.extend([400] * 11)
    assert unsent.send(webhook_of(config), NOW).dropped == 3
    folder = tmp_path / ".cdc" / "registry.unsent"
    left = {each.stem for each in folder.iterdir()}
    assert left == {f"run{n:04}" for n in range(1_000)} | {"dropped"}
    assert json.loads((folder / "dropped.json").read_text())["count"] == 3


def test_an_alert_that_an_earlier_version_kept_is_posted_as_it_is(
    tmp_path: Path, hook: type[Hook]
) -> None:
    config = write_config(tmp_path, alerts=ALERTS)
    file = tmp_path / ".cdc" / "registry.unsent" / "1.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"text": "a run failed"}')
    hook.answers.append(400)
    unsent = UnsentAlerts.of_registry(config.registry)
    unsent.send(webhook_of(config), NOW)
    assert unsent.send(webhook_of(config), NOW + timedelta(days=6)) == ResendResult(("1",))
    assert hook.received[-1] == {"text": "a run failed"}


def test_a_long_line_is_cut() -> None:
    found = formed({"text": "x" * 5_000}, "slack")
    assert found["text"] == "x" * 2_900


def test_the_failure_of_upkeep_says_why(
    tmp_path: Path, instance_in_memory: dg.DagsterInstance, hook: type[Hook]
) -> None:
    @dg.asset
    def upkeep() -> None:
        raise dg.Failure("upkeep of shop_public.orders: no space", {"kind": MAINTENANCE})

    result = dg.materialize([upkeep], instance=instance_in_memory, raise_on_error=False)
    event = next(each for each in result.all_events if each.is_failure and not each.is_step_event)
    context = dg.build_run_status_sensor_context(
        "alerts", event, instance_in_memory, result.dagster_run
    ).for_run_failure()
    alert_sensor(write_config(tmp_path, alerts=ALERTS), Registry.of([]))(context)
    (message,) = hook.received
    assert "upkeep of shop_public.orders: no space" in str(message["text"])
