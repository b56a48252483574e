"""Sends each alert once, with its recovery.

The alerts sent are recorded in a small document in the registry's folder, so that a restart of the
daemon neither repeats nor forgets an alert. Where it cannot be written, this process remembers
them: an alert is sent all the same, and a restart meanwhile may repeat it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, cast

from cdc_assets.changes.alerting import (
    QUIET,
    AlertFinding,
    AlertJudge,
    AlertKind,
    Group,
    Key,
    Known,
    Member,
    Message,
    looked,
    messages,
    sent,
)
from cdc_assets.effects import effect
from cdc_assets.errors import UnreachableError
from cdc_assets.files import as_os_errors, files_at, registry_path, replace_file
from cdc_assets.operate.findings import of_problem
from cdc_assets.operate.receivers import Receiver, RefusedError, deliver, document_of

ATTEMPTS: Final = 2
POSTING_SECONDS: Final = 15.0
"""After this long no other message is begun: Dagster gives a tick a minute for everything."""


@dataclass(frozen=True, slots=True)
class SentAlerts:
    """The messages sent after a look.

    Attributes:
        sent: the accepted messages.
        problem: why the rest waits for a later look; empty if there is none.
        is_heard: whether the receiver answers, if only by refusing a message for what it is.
    """

    sent: tuple[Message, ...] = ()
    problem: str = ""
    is_heard: bool = True


class AlertBook:
    """The alerts sent, as one JSON document at a path or fsspec URL. One process writes it.

    Attributes:
        url: the document's place.
        problem: why it could not be read or written at the last attempt.
        refused: when the receiver refused the newest message of a group for what it is.
        failed: the group whose message was not accepted at the last attempt, which comes last at
            the next one: a message that is never accepted keeps no other waiting.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.problem: UnreachableError | None = None
        self.refused: dict[Key, datetime] = {}
        self.failed: Key | None = None
        self._files, self._path = files_at(url)
        self._remembered: Known | None = None
        self._was_read = False

    @classmethod
    def of_registry(cls, registry_url: str, receiver: str = "") -> AlertBook:
        """Returns the book that belongs to a registry, and to a receiver by its name."""
        return cls(registry_path(registry_url, f"alerts{receiver and '.'}{receiver}.json"))

    def load(self) -> Known:
        """Returns the alerts that this process has saved, or else those that are recorded.

        None if there is no document, or an invalid one.
        """
        if self._was_read and self._remembered is not None:
            return self._remembered
        recorded = self._recorded()
        mine = self._remembered or {}
        return {**recorded, **{key: _as_begun(mine[key], recorded.get(key)) for key in mine}}

    def save(self, known: Known) -> None:
        """Writes the document, and remembers its content: the document may go away later."""
        self._remembered = known
        try:
            if not self._was_read:
                raise self._unreachable()
            with effect("alerts: write"):
                replace_file(self._files, self._path, json.dumps(_document(known)).encode())
        except (OSError, UnreachableError):
            self.problem = self._unreachable()
        else:
            self.problem = None

    def _recorded(self) -> Known:
        try:
            with as_os_errors():
                content = cast("bytes", self._files.cat_file(self._path))
            self._was_read = True
            return _known(json.loads(content))
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            self._was_read = True
            return {}
        except OSError:
            self.problem = self._unreachable()
            return {}

    def _unreachable(self) -> UnreachableError:
        what = "the registry's folder cannot be read or written: what fails is not recorded either"
        remedy = f"check with df and ls -l that {self.url} can be written"
        return UnreachableError(what, where=self.url, remedy=remedy)


@dataclass(frozen=True, slots=True)
class News:
    """The result of a look.

    Attributes:
        found: all that is wrong.
        judges: whether it could see that something else is over.
        at: aware.
    """

    found: Sequence[AlertFinding]
    judges: AlertJudge
    at: datetime


def tell(news: News, receiver: Receiver, book: AlertBook) -> SentAlerts:
    """Sends the news of a look to a receiver.

    1. Read the recorded alerts. 2. Add the look to them and save them: how long something has been
    wrong must outlive this process. 3. For each message: send it, then record that it was sent. A
    crash between the two sends it once more, with the same ``id``. A message that is refused for
    what it is waits for `QUIET`, and keeps no other waiting.

    Raises:
        ConfigError: if the receiver's secret is not set, or is none.
    """
    now, end = news.at, time.monotonic() + POSTING_SECONDS
    before = book.load()
    found = [*news.found, *([of_problem(book.problem)] if book.problem else [])]
    known = looked(before, found, news.judges, now)
    book.save(known)
    done, refused = list[Message](), ""
    waiting = sorted(messages(known, now), key=lambda each: (each.kind, each.source) == book.failed)
    for message in waiting:
        key = message.kind, message.source
        if timedelta() <= now - book.refused.get(key, now - QUIET) < QUIET:
            continue
        if time.monotonic() >= end:
            return SentAlerts(
                tuple(done), "the receiver is slow: the rest is posted by the next tick"
            )
        try:
            deliver(receiver, document_of(message), ATTEMPTS)
        except UnreachableError as problem:
            book.failed = key
            return SentAlerts(tuple(done), str(problem), is_heard=False)
        except RefusedError as problem:  # this one only
            refused = str(problem)
            book.refused[key] = now
            continue
        known = sent(known, message)
        book.save(known)
        done.append(message)
    return SentAlerts(tuple(done), refused)


def _as_begun(mine: Group, recorded: Group | None) -> Group:
    """Returns a group found again while its record could not be read: with its ``id``."""
    begun = recorded.begun if recorded else None
    return replace(mine, begun=begun) if mine.begun and begun else mine


def _document(known: Known) -> list[dict[str, Any]]:
    return [
        {
            "kind": kind.value,
            "source": source,
            "begun": _iso(group.begun),
            "told_at": _iso(group.reported_at),
            "over": list(group.over),
            "members": {name: _member_to_dict(each) for name, each in group.members.items()},
        }
        for (kind, source), group in known.items()
    ]


def _member_to_dict(member: Member) -> dict[str, Any]:
    return {
        "since": _iso(member.since),
        "words": member.words,
        "told": member.reported,
        "gone": _iso(member.gone),
        "after_seconds": member.after.total_seconds(),
    }


def _known(document: Sequence[Mapping[str, Any]]) -> Known:
    return {(AlertKind(each["kind"]), each["source"]): _group(each) for each in document}


def _group(said: Mapping[str, Any]) -> Group:
    members = {name: _member(each) for name, each in said["members"].items()}
    return Group(members, _time(said["begun"]), _time(said["told_at"]), tuple(said["over"]))


def _member(said: Mapping[str, Any]) -> Member:
    """Returns a member; an earlier version wrote neither of the last two."""
    return Member(
        datetime.fromisoformat(said["since"]),
        said["words"],
        said["told"],
        _time(said.get("gone")),
        timedelta(seconds=said.get("after_seconds", 0)),
    )


def _iso(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
