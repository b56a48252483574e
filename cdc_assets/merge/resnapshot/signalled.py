"""Reading one table again by the connector: a signal asks for an incremental snapshot of it.

1. *Look* what the connector says of the table's snapshots, and what was kept of an earlier try. One
   that is under way is joined, and one that was asked for and is done is gone on with at 5.
2. *Keep* where the table's topic ends, and the id of the signal that is about to be sent.
3. *Send* it. A crash between 2 and 3 leaves a signal that is in no topic: it is sent then.
4. *Follow* what the connector says, until it has read the table. An interruption loses nothing: the
   connector goes on, also when it is restarted.
5. *Wait* until the lake has merged what the topic holds then. The snapshot's rows are merged like
   any change, so that newer changes win.
6. *Find* the rows of the lake that it has not shown (`cdc_assets.merge.resnapshot.unshown`), have
   the source say of each whether it has it, and remove, or put right, those that differ, as
   `verify --repair` does. Without ``database:`` nobody can say it, and they are counted.

That the connector has said that it is done proves nothing of the single row: its last rows may be
on their way to Kafka still, and it is trusted with nothing that removes rows. So 6 asks the source.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.offsets import OffsetRange, OffsetVector
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError, ConfigError, TerminalError, TransientError
from cdc_assets.formats.signalling import signalling_of
from cdc_assets.log.connect import described_connector
from cdc_assets.log.notices import Phase, TableSnapshot
from cdc_assets.log.signalling import Signal, SignalEnds, Signalling
from cdc_assets.merge.attempt import Attempts, Connections
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.replicate import utc_now
from cdc_assets.merge.resnapshot.one_by_one import Settled, put_right
from cdc_assets.merge.resnapshot.signal_note import SignalNote
from cdc_assets.merge.resnapshot.signal_report import SignalReport
from cdc_assets.merge.resnapshot.unshown import Unshown, unshown
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.tables.known import lake_table
from cdc_assets.merge.verifying.pace import Pace
from cdc_assets.merge.verifying.verification import Verification
from cdc_assets.registry import TableEntry

EXECUTE: Final = "execute-snapshot"
GOES_ON: Final = (
    "the snapshot goes on in the connector: run the same command again to follow it, or end it "
    "with --stop"
)
_POLL_SECONDS: Final = 0.5
_STATE_SECONDS: Final = 10.0
_ENDED: Final = {
    Phase.STOPPED: "a signal has stopped the snapshot before it was done",
    Phase.FAILED: "the connector could not read the table",
}

Keep = Callable[[SignalNote | None], None]
"""Keeps a note for whoever goes on; None to forget it."""


class Step(Enum):
    """The next step for a table."""

    SEND = auto()
    FOLLOW = auto()
    FINISH = auto()


def next_step(asked: Phase | None, shown: Phase, *, is_sent: bool) -> Step:
    """Decide by what was kept and what the connector says.

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
class _Looked:
    """The finding of step 1: the next step, where to follow from, and the note."""

    step: Step
    snapshot: TableSnapshot
    at: OffsetVector
    ends: SignalEnds
    note: SignalNote | None


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
        """Have a table read again, or go on with that.

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
                snapshot = self._followed(entry, signalling, snapshot, looked.at)
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
        with pace.step("look for rows"):
            found = self._unshown(entry, note)
        with pace.step("one by one"):
            settled = self._settled(entry, found)
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
    ) -> _Looked:
        channel, ends = signalling.channel, signalling.ends()
        unknown = TableSnapshot(channel.prefix, channel.collection_of(entry))
        if anew:
            return _Looked(Step.SEND, unknown, ends.notices, ends, None)
        topic = self._attempts.planner.identity(entry).topic_id
        note = note if note is not None and note.topic == topic else None
        asked, is_sent, at = unknown, False, ends.notices
        if note is not None:
            told, at = signalling.notices(note.ends.notices)
            for notice in told:
                asked = asked if asked.is_over else asked.after(notice)
            is_sent = signalling.is_sent(note.id, note.ends.signals)
        shown = unknown
        for notice in signalling.recent(at):
            shown = shown.after(notice)
        step = next_step(None if note is None else asked.phase, shown.phase, is_sent=is_sent)
        is_mine = asked.phase is Phase.DONE or asked.is_under_way or (is_sent and not asked.is_over)
        snapshot, kept = (asked, note) if is_mine else (shown, None)
        return _Looked(step, snapshot, at, ends, kept)

    def _kept(self, entry: TableEntry, ends: SignalEnds, keep: Keep) -> SignalNote:
        planner = self._attempts.planner
        topic, since = planner.identity(entry).topic_id, planner.marks(entry).end
        note = SignalNote(f"cdc-assets-{uuid.uuid4()}", self._clock(), topic, since, ends)
        keep(note)
        return note

    def _followed(
        self, entry: TableEntry, signalling: Signalling, snapshot: TableSnapshot, at: OffsetVector
    ) -> TableSnapshot:
        """Follows the snapshot to its end and returns how it ended.

        Raises:
            TransientError: if the connector says nothing for too long.
        """
        limit = self._config.source(entry.table.source).resnapshot.answer_seconds
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
                    self._say(words)
                now = time.monotonic()
                if snapshot != before or snapshot.phase is Phase.PAUSED:
                    told = now
                if now - looked >= _STATE_SECONDS:
                    looked, was = now, connector
                    connector = self._connector_words(entry)
                    if connector and connector != was:
                        self._say(connector)
                if now - told > limit:
                    raise _silent(entry, snapshot, limit, connector)
                if not snapshot.is_over:
                    time.sleep(_POLL_SECONDS)
        except CdcError:
            raise
        except BaseException:  # somebody ends the command, or the run
            self._say(GOES_ON)
            raise
        return snapshot

    def _connector_words(self, entry: TableEntry) -> str:
        """Returns words about a connector that does not run; empty if it runs."""
        try:
            connector, _ = described_connector(self._config, entry)
        except CdcError as problem:
            return problem.what
        return "" if connector.is_up else connector.words

    def _require_done(self, entry: TableEntry, snapshot: TableSnapshot, keep: Keep) -> None:
        if snapshot.phase is Phase.DONE:
            return
        keep(None)
        said = f" ({snapshot.status})" if snapshot.phase is Phase.FAILED else ""
        remedy = "run the same command again to begin anew; the log of Kafka Connect says more"
        raise TerminalError(_ENDED[snapshot.phase] + said, where=_where(entry), remedy=remedy)

    # ── 6.: the lake ─────────────────────────────────────────────────────────────────────

    def _unshown(self, entry: TableEntry, note: SignalNote) -> Unshown:
        attempts = self._attempts
        plan = attempts.planner.again(entry, (), self._run_id).plan
        ranges = self._since(entry, note, plan)
        changes, unset = attempts.told(entry, ranges, self._run_id) if ranges else (None, ())
        catalog, spark = self._config.lake.catalog.name, attempts.session()
        rows = lake_table(spark, catalog, plan, None)
        if plan.soft:
            rows = rows.where(~F.coalesce(F.col(sql.DELETED), F.lit(False)))
        with translated("look for rows that the snapshot has not shown", _where(entry)):
            return unshown(rows, changes, plan.schema.key, unset)

    def _since(
        self, entry: TableEntry, note: SignalNote, plan: BatchPlan
    ) -> tuple[OffsetRange, ...]:
        """From before the signal to where the plan's head is; what the log has lost shows less."""
        committed = plan.published.offsets if plan.published else OffsetVector()
        begin = self._attempts.planner.marks(entry).begin
        return begin.merged_max(note.since).ranges_to(committed)

    def _settled(self, entry: TableEntry, found: Unshown) -> Settled:
        total = found.unshown + found.partial
        said = self._config.source(entry.table.source)
        if not total:
            return Settled()
        if said.database is None:
            why = (
                "only the source can say whether it has them, and no database: is configured; "
                "build the table anew, or configure it and run cdc-assets verify --repair"
            )
            return Settled(left=total, why=why)
        self._say(f"{total:,} rows were not wholly shown: asking the source for them")
        source = self._verification.source(entry, self._verification.plan(entry).schema)
        try:
            if not source.comparison.key:
                why = "a column of their key cannot be compared with the source"
                return Settled(left=total, why=why)
            most = said.verify.most_keys
            keys = found.keys(source.comparison, most)
            of = (self._verification, entry, source)
            settled = put_right(*of, keys, said.verify.looks, self._say)
        finally:
            source.close()
        beyond = total - most if len(keys) == most else 0
        why = settled.why if settled.left else f"more than verify.most_keys={most}"
        return Settled(
            settled.put,
            settled.removed,
            settled.left + beyond,
            f"{why}: cdc-assets verify --repair" if settled.left or beyond else "",
        )

    def _require_mirror(self, entry: TableEntry) -> None:
        said, where = self._config.source(entry.table.source), _where(entry)
        if said.mode_of(entry.table) is not Mode.MIRROR:
            what = "its lake table has the source's changes, not its rows"
            raise ConfigError(what, where=where, remedy="leave it out")
        if not self._attempts.planner.again(entry, (), self._run_id).plan.schema.key:
            what = "the table has no key: its rows could not be told from the changes beside them"
            remedy = "have the connector make a snapshot, and: cdc-assets rebuild --from-snapshot"
            raise TerminalError(what, where=where, remedy=remedy)


def _progress(snapshot: TableSnapshot) -> str:
    """Says it without any key."""
    match snapshot.phase:
        case Phase.UNKNOWN:
            return "waiting for the connector's answer"
        case Phase.PAUSED:
            return "the snapshot is paused: --resume lets it go on, --stop ends it"
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
        "before it had stored the snapshot's beginning, --anew asks for it once more"
    )
    return TransientError(what, where=_where(entry), remedy=remedy)


def _where(entry: TableEntry) -> str:
    return f"table={entry.table} lake={entry.target}"
