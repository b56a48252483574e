"""Decides which alerts to send: each once, with its recovery, and many of a kind as one.

A *finding* is something that is wrong now. Findings of one kind and source are a *group*. A message
is sent when a group begins, again when its members have changed (but not more often than `QUIET`,
so that 500 tables that fail one after the other are a few messages), and once more when all of it
is over. A finding that may pass by itself is reported only after it has lasted for its own delay.

The reported state is a value that the caller keeps. Where a part did not answer, earlier findings
remain: not knowing is no recovery.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

QUIET: Final = timedelta(minutes=10)
"""Least time between two messages about one continuing group."""

NAMED: Final = 20
"""The most members named in a message; the others are counted."""


class Kind(StrEnum):
    """A kind of finding."""

    TABLE_FAILED = "table_failed"
    BUDGET_BURNS = "slo_budget_burning"
    LOST_RANGE = "lost_range_danger"
    CONNECTOR_DOWN = "connector_down"
    SLOT_GROWS = "slot_growing"


class Change(StrEnum):
    """The change of a group since its last message."""

    FIRING = "firing"
    CHANGED = "changed"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong.

    Attributes:
        kind: its kind.
        source: the source it concerns.
        member: the table, connector or slot.
        words: description with place and remedy; without values of rows and secrets.
        after: how long it must last before it is reported.
    """

    kind: Kind
    source: str
    member: str
    words: str
    after: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class Member:
    """A finding that was present at the last look.

    Attributes:
        since: when it was first seen, aware.
        words: of the finding.
        told: whether a message has named or counted it.
    """

    since: datetime
    words: str
    told: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Findings of one kind and source.

    Attributes:
        members: by name.
        begun: when the first message about it was sent; None before that.
        told_at: when the last message was sent.
        over: reported members that have ended since the last message.
    """

    members: Mapping[str, Member] = field(default_factory=dict[str, Member])
    begun: datetime | None = None
    told_at: datetime | None = None
    over: tuple[str, ...] = ()


Key = tuple[Kind, str]
Known = Mapping[Key, Group]


@dataclass(frozen=True, slots=True)
class Message:
    """One alert to send.

    Attributes:
        kind, source: of the group.
        change: the change since the last message.
        begun: when it began; with kind and source it identifies the alert.
        members: those that are wrong now, up to `NAMED`; ``count`` of them in all.
        over: those that have ended.
        after: the state of the group once this message is sent.
    """

    kind: Kind
    source: str
    change: Change
    begun: datetime
    members: tuple[tuple[str, str], ...]
    count: int
    over: tuple[str, ...]
    after: Group

    @property
    def id(self) -> str:
        """The identifier that all messages about one alert share."""
        return f"{self.kind}:{self.source}:{self.begun.isoformat(timespec='seconds')}"


def looked(
    known: Known, found: Iterable[Finding], unjudged: Collection[Key], now: datetime
) -> dict[Key, Group]:
    """Returns the state after a look, before any of it is reported.

    Args:
        known: the state before.
        found: all that is wrong now.
        unjudged: groups of which nobody can say at the moment whether a member is over.
        now: aware.
    """
    there: dict[Key, dict[str, Finding]] = {}
    for each in found:
        there.setdefault((each.kind, each.source), {})[each.member] = each
    after = {
        key: _looked(known.get(key, Group()), there.get(key, {}), now, stays=key in unjudged)
        for key in {*known, *there}
    }
    return _worth_knowing(after)


def sent(known: Known, message: Message) -> dict[Key, Group]:
    """Returns the state once a message was sent."""
    return _worth_knowing({**known, (message.kind, message.source): message.after})


def _worth_knowing(known: Known) -> dict[Key, Group]:
    return {key: group for key, group in known.items() if group.members or group.begun}


def messages(known: Known, found: Iterable[Finding], now: datetime) -> Iterator[Message]:
    """Yields the messages to send now, given the result of `looked`.

    Once a message is sent, its ``after`` is the state of its group.

    Args:
        known: the state after the look.
        found: all that is wrong now, for the delay of each finding.
        now: aware.
    """
    delays = {(each.kind, each.source, each.member): each.after for each in found}
    for key, group in sorted(known.items()):
        due = {
            name
            for name, member in group.members.items()
            if not member.told and now - member.since >= delays.get((*key, name), timedelta())
        }
        change = _change(group, due, now)
        if change is not None:
            yield _message(key, group, due, change, now)


def _looked(group: Group, found: Mapping[str, Finding], now: datetime, *, stays: bool) -> Group:
    """Updates a group with the findings; ``stays``: missing findings do not count as over."""
    kept = {name: each for name, each in group.members.items() if stays and name not in found}
    members = {
        name: replace(group.members[name], words=each.words)
        if name in group.members
        else Member(now, each.words)
        for name, each in found.items()
    }
    gone = (
        name
        for name, each in group.members.items()
        if each.told and name not in found and name not in kept
    )
    back = {name for name in group.over if name in found}
    members = {
        name: replace(each, told=True) if name in back else each for name, each in members.items()
    }
    over = dict.fromkeys((*(name for name in group.over if name not in back), *gone))
    return replace(group, members={**kept, **members}, over=tuple(over))


def _change(group: Group, due: Collection[str], now: datetime) -> Change | None:
    if group.begun is None:
        return Change.FIRING if due else None
    if not due and not any(each.told for each in group.members.values()):
        return Change.RESOLVED
    is_quiet = group.told_at is None or now - group.told_at >= QUIET
    return Change.CHANGED if (due or group.over) and is_quiet else None


def _message(
    key: Key, group: Group, due: Collection[str], change: Change, now: datetime
) -> Message:
    members = {
        name: replace(each, told=each.told or name in due) for name, each in group.members.items()
    }
    wrong = sorted((name, each.words) for name, each in members.items() if each.told)
    begun = group.begun or now
    is_over = change is Change.RESOLVED
    after = Group(members, None if is_over else begun, None if is_over else now)
    return Message(
        key[0], key[1], change, begun, tuple(wrong[:NAMED]), len(wrong), group.over, after
    )
