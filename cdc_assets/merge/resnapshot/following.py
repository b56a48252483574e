"""Finds out how far a connector is with reading a table, and follows it to the end.

The connector says it in a topic of notices, for whoever has asked. What was asked for before, by a
run that died, is found again by its note; what others have asked for is joined.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError, TransientError
from cdc_assets.log.connect import described_connector
from cdc_assets.log.notices import Phase, TableSnapshot
from cdc_assets.log.signalling import SignalEnds, Signalling
from cdc_assets.merge.resnapshot.signal_note import SignalNote
from cdc_assets.registry import TableEntry

GOES_ON: Final = (
    "the snapshot goes on in the connector: run the same command again to follow it, or end it "
    "with cdc-assets resnapshot --via signal --stop"
)
_POLL_SECONDS: Final = 0.5
_STATE_SECONDS: Final = 10.0


class Step(Enum):
    """The next step for a table."""

    SEND = auto()
    FOLLOW = auto()
    FINISH = auto()


def next_step(asked: Phase | None, shown: Phase, *, is_sent: bool) -> Step:
    """Decides by what was kept and what the connector says.

    Args:
        asked: how far the snapshot is that was asked for before; None if none was.
        shown: how far the newest snapshot of the table is, whoever has asked for it.
        is_sent: the signal of the former lies in its topic.
    """
    match asked:
        case Phase.DONE:
            return Step.FINISH
        case Phase.RUNNING | Phase.PAUSED:
            return Step.FOLLOW
        case Phase.UNKNOWN if is_sent:
            return Step.FOLLOW
        case _:
            return Step.FOLLOW if shown in {Phase.RUNNING, Phase.PAUSED} else Step.SEND


@dataclass(frozen=True, slots=True)
class Looked:
    """The finding of step 1: the next step, where to follow from, and the note."""

    step: Step
    snapshot: TableSnapshot
    at: OffsetVector
    ends: SignalEnds
    note: SignalNote | None


def look(
    signalling: Signalling,
    unknown: TableSnapshot,
    note: SignalNote | None,
    *,
    anew: bool,
    joins: bool,
) -> Looked:
    """Looks at what the connector says of a table's snapshots.

    Args:
        signalling: reads the notices.
        unknown: the table's snapshot, of which nothing is known.
        note: what was kept of one that was asked for before; None if nothing was.
        anew: ask for another one, whatever is under way.
        joins: whether one will do that somebody else has asked for, whenever it has begun.

    Raises:
        CdcError: if the log does not answer.
    """
    ends = signalling.ends()
    if anew:
        return Looked(Step.SEND, unknown, ends.notices, ends, None)
    asked, is_sent, at = unknown, False, ends.notices
    if note is not None:
        asked = asked if joins else replace(asked, signal=note.id)
        told, at = signalling.notices(note.ends.notices)
        for notice in told:
            asked = asked if asked.is_over else asked.after(notice)
        is_sent = signalling.is_sent(note.id, note.ends.signals)
    shown = unknown
    for notice in signalling.recent(at) if joins else ():
        shown = shown.after(notice)
    step = next_step(None if note is None else asked.phase, shown.phase, is_sent=is_sent)
    is_mine = asked.phase is Phase.DONE or asked.is_under_way or (is_sent and not asked.is_over)
    snapshot, kept = (asked, note) if is_mine else (shown, None)
    return Looked(step, snapshot, at, ends, kept)


def followed(
    config: ReplicationConfig,
    entry: TableEntry,
    signalling: Signalling,
    snapshot: TableSnapshot,
    at: OffsetVector,
    say: Callable[[str], None],
) -> TableSnapshot:
    """Follows a snapshot to its end and returns how it ended.

    Args:
        config: the configuration.
        entry: the table.
        signalling: reads the notices.
        snapshot: what is known of it.
        at: where the notices are read on.
        say: told of progress.

    Raises:
        TransientError: if the connector says nothing for too long.
    """
    limit = config.source(entry.table.source).resnapshot.answer_seconds
    told = looked = time.monotonic()
    connector = said = ""
    try:
        while not snapshot.is_over:
            notices, at = signalling.notices(at)
            before = snapshot
            for notice in notices:
                snapshot = snapshot if snapshot.is_over else snapshot.after(notice)
            if (words := _progress(snapshot)) != said:
                said = words
                say(words)
            now = time.monotonic()
            if snapshot.heard != before.heard or snapshot.phase is Phase.PAUSED:
                told = now
            if now - looked >= _STATE_SECONDS:
                looked, was = now, connector
                connector = _connector_words(config, entry)
                if connector and connector != was:
                    say(connector)
            if now - told > limit:
                raise _silent(entry, snapshot, limit, connector)
            if not snapshot.is_over:
                time.sleep(_POLL_SECONDS)
    except CdcError:
        raise
    except BaseException:  # somebody ends the command, or the run
        say(GOES_ON)
        raise
    return snapshot


def _connector_words(config: ReplicationConfig, entry: TableEntry) -> str:
    """Returns words about a connector that does not run; empty if it runs."""
    try:
        connector, _ = described_connector(config, entry)
    except CdcError as problem:
        return problem.what
    return "" if connector.is_up else connector.words


def _progress(snapshot: TableSnapshot) -> str:
    """Says it without any key."""
    match snapshot.phase:
        case Phase.UNKNOWN:
            return "waiting for the connector's answer"
        case Phase.PAUSED:
            return "the snapshot is paused: resnapshot --resume lets it go on, --stop ends it"
        case Phase.RUNNING if not snapshot.chunks:
            return f"the snapshot has begun; {len(snapshot.waiting)} other tables are read with it"
        case Phase.RUNNING:
            about = f", {snapshot.percent} % of its keys" if snapshot.percent is not None else ""
            return f"chunk {snapshot.chunks:,} is read{about}"
        case _:
            return f"the snapshot has ended: {snapshot.status or snapshot.phase}"


def _silent(
    entry: TableEntry, snapshot: TableSnapshot, limit: float, connector: str
) -> TransientError:
    about = f" ({connector})" if connector else ""
    what = (
        f"the connector has said nothing of the snapshot for {limit:g} s, which is "
        f"{snapshot.phase}{about}"
    )
    remedy = (
        "run the same command again to wait on. It reads signals every signal.poll.interval.ms, "
        "and closes chunks by changes or heartbeats (heartbeat.interval.ms). If it was killed "
        "before it had stored the snapshot's beginning, ask for it once more: resnapshot --anew, "
        "or rebuild --abandon and again"
    )
    return TransientError(what, where=f"table={entry.table} lake={entry.target}", remedy=remedy)
