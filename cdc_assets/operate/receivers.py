"""Delivers alerts to the configured receivers: the webhook, and services by `apprise`.

A receiver takes a document and gives it its own form. Each has its own records of what it was sent,
so that one that is away delays no other.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from cdc_assets.changes.alerting import NAMED, AlertKind, Change, Message
from cdc_assets.config.platform import AlertsConfig
from cdc_assets.config.secret import Secret, reveal
from cdc_assets.errors import ConfigError, TerminalError, UnreachableError
from cdc_assets.naming import some_of

TIMEOUT_SECONDS: Final = 10
BEAT_SECONDS: Final = 5
ATTEMPTS: Final = 3
_SECTION_CHARACTERS: Final = 2_900
"""Slack allows 3,000."""
_WORDS_CHARACTERS: Final = 400
_OF_THE_MESSAGE: Final = frozenset({400, 413, 422})
"""Statuses that say that the message is wrong or too large; others may pass, or be mended."""


class RefusedError(TerminalError):
    """The receiver refuses a message for what it is."""


class Receiver(Protocol):
    """A service that alerts are sent to."""

    @property
    def name(self) -> str:
        """The name of its records in the registry's folder; empty for the webhook."""
        ...

    def send(self, document: Mapping[str, Any]) -> None:
        """Sends an alert once.

        Args:
            document: its ``json`` form.

        Raises:
            UnreachableError: if it was not accepted.
            RefusedError: if it is not accepted as it is.
            ConfigError: if the receiver's secret is not set, or is none.
        """
        ...


def receivers_of(config: AlertsConfig) -> Sequence[Receiver]:
    """Returns the configured receivers; does not reach any."""
    webhook = [Webhook(config.webhook, config.form)] if config.webhook else []
    return (*webhook, *(AppriseService(each) for each in config.apprise))


def deliver(receiver: Receiver, document: Mapping[str, Any], attempts: int = ATTEMPTS) -> None:
    """Sends an alert, and again if it is not accepted.

    Raises:
        UnreachableError: if it was not accepted after all attempts.
        RefusedError: if it is not accepted as it is.
        ConfigError: if the receiver's secret is not set, or is none.
    """
    again = Retrying(
        retry=retry_if_exception_type(UnreachableError),
        stop=stop_after_attempt(attempts),
        wait=wait_exponential(multiplier=0.5, max=4),
        reraise=True,
    )
    again(receiver.send, document)


_TITLES: Final = {
    AlertKind.TABLE_FAILED: "table(s) failed",
    AlertKind.BUDGET_BURNS: "table(s) burn their error budget",
    AlertKind.LOST_RANGE: "table(s) about to lose changes",
    AlertKind.CONNECTOR_DOWN: "connector(s) down",
    AlertKind.SLOT_GROWS: "replication slot(s) growing",
    AlertKind.PART_AWAY: "part(s) away",
    AlertKind.LOGIN_REFUSED: "login(s) refused",
    AlertKind.QUARANTINED: "table(s) with records in quarantine",
    AlertKind.ROWS_DIFFER: "table(s) whose rows differ from the source",
    AlertKind.DOUBTED_ROWS: "table(s) whose rows may differ from the source",
    AlertKind.OFFSETS_GAP: "table(s) whose offsets are not contiguous",
    AlertKind.CANNOT_LOOK: "thing(s) that cannot be looked at",
}


def document_of(message: Message) -> dict[str, Any]:
    """Returns a message's ``json`` form; ``id`` is the same from an alert's start to its end."""
    return {
        "text": text_of(message),
        "id": message.id,
        "kind": message.kind.value,
        "change": message.change.value,
        "source": message.source,
        "begun": message.begun.isoformat(),
        "count": message.count,
        "members": [{"name": name, "words": words} for name, words in message.members],
        "over": list(message.over),
    }


def text_of(message: Message) -> str:
    """Formats a message for people, on several lines."""
    title = _TITLES[message.kind]
    if message.change is Change.RESOLVED:
        over = some_of(message.over, NAMED)
        return f"cdc_assets: resolved: {message.source}: no more {title} ({over})"
    lines = [f"cdc_assets: {message.source}: {message.count:,} {title}"]
    lines += [f"{name}: {_short(words)}" for name, words in message.members]
    if message.count > len(message.members):
        lines.append(f"and {message.count - len(message.members):,} more: cdc-assets status")
    if message.over:
        lines.append(f"no more: {some_of(message.over, NAMED)}")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Webhook:
    """A URL that takes JSON. It may contain a secret, so errors do not repeat it."""

    url: Secret
    form: str

    @property
    def name(self) -> str:
        """Nothing: its records have the names of alerts."""
        return ""

    def send(self, document: Mapping[str, Any]) -> None:
        """Posts an alert in the configured form; see `Receiver.send`."""
        import requests

        message = formed(document, self.form)
        try:
            requests.post(
                self.url.reveal(), json=message, timeout=TIMEOUT_SECONDS
            ).raise_for_status()
        except requests.RequestException as error:
            status = error.response.status_code if error.response is not None else "no answer"
            msg = f"the webhook did not accept the alert: {status} ({type(error).__name__})"
            if status in _OF_THE_MESSAGE:
                remedy = "set alerts.form to what the receiver expects"
                raise RefusedError(msg, where="alerts.webhook", remedy=remedy) from None
            raise UnreachableError(msg, where="alerts.webhook", remedy="check its URL") from None


def formed(document: Mapping[str, Any], form: str) -> Mapping[str, Any]:
    """Converts a document into the webhook's form; each form has its ``text``."""
    if form == "json":
        return document
    text = _escaped(document["text"])
    if len(text) > _SECTION_CHARACTERS:
        cut = text[:_SECTION_CHARACTERS]
        text = (cut.rpartition("\n")[0] or cut) + "\n…"
    section = {"type": "section", "text": {"type": "mrkdwn", "text": text}}
    return {"text": text.partition("\n")[0], "blocks": [section]}


_PINGS: Final = re.compile(r"@(?=everyone|here|channel|all\b)|<(?=[!@#&])", re.IGNORECASE)
"""What calls people in chats: the name of a table must not."""


_HIDES: Final = ContextVar("hides", default=False)


def _is_shown(record: logging.LogRecord) -> bool:
    """Whether a log record of apprise is shown: some quote a token, so none of ours is."""
    del record
    return not _HIDES.get()


@dataclass(frozen=True, slots=True)
class AppriseService:
    """A service that `apprise` knows: mail, Teams, PagerDuty, Slack and others.

    Attributes:
        url: in the form of apprise (``mailtos://…``), with the service's secrets.
    """

    url: Secret

    @property
    def name(self) -> str:
        """The variable or file of its URL, with a hash: another order keeps the records."""
        place = self.url.env or Path(self.url.file).name
        digest = sha256(self.url.place.encode()).hexdigest()[:8]
        return f"apprise-{re.sub(r'[^A-Za-z0-9_]', '_', place)}-{digest}"

    def send(self, document: Mapping[str, Any]) -> None:
        """Notifies the service; see `Receiver.send`. No service says why it refuses an alert."""
        apprise, url = self._library(), self.url.reveal()
        hidden = _HIDES.set(True)
        try:
            is_accepted = self._notify(apprise, url, document)
        finally:
            _HIDES.reset(hidden)
        if not is_accepted:
            msg = f"the service of {self.url.place} did not accept the alert"
            remedy = "check that it answers, and that the URL names its host, login and receivers"
            raise UnreachableError(msg, where="alerts.apprise", remedy=remedy)

    def _notify(self, apprise: Any, url: str, document: Mapping[str, Any]) -> bool:
        asset = apprise.AppriseAsset(app_id="cdc-assets", async_mode=False)
        service = apprise.Apprise.instantiate(url, asset=asset)
        if service is None:
            msg = f"{self.url.place} holds no URL of a service that apprise knows"
            remedy = "write it as apprise documents it, special characters as %40 (@) or %2F (/)"
            raise ConfigError(msg, where="alerts.apprise", remedy=remedy)
        sender = apprise.Apprise(asset=asset)
        sender.add(service)
        return bool(
            sender.notify(
                title=_PINGS.sub("\\g<0>\u200b", " ".join(_title(document).split())),
                body=_PINGS.sub("\\g<0>\u200b", str(document.get("text", ""))),
                body_format=apprise.NotifyFormat.TEXT,
                notify_type=_NOTIFY_TYPES.get(document.get("change"), "failure"),
            )
        )

    def _library(self) -> Any:
        try:
            logging.getLogger("apprise").addFilter(_is_shown)
            return import_module("apprise")
        except ModuleNotFoundError:
            msg, remedy = "apprise is not installed", "pip install 'cdc-assets[alerts]'"
            raise ConfigError(msg, where="alerts.apprise", remedy=remedy) from None


_NOTIFY_TYPES: Final[Mapping[str | None, str]] = {
    Change.FIRING: "failure",
    Change.CHANGED: "warning",
    Change.RESOLVED: "success",
}


def _title(document: Mapping[str, Any]) -> str:
    """Returns a title that is the same from an alert's start to its end: services join by it."""
    if "source" in document:
        return f"cdc_assets: {document['source']}: {_TITLES[AlertKind(document['kind'])]}"
    return f"cdc_assets: run {document['run_id']} failed" if "run_id" in document else "cdc_assets"


def beat(config: AlertsConfig) -> str:
    """Calls the heartbeat's URL, if there is one; returns why that failed, without the URL."""
    import requests

    if config.heartbeat is None:
        return ""
    try:
        requests.get(reveal(config.heartbeat), timeout=BEAT_SECONDS).raise_for_status()
    except (requests.RequestException, ConfigError) as error:
        return f"alerts.heartbeat could not be called ({type(error).__name__}): check its URL"
    return ""


def _short(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= _WORDS_CHARACTERS else line[: _WORDS_CHARACTERS - 1] + "…"


def _escaped(text: str) -> str:
    """Escapes as Slack requires: https://docs.slack.dev/messaging/formatting-message-text ."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
