"""Parses the target of a rewind, and finds the publish that it means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.errors import ConfigError, TerminalError
from cdc_assets.operations.rewind.history import TableHistory

if TYPE_CHECKING:
    from cdc_assets.lake.past import KeptPublish

_OFFSETS: Final = re.compile(r"\d{1,9}:\d{1,18}(,\d{1,9}:\d{1,18})*")
_SNAPSHOT: Final = re.compile(r"\d{1,19}")


@dataclass(frozen=True, slots=True)
class Goal:
    """The target of a rewind, as a person gives it.

    Attributes:
        to: a snapshot, a time, offsets, or a tag that a rewind has left; see `chosen`.
        undo: whether to return to what the last rewind replaced.
        all_shards: whether all other tables that are merged into the lake table go back, too.
    """

    to: str = ""
    undo: bool = False
    all_shards: bool = False

    def __post_init__(self) -> None:
        if bool(self.to) == self.undo:
            msg = "where to is not said" if not self.to else "--to and --undo exclude each other"
            raise ConfigError(msg, remedy="give --to SNAPSHOT, TIME or OFFSETS, or --undo")


@dataclass(frozen=True, slots=True)
class RewindTarget:
    """The resolved target of a rewind.

    Attributes:
        snapshot: the snapshot to which ``main`` is set.
        publish: the newest publish in its ancestry.
        by: how it was chosen, for people.
    """

    snapshot: int
    publish: KeptPublish
    by: str


def chosen(history: TableHistory, goal: Goal) -> RewindTarget:
    """Resolves the target of a rewind.

    - a snapshot: that one, if it is a publish, or a compaction of one;
    - a tag that a rewind has left: the state that this rewind replaced;
    - a time (ISO 8601; UTC if it has no offset): the newest publish at or before it;
    - offsets (``0:1234,1:77``): the newest publish that does not pass any of them.

    Raises:
        ConfigError: if the text is none of these.
        TerminalError: if there is no such publish.
    """
    if goal.undo:
        return _undone(history)
    text = goal.to
    if text in history.past.tags:
        return _of_tag(history, text)
    if _SNAPSHOT.fullmatch(text):
        return _of_snapshot(history, int(text))
    if _OFFSETS.fullmatch(text):
        return _of_offsets(history, _offsets(text))
    return _of_time(history, parse_time(text), all_shards=goal.all_shards)


def parse_time(text: str) -> datetime:
    """Parses an aware time.

    Raises:
        ConfigError: if the text is no time; it is then no target of a rewind at all.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        msg = f"{text!r} is not a snapshot, time, offsets or tag of a rewind"
        remedy = "write 4358109269898186, 2026-03-01T07:15 (UTC), 0:1234,1:77 or before_rewind_1"
        raise ConfigError(msg, remedy=remedy) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _undone(history: TableHistory) -> RewindTarget:
    newest = next(iter(history.past.tags), None)
    if newest is None:
        what = "there is nothing to undo: no rewind has kept anything, or its tag was deleted"
        raise TerminalError(what, where=f"table={history.entry.table}")
    return _of_tag(history, newest)


def _of_tag(history: TableHistory, tag: str) -> RewindTarget:
    snapshot = history.past.tags[tag]
    publish = history.past.newest_publish(snapshot)
    if publish is None:
        raise _nothing(history, f"what {tag} has kept is no publish")
    return RewindTarget(snapshot, publish, f"what {tag} has kept")


def _of_snapshot(history: TableHistory, snapshot: int) -> RewindTarget:
    if (publish := history.past.publish_at(snapshot)) is not None:
        return RewindTarget(snapshot, publish, "as was asked for")
    for tag, at in history.past.tags.items():
        if at == snapshot:
            return _of_tag(history, tag)
    raise _nothing(history, f"snapshot {snapshot} is no publish of the table, or has expired")


def _of_time(history: TableHistory, at: datetime, *, all_shards: bool) -> RewindTarget:
    for each in _candidates(history, all_shards=all_shards):
        if each.at <= at:
            return RewindTarget(each.snapshot, each, f"the newest publish until {time_words(at)}")
    raise _nothing(history, f"no publish is kept from {time_words(at)} or before")


def _of_offsets(history: TableHistory, wanted: OffsetVector) -> RewindTarget:
    mine = _candidates(history, all_shards=False)
    known = {partition for each in mine[:1] for partition, _ in each.published.offsets}
    unknown = sorted({partition for partition, _ in wanted} - known)
    if unknown:
        what = f"the table has nothing of the partitions {', '.join(map(str, unknown))}"
        raise _nothing(history, what)
    for each in mine:
        offsets = each.published.offsets
        if all(offsets.get(partition) <= at for partition, at in wanted):
            is_exact = all(offsets.get(partition) == at for partition, at in wanted)
            said = "that ended there" if is_exact else "that does not pass them"
            return RewindTarget(each.snapshot, each, f"the newest publish {said}")
    raise _nothing(history, f"no publish is kept that does not pass {wanted.to_json()}")


def _candidates(history: TableHistory, *, all_shards: bool) -> Sequence[KeptPublish]:
    """Returns the publishes of ``main``, newest first."""
    mine = history.entry.shard_value
    return [each for each in history.past.line if all_shards or each.published.shard == mine]


def _offsets(text: str) -> OffsetVector:
    pairs = [each.split(":") for each in text.split(",")]
    wanted = {int(partition): int(offset) for partition, offset in pairs}
    if len(wanted) != len(pairs):
        msg = f"{text!r} names a partition twice"
        raise ConfigError(msg, remedy="write each partition once, such as 0:1234,1:77")
    return OffsetVector.of(wanted)


def _nothing(history: TableHistory, what: str) -> TerminalError:
    remedy = f"cdc-assets history {history.entry.table} shows what there is"
    return TerminalError(what, where=f"table={history.entry.table}", remedy=remedy)


def time_words(at: datetime) -> str:
    """Formats a time for people, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
