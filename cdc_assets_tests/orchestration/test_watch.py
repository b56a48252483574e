"""The sensor `watch` while it cannot look, cannot remember, or nobody hears it."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.effects import Moment, hooked
from cdc_assets.operate.failure_book import FailureBook
from cdc_assets.operate.failures import FailureKind
from cdc_assets.operate.unsent import UnsentAlerts
from cdc_assets.orchestration.keys import CHECK_MATCHES, CHECK_OFFSETS
from cdc_assets.orchestration.sensors import watch_sensor
from cdc_assets.reference import page
from cdc_assets.registry import Registry, RegistryFile
from cdc_assets_tests.receiver import SECRET_PART, Receiver, changes_of, receiving
from cdc_assets_tests.world import NOW, entry_of, write_config

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("impatient")]

ALERTS = {"webhook": {"env": "ALERTS_WEBHOOK"}, "heartbeat": {"env": "HEARTBEAT"}}
ORDERS, ITEMS = (TableName("shop", "public", name) for name in ("orders", "items"))
DIFFERS = {"compared": True}


@dataclass
class Watch:
    """The sensor in a process that lives on, with a clock that its ticks move."""

    config: ReplicationConfig
    receiver: Receiver
    instance: dg.DagsterInstance
    minutes: float = 0

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """What the process remembered is gone."""
        now = NOW
        self._sensor = watch_sensor(
            self.config, Registry(), lambda: now + timedelta(minutes=self.minutes)
        )

    def tick(self, minutes: float = 1) -> list[tuple[str, str]]:
        """What is received, this much later; ``SECRET_PART`` never is."""
        self.minutes += minutes
        before = len(self.receiver.received)
        found: Any = self._sensor(dg.build_sensor_context(instance=self.instance))
        self.said = found.skip_reason.skip_message
        assert SECRET_PART not in self.said
        return changes_of(self.receiver)[before:]

    def ticks(self, count: int, minutes: float = 1) -> list[tuple[str, str]]:
        """What is received by so many ticks, each of them so much later."""
        return [each for _ in range(count) for each in self.tick(minutes)]


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as made:
        monkeypatch.setenv("ALERTS_WEBHOOK", made.url)
        monkeypatch.setenv("HEARTBEAT", made.url)
        monkeypatch.delenv("SHOP_DSN", raising=False)
        yield made


@pytest.fixture
def watch(tmp_path: Path, receiver: Receiver, instance_in_memory: dg.DagsterInstance) -> Watch:
    config = write_config(tmp_path, alerts=ALERTS)
    RegistryFile(config.registry).add([entry_of(each, config) for each in ("orders", "items")])
    return Watch(config, receiver, instance_in_memory)


def fails(watch: Watch, table: TableName) -> None:
    book = FailureBook.of_registry(watch.config.registry)
    book.record(table, FailureKind.TERMINAL, "a person must act", NOW)


def of_parts(receiver: Receiver) -> list[tuple[str, str, str]]:
    return [
        (each["source"], name["name"], each["change"])
        for each in receiver.received
        if each["kind"] == "part_away"
        for name in each["members"]
    ]


def test_kafka_and_a_source_that_are_away_are_told_after_five_minutes_without_any_run(
    watch: Watch, receiver: Receiver
) -> None:
    assert watch.ticks(5) == []
    assert watch.ticks(1) == [("part_away", "firing"), ("part_away", "firing")]
    assert of_parts(receiver) == [
        ("all sources", "127.0.0.1:1", "firing"),
        ("all sources", "Spark server", "firing"),
        ("shop", "source database", "firing"),
    ]
    told = receiver.received[0]["text"]
    assert f"{page('reference/errors.md#kafka-silent')}; then look at: cdc-assets status" in told
    assert watch.tick(60 * 24) == [], "once"


def test_a_failing_table_is_told_at_once_while_a_wish_of_another_is_unreadable(
    watch: Watch, receiver: Receiver, tmp_path: Path
) -> None:
    folder = tmp_path / ".cdc" / "registry.desired"
    folder.mkdir()
    (folder / "shop.public.items.paused.json").write_text("{")
    fails(watch, ORDERS)
    assert watch.tick() == [("table_failed", "firing")]
    words = {each["name"]: each["words"] for each in receiver.received[0]["members"]}
    assert words["public.orders"] == "a person must act"
    assert "cdc-assets pause, resume, drop, reset), or remove the file" in words["public.items"]


def test_a_wish_of_no_table_is_told_at_once_and_hides_nothing(
    watch: Watch, receiver: Receiver, tmp_path: Path
) -> None:
    stray = tmp_path / ".cdc" / "registry.desired" / "x.json"
    stray.parent.mkdir()
    stray.write_text("{")
    fails(watch, ORDERS)
    assert set(watch.tick()) == {("cannot_look", "firing"), ("table_failed", "firing")}
    stray.unlink()
    FailureBook.of_registry(watch.config.registry).clear(ORDERS)
    recovered = watch.ticks(3, minutes=6)
    assert ("cannot_look", "resolved") in recovered
    assert ("table_failed", "resolved") not in recovered, "Kafka is away: nobody can say"


def test_a_registry_that_cannot_be_understood_is_told_at_once_and_the_tick_is_red(
    watch: Watch, receiver: Receiver, tmp_path: Path
) -> None:
    registry = tmp_path / ".cdc" / "registry.json"
    good = registry.read_text()
    registry.write_text("[")
    with pytest.raises(Exception, match="registry"):
        watch.tick()
    (message,) = receiver.received
    assert (message["kind"], message["change"]) == ("cannot_look", "firing")
    assert receiver.beats == 0, "nobody has looked"
    registry.write_text(good)
    assert ("cannot_look", "resolved") in watch.ticks(3, minutes=6)
    assert receiver.beats == 3


def test_a_registrys_folder_that_is_away_is_told_though_nothing_can_be_remembered_in_it(
    watch: Watch, receiver: Receiver, tmp_path: Path
) -> None:
    watch.tick()
    (tmp_path / ".cdc").rename(tmp_path / "elsewhere")
    (tmp_path / ".cdc").touch()
    told = [change for kind, change in watch.ticks(4, minutes=6) if kind == "part_away"]
    assert told == ["firing", "firing", "changed"], "each group once, and the folder joins one"
    assert any(str(tmp_path) in name for _, name, _ in of_parts(receiver))
    (tmp_path / ".cdc").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / ".cdc")
    assert "part_away" in {kind for kind, _ in watch.ticks(4, minutes=6)}
    over = {name for each in receiver.received for name in each["over"]}
    assert any(str(tmp_path) in name for name in over)


@contextmanager
def full_disk() -> Iterator[None]:
    def hook(point: str, moment: Moment) -> None:
        if point.endswith(": write") and moment is Moment.BEFORE:
            raise OSError(errno.ENOSPC, "No space left on device")

    with hooked(hook):
        yield


def test_a_full_disk_silences_nothing_and_is_told_itself(watch: Watch, receiver: Receiver) -> None:
    fails(watch, ORDERS)
    with full_disk():
        assert watch.tick() == [("table_failed", "firing")], "at once"
        watch.ticks(4, minutes=6)
        assert any("alerts.json" in name for _, name, _ in of_parts(receiver))
        assert changes_of(receiver).count(("table_failed", "firing")) == 1
    watch.ticks(2, minutes=6)
    watch.restart()
    watch.ticks(2, minutes=6)
    assert changes_of(receiver).count(("table_failed", "firing")) == 1, "it is recorded by now"
    over = {name for each in receiver.received for name in each["over"]}
    assert any("alerts.json" in name for name in over)


def test_an_alert_keeps_its_id_over_a_restart_while_its_record_cannot_be_read(
    watch: Watch, receiver: Receiver, tmp_path: Path
) -> None:
    fails(watch, ORDERS)
    watch.tick()
    record = tmp_path / ".cdc" / "registry.alerts.json"
    record.rename(tmp_path / "away")
    record.mkdir()
    watch.restart()
    watch.tick()
    record.rmdir()
    (tmp_path / "away").rename(record)
    watch.tick()
    fails(watch, ITEMS)
    watch.tick(minutes=11)
    failed = [each for each in receiver.received if each["kind"] == "table_failed"]
    assert [each["change"] for each in failed] == ["firing", "firing", "changed"]
    assert failed[2]["id"] == failed[0]["id"]


def test_a_look_that_hangs_is_told_and_taken_up_by_a_later_tick(
    watch: Watch, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_assets.orchestration.sensors.watch.LOOK_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        file = watch.config.path
        assert file
        file.write_text(file.read_text().replace("127.0.0.1:1", f"127.0.0.1:{port}"))
        watch.config = watch.config.model_copy(
            update={"kafka": watch.config.kafka.model_copy(
                update={"bootstrap_servers": f"127.0.0.1:{port}"})})  # fmt: skip
        watch.restart()
        watch.tick()
        assert "has not ended within 0.2 s" in watch.said
        told = watch.ticks(6)
    assert told == [("part_away", "firing")]


def test_a_heartbeat_is_sent_after_each_tick_that_has_looked_and_told(
    watch: Watch, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch.ticks(3)
    assert receiver.beats == 3
    fails(watch, ORDERS)
    receiver.is_down = True
    watch.tick()
    assert "not sent" in watch.said
    receiver.is_down = False
    assert receiver.beats == 3, "an alert that nobody heard is no good tick"
    monkeypatch.setenv("HEARTBEAT", f"http://127.0.0.1:1/{SECRET_PART}")
    assert watch.tick() == [("table_failed", "firing")]
    assert "alerts.heartbeat could not be called (ConnectionError)" in watch.said


def test_a_heartbeat_needs_no_webhook(
    tmp_path: Path, receiver: Receiver, instance_in_memory: dg.DagsterInstance
) -> None:
    config = write_config(tmp_path, alerts={"heartbeat": receiver.url})
    Watch(config, receiver, instance_in_memory).tick()
    assert (receiver.beats, receiver.received) == (1, [])


def test_news_is_posted_before_what_was_refused_earlier(watch: Watch, receiver: Receiver) -> None:
    UnsentAlerts.of_registry(watch.config.registry).keep("1", {"kind": "run", "change": ""}, NOW)
    fails(watch, ORDERS)
    assert watch.tick() == [("table_failed", "firing"), ("run", "")]


Evaluate = Callable[..., None]


@pytest.fixture
def evaluated(instance_in_memory: dg.DagsterInstance) -> Evaluate:
    def write(check: str, *, passed: bool, metadata: dict[str, Any]) -> None:
        event = dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey(["shop", "public", "orders"]), check_name=check, passed=passed,
            metadata=metadata, description="found so", severity=dg.AssetCheckSeverity.ERROR,
        )  # fmt: skip
        instance_in_memory.report_runless_asset_event(event)

    return write


@dataclass(frozen=True)
class Check:
    """The metadata of a check's outcomes."""

    name: str
    kind: str
    red: dict[str, Any]
    unknown: dict[str, Any]
    green: dict[str, Any]


@pytest.mark.parametrize(
    "check",
    [
        Check(CHECK_MATCHES, "rows_differ", DIFFERS, {"compared": False}, DIFFERS),
        Check(CHECK_OFFSETS, "offsets_not_contiguous", {"gaps": 2}, {}, {"gaps": 0}),
    ],
    ids=["rows", "offsets"],
)
def test_a_red_check_is_told_until_it_is_green_and_not_while_it_cannot_tell(
    watch: Watch, receiver: Receiver, evaluated: Evaluate, check: Check
) -> None:
    evaluated(check.name, passed=False, metadata=check.red)
    evaluated(check.name, passed=True, metadata=check.unknown)
    assert watch.tick() == [(check.kind, "firing")]
    (message,) = receiver.received
    assert "cdc-assets verify --table shop.public.orders" in message["text"]
    assert only(check.kind, watch.ticks(3, minutes=10)) == []
    evaluated(check.name, passed=True, metadata=check.green)
    assert only(check.kind, watch.ticks(2, minutes=2)) == []
    assert only(check.kind, watch.ticks(2, minutes=5)) == [(check.kind, "resolved")]


def only(kind: str, told: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [each for each in told if each[0] == kind]
