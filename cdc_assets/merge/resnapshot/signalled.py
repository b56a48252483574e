"""Reading one table again by the connector: a signal asks for an incremental snapshot of it.

1. *Look* what the connector says of the table's snapshots, and what was kept of an earlier try. One
   that is under way is joined, and one that was asked for and is done is gone on with at 5.
2. *Keep* where the table's topic ends, and the id of the signal that is about to be sent.
3. *Send* it. A crash between 2 and 3 leaves a signal that is in no topic: it is sent then.
4. *Follow* what the connector says, until it has read the table. An interruption loses nothing: the
   connector goes on, also when it is restarted.
5. *Wait* until the lake has merged what the topic holds then. The snapshot's rows are merged like
   any change, so that newer changes win.
6. *Find* the rows of the lake that it has not shown (`cdc_assets.merge.resnapshot.unseen`), have
   the source say of each whether it has it, and remove, or put right, those that differ, as
   `verify --repair` does. Without ``database:`` nobody can say it, and they are counted.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Final

from pyspark.sql import SparkSession

from cdc_assets.changes.mode import Mode
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import ConfigError, TerminalError, TransientError
from cdc_assets.formats.signalling import signalling_of
from cdc_assets.log.notices import Phase, TableSnapshot
from cdc_assets.log.signalling import Signal, SignalEnds, Signalling
from cdc_assets.merge.attempt import Attempts, Connections
from cdc_assets.merge.replicate import utc_now
from cdc_assets.merge.resnapshot.following import Looked, Step, followed, look
from cdc_assets.merge.resnapshot.signal_note import SignalNote
from cdc_assets.merge.resnapshot.signal_report import SignalReport
from cdc_assets.merge.resnapshot.unseen import Unseen
from cdc_assets.merge.verifying.pace import Pace
from cdc_assets.merge.verifying.verification import Verification
from cdc_assets.registry import TableEntry

EXECUTE: Final = "execute-snapshot"
_ENDED: Final = {
    Phase.STOPPED: "a signal has stopped the snapshot before it was done",
    Phase.FAILED: "the connector could not read the table",
}

Keep = Callable[[SignalNote | None], None]
"""Keeps a note for whoever goes on; None to forget it."""


class SignalledResnapshot:
    """Has tables of one configuration read again by their connectors.

    Args:
        config: the configuration.
        spark: gives the session; called first at step 6.
        run_id: recorded with each publish.
        say: told of progress.
        clock: wall clock.
    """

    def __init__(
        self,
        config: ReplicationConfig,
        spark: Callable[[], SparkSession],
        run_id: str,
        *,
        say: Callable[[str], None] = lambda _: None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        connections = Connections.of(config)
        self._config = config
        self._attempts = Attempts(config, connections, spark, clock)
        self._log = connections.log
        self._verification = Verification(config, spark, run_id, say=say, clock=clock)
        self._run_id = run_id
        self._say = say
        self._clock = clock

    def intention(self, entry: TableEntry, note: SignalNote | None, *, anew: bool = False) -> str:
        """Returns what `of` would do; changes nothing.

        Raises:
            CdcError: if the table cannot be read again so.
        """
        signalling = signalling_of(self._config, self._log, entry)
        self._require_mirror(entry)
        looked, channel = self._look(entry, signalling, note, anew=anew), signalling.channel
        what = f"an incremental snapshot of {looked.snapshot.collection}"
        asks = f"asks connector {channel.connector} by a signal in {channel.signals} for {what}"
        follows = f"follows {what}, {looked.snapshot.phase} in connector {channel.connector}"
        begins = {
            Step.SEND: asks,
            Step.FOLLOW: follows,
            Step.FINISH: f"goes on after {what}, which was asked for and is done",
        }[looked.step]
        has_database = self._config.source(entry.table.source).database is not None
        ends = "removes" if has_database else "counts, without a database: to ask for them,"
        return f"{begins}; then {ends} rows of the lake that vanished from the source"

    def of(
        self, entry: TableEntry, note: SignalNote | None, keep: Keep, *, anew: bool = False
    ) -> SignalReport:
        """Has a table read again, or goes on with that.

        Args:
            entry: the table.
            note: what was kept of it; None to begin.
            keep: called before a signal is sent, and where the snapshot came to nothing.
            anew: send a signal, whatever is under way.

        Raises:
            CdcError: if a part does not answer, or the table cannot be read again so. What was
                asked for goes on in the connector, unless it says that it has ended.
        """
        pace = Pace()
        signalling = signalling_of(self._config, self._log, entry)
        self._require_mirror(entry)
        # 1. look
        looked = self._look(entry, signalling, note, anew=anew)
        snapshot, note, is_joined = looked.snapshot, looked.note, looked.step is not Step.SEND
        if looked.step is Step.SEND:
            # 2. keep, 3. send
            note = self._kept(entry, looked.ends, keep)
            signal = Signal(note.id, EXECUTE, (snapshot.collection,))
            signalling.send([signal])
            self._say(f"connector {signalling.channel.connector} was asked for a snapshot")
            snapshot = TableSnapshot(snapshot.connector, snapshot.collection)
        if looked.step is not Step.FINISH:
            # 4. follow
            with pace.step("the connector"):
                snapshot = followed(self._config, entry, signalling, snapshot, looked.at, self._say)
        self._require_done(entry, snapshot, keep)
        # 5. wait
        with pace.step("wait for the lake"):
            why = self._verification.waits.merged(entry)
        if why:
            raise TransientError(why, where=_where(entry), remedy="run the same command again")
        # 6. find and put right
        if note is None:
            why = "another one has asked for the snapshot, and nothing tells since when it runs"
            return SignalReport(
                entry.table, snapshot.rows, is_joined=True, why=why, seconds=pace.seconds
            )
        unseen = Unseen(
            self._config, self._attempts, self._verification, entry, self._run_id, self._say
        )
        with pace.step("look for rows"):
            found = unseen.found(note)
        with pace.step("one by one"):
            settled = unseen.settled(found)
        return SignalReport(
            table=entry.table,
            rows=snapshot.rows,
            is_joined=is_joined,
            unshown=found.unshown,
            partial=found.partial,
            put=settled.put,
            removed=settled.removed,
            left=settled.left,
            why=settled.why,
            seconds=pace.seconds,
        )

    # ── 1. to 4.: the connector ──────────────────────────────────────────────────────────

    def _look(
        self, entry: TableEntry, signalling: Signalling, note: SignalNote | None, *, anew: bool
    ) -> Looked:
        """Looks, and passes over a note of another topic."""
        topic, channel = self._attempts.planner.identity(entry).topic_id, signalling.channel
        mine = note if note is not None and note.topic == topic else None
        unknown = TableSnapshot(channel.prefix, channel.collection_of(entry))
        return look(signalling, unknown, mine, anew=anew)

    def _kept(self, entry: TableEntry, ends: SignalEnds, keep: Keep) -> SignalNote:
        planner = self._attempts.planner
        topic, since = planner.identity(entry).topic_id, planner.marks(entry).end
        note = SignalNote(f"cdc-assets-{uuid.uuid4()}", self._clock(), topic, since, ends)
        keep(note)
        return note

    def _require_done(self, entry: TableEntry, snapshot: TableSnapshot, keep: Keep) -> None:
        if snapshot.phase is Phase.DONE:
            return
        keep(None)
        said = f" ({snapshot.status})" if snapshot.phase is Phase.FAILED else ""
        remedy = "run the same command again to begin anew; the log of Kafka Connect says more"
        raise TerminalError(_ENDED[snapshot.phase] + said, where=_where(entry), remedy=remedy)

    def _require_mirror(self, entry: TableEntry) -> None:
        said, where = self._config.source(entry.table.source), _where(entry)
        if said.mode_of(entry.table) is not Mode.MIRROR:
            what = "its lake table has the source's changes, not its rows"
            raise ConfigError(what, where=where, remedy="leave it out")
        if not self._attempts.planner.again(entry, (), self._run_id).plan.schema.key:
            what = "the table has no key: its rows could not be told from the changes beside them"
            remedy = "have the connector make a snapshot, and: cdc-assets rebuild --from-snapshot"
            raise TerminalError(what, where=where, remedy=remedy)


def _where(entry: TableEntry) -> str:
    return f"table={entry.table} lake={entry.target}"
