"""Has a connector send the rows of a table that is built anew beside the old one.

1. The table beside says where it begins: at the topic's present end (`Rebuild.begin`).
2. A signal asks the connector for an incremental snapshot, which is followed to its end. Nothing is
   merged meanwhile, so that rows and the changes before them come into one batch where they fit.
3. The log is merged from 1 on, as into any table, and the table is swapped in.

The signal is sent after 1, and only what the connector says from the first notice with the signal's
id on counts. So the whole table was read after 1, and each row that it then had is in the log
behind 1: as a row of the snapshot, or as the change in whose favour that was left out. A row that
was deleted meanwhile has its delete there. A snapshot that others have asked for may have begun
before 1, and does not do.

The note about the signal is kept with the table beside: whoever is run again follows what was asked
for, and abandoning the rebuild lets go of it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pyspark.sql import SparkSession

from cdc_assets.changes.mode import Mode
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import ConfigError, TerminalError
from cdc_assets.formats.signalling import signalling_of
from cdc_assets.log.signalling import Signalling
from cdc_assets.merge.attempt import Attempts, Connections
from cdc_assets.merge.rebuild import Rebuild, Standing
from cdc_assets.merge.replicate import utc_now
from cdc_assets.merge.resnapshot.asking import Asking
from cdc_assets.merge.resnapshot.signal_note import SignalNote


class AskedBeside:
    """The snapshot that one rebuild asks for.

    Args:
        config: the configuration.
        spark: gives the session.
        rebuild: of the table.
        say: told of progress.
        clock: wall clock.
    """

    def __init__(
        self,
        config: ReplicationConfig,
        spark: Callable[[], SparkSession],
        rebuild: Rebuild,
        *,
        say: Callable[[str], None] = lambda _: None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        connections = Connections.of(config)
        self._config = config
        self._log = connections.log
        self._planner = Attempts(config, connections, spark, clock).planner
        self._rebuild = rebuild
        self._entry = rebuild.entry
        self._say = say
        self._clock = clock

    def has_begun(self, standing: Standing) -> bool:
        """Returns whether an earlier try has asked for one."""
        return self._note(standing) is not None

    def intention(self, standing: Standing) -> str:
        """Returns what `rows` would do; changes nothing.

        Raises:
            CdcError: if the connector cannot be asked.
        """
        asking = self._asking(standing)
        return asking.words(asking.look(self._note(standing)))

    def rows(self, standing: Standing) -> int:
        """Step 2: returns how many rows the connector has read.

        Raises:
            CdcError: if a part does not answer, or the table cannot be read so. What was asked for
                goes on in the connector, unless it says that it has ended.
        """
        asking = self._asking(standing)

        def keep(note: SignalNote | None) -> None:
            self._rebuild.keep_signal(standing, "" if note is None else note.to_json())

        snapshot, _ = asking.done(asking.look(self._note(standing)), keep)
        return snapshot.rows

    def _note(self, standing: Standing) -> SignalNote | None:
        try:
            return SignalNote.from_json(self._rebuild.signal(standing))
        except (ValueError, KeyError, TypeError):  # none, or another version's
            return None

    def require_possible(self, standing: Standing) -> None:
        """Requires rows with a key, and a connector that can be asked.

        Raises:
            ConfigError, TerminalError: if it cannot be done so.
            UnreachableError: if Kafka Connect does not answer.
        """
        where = f"table={self._entry.table} lake={self._entry.target}"
        remedy = "have the connector make a blocking snapshot, and leave out --via signal"
        said = self._config.source(self._entry.table.source)
        if said.mode_of(self._entry.table) is not Mode.MIRROR:
            what = "its lake table has the source's changes, not its rows"
            raise ConfigError(what, where=where, remedy=remedy)
        beside = self._rebuild.entry_beside(standing.generation)
        if not self._planner.tables(beside).plan(standing.beside).first.schema.key:
            what = "the table has no key, in whose order an incremental snapshot reads"
            raise TerminalError(what, where=where, remedy=remedy)
        self._signalling()

    def _asking(self, standing: Standing) -> Asking:
        self.require_possible(standing)
        of = self._planner, self._signalling(), self._entry, self._clock, self._say
        return Asking(self._config, *of, joins=False)

    def _signalling(self) -> Signalling:
        return signalling_of(self._config, self._log, self._entry)
