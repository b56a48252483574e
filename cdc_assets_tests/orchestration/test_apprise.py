"""Alerts by `apprise` next to the webhook: real servers, hostile names, no secrets."""

from __future__ import annotations

import json
import logging
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.config.platform import AlertsConfig
from cdc_assets.errors import ConfigError, UnreachableError
from cdc_assets.operate.receivers import deliver, receivers_of
from cdc_assets.operate.unsent import UnsentAlerts
from cdc_assets.orchestration.keys import CHECK_MATCHES
from cdc_assets.orchestration.sensors import alert_sensor
from cdc_assets.registry import Registry, RegistryFile
from cdc_assets_tests.orchestration.test_alerts import failed_run
from cdc_assets_tests.orchestration.test_watch import Watch, fails
from cdc_assets_tests.receiver import SECRET_PART, Receiver, receiving
from cdc_assets_tests.world import NOW, entry_of, write_config

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("impatient")]

ALERTS = {"webhook": {"env": "WEBHOOK"}, "apprise": [{"env": "MAIL"}, {"env": "CHAT"}]}
ORDERS = TableName("shop", "public", "orders")
HOSTILE = TableName("shop", "public", "<!channel> @everyone **b** <b>&amp;[x](http://y) {{7*7}}")


@dataclass
class Mailbox:
    """A mail server: what it accepted, nothing while ``is_down``."""

    port: int = 0
    received: list[EmailMessage] = field(default_factory=list)
    is_down: bool = False


@contextmanager
def mail_server() -> Iterator[Mailbox]:
    """One that listens, and takes every mail (RFC 5321)."""
    box = Mailbox()

    class Session(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.reply("421 later" if box.is_down else "220 ready")
            while line := self.rfile.readline():
                word = line[:4].strip().upper()
                if word == b"DATA":
                    self.reply("354 go on")
                    self.take()
                self.reply("221 bye" if word == b"QUIT" else "250 ok")
                if word == b"QUIT":
                    return

        def take(self) -> None:
            lines: list[bytes] = []
            while (line := self.rfile.readline()) != b".\r\n":
                lines.append(line.removeprefix(b"."))
            found = message_from_bytes(b"".join(lines), policy=policy.default)
            assert isinstance(found, EmailMessage)
            box.received.append(found)

        def reply(self, text: str) -> None:
            self.wfile.write(text.encode() + b"\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session) as server:
        server.daemon_threads = True
        box.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield box
        server.shutdown()


def text_of(mail: EmailMessage) -> str:
    body = mail.get_body(("plain", "html"))
    assert body is not None
    return str(body.get_content())


@pytest.fixture
def mail(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mailbox]:
    with mail_server() as box:
        url = (
            f"mailto://127.0.0.1:{box.port}/?mode=insecure&from=cdc@example.com&to=ops@example.com"
        )
        monkeypatch.setenv("MAIL", url)
        yield box


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as made:
        url = made.url.replace("http://", "json://")
        monkeypatch.setenv("CHAT", url)
        yield made


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as made:
        monkeypatch.setenv("WEBHOOK", made.url)
        yield made


@pytest.fixture
def watch(
    tmp_path: Path,
    webhook: Receiver,
    mail: Mailbox,
    chat: Receiver,
    instance_in_memory: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> Watch:
    del mail, chat
    monkeypatch.delenv("SHOP_DSN", raising=False)
    config = write_config(tmp_path, alerts=ALERTS)
    RegistryFile(config.registry).add([entry_of("orders", config)])
    return Watch(config, webhook, instance_in_memory)


def test_each_service_gets_an_alert_once_and_its_recovery_under_one_title(
    watch: Watch, mail: Mailbox, chat: Receiver, instance_in_memory: dg.DagsterInstance
) -> None:
    def compared(*, passed: bool) -> None:
        found = dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey(["shop", "public", "orders"]), check_name=CHECK_MATCHES,
            passed=passed, metadata={"compared": True}, description="found so",
        )  # fmt: skip
        instance_in_memory.report_runless_asset_event(found)

    compared(passed=False)
    watch.ticks(3)
    compared(passed=True)
    watch.restart()  # what was sent is in the records of each
    watch.ticks(12)
    title = "cdc_assets: shop: table(s) whose rows differ from the source"
    tables = [each for each in chat.received if each["title"] == title]
    assert [each["type"] for each in tables] == ["failure", "success"]
    assert "public.orders: found so" in tables[0]["message"]
    assert "resolved" in tables[1]["message"]
    mails = [each for each in mail.received if str(each["Subject"]) == title]
    assert [str(each["To"]) for each in mails] == ["ops@example.com"] * 2
    assert "public.orders: found so" in text_of(mails[0])


def test_a_service_that_is_away_delays_no_other_and_gets_it_later(
    watch: Watch, mail: Mailbox, chat: Receiver
) -> None:
    mail.is_down = True
    fails(watch, ORDERS)
    assert watch.tick() == [("table_failed", "firing")]
    assert len(chat.received) == 1
    assert "environment variable MAIL did not accept the alert" in watch.said
    watch.restart()
    assert watch.tick() == []
    mail.is_down = False
    watch.tick()
    assert [str(each["Subject"]) for each in mail.received] == ["cdc_assets: shop: table(s) failed"]
    assert len(chat.received) == 1, "it has had it"


def test_a_message_that_is_never_accepted_keeps_no_other_waiting(
    watch: Watch, mail: Mailbox, chat: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal is known of the webhook by its status; a service does not say why."""
    monkeypatch.setattr("cdc_assets.operate.receivers._title", lambda each: each["kind"])
    del chat
    fails(watch, ORDERS)
    watch.ticks(5)
    mail.received.clear()
    mail.is_down = True
    watch.ticks(2)
    mail.is_down = False
    watch.ticks(2)
    assert {str(each["Subject"]) for each in mail.received} == {"part_away"}


def test_a_failed_run_is_posted_to_all_and_kept_for_those_that_are_away(
    tmp_path: Path,
    watch: Watch,
    mail: Mailbox,
    chat: Receiver,
    instance_in_memory: dg.DagsterInstance,
) -> None:
    context = failed_run(tmp_path, instance_in_memory, UnreachableError("x"))
    mail.is_down = True
    alert_sensor(watch.config, Registry.of([]))(context)
    assert len(chat.received) == len(watch.receiver.received) == 1
    mail.is_down = False
    watch.receiver.received.clear()
    run = context.dagster_run.run_id
    watch.ticks(2)
    assert f"cdc_assets: run {run} failed" in [str(each["Subject"]) for each in mail.received]
    assert len([each for each in chat.received if run in each["title"]]) == 1
    kept = [*(tmp_path / ".cdc").glob("registry.unsent*/*.json")]
    assert kept == []


def test_a_secret_that_is_not_set_is_named_after_the_others_have_got_theirs(
    watch: Watch, mail: Mailbox, chat: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MAIL")
    fails(watch, ORDERS)
    with pytest.raises(ConfigError, match="environment variable MAIL is not set"):
        watch.tick()
    assert len(chat.received) == len(watch.receiver.received) == 1
    assert mail.received == []


def one(config: dict[str, Any]) -> Any:
    return receivers_of(AlertsConfig.model_validate(config))[-1]


DOCUMENT = {
    "text": f"cdc_assets: shop: 1 table(s) failed\n{HOSTILE}: \\x1b[31m offsets <0:[1,2)>",
    "kind": "table_failed",
    "source": "shop",
    "change": "firing",
}


def test_names_are_text_in_html(mail: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"mailto://127.0.0.1:{mail.port}/?mode=insecure&from=a@b.de&to=c@d.de&format=html"
    monkeypatch.setenv("MAIL", url)
    deliver(one({"apprise": [{"env": "MAIL"}]}), DOCUMENT)
    html = mail.received[0].get_body(("html",))
    assert html is not None
    text = str(html.get_content())
    assert "<b>" not in text
    assert "&lt;b&gt;" in text


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_names_call_nobody_and_are_text_in_markdown(
    chat: Receiver, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    url = chat.url.replace("http://", "json://")
    monkeypatch.setenv("CHAT", f"{url}?format={form}")
    deliver(one({"apprise": [{"env": "CHAT"}]}), DOCUMENT)
    text = chat.received[0]["message"]
    assert "<!channel>" not in text
    assert "@everyone" not in text
    assert ("**b**" in text) == (form == "text")
    assert ("[x](" in text) == (form == "text")


def test_a_title_cannot_add_headers(mail: Mailbox) -> None:
    document = {**DOCUMENT, "source": "shop\r\nBcc: all@example.com"}
    deliver(one({"apprise": [{"env": "MAIL"}]}), document)
    (found,) = mail.received
    assert found["Bcc"] is None


def test_no_secret_is_in_logs_or_errors(
    chat: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    service = one({"apprise": [{"env": "CHAT"}]})
    said: list[str] = [repr(service)]
    chat.is_down = True
    monkeypatch.setenv("SLOW", "slack://T1JJ3T3L2/A1BRTD4JD/" + SECRET_PART)
    monkeypatch.setenv("NONE", f"nothing://user:{SECRET_PART}@host")
    away = chat.url.replace("http://", "json://").rpartition(":")[0]
    monkeypatch.setenv("CLOSED", f"{away}:1/{SECRET_PART}?cto=1")
    for name in ("CHAT", "CLOSED", "NONE", "SLOW"):
        with pytest.raises((UnreachableError, ConfigError)) as found:
            deliver(one({"apprise": [{"env": name}]}), DOCUMENT, 1)
        said.append(str(found.value))
        assert name in str(found.value)
    logged = json.dumps([each.getMessage() for each in caplog.records])
    assert SECRET_PART not in logged + "".join(said)


def test_without_apprise_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    monkeypatch.setenv("CHAT", "json://127.0.0.1:1")
    with pytest.raises(ConfigError) as found:
        deliver(one({"apprise": [{"env": "CHAT"}]}), DOCUMENT)
    assert "pip install 'cdc-assets[alerts]'" in str(found.value)


def test_records_are_of_the_secrets_name_in_any_order() -> None:
    mine = [{"env": "A"}, {"file": "/run/secrets/a"}, {"file": "/run/secrets2/a"}]
    names = [each.name for each in receivers_of(AlertsConfig.model_validate({"apprise": mine}))]
    back = AlertsConfig.model_validate({"apprise": mine[::-1]})
    assert names == [each.name for each in receivers_of(back)][::-1]
    assert len(set(names)) == 3
    with pytest.raises(ValueError, match="names the environment variable A twice"):
        AlertsConfig.model_validate({"apprise": [{"env": "A"}, {"env": "A"}]})


def test_kept_alerts_of_receivers_are_apart(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    UnsentAlerts.of_registry(config.registry, "one").keep("1", {"text": "x"}, NOW)
    assert [*(tmp_path / ".cdc").glob("registry.unsent.one/1.json")]
