"""Finds what needs an alert, and sends each alert once, with its recovery.

The alerts sent are recorded in a small document beside the registry, so that a restart of the
daemon neither repeats nor forgets an alert.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, cast

from cdc_assets.changes.alerting import (
    Finding,
    Group,
    Key,
    Kind,
    Known,
    Member,
    Message,
    looked,
    messages,
    sent,
)
from cdc_assets.changes.slo import SloState
from cdc_assets.config.platform import AlertsConfig
from cdc_assets.effects import effect
from cdc_assets.errors import UnreachableError
from cdc_assets.files import as_os_errors, beside, files_at, replace_file
from cdc_assets.operate.connectors import Working
from cdc_assets.operate.numbers import Numbers, SourceNumbers
from cdc_assets.operate.status import TableStatus
from cdc_assets.operate.survey import Condition
from cdc_assets.operate.webhook import RefusedError, document_of, formed, post

TRANSIENT: Final = timedelta(minutes=10)
"""How long a failure that may pass by itself lasts before it is an alert."""
BURNING: Final = timedelta(minutes=2)
HELD: Final = timedelta(minutes=2)
"""Longer than Connect takes to assign a connector's tasks to another worker."""
SILENT: Final = timedelta(minutes=5)

ATTEMPTS: Final = 2
CONNECT: Final = "Kafka Connect"


# ── what is wrong ────────────────────────────────────────────────────────────────────────────


def findings(numbers: Numbers, config: AlertsConfig) -> list[Finding]:
    """Returns all that is wrong at the moment of a look."""
    tables = [each for each in numbers.status.tables if each.condition is not Condition.DROPPED]
    return [
        *(found for each in tables for found in _of_table(each)),
        *_of_connectors(tables),
        *(found for source in numbers.sources for found in _of_slots(source, config)),
    ]


def unjudged(numbers: Numbers) -> frozenset[Key]:
    """Returns the keys that cannot be judged because a part did not answer."""
    tables = numbers.status.tables
    sources = {each.table.source for each in tables}
    of_tables = (Kind.TABLE_FAILED, Kind.BUDGET_BURNS, Kind.LOST_RANGE)
    silent = {(kind, source) for kind in of_tables for source in sources if numbers.status.problems}
    silent |= {
        (Kind.CONNECTOR_DOWN, each.table.source)
        for each in tables
        if each.connector.working is Working.UNKNOWN
    }
    silent |= {
        (Kind.SLOT_GROWS, each.source)
        for each in numbers.sources
        if each.slots and each.slots.problem
    }
    return frozenset(silent)


def _of_table(each: TableStatus) -> Iterator[Finding]:
    source, name = each.table.source, each.table.qualified
    failure = each.survey.failure
    if each.condition is Condition.FAILING and failure is not None:
        after = timedelta() if failure.needs_person else TRANSIENT
        yield Finding(Kind.TABLE_FAILED, source, name, failure.message, after)
    if each.retained is not None and each.retained.is_near:
        yield Finding(Kind.LOST_RANGE, source, name, each.retained.words())
    if each.slo is not None and each.slo.state in {SloState.WARN, SloState.ERROR}:
        words = (
            f"{each.slo.percent_within:.2f} % of changes in time, target {each.target}; "
            f"{each.slo.budget_left:.0%} of the error budget left, burning "
            f"{each.slo.burn_rate:.1f} times as fast as allowed"
        )
        yield Finding(Kind.BUDGET_BURNS, source, name, words, BURNING)


def _of_connectors(tables: Sequence[TableStatus]) -> Iterator[Finding]:
    """Yields one finding per connector, however many tables wait for it."""
    waiting: dict[tuple[str, str], list[TableStatus]] = {}
    for each in tables:
        if each.connector.trouble:
            names = ", ".join(one.name for one in each.connector.connectors) or CONNECT
            waiting.setdefault((each.table.source, names), []).append(each)
    for (source, names), group in waiting.items():
        view = group[0].connector
        after = {Working.DOWN: timedelta(), Working.HELD: HELD}.get(view.working, SILENT)
        wait = sum(not each.survey.desired.held for each in group)
        whom = (
            f"{wait:,} table(s) wait for it"
            if wait
            else "nothing is merged into its tables now, as people want"
        )
        words = f"{view.trouble}; {whom}"
        yield Finding(Kind.CONNECTOR_DOWN, source, names, words, after)


def _of_slots(source: SourceNumbers, config: AlertsConfig) -> Iterator[Finding]:
    for each in source.slots.slots if source.slots else ():
        is_lost = each.wal_status in {"unreserved", "lost"}
        if is_lost or each.retained_bytes > config.slot_bytes:
            reader = "is read" if each.active else "is not read by anybody"
            state = f", its WAL is {each.wal_status}" if is_lost else ""
            words = (
                f"the database keeps {each.retained_bytes:,} bytes of WAL for it{state}; "
                f"it {reader}: look at its connector, or drop the slot if nobody needs it"
            )
            yield Finding(Kind.SLOT_GROWS, source.source, each.name, words)


# ── telling it ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Told:
    """The messages sent after a look; ``problem``: why the rest waits for the next look."""

    sent: tuple[Message, ...]
    problem: str = ""


class AlertBook:
    """The alerts sent, as one JSON document at a path or fsspec URL. One process writes it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._files, self._path = files_at(url)

    @classmethod
    def beside(cls, registry_url: str) -> AlertBook:
        """Returns the book that belongs to a registry."""
        return cls(beside(registry_url, "alerts.json"))

    def load(self) -> Known:
        """Returns the recorded alerts; none if there is no document, or an invalid one.

        Raises:
            UnreachableError: if the place does not answer.
        """
        try:
            with as_os_errors():
                content = cast("bytes", self._files.cat_file(self._path))
            return _known(json.loads(content))
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return {}
        except OSError as error:
            raise self._unreachable() from error

    def save(self, known: Known) -> None:
        """Writes the document.

        Raises:
            UnreachableError: if the place does not answer.
        """
        try:
            with effect("alerts: write"):
                replace_file(self._files, self._path, json.dumps(_document(known)).encode())
        except OSError as error:
            raise self._unreachable() from error

    def _unreachable(self) -> UnreachableError:
        what = "what alerts were sent cannot be read or written"
        return UnreachableError(what, where=self.url, remedy="check that the place is writable")


def tell(numbers: Numbers, config: AlertsConfig, book: AlertBook) -> Told:
    """Sends the news of a look.

    1. Read the recorded alerts. 2. Add the look to them and save them: how long something has been
    wrong must outlive this process. 3. For each message: send it, then record that it was sent. A
    crash between the two sends it once more, with the same ``id``.

    Raises:
        UnreachableError: if the recorded alerts cannot be read or written.
        ConfigError: if the webhook's variable is not set.
    """
    if config.webhook is None:
        return Told(())
    url = config.webhook.reveal()
    found, now = findings(numbers, config), numbers.status.at
    before = book.load()
    known = looked(before, found, unjudged(numbers), now)
    if known != before:
        book.save(known)
    done, refused = list[Message](), ""
    for message in messages(known, found, now):
        try:
            post(url, formed(document_of(message), config), ATTEMPTS)
        except UnreachableError as problem:
            return Told(tuple(done), str(problem))
        except RefusedError as problem:  # this one only; it is tried again
            refused = str(problem)
            continue
        known = sent(known, message)
        book.save(known)
        done.append(message)
    return Told(tuple(done), refused)


def _document(known: Known) -> list[dict[str, Any]]:
    return [
        {
            "kind": kind.value,
            "source": source,
            "begun": _iso(group.begun),
            "told_at": _iso(group.told_at),
            "over": list(group.over),
            "members": {
                name: {"since": _iso(each.since), "words": each.words, "told": each.told}
                for name, each in group.members.items()
            },
        }
        for (kind, source), group in known.items()
    ]


def _known(document: Sequence[Mapping[str, Any]]) -> Known:
    return {(Kind(each["kind"]), each["source"]): _group(each) for each in document}


def _group(said: Mapping[str, Any]) -> Group:
    members = {
        name: Member(datetime.fromisoformat(each["since"]), each["words"], each["told"])
        for name, each in said["members"].items()
    }
    return Group(members, _time(said["begun"]), _time(said["told_at"]), tuple(said["over"]))


def _iso(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
