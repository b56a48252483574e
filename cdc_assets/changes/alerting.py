"""Decides which alerts to send: each once, with its recovery, and many of a kind as one.

A *finding* is something that is wrong now. Findings of one kind and source are a *group*. A message
is sent when a group begins, again when its members have changed, and once more when the whole group
is over. Each message but the first follows the previous one after `QUIET` at the earliest, so that
500 tables that fail one after the other are a few messages. A finding that may pass by itself is
reported only after it has lasted for its own delay.

A reported finding is over once it was absent from every look for `GOOD`: a failure every other
minute is one alert, and not thirty with their recoveries.

The reported state is a value that the caller keeps. Where a part did not answer, earlier findings
remain, and the time for which they must be absent starts again from zero: not knowing is no
recovery.

A clock may have been ahead, and set right since: a stored time of the future counts as now, or as
long past where it would keep a message back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Final

QUIET: Final = timedelta(minutes=10)
"""Least time between two messages about one continuing group."""

GOOD: Final = timedelta(minutes=5)
"""How long a reported finding must have been absent to be over."""

NAMED: Final = 20
"""The most members named in a message; the others are counted."""


class AlertKind(StrEnum):
    """A kind of finding."""

    TABLE_FAILED = "table_failed"
    BUDGET_BURNS = "slo_budget_burning"
    LOST_RANGE = "lost_range_danger"
    CONNECTOR_DOWN = "connector_down"
    SLOT_GROWS = "slot_growing"
    PART_AWAY = "part_away"
    LOGIN_REFUSED = "login_refused"
    QUARANTINED = "records_in_quarantine"
    ROWS_DIFFER = "rows_differ"
    DOUBTED_ROWS = "rows_in_doubt"
    OFFSETS_GAP = "offsets_not_contiguous"
    CANNOT_LOOK = "cannot_look"


class Change(StrEnum):
    """The change of a group since its last message."""

    FIRING = "firing"
    CHANGED = "changed"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class AlertFinding:
    """Something that is wrong.

    Attributes:
        kind: its kind.
        source: the source it concerns.
        member: the table, connector or slot.
        words: description with place and remedy; without values of rows and secrets.
        after: how long it must last before it is reported.
    """

    kind: AlertKind
    source: str
    member: str
    words: str
    after: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class Member:
    """A finding that was present at the last look, or is not over yet.

    Attributes:
        since: when it was first seen, aware.
        words: of the finding.
        reported: whether a message has named or counted it.
        gone: since when it has been absent from every look; None if it was there at the last one,
            or nobody could say.
        after: how long it must last before it is reported.
    """

    since: datetime
    words: str
    reported: bool = False
    gone: datetime | None = None
    after: timedelta = timedelta()

    def is_due(self, now: datetime) -> bool:
        """Whether the finding has lasted for its delay, and no message has named it yet."""
        return not self.reported and now - self.since >= self.after


@dataclass(frozen=True, slots=True)
class Group:
    """Findings of one kind and source.

    Attributes:
        members: by name.
        begun: when the first message about it was sent; None before that.
        reported_at: when the last message was sent.
        over: reported members that have ended since the last message.
    """

    members: Mapping[str, Member] = field(default_factory=dict[str, Member])
    begun: datetime | None = None
    reported_at: datetime | None = None
    over: tuple[str, ...] = ()


Key = tuple[AlertKind, str]
Known = Mapping[Key, Group]
AlertJudge = Callable[[AlertKind, str, str], bool]
"""Whether a look could see that a member of a kind and source is over."""


@dataclass(frozen=True, slots=True)
class Message:
    """One alert to send.

    Attributes:
        kind, source: of the group.
        change: the change since the last message.
        begun: when it began; with kind and source it identifies the alert.
        members: those that are not over, up to `NAMED`; ``count`` of them in all.
        over: those that have ended.
        after: the state of the group once this message is sent.
    """

    kind: AlertKind
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
    known: Known, found: Iterable[AlertFinding], judged: AlertJudge, now: datetime
) -> dict[Key, Group]:
    """Returns the state after a look, before any finding of the look is reported.

    Args:
        known: the state before.
        found: all that is wrong now.
        judged: returns whether a member that was not found is known to be absent.
        now: aware.
    """
    there: dict[Key, dict[str, AlertFinding]] = {}
    for each in found:
        there.setdefault((each.kind, each.source), {})[each.member] = each
    after = {
        key: _looked(known.get(key, Group()), there.get(key, {}), now, partial(judged, *key))
        for key in {*known, *there}
    }
    return _worth_knowing(after)


def sent(known: Known, message: Message) -> dict[Key, Group]:
    """Returns the state once a message was sent."""
    return _worth_knowing({**known, (message.kind, message.source): message.after})


def _worth_knowing(known: Known) -> dict[Key, Group]:
    return {key: group for key, group in known.items() if group.members or group.begun}


def messages(known: Known, now: datetime) -> Iterator[Message]:
    """Yields the messages to send now, given the result of `looked`.

    Once a message is sent, its ``after`` is the state of its group.
    """
    for key, group in sorted(known.items()):
        due = {name for name, member in group.members.items() if member.is_due(now)}
        change = _change(group, due, now)
        if change is not None:
            yield _message(key, group, due, change, now)


def _looked(
    group: Group, found: Mapping[str, AlertFinding], now: datetime, is_judged: Callable[[str], bool]
) -> Group:
    """Updates a group with the findings; a member that cannot be judged stays as it was found."""
    members = {
        name: _again(group.members.get(name), each, now, reported=name in group.over)
        for name, each in found.items()
    }
    absent = {
        name: replace(each, gone=min(each.gone or now, now) if is_judged(name) else None)
        for name, each in group.members.items()
        if name not in found
    }
    over = [name for name in group.over if name not in found]
    for name, each in absent.items():
        if not _is_over(each, now):
            members[name] = each
        elif each.reported:
            over.append(name)
    return replace(group, members=members, over=tuple(dict.fromkeys(over)))


def _again(known: Member | None, found: AlertFinding, now: datetime, *, reported: bool) -> Member:
    """Returns a found member; ``reported``: no message has reported the member as over yet."""
    if known is None:
        return Member(now, found.words, reported, after=found.after)
    since = min(known.since, now)
    return replace(known, since=since, words=found.words, gone=None, after=found.after)


def _is_over(absent: Member, now: datetime) -> bool:
    """Whether a member is over; a finding that no message has reported is over at once."""
    return absent.gone is not None and (not absent.reported or now - absent.gone >= GOOD)


def _change(group: Group, due: Collection[str], now: datetime) -> Change | None:
    if group.begun is None:
        return Change.FIRING if due else None
    if group.reported_at is not None and group.reported_at <= now < group.reported_at + QUIET:
        return None
    if not due and not any(each.reported for each in group.members.values()):
        return Change.RESOLVED
    return Change.CHANGED if due or group.over else None


def _message(
    key: Key, group: Group, due: Collection[str], change: Change, now: datetime
) -> Message:
    members = {
        name: replace(each, reported=each.reported or name in due)
        for name, each in group.members.items()
    }
    wrong = sorted((name, each.words) for name, each in members.items() if each.reported)
    begun = group.begun or now
    is_over = change is Change.RESOLVED
    after = Group(members, None if is_over else begun, None if is_over else now)
    return Message(
        key[0], key[1], change, begun, tuple(wrong[:NAMED]), len(wrong), group.over, after
    )
