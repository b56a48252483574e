"""Has a connector read one table by an incremental snapshot, and follows it to its end.

1. *Look* what the connector says of the table's snapshots, and what was kept of an earlier try. One
   that was asked for before and is under way, or done, is not asked for again.
2. *Keep* where the table's topic ends, and the id of the signal that is about to be sent.
3. *Send* it. A crash between 2 and 3 leaves a signal that is in no topic: it is sent then.
4. *Follow* what the connector says, until it has read the table. An interruption loses nothing: the
   connector goes on, also when it is restarted.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TerminalError
from cdc_assets.log.notices import Phase, TableSnapshot
from cdc_assets.log.signalling import Signal, SignalEnds, Signalling
from cdc_assets.merge.intake.planning import Planner
from cdc_assets.merge.resnapshot.following import Looked, Step, followed, look
from cdc_assets.merge.resnapshot.signal_note import SignalNote
from cdc_assets.registry import TableEntry

EXECUTE: Final = "execute-snapshot"
_ENDED: Final = {
    Phase.STOPPED: "a signal has stopped the snapshot before it was done",
    Phase.FAILED: "the connector could not read the table",
}

Keep = Callable[[SignalNote | None], None]
"""Keeps a note for whoever goes on; None to forget it."""


@dataclass(frozen=True, slots=True)
class Asking:
    """The snapshot of one table.

    Attributes:
        config: the configuration.
        planner: reads the topic's ends.
        signalling: of the table's connector.
        entry: the table.
        clock: wall clock.
        say: told of progress.
        joins: whether one will do that somebody else has asked for, whenever it has begun. If not,
            all of its rows lie behind the place in the topic that was kept.
    """

    config: ReplicationConfig
    planner: Planner
    signalling: Signalling
    entry: TableEntry
    clock: Callable[[], datetime]
    say: Callable[[str], None]
    joins: bool

    def look(self, note: SignalNote | None, *, anew: bool = False) -> Looked:
        """Step 1: looks, and passes over a note of another topic.

        Raises:
            CdcError: if a part does not answer.
        """
        topic, channel = self.planner.identity(self.entry).topic_id, self.signalling.channel
        mine = note if note is not None and note.topic == topic else None
        unknown = TableSnapshot(channel.prefix, channel.collection_of(self.entry))
        return look(self.signalling, unknown, mine, anew=anew, joins=self.joins)

    def words(self, looked: Looked) -> str:
        """Says what `done` would do."""
        channel = self.signalling.channel
        what = f"an incremental snapshot of {looked.snapshot.collection}"
        match looked.step:
            case Step.SEND:
                topic = channel.signals
                return f"asks connector {channel.connector} by a signal in {topic} for {what}"
            case Step.FOLLOW:
                return f"follows {what}, {looked.snapshot.phase} in connector {channel.connector}"
            case Step.FINISH:
                return f"goes on after {what}, which was asked for and is done"

    def done(self, looked: Looked, keep: Keep) -> tuple[TableSnapshot, SignalNote | None]:
        """Steps 2 to 4: returns the snapshot that was done, and what is kept of it.

        Args:
            looked: of step 1.
            keep: called before a signal is sent, and where the snapshot came to nothing.

        Raises:
            CdcError: if a part does not answer. What was asked for goes on in the connector, unless
                it says that it has ended.
        """
        snapshot, note = looked.snapshot, looked.note
        if looked.step is Step.SEND:
            # 2. keep, 3. send
            note = self._kept(looked.ends, keep)
            self.signalling.send([Signal(note.id, EXECUTE, (snapshot.collection,))])
            self.say(f"connector {self.signalling.channel.connector} was asked for a snapshot")
            of = snapshot.connector, snapshot.collection
            snapshot = TableSnapshot(*of, signal="" if self.joins else note.id)
        if looked.step is not Step.FINISH:
            # 4. follow
            at = looked.at
            snapshot = followed(self.config, self.entry, self.signalling, snapshot, at, self.say)
        if snapshot.phase is not Phase.DONE:
            keep(None)
            said = f" ({snapshot.status})" if snapshot.phase is Phase.FAILED else ""
            remedy = "run the same command again to begin anew; the log of Kafka Connect says more"
            where = f"table={self.entry.table} lake={self.entry.target}"
            raise TerminalError(_ENDED[snapshot.phase] + said, where=where, remedy=remedy)
        return snapshot, note

    def _kept(self, ends: SignalEnds, keep: Keep) -> SignalNote:
        topic, since = (
            self.planner.identity(self.entry).topic_id,
            self.planner.marks(self.entry).end,
        )
        note = SignalNote(f"cdc-assets-{uuid.uuid4()}", self.clock(), topic, since, ends)
        keep(note)
        return note
