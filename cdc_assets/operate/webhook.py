"""Posts a message to the configured webhook, in its receiver's form."""

from __future__ import annotations

from typing import Any, Final

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from cdc_assets.changes.alerting import NAMED, AlertKind, Change, Message
from cdc_assets.config.platform import AlertsConfig
from cdc_assets.config.secret import reveal
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
    AlertKind.IN_DOUBT: "table(s) whose rows may differ from the source",
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


def formed(document: dict[str, Any], config: AlertsConfig) -> dict[str, Any]:
    """Converts a document into the configured form; each form has its ``text``."""
    if config.form == "json":
        return document
    text = _escaped(document["text"])
    if len(text) > _SECTION_CHARACTERS:
        cut = text[:_SECTION_CHARACTERS]
        text = (cut.rpartition("\n")[0] or cut) + "\n…"
    section = {"type": "section", "text": {"type": "mrkdwn", "text": text}}
    return {"text": text.partition("\n")[0], "blocks": [section]}


def post(url: str, message: dict[str, Any], attempts: int = ATTEMPTS) -> None:
    """Posts a message. The URL may contain a secret, so errors do not repeat it.

    Raises:
        UnreachableError: if the message was not accepted after all attempts.
        RefusedError: if it is not accepted as it is.
    """
    again = Retrying(
        retry=retry_if_exception_type(UnreachableError),
        stop=stop_after_attempt(attempts),
        wait=wait_exponential(multiplier=0.5, max=4),
        reraise=True,
    )
    again(_post, url, message)


def _post(url: str, message: dict[str, Any]) -> None:
    import requests

    try:
        requests.post(url, json=message, timeout=TIMEOUT_SECONDS).raise_for_status()
    except requests.RequestException as error:
        status = error.response.status_code if error.response is not None else "no answer"
        msg = f"the webhook did not accept the alert: {status} ({type(error).__name__})"
        if status in _OF_THE_MESSAGE:
            remedy = "set alerts.form to what the receiver expects"
            raise RefusedError(msg, where="alerts.webhook", remedy=remedy) from None
        raise UnreachableError(msg, where="alerts.webhook", remedy="check its URL") from None


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
