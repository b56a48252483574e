"""Asks connectors for incremental snapshots of tables, follows them, and pauses or stops them.

A connector reports its snapshots in a topic of notices. A snapshot that a former run has asked for
is found again by its note; a snapshot that others have asked for is joined.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from typing import Final

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError, TerminalError, TransientError
from cdc_assets.formats.signalling import signalling_of
from cdc_assets.log.connect import described_connector
from cdc_assets.log.notices import Phase, TableSnapshot
from cdc_assets.log.signalling import Signal, SignalEnds, Signalling
from cdc_assets.operations.resnapshot.notes import ResnapshotBook, SignalNote
from cdc_assets.operations.session import TableSession
from cdc_assets.registry import TableEntry

EXECUTE: Final = "execute-snapshot"
_PAUSE: Final = "pause-snapshot"
_RESUME: Final = "resume-snapshot"
_STOP: Final = "stop-snapshot"
_POLL_SECONDS: Final = 0.5
_STATE_SECONDS: Final = 10.0
_NONE: Final = "no snapshot of it is under way, as far as its connector has said"
_CONTINUES: Final = (
    "the snapshot continues in the connector: run the same command again to follow it, or end it "
    "with cdc-assets resnapshot --via signal --stop"
)
_ENDED: Final = {
    Phase.STOPPED: "a signal has stopped the snapshot before it was done",
    Phase.FAILED: "the connector could not read the table",
}

Keep = Callable[[SignalNote | None], None]
"""Stores a note for a later run; None to remove the note."""


class SnapshotStep(Enum):
    """The next step of a table's snapshot."""

    SEND = auto()
    FOLLOW = auto()
    FINISH = auto()


def next_step(asked: Phase | None, shown: Phase, *, is_sent: bool) -> SnapshotStep:
    """Returns the next step by the note and the connector's notices.

    Args:
        asked: the phase of the snapshot that an earlier run has asked for; None without one.
        shown: the phase of the newest snapshot of the table, whoever has asked for it.
        is_sent: whether the topic of signals has the signal of the former.
    """
    match asked:
        case Phase.DONE:
            return SnapshotStep.FINISH
        case Phase.RUNNING | Phase.PAUSED:
            return SnapshotStep.FOLLOW
        case Phase.UNKNOWN if is_sent:
            return SnapshotStep.FOLLOW
        case _:
            return (
                SnapshotStep.FOLLOW if shown in {Phase.RUNNING, Phase.PAUSED} else SnapshotStep.SEND
            )


@dataclass(frozen=True, slots=True)
class SnapshotLook:
    """The result of looking: the next step, the offsets of the next notices, and the note."""

    step: SnapshotStep
    snapshot: TableSnapshot
    at: OffsetVector
    ends: SignalEnds
    note: SignalNote | None


def look(
    signalling: Signalling,
    unknown: TableSnapshot,
    note: SignalNote | None,
    *,
    is_new: bool,
    joins: bool,
) -> SnapshotLook:
    """Reads the connector's notices about a table's snapshots.

    Args:
        signalling: reads the notices.
        unknown: the table's snapshot in its unknown phase.
        note: the note of an earlier run; None without one.
        is_new: ask for another snapshot, also if one is under way.
        joins: whether a snapshot that somebody else has asked for serves, whenever it began.

    Raises:
        CdcError: if the log does not answer.
    """
    ends = signalling.ends()
    if is_new:
        return SnapshotLook(SnapshotStep.SEND, unknown, ends.notices, ends, None)
    asked, is_sent, at = unknown, False, ends.notices
    if note is not None:
        asked = asked if joins else replace(asked, signal=note.id)
        notices, at = signalling.notices(note.ends.notices)
        for notice in notices:
            asked = asked if asked.is_over else asked.after(notice)
        is_sent = signalling.is_sent(note.id, note.ends.signals)
    shown = unknown
    for notice in signalling.recent(at) if joins else ():
        shown = shown.after(notice)
    step = next_step(None if note is None else asked.phase, shown.phase, is_sent=is_sent)
    is_mine = asked.phase is Phase.DONE or asked.is_under_way or (is_sent and not asked.is_over)
    snapshot, kept = (asked, note) if is_mine else (shown, None)
    return SnapshotLook(step, snapshot, at, ends, kept)


def followed(
    session: TableSession,
    signalling: Signalling,
    snapshot: TableSnapshot,
    at: OffsetVector,
    say: Callable[[str], None],
) -> TableSnapshot:
    """Follows a snapshot to its end and returns how it ended.

    Args:
        session: the table.
        signalling: reads the notices.
        snapshot: the snapshot as far as it is known.
        at: the offsets of the next notices.
        say: receives messages about progress.

    Raises:
        TransientError: if the connector says nothing for too long.
    """
    config, entry = session.config, session.entry
    limit = config.source(entry.table.source).resnapshot.answer_seconds
    heard = looked = time.monotonic()
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
                heard = now
            if now - looked >= _STATE_SECONDS:
                looked, was = now, connector
                connector = _connector_words(config, entry)
                if connector and connector != was:
                    say(connector)
            if now - heard > limit:
                raise _silent(entry, snapshot, limit, connector)
            if not snapshot.is_over:
                time.sleep(_POLL_SECONDS)
    except CdcError:
        raise
    except BaseException:  # somebody ends the command, or the run
        say(_CONTINUES)
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
    """Describes a snapshot for people, without any key."""
    match snapshot.phase:
        case Phase.UNKNOWN:
            return "waiting for the connector's answer"
        case Phase.PAUSED:
            return "the snapshot is paused: resnapshot --resume continues it, --stop ends it"
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
        "run the same command again to keep waiting. It reads signals every "
        "signal.poll.interval.ms, and closes chunks by changes or heartbeats "
        "(heartbeat.interval.ms). If it was killed before it had stored the snapshot's "
        "beginning, ask for it once more: resnapshot --anew, or rebuild --abandon and again"
    )
    return TransientError(what, where=f"table={entry.table} lake={entry.target}", remedy=remedy)


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """A request for an incremental snapshot of one table.

    1. *Look* at the connector's notices about the table's snapshots, and at an earlier run's note.
       A snapshot that this run asked for before, and that is under way or done, is not asked for
       again.
    2. *Store* the end of the table's topic, and the id of the signal that is about to be sent.
    3. *Send* the signal. A crash between 2 and 3 leaves a signal that is in no topic: it is sent
       then.
    4. *Follow* the notices, until the connector has read the table. An interruption loses nothing:
       the snapshot continues in the connector, also when that is restarted.

    Attributes:
        session: the means, and the table.
        signalling: the connection to the table's connector.
        joins: whether a snapshot that somebody else has asked for serves, whenever it began. If
            not, all of its rows are behind the end that was stored.
        say: receives messages about progress.
    """

    session: TableSession
    signalling: Signalling
    joins: bool
    say: Callable[[str], None]

    def look(self, note: SignalNote | None, *, is_new: bool = False) -> SnapshotLook:
        """Carries step 1 out, and ignores a note of another topic.

        Raises:
            CdcError: if a part does not answer.
        """
        entry, channel = self.session.entry, self.signalling.channel
        topic = self.session.planner.identity(entry).topic_id
        mine = note if note is not None and note.topic == topic else None
        unknown = TableSnapshot(channel.prefix, channel.collection_of(entry))
        return look(self.signalling, unknown, mine, is_new=is_new, joins=self.joins)

    def words(self, looked: SnapshotLook) -> str:
        """Describes `done`."""
        channel = self.signalling.channel
        what = f"an incremental snapshot of {looked.snapshot.collection}"
        match looked.step:
            case SnapshotStep.SEND:
                topic = channel.signals
                return f"asks connector {channel.connector} by a signal in {topic} for {what}"
            case SnapshotStep.FOLLOW:
                return f"follows {what}, {looked.snapshot.phase} in connector {channel.connector}"
            case SnapshotStep.FINISH:
                return f"continues after {what}, which was asked for and is done"

    def done(self, looked: SnapshotLook, keep: Keep) -> tuple[TableSnapshot, SignalNote | None]:
        """Carries steps 2 to 4 out; returns the finished snapshot, and its note.

        Args:
            looked: the result of step 1.
            keep: stores a note before a signal is sent, and removes the note of a snapshot that
                came to nothing.

        Raises:
            CdcError: if a part does not answer. The snapshot continues in the connector, unless
                that reports its end.
        """
        snapshot, note = looked.snapshot, looked.note
        if looked.step is SnapshotStep.SEND:
            # 2. store, 3. send
            note = self._kept(looked.ends, keep)
            self.signalling.send([Signal(note.id, EXECUTE, (snapshot.collection,))])
            self.say(f"connector {self.signalling.channel.connector} was asked for a snapshot")
            of = snapshot.connector, snapshot.collection
            snapshot = TableSnapshot(*of, signal="" if self.joins else note.id)
        if looked.step is not SnapshotStep.FINISH:
            # 4. follow
            at = looked.at
            snapshot = followed(self.session, self.signalling, snapshot, at, self.say)
        if snapshot.phase is not Phase.DONE:
            keep(None)
            said = f" ({snapshot.status})" if snapshot.phase is Phase.FAILED else ""
            remedy = "run it again to ask for another one; the log of Kafka Connect says more"
            what = _ENDED[snapshot.phase] + said
            raise TerminalError(what, where=self.session.where, remedy=remedy)
        return snapshot, note

    def _kept(self, ends: SignalEnds, keep: Keep) -> SignalNote:
        planner, entry = self.session.planner, self.session.entry
        topic, since = planner.identity(entry).topic_id, planner.marks(entry).end
        note = SignalNote(f"cdc-assets-{uuid.uuid4()}", self.session.clock(), topic, since, ends)
        keep(note)
        return note


# ── changing a snapshot that is under way ────────────────────────────────────────────────────


class SnapshotAction(StrEnum):
    """An action on a snapshot that is under way."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"


def signals_for(
    action: SnapshotAction, snapshot: TableSnapshot, new_id: Callable[[], str]
) -> tuple[Signal, ...]:
    """Returns the signals to send, in this order; none if they would change nothing."""
    if not snapshot.is_under_way:
        return ()
    is_paused = snapshot.phase is Phase.PAUSED
    pause, resume = Signal(new_id(), _PAUSE), Signal(new_id(), _RESUME)
    match action:
        case SnapshotAction.PAUSE:
            return () if is_paused else (pause,)
        case SnapshotAction.RESUME:
            return (resume,) if is_paused else ()
        case SnapshotAction.STOP:
            stop = Signal(new_id(), _STOP, (snapshot.collection,))
            again = (pause,) if is_paused and snapshot.waiting else ()
            return (stop, resume, *again)


_WANTED: Final = {
    SnapshotAction.PAUSE: Phase.PAUSED,
    SnapshotAction.RESUME: Phase.RUNNING,
    SnapshotAction.STOP: Phase.STOPPED,
}


def present_snapshot(
    signalling: Signalling, entry: TableEntry
) -> tuple[OffsetVector, TableSnapshot]:
    """Returns the offsets of the next notices, and the newest snapshot of a table."""
    at, channel = signalling.ends().notices, signalling.channel
    snapshot = TableSnapshot(channel.prefix, channel.collection_of(entry))
    for notice in signalling.recent(at):
        snapshot = snapshot.after(notice)
    return at, snapshot


@dataclass(frozen=True, slots=True)
class SnapshotChange:
    """The change of a snapshot that is under way, by signals to its connector.

    A connector pauses all tables of its snapshot, not a single one; it stops each table
    individually. It notices that a snapshot is to be stopped when it reads the next chunk, which a
    paused one never does. So a stop is followed by a resume, which reads a chunk; and by a pause,
    if the other tables of the snapshot were paused before.

    Attributes:
        session: the table.
        action: the action.
        signalling: the connection to the table's connector.
        snapshot: the table's newest snapshot.
        at: the offsets of the next notices.
        signals: the signals to send, in this order; none if they would change nothing.
    """

    session: TableSession
    action: SnapshotAction
    signalling: Signalling
    snapshot: TableSnapshot
    at: OffsetVector
    signals: tuple[Signal, ...]

    @classmethod
    def of(cls, session: TableSession, action: SnapshotAction) -> SnapshotChange:
        """Looks at the table's snapshot, and chooses the signals. Changes nothing.

        Raises:
            CdcError: if the connector is not known, or a part does not answer.
        """
        signalling = signalling_of(session.config, session.log, session.entry)
        at, snapshot = present_snapshot(signalling, session.entry)
        signals = signals_for(action, snapshot, lambda: f"cdc-assets-{uuid.uuid4()}")
        return cls(session, action, signalling, snapshot, at, signals)

    @property
    def intention(self) -> str:
        """The change, for people."""
        return f"would be {self._done()}" if self.signals else self._unchanged()

    def carried_out(self) -> tuple[bool, str]:
        """Sends the signals, and waits for the connector's answer.

        Returns:
            Whether the snapshot was changed, and the result for people.

        Raises:
            CdcError: if the connector does not answer.
        """
        if not self.signals:
            return False, self._unchanged()
        self.signalling.send(self.signals)
        ended = self._answered()
        if self.action is SnapshotAction.STOP:
            book = ResnapshotBook.of_registry(self.session.config.registry)
            book.forget_signal(self.session.entry.table)
        if ended.phase is not _WANTED[self.action]:
            return False, f"its snapshot had ended before the signal came: {ended.phase}"
        return True, self._done()

    def _answered(self) -> TableSnapshot:
        config, entry = self.session.config, self.session.entry
        snapshot, at = self.snapshot, self.at
        seconds = config.source(entry.table.source).resnapshot.answer_seconds
        ends = time.monotonic() + seconds
        while not (snapshot.is_over or snapshot.phase is _WANTED[self.action]):
            if time.monotonic() >= ends:
                what = (
                    f"the connector has not answered the signal to {self.action} for {seconds:g} s"
                )
                remedy = "see whether it runs: it answers when it does"
                raise TransientError(what, where=f"table={entry.table}", remedy=remedy)
            time.sleep(_POLL_SECONDS)
            notices, at = self.signalling.notices(at)
            for notice in notices:
                snapshot = snapshot if snapshot.is_over else snapshot.after(notice)
        return snapshot

    def _unchanged(self) -> str:
        if not self.snapshot.is_under_way:
            return _NONE
        is_pause = self.action is SnapshotAction.PAUSE
        return "its snapshot is paused already" if is_pause else "its snapshot runs"

    def _done(self) -> str:
        name = self.signalling.channel.connector
        match self.action:
            case SnapshotAction.PAUSE:
                return (
                    f"paused, with all that connector {name} reads by a snapshot; changes "
                    "continue, and a restart of the connector ends it"
                )
            case SnapshotAction.RESUME:
                return f"resumed, with all that connector {name} reads by a snapshot"
            case SnapshotAction.STOP:
                return "stopped: the rows that were read stay as the snapshot has shown them"
