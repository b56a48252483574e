"""Reading one table again by the connector: a signal asks for an incremental snapshot of it.

1.-4. *Ask* for it, and follow it to its end (`cdc_assets.merge.resnapshot.asking`). One that is
   under way is joined, whoever has asked for it.
5. *Wait* until the lake has merged what the topic holds then. The snapshot's rows are merged like
   any change, so that newer changes win.
6. *Find* the rows of the lake that it has not shown (`cdc_assets.merge.resnapshot.unseen`), have
   the source say of each whether it has it, and remove, or put right, those that differ, as
   `verify --repair` does. Without ``database:`` nobody can say it, and they are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pyspark.sql import SparkSession

from cdc_assets.changes.mode import Mode
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import ConfigError, TerminalError, TransientError
from cdc_assets.formats.signalling import signalling_of
from cdc_assets.log.signalling import Signalling
from cdc_assets.merge.attempt import Attempts, Connections
from cdc_assets.merge.replicate import utc_now
from cdc_assets.merge.resnapshot.asking import Asking, Keep
from cdc_assets.merge.resnapshot.following import Step
from cdc_assets.merge.resnapshot.signal_note import SignalNote
from cdc_assets.merge.resnapshot.signal_report import SignalReport
from cdc_assets.merge.resnapshot.unseen import Unseen
from cdc_assets.merge.verifying.pace import Pace
from cdc_assets.merge.verifying.verification import Verification
from cdc_assets.merge.verifying.way import NO_WAY, Way
from cdc_assets.registry import TableEntry


class SignalledResnapshot:
    """Has tables of one configuration read again by their connectors.

    Args:
        config: the configuration.
        spark: gives the session; called first at step 6.
        run_id: recorded with each publish.
        say: told of progress.
        way: has others wait, so that a publish comes through.
        clock: wall clock.
    """

    def __init__(
        self,
        config: ReplicationConfig,
        spark: Callable[[], SparkSession],
        run_id: str,
        *,
        say: Callable[[str], None] = lambda _: None,
        way: Way = NO_WAY,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        connections = Connections.of(config)
        self._config = config
        self._attempts = Attempts(config, connections, spark, clock)
        self._log = connections.log
        self._verification = Verification(self._attempts, run_id, say=say, way=way)
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
        asking = self._asking(entry, signalling)
        begins = asking.words(asking.look(note, anew=anew))
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
        # 1. to 4. ask
        asking = self._asking(entry, signalling)
        looked = asking.look(note, anew=anew)
        is_joined = looked.step is not Step.SEND
        with pace.step("the connector"):
            snapshot, note = asking.done(looked, keep)
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

    def _asking(self, entry: TableEntry, signalling: Signalling) -> Asking:
        planner = self._attempts.planner
        return Asking(self._config, planner, signalling, entry, self._clock, self._say, joins=True)

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
