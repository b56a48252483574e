"""What is wrong enough for an alert, told to a real receiver once, in its form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_assets.changes.alerting import AlertKind
from cdc_assets.changes.retention import Overtaking
from cdc_assets.config.platform import AlertsConfig
from cdc_assets.databases.postgres.server import Slot
from cdc_assets.desired import DirectiveNote, TableDirectives
from cdc_assets.errors import LoginRefusedError, TerminalError, UnreachableError
from cdc_assets.operate.alerts import AlertBook, News, SentAlerts, tell
from cdc_assets.operate.connectors import ConnectorView, Working
from cdc_assets.operate.failures import Failure, FailureKind
from cdc_assets.operate.findings import MonitoredState
from cdc_assets.operate.numbers import Numbers, SourceNumbers, SourceSlots
from cdc_assets.operate.parts import PartAnswers, UnreachablePart
from cdc_assets.operate.receivers import receivers_of
from cdc_assets.operate.retained import RetentionState
from cdc_assets.operate.status import TableStatus
from cdc_assets.orchestration.sensors import watch_sensor
from cdc_assets.reference import explained
from cdc_assets.registry import Registry
from cdc_assets_tests.operate.statuses import (
    LATE,
    PAUSED,
    connector_of,
    renamed,
    status_of,
    table_status,
    view_of,
)
from cdc_assets_tests.receiver import SECRET_PART, Receiver, receiving
from cdc_assets_tests.world import NOW, write_config

CONFIG = AlertsConfig.model_validate({"webhook": {"env": "ALERTS_WEBHOOK"}, "slot_bytes": 1_000})
FAILED = Failure(NOW, FailureKind.TERMINAL, "the log no longer holds offsets <0:[1,2)> & more")
AWAY = Failure(NOW, FailureKind.TRANSIENT, "Spark is away")


def numbers(
    *tables: TableStatus, slots: SourceSlots | None = None, minutes: float = 0
) -> MonitoredState:
    at = NOW + timedelta(minutes=minutes)
    status = replace(status_of(*tables), at=at)
    return MonitoredState(Numbers(status, (SourceNumbers("shop", (), slots),), 0.1))


def told_of(look: MonitoredState, config: AlertsConfig, book: AlertBook) -> SentAlerts:
    news = News(look.findings(config), look.judges, look.numbers.status.at)
    (webhook,) = receivers_of(config)
    return tell(news, webhook, book)


@pytest.fixture
def well(tmp_path: Path) -> TableStatus:
    return table_status(tmp_path)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as made:
        monkeypatch.setenv("ALERTS_WEBHOOK", made.url)
        yield made


def with_failure(table: TableStatus, failure: Failure) -> TableStatus:
    return replace(table, survey=replace(table.survey, failure=failure))


def kinds(found: MonitoredState) -> list[tuple[str, str]]:
    return [(each.kind.value, each.member) for each in found.findings(CONFIG)]


@pytest.mark.unit
def test_all_is_well(well: TableStatus) -> None:
    assert numbers(well).findings(CONFIG) == []


@pytest.mark.unit
def test_a_failure_that_may_pass_is_told_later(well: TableStatus) -> None:
    (at_once,) = numbers(with_failure(well, FAILED)).findings(CONFIG)
    (later,) = numbers(with_failure(well, AWAY)).findings(CONFIG)
    assert at_once.after == timedelta()
    assert later.after == timedelta(minutes=10)


@pytest.mark.unit
def test_a_log_that_is_about_to_lose_what_waits(well: TableStatus) -> None:
    at = NOW + timedelta(hours=3)
    near = replace(well, retained=RetentionState(Overtaking(at, "retention.ms", is_near=True)))
    (found,) = numbers(near).findings(CONFIG)
    assert (found.kind, found.member) == (AlertKind.LOST_RANGE, "public.orders")
    assert "from 2026-03-04 15:30Z on changes that wait will be lost" in found.words


@pytest.mark.unit
def test_a_budget_that_burns(tmp_path: Path) -> None:
    late = table_status(tmp_path, latencies=LATE)
    (found,) = numbers(late).findings(CONFIG)
    assert (found.kind, found.member) == (AlertKind.BUDGET_BURNS, "public.orders")
    assert "80.00 % of changes in time, target 95 % within 5 min over 24 h" in found.words


@pytest.mark.unit
@pytest.mark.parametrize(
    "held",
    [
        PAUSED,
        TableDirectives(reset=DirectiveNote(NOW)),
        TableDirectives(paused=DirectiveNote(NOW), rebuild=DirectiveNote(NOW)),
    ],
    ids=["paused", "reset", "rebuilt while paused"],
)
def test_a_table_that_people_hold_burns_no_budget_but_may_lose_changes(
    tmp_path: Path, held: TableDirectives
) -> None:
    mine = table_status(tmp_path, latencies=LATE, desired=held, failure=FAILED)
    near = RetentionState(Overtaking(NOW + timedelta(hours=3), "retention.ms", is_near=True))
    found = kinds(numbers(replace(mine, retained=near), renamed(table_status(tmp_path), "items")))
    assert found == [("lost_range_danger", "public.orders")]


@pytest.mark.unit
def test_an_alert_is_over_once_people_hold_the_table_and_comes_back_after(
    tmp_path: Path, receiver: Receiver
) -> None:
    late = table_status(tmp_path, latencies=LATE)
    paused = table_status(tmp_path, latencies=LATE, desired=PAUSED)
    for minute, each in enumerate([late] * 5 + [paused] * 9 + [late] * 5):
        told_of(numbers(each, minutes=minute), CONFIG, book(tmp_path))
    assert [(each["kind"], each["change"]) for each in receiver.received] == [
        ("slo_budget_burning", "firing"),
        ("slo_budget_burning", "resolved"),
        ("slo_budget_burning", "firing"),
    ]


@pytest.mark.unit
def test_a_connector_is_one_finding_however_many_tables_wait(well: TableStatus) -> None:
    down = replace(well, connector=view_of(connector_of("RUNNING", "FAILED")))
    (found,) = numbers(*(renamed(down, f"t{n}") for n in range(500))).findings(CONFIG)
    assert (found.kind, found.member, found.after) == (
        AlertKind.CONNECTOR_DOWN,
        "shop",
        timedelta(),
    )
    assert found.words.startswith("connector shop: task 0 is FAILED; 500 table(s) wait for it → ")
    assert found.words.endswith("POST /connectors/shop/restart?includeTasks=true&onlyFailed=true")
    paused = replace(
        down, survey=replace(down.survey, desired=TableDirectives(paused=DirectiveNote(NOW)))
    )
    (found,) = numbers(renamed(down, "one"), renamed(paused, "two")).findings(CONFIG)
    assert "; 1 table(s) wait for it → " in found.words, "a paused one waits for people"
    (found,) = numbers(paused).findings(CONFIG)
    assert "; nothing is merged into its tables now, as people want → " in found.words
    held = replace(well, connector=view_of(connector_of("PAUSED", "PAUSED")))
    (found,) = numbers(held).findings(CONFIG)
    assert found.after == timedelta(minutes=2)
    assert found.words.endswith("PUT /connectors/shop/resume")


@pytest.mark.unit
@pytest.mark.parametrize(
    ("slot", "told"),
    [
        (Slot("s", True, 1_000, 0, "reserved"), False),
        (Slot("s", True, 1_001, 0, "reserved"), True),
        (Slot("s", False, 10, 0, "unreserved"), True),
    ],
)
def test_a_slot_that_grows(well: TableStatus, slot: Slot, told: bool) -> None:
    found = kinds(numbers(well, slots=SourceSlots((slot,))))
    assert found == ([("slot_growing", "s")] if told else [])


@pytest.mark.unit
def test_a_connect_that_does_not_answer_is_away_and_no_connector_is_judged_by_it(
    well: TableStatus,
) -> None:
    why = UnreachableError("Kafka Connect does not answer")
    away = ConnectorView(Working.UNKNOWN, why.what, away=why)
    look = numbers(replace(well, connector=away))
    (found,) = look.findings(CONFIG)
    assert (found.kind, found.member) == (AlertKind.PART_AWAY, "Kafka Connect")
    assert found.after == timedelta(minutes=5)
    assert not look.judges(AlertKind.CONNECTOR_DOWN, "shop", "shop")
    assert numbers(well).judges(AlertKind.CONNECTOR_DOWN, "shop", "shop")
    assert not numbers(well, slots=SourceSlots(problem="x")).judges(
        AlertKind.SLOT_GROWS, "shop", "s"
    )


KAFKA = UnreachableError("Kafka does not answer", where="kafka:9092", remedy="check that it runs")
BY_TABLE = (
    AlertKind.TABLE_FAILED, AlertKind.BUDGET_BURNS, AlertKind.LOST_RANGE, AlertKind.QUARANTINED,
    AlertKind.DOUBTED_ROWS,
)  # fmt: skip


@pytest.mark.unit
def test_a_part_that_does_not_answer_is_told_with_its_remedy_and_hides_no_table(
    well: TableStatus,
) -> None:
    status = replace(status_of(with_failure(well, FAILED)), problems=(KAFKA,), is_whole=False)
    look = MonitoredState(Numbers(status, (), 0.1))
    table, part = look.findings(CONFIG)
    assert (table.kind, table.after) == (AlertKind.TABLE_FAILED, timedelta())
    assert (part.kind, part.member) == (AlertKind.PART_AWAY, "kafka:9092")
    assert part.after == timedelta(minutes=5)
    assert part.words == f"{explained(KAFKA)}; then look at: cdc-assets status"
    assert not any(look.judges(kind, "shop", "public.orders") for kind in BY_TABLE)
    assert all(look.judges(kind, "shop", "public.gone") for kind in BY_TABLE), "it is no table now"


@pytest.mark.unit
def test_a_table_that_cannot_be_read_is_not_judged_and_others_are(well: TableStatus) -> None:
    unread = replace(well, survey=replace(well.survey, problem=KAFKA))
    look = numbers(unread, renamed(well, "items"))
    assert not any(look.judges(kind, "shop", "public.orders") for kind in BY_TABLE)
    assert all(look.judges(kind, "shop", "public.items") for kind in BY_TABLE)


@pytest.mark.unit
def test_what_needs_a_person_before_anything_can_be_looked_at_is_told_at_once(
    well: TableStatus,
) -> None:
    refused = TerminalError("Kafka refused access", where="kafka:9092", remedy="allow Describe")
    look = MonitoredState(Numbers(replace(status_of(well), problems=(refused,)), (), 0.1))
    (found,) = look.findings(CONFIG)
    assert (found.kind, found.after) == (AlertKind.CANNOT_LOOK, timedelta())
    assert "allow Describe" in found.words


@pytest.mark.unit
def test_records_in_quarantine_are_told_with_the_command_that_lists_them(
    well: TableStatus,
) -> None:
    published = well.survey.published
    assert well.survey.state
    assert published
    counted = replace(published, counts={"quarantined": 500})
    state = replace(well.survey.state, published=counted)
    (found,) = numbers(replace(well, survey=replace(well.survey, state=state))).findings(CONFIG)
    assert (found.kind, found.after) == (AlertKind.QUARANTINED, timedelta())
    command = "cdc-assets quarantine list --table shop.public.orders"
    assert found.words == f"500 records are in quarantine: {command}"


@pytest.mark.unit
def test_a_refused_login_is_told_at_once_and_silence_after_it_is_no_recovery(
    well: TableStatus,
) -> None:
    refused = LoginRefusedError("Kafka refused the login", where="kafka:9092", remedy="renew it")
    look = MonitoredState(Numbers(replace(status_of(well), problems=(refused,)), (), 0.1))
    (found,) = look.findings(CONFIG)
    assert (found.kind, found.member, found.after) == (
        AlertKind.LOGIN_REFUSED, "kafka:9092", timedelta(),
    )  # fmt: skip
    silent = MonitoredState(Numbers(replace(status_of(well), problems=(KAFKA,)), (), 0.1))
    assert not silent.judges(AlertKind.LOGIN_REFUSED, "all sources", "kafka:9092")
    assert look.judges(AlertKind.PART_AWAY, "all sources", "kafka:9092"), "it answers"
    assert numbers(well).judges(AlertKind.LOGIN_REFUSED, "all sources", "kafka:9092")


@pytest.mark.unit
def test_a_part_that_was_not_asked_this_time_is_not_judged(well: TableStatus) -> None:
    part = ("shop", "source database")
    away = PartAnswers(frozenset({part}), (UnreachablePart(*part, KAFKA),))
    look = replace(numbers(well), answers=away)
    assert [(each.kind, each.source, each.member) for each in look.findings(CONFIG)] == [
        (AlertKind.PART_AWAY, *part)
    ]
    assert replace(numbers(well), answers=PartAnswers(frozenset({part}))).judges(
        AlertKind.PART_AWAY, *part
    )
    assert not numbers(well).judges(AlertKind.PART_AWAY, *part)


def book(folder: Path) -> AlertBook:
    """Opened anew each time, as after a restart of the daemon."""
    return AlertBook.of_registry(str(folder / "registry.json"))


@pytest.mark.unit
def test_it_is_sent_once_and_once_more_when_it_is_over(
    tmp_path: Path, well: TableStatus, receiver: Receiver
) -> None:
    broken = with_failure(well, FAILED)
    for minute in range(30):
        told_of(numbers(broken, minutes=minute), CONFIG, book(tmp_path))
    for minute in range(30, 60):
        told_of(numbers(well, minutes=minute), CONFIG, book(tmp_path))
    first, last = receiver.received
    assert first == {
        "text": "cdc_assets: shop: 1 table(s) failed\npublic.orders: " + FAILED.message,
        "id": f"table_failed:shop:{NOW.isoformat()}",
        "kind": "table_failed",
        "change": "firing",
        "source": "shop",
        "begun": NOW.isoformat(),
        "count": 1,
        "members": [{"name": "public.orders", "words": FAILED.message}],
        "over": [],
    }
    assert (last["id"], last["change"], last["over"]) == (
        first["id"],
        "resolved",
        ["public.orders"],
    )
    assert last["text"] == "cdc_assets: resolved: shop: no more table(s) failed (public.orders)"


@pytest.mark.slow
def test_a_receiver_that_is_down_gets_it_later(
    tmp_path: Path, well: TableStatus, receiver: Receiver
) -> None:
    broken = with_failure(well, FAILED)
    receiver.is_down = True
    told = told_of(numbers(broken), CONFIG, book(tmp_path))
    assert told.sent == ()
    assert "503" in told.problem
    assert SECRET_PART not in told.problem
    receiver.is_down = False
    assert len(told_of(numbers(broken, minutes=1), CONFIG, book(tmp_path)).sent) == 1
    assert told_of(numbers(broken, minutes=2), CONFIG, book(tmp_path)) == SentAlerts(())


@pytest.mark.unit
def test_slack_reads_its_own_form(tmp_path: Path, well: TableStatus, receiver: Receiver) -> None:
    slack = CONFIG.model_copy(update={"form": "slack"})
    many = [renamed(with_failure(well, FAILED), f"t{n:03}") for n in range(500)]
    told_of(numbers(*many), slack, book(tmp_path))
    (message,) = receiver.received
    assert set(message) == {"text", "blocks"}
    assert message["text"] == "cdc_assets: shop: 500 table(s) failed"
    (block,) = message["blocks"]
    text = block["text"]["text"]
    assert "public.t000: the log no longer holds offsets &lt;0:[1,2)&gt; &amp; more" in text
    assert text.endswith("and 480 more: cdc-assets status")
    assert len(text) <= 3_000


@pytest.mark.unit
def test_words_that_are_long_fit_into_slacks_form(
    tmp_path: Path, well: TableStatus, receiver: Receiver
) -> None:
    slack = CONFIG.model_copy(update={"form": "slack"})
    long = Failure(NOW, FailureKind.TERMINAL, "<&>" * 1000)
    told_of(numbers(*(renamed(with_failure(well, long), f"t{n}") for n in range(9))), slack,
         book(tmp_path))  # fmt: skip
    assert len(receiver.received[0]["blocks"][0]["text"]["text"]) <= 3_000


@pytest.mark.unit
@pytest.mark.parametrize("content", [b"", b"not JSON", b"[{}]", b'{"a": 1}'])
def test_a_document_that_cannot_be_read_is_begun_anew(
    tmp_path: Path, well: TableStatus, receiver: Receiver, content: bytes
) -> None:
    (tmp_path / "registry.alerts.json").write_bytes(content)
    told_of(numbers(with_failure(well, FAILED)), CONFIG, book(tmp_path))
    assert len(receiver.received) == 1
    assert json.loads((tmp_path / "registry.alerts.json").read_text())[0]["kind"] == "table_failed"


@pytest.mark.slow
def test_without_a_webhook_the_sensor_looks_at_nothing(tmp_path: Path) -> None:
    sensor = watch_sensor(write_config(tmp_path), Registry())
    with dg.DagsterInstance.ephemeral() as instance:
        found: Any = sensor(dg.build_sensor_context(instance=instance))
    assert "alerts.webhook is not configured" in found.skip_reason.skip_message
